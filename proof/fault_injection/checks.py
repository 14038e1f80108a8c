"""The checks after a disturbed run.

No file may be damaged, in part or left over, and errors must help.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

from proof.fault_injection.disk import running, sha256_of
from reprobuild.errors import ReproError
from reprobuild.infra.atomic import PREFIX
from reprobuild.output.directory import read_image
from reprobuild.output.times import TIMES
from reprobuild.store.signature import strip_signature

ERRORS = (2, 5, 7)


class BrokenError(Exception):
    """A promise that was not kept."""


class Checks:
    """The checks, and their data for comparison.

    Attributes:
        work: the directory whose path is taken out of messages.
        inputs: sha256 of all fetched files.
        expected, former: {path: sha256} of the results of the undisturbed run, and of an older one.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.inputs: set[str] = set()
        self.expected: dict[str, str] = {}
        self.former: dict[str, str] = {}
        self._known: dict[tuple[int, ...], str] = {}  # hashes by device, inode, size and time of change

    def check_processes(self, store: Path) -> None:
        """Check that all processes of a killed run end."""
        deadline = time.monotonic() + 10
        while running(store):
            if time.monotonic() > deadline:
                raise BrokenError(f"processes go on: {running(store)}")
            time.sleep(0.05)

    def check_whole(self, stage: str, store: Path, out: Path) -> None:
        """Check that a run that ended well did all its work."""
        missing = [sha256 for sha256 in self.inputs if not (store / "blobs" / sha256[:2] / sha256).is_file()]
        if missing:
            raise BrokenError(f"{len(missing)} files were not fetched, {missing[0]} first")
        if stage != "fetch" and (others := self.results(out).items() ^ self.expected.items()):
            raise BrokenError(f"{min(others)[0]} differs from that of the undisturbed run")

    def check_store(self, store: Path) -> None:
        """Check that every file under a final name fits it.

        In `blobs` that is its hash; each record of `made` must be readable.
        """
        for path in (store / "blobs").glob("*/*"):
            if self.hash(path) != path.name:
                raise BrokenError(f"{path.name} in the store is damaged")
        for path in (store / "made").glob("*"):
            try:
                json.loads(strip_signature(path.read_bytes()))
            except ValueError:
                raise BrokenError(f"{path.name} of what was made is damaged") from None

    def check_results(self, out: Path) -> bool:
        """Return whether reprobuild accepts the output directory.

        An accepted one must be right in full.

        Each file and directory must be absent, that of the undisturbed run, or that of the former results.
        """
        found = self.results(out)
        for name, digest in found.items():
            if name.startswith(("image/", "context/")):
                continue
            if digest not in (self.expected.get(name), self.former.get(name)):
                raise BrokenError(f"{name} is neither absent nor what it should be")
        for folder in ("image/", "context/"):
            part = below(folder, found)
            if part and part not in (below(folder, self.expected), below(folder, self.former)):
                raise BrokenError(f"{folder} is there in part")
        try:
            read_image(out)
        except ReproError:
            return False
        if found not in (self.expected, self.former):
            raise BrokenError("the results are taken for whole, and are not")
        return True

    def check_error(self, done: subprocess.CompletedProcess[str], words: str, stage: str) -> str:
        """Check an error against a pattern, and return its first line.

        The line is without the paths of this machine.
        """
        if done.returncode not in ERRORS or "Traceback" in done.stderr or "hint: " not in done.stderr:
            raise BrokenError(f"exit code {done.returncode}, and it said: {done.stderr[-500:]}")
        if not re.search(words, done.stderr):
            raise BrokenError(f"`{words}` is not in: {done.stderr[-500:]}")
        if str(self.work) not in done.stderr:
            raise BrokenError(f"no file is named in: {done.stderr[-500:]}")
        line = next(line for line in done.stderr.splitlines() if re.search(words, line))
        return line.replace(str(self.work), "WORK")[:200]

    def no_leftovers(self, store: Path, out: Path) -> None:
        left = [path.name for path in (store / "tmp").glob("*")]
        left += [path.name for path in out.glob(f"{PREFIX}*")]
        if left:
            raise BrokenError(f"left behind: {left[:3]}")

    def results(self, out: Path) -> dict[str, str]:
        """Return {path: sha256} of an output directory.

        Files with the private prefix are left out, and the seconds of the stages, which differ from run to run.
        """
        files = [
            path
            for path in out.rglob("*")
            if path.is_file() and PREFIX not in path.as_posix() and path.name != TIMES
        ]
        return {path.relative_to(out).as_posix(): self.hash(path) for path in files}

    def hash(self, path: Path) -> str:
        seen = path.stat()
        # Files of a build context all have the same time of modification, and the kernel gives freed inodes again.
        key = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_ctime_ns)
        if key not in self._known:
            self._known[key] = sha256_of(path)
        return self._known[key]


def below(folder: str, files: Mapping[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if name.startswith(folder)}
