#!/usr/bin/env python3
"""Kills, full disks, read-only folders and two runs at once, on a lock whose store is filled; seeded and resumable.

    python dev/drill.py --lock LOCK --store STORE --work FOLDER [--kills 50] [--full-disks 10] [--pairs 2]
                        [--seed 1] [--shard 1/4] [--evidence FILE]

LOCK is sealed, STORE has all that it names. Each case works on a copy of the store by hard links (on a full disk: by
bytes) below FOLDER, which should be on STORE's file system. A case that was done before, with the same seed, is not
done again. Mounts are made in a mount namespace of one's own, as root or as any user.

After every disturbed run: each file of the store under its final name has its hash; the folder of results is one
that reprobuild refuses, or one whose every file is that of the undisturbed run; an error message of a full or
read-only disk has a hint and exit code 2, 5 or 7, and no private file is left. The next run then ends well, with the
same digests, and leaves no private file of the killed one. The exit code is 0 if that holds for all cases.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec

from reprobuild import __version__
from reprobuild.errors import ReproError
from reprobuild.fetch import artefacts
from reprobuild.lock import Artefact, Lock, Setting, read_lock, write_lock
from reprobuild.pipeline import read_image
from reprobuild.whole import PREFIX

ROOT = Path(__file__).resolve().parents[1]
STAGES = ("fetch", "layers", "realise")
ERRORS = (2, 5, 7)
Case = tuple[str, str, int]  # what is done to it, stage, number


class Broken(Exception):
    """A promise that was not kept."""


def main() -> int:
    arguments = parse()
    if not os.environ.get("REPROBUILD_DRILL"):
        mounts = ["unshare", "--user", "--map-root-user", "--mount", "--"]
        os.environ["REPROBUILD_DRILL"] = "inside"
        os.execvp(mounts[0], [*mounts, sys.executable, *sys.argv])  # mounts go away with the process
    drill = Drill(arguments)
    drill.prepare()
    for case in drill.cases():
        drill.do(case)
    return drill.finish()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("lock", "store", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    for name, number in (("kills", 50), ("full-disks", 10), ("pairs", 2), ("read-only", 3), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=number)
    parser.add_argument("--stages", default=",".join(STAGES), help="of: " + ", ".join(STAGES))
    parser.add_argument(
        "--without", action="append", default=[], metavar="NAME", help="leave a wheel out, for speed"
    )
    parser.add_argument("--shard", default="1/1", metavar="I/N")
    parser.add_argument("--evidence", type=Path)
    return parser.parse_args()


class Drill:
    """The cases, what the undisturbed run gave, and what was done so far."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.given = arguments
        self.work: Path = arguments.work.absolute()
        self.work.mkdir(parents=True, exist_ok=True)
        self.store: Path = arguments.store.absolute()
        self.stages: list[str] = arguments.stages.split(",")
        self.lock = self.work / "drill.lock"
        self.log = self.work / f"done-{arguments.seed}.jsonl"
        self.known: dict[tuple[int, ...], str] = {}  # hashes by device, inode, size and time of change
        self.seconds: dict[str, float] = {}  # of each stage, undisturbed
        self.given_bytes: dict[str, int] = {}  # what the store of each stage begins with
        self.made: dict[str, int] = {}  # what an undisturbed run adds to it

    def prepare(self) -> None:
        """Write the lock with local addresses, and learn time and digests from undisturbed runs."""
        mirror = self.work / "mirror"
        mirror.mkdir(exist_ok=True)
        self.sealed = local_lock(without(read_lock(self.given.lock), self.given.without), self.store, mirror)
        write_lock(self.sealed, self.lock)
        self.inputs = {item.sha256 for item in artefacts(self.sealed)}
        assert self.sealed.realised is not None
        made = self.sealed.realised
        realised = {
            made.base,
            made.runtime,
            *(w.file.sha256 for w in made.wheels),
            *(b.tar for b in made.bytecode),
        }
        self.kept = {"fetch": {a.sha256 for a in artefacts(self.sealed) if not a.url}, "realise": self.inputs}
        self.kept["layers"] = self.inputs | realised
        self.reference, former = self.work / "reference", self.work / "former"
        for stage in dict.fromkeys(self.stages):
            store = self.fresh(stage, "undisturbed")
            began = time.monotonic()
            done = self.run(stage, store, self.reference)
            self.seconds[stage] = time.monotonic() - began
            if done.returncode:
                raise SystemExit(f"the undisturbed run of `{stage}` failed:\n{done.stderr}")
            self.given_bytes[stage] = sum(self.blob(sha256).stat().st_size for sha256 in self.kept[stage])
            self.made[stage] = used(store) - self.given_bytes[stage]
            shutil.rmtree(store)
            print(f"undisturbed {stage}: {self.seconds[stage]:.1f} s", file=sys.stderr, flush=True)
        self.expected = self.results(self.reference)
        self.former: dict[str, str] = {}
        if self.expected:
            other = msgspec.structs.replace(
                self.sealed, environment=(*self.sealed.environment, Setting(name="DRILL", value="former"))
            )
            write_lock(other, self.work / "former.lock")
            store = self.fresh("layers", "undisturbed")
            argv = self.argv("layers", store, former)
            argv[argv.index(str(self.lock))] = str(self.work / "former.lock")
            subprocess.run(argv, cwd=ROOT, check=True, capture_output=True)
            shutil.rmtree(store)
            self.former = self.results(former)

    def cases(self) -> list[Case]:
        """Return the cases of this shard that are not done."""
        kinds = {"kill": self.given.kills, "full": self.given.full_disks, "pair": self.given.pairs}
        kinds["read-only"] = self.given.read_only
        found: list[Case] = [
            (kind, self.stages[number % len(self.stages)], number)
            for kind, count in kinds.items()
            for number in range(count)
        ]
        index, shards = map(int, self.given.shard.split("/"))
        done = {(c["kind"], c["stage"], c["number"]) for c in self.done()}
        return [case for place, case in enumerate(found) if place % shards == index - 1 and case not in done]

    def done(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def do(self, case: Case) -> None:
        """Do a case and keep what came of it."""
        kind, stage, number = case
        self.random = random.Random(f"{self.given.seed}/{kind}/{stage}/{number}")
        what: Callable[[str, str], dict[str, Any]] = {
            "kill": self.kill, "full": self.full, "pair": self.pair, "read-only": self.read_only,
        }[kind]  # fmt: skip
        said: dict[str, Any] = {"kind": kind, "stage": stage, "number": number}
        began = time.monotonic()
        try:
            said |= {"kept": True, **what(stage, f"{kind}-{number}")}
        except Broken as err:
            said |= {"kept": False, "why": str(err)}
        said["seconds"] = round(time.monotonic() - began, 1)
        with self.log.open("a") as stream:
            stream.write(json.dumps(said) + "\n")
        print(json.dumps(said), file=sys.stderr, flush=True)

    def kill(self, stage: str, name: str) -> dict[str, Any]:
        """Kill the whole process group at a random moment."""
        store, out = self.fresh(stage, name), self.work / name / "out"
        over_former = stage != "fetch" and self.random.random() < 0.5
        if over_former:
            shutil.copytree(self.work / "former", out, copy_function=os.link)
        after, made = self.random.uniform(0.1, 1.1) * self.seconds[stage], -1
        if self.random.random() < 0.5:
            after, made = 10 * self.seconds[stage], int(self.random.random() * self.made[stage])
        began = time.monotonic()
        with subprocess.Popen(
            self.argv(stage, store, out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:  # fmt: skip
            while process.poll() is None:
                if time.monotonic() - began > after or -1 < made <= used(store) - self.given_bytes[stage]:
                    os.killpg(process.pid, signal.SIGKILL)
                    break
                time.sleep(0.005)
        after = time.monotonic() - began
        self.check_processes(store)
        left = len([path for place in (store / "tmp", out) if place.exists() for path in place.iterdir()])
        self.check_store(store)
        usable = self.check_results(out)
        self.again(stage, store, out)
        shutil.rmtree(self.work / name)
        killed = process.returncode == -signal.SIGKILL
        said = {"after": round(after, 2), "killed": killed, "left": left, "results usable": usable}
        return said | {"over former results": over_former, "by": "bytes" if made >= 0 else "time"}

    def full(self, stage: str, name: str) -> dict[str, Any]:
        """Fill the disk of the store and the results at a random point; then make room."""
        disk = self.work / name
        disk.mkdir(parents=True, exist_ok=True)
        kept = self.given_bytes[stage]
        room = int(self.random.uniform(0.02, 0.9) * max(1 << 20, self.made[stage]))
        mount("-t", "tmpfs", "-o", f"size={kept + room + (1 << 20)}", "tmpfs", disk)
        try:
            store, out = self.fresh(stage, name, copy=True), disk / "out"
            done = self.run(stage, store, out)
            told = (
                self.check_error(done, "No space left on device", stage)
                if done.returncode
                else "there was room"
            )
            self.check_store(store)
            self.check_results(out)
            self.no_leftovers(store, out)
            mount("-o", f"remount,size={4 * (self.made[stage] + 2 * kept) + (64 << 20)}", disk)
            self.again(stage, store, out)
        finally:
            subprocess.run(["umount", "-l", str(disk)], check=True)
        return {"room": room, "code": done.returncode, "told": told}

    def pair(self, stage: str, name: str) -> dict[str, Any]:
        """Let two runs of one verb share a store that has nothing of what they make."""
        store = self.fresh(stage, name)
        outs = [self.work / name / f"out{number}" for number in (1, 2)]
        both = [
            subprocess.Popen(
                self.argv(stage, store, out), cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            for out in outs
        ]
        for process in both:
            _, said = process.communicate()
            if process.returncode:
                raise Broken(f"one of two failed with {process.returncode}: {said.decode()[-500:]}")
        self.check_store(store)
        for out in outs:
            self.check_whole(stage, store, out)
        shutil.rmtree(self.work / name)
        return {}

    def read_only(self, stage: str, name: str) -> dict[str, Any]:
        """Make the store, or the folder of results, read-only; a store that has everything needs no writing."""
        place = self.work / name
        store, out = self.fresh(stage, name), place / "out"
        out.mkdir()
        told = {}
        for what, folder in (("store", store), ("out", out)):
            if stage == "fetch" and what == "out":
                continue
            with Bound(folder):
                done = self.run(stage, store, out)
                told[what] = self.check_error(done, "Read-only file system", stage)
                self.check_results(out)
        self.again(stage, store, out)
        shutil.rmtree(out)
        with Bound(store):
            self.again(stage, store, out)
        shutil.rmtree(place)
        return {"told": told}

    def fresh(self, stage: str, name: str, *, copy: bool = False) -> Path:
        """Return a store that has what the stage begins with, and remembers what leads to it."""
        store = self.work / name / "store"
        shutil.rmtree(store, ignore_errors=True)
        for sha256 in self.kept[stage]:
            target = store / "blobs" / sha256[:2] / sha256
            target.parent.mkdir(parents=True, exist_ok=True)
            if copy:
                shutil.copy(self.blob(sha256), target)
            else:
                os.link(self.blob(sha256), target)
        store.mkdir(parents=True, exist_ok=True)
        return store

    def blob(self, sha256: str) -> Path:
        return self.store / "blobs" / sha256[:2] / sha256

    def argv(self, stage: str, store: Path, out: Path) -> list[str]:
        verb = (
            ["fetch", str(self.lock)]
            if stage == "fetch"
            else ["build", str(self.lock), "-o", str(out), "--offline"]
        )
        return [sys.executable, "-m", "reprobuild.cli", *verb, "--store", str(store), "--json"]

    def run(self, stage: str, store: Path, out: Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(stage, store, out), cwd=ROOT, capture_output=True, text=True, check=False
        )

    def again(self, stage: str, store: Path, out: Path) -> None:
        """Run undisturbed: it must end well with the same digests."""
        done = self.run(stage, store, out)
        if done.returncode:
            raise Broken(f"the next run failed with {done.returncode}: {done.stderr[-500:]}")
        self.check_store(store)
        self.check_whole(stage, store, out)
        self.no_leftovers(store, out)

    def check_processes(self, store: Path) -> None:
        """Check that all processes of a killed run end."""
        deadline = time.monotonic() + 10
        while running(store):
            if time.monotonic() > deadline:
                raise Broken(f"processes go on: {running(store)}")
            time.sleep(0.05)

    def check_whole(self, stage: str, store: Path, out: Path) -> None:
        """Check that a run that ended well did all it should."""
        missing = [sha256 for sha256 in self.inputs if not (store / "blobs" / sha256[:2] / sha256).is_file()]
        if missing:
            raise Broken(f"{len(missing)} files were not fetched, {missing[0]} first")
        if stage != "fetch" and self.results(out) != self.expected:
            raise Broken("the results are others than those of the undisturbed run")

    def check_store(self, store: Path) -> None:
        """Check that nothing stands under a final name that is not what the name says."""
        for path in (store / "blobs").glob("*/*"):
            if self.hash(path) != path.name:
                raise Broken(f"{path.name} in the store is damaged")
        for path in (store / "made").glob("*"):
            try:
                json.loads(path.read_bytes())
            except ValueError:
                raise Broken(f"{path.name} of what was made is damaged") from None

    def check_results(self, out: Path) -> bool:
        """Tell whether reprobuild takes the folder of results as one; then all of it must be right.

        Each file and folder must be absent, that of the undisturbed run, or that of the former results.
        """
        found = self.results(out)
        for name, digest in found.items():
            if name.startswith(("image/", "context/")):
                continue
            if digest not in (self.expected.get(name), self.former.get(name)):
                raise Broken(f"{name} is neither absent nor what it should be")
        for folder in ("image/", "context/"):
            part = below(folder, found)
            if part and part not in (below(folder, self.expected), below(folder, self.former)):
                raise Broken(f"{folder} is there in part")
        try:
            read_image(out)
        except ReproError:
            return False
        if found not in (self.expected, self.former):
            raise Broken("the results are taken for whole, and are not")
        return True

    def check_error(self, done: subprocess.CompletedProcess[str], words: str, stage: str) -> str:
        """Check that an error says what it should, and return its first line without the paths of this machine."""
        if done.returncode not in ERRORS or "Traceback" in done.stderr or "hint: " not in done.stderr:
            raise Broken(f"exit code {done.returncode}, and it said: {done.stderr[-500:]}")
        if words not in done.stderr:
            raise Broken(f"`{words}` is not in: {done.stderr[-500:]}")
        if str(self.work) not in done.stderr:
            raise Broken(f"no file is named in: {done.stderr[-500:]}")
        line = next(line for line in done.stderr.splitlines() if words in line)
        return line.replace(str(self.work), "WORK")[:200]

    def no_leftovers(self, store: Path, out: Path) -> None:
        left = [path.name for path in (store / "tmp").glob("*")]
        left += [path.name for path in out.glob(f"{PREFIX}*")]
        if left:
            raise Broken(f"left behind: {left[:3]}")

    def results(self, out: Path) -> dict[str, str]:
        """Return {path: sha256} of a folder of results; what begins with the private prefix is not one."""
        files = [path for path in out.rglob("*") if path.is_file() and PREFIX not in path.as_posix()]
        return {path.relative_to(out).as_posix(): self.hash(path) for path in files}

    def hash(self, path: Path) -> str:
        seen = path.stat()
        key = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
        if key not in self.known:
            self.known[key] = sha256_of(path)
        return self.known[key]

    def finish(self) -> int:
        """Print the sum, write the evidence, and return the exit code."""
        cases = self.done()
        broken = [case for case in cases if not case["kept"]]
        counts: dict[str, int] = {}
        for case in cases:
            key = f"{case['kind']} {case['stage']}"
            counts[key] = counts.get(key, 0) + 1
        document = {
            "what": "kills, full disks, read-only folders and two runs at once: dev/drill.py",
            "date": datetime.now(timezone.utc).date().isoformat(),
            "reprobuild": __version__,
            "rooms": rooms(),
            "python": platform.python_version(),
            "kernel": platform.release(),
            "cpus": len(os.sched_getaffinity(0)),
            "seed": self.given.seed,
            "shard": self.given.shard,
            "lock": self.sealed.digest,
            "without": self.given.without,
            "undisturbed seconds": {stage: round(value, 1) for stage, value in self.seconds.items()},
            "killed in time": sum(1 for case in cases if case.get("killed")),
            "disks that were full": sum(1 for case in cases if case["kind"] == "full" and case.get("code")),
            "cases": counts,
            "broken": len(broken),
            "each": cases,
        }
        if self.given.evidence:
            self.given.evidence.write_text(json.dumps(document, indent=1) + "\n")
        print(json.dumps({key: value for key, value in document.items() if key != "each"}))
        return 1 if broken else 0


class Bound:
    """A folder, mounted read-only over itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        mount("--bind", self.folder, self.folder)
        mount("-o", "remount,bind,ro", self.folder)

    def __exit__(self, *failure: object) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", "-n", *map(str, arguments)], check=True)


def without(lock: Lock, names: Sequence[str]) -> Lock:
    """Return the lock without some wheels of its environment."""
    assert lock.realised is not None
    gone = {wheel.file.sha256 for wheel in lock.wheels if wheel.name in names}
    bytecode = tuple(code for code in lock.realised.bytecode if code.artefact not in gone)
    return msgspec.structs.replace(
        lock,
        wheels=tuple(wheel for wheel in lock.wheels if wheel.file.sha256 not in gone),
        realised=msgspec.structs.replace(lock.realised, bytecode=bytecode),
    )


def local_lock(lock: Lock, store: Path, mirror: Path) -> Lock:
    """Return the lock with `file:` addresses of hard links, so that it can be fetched without a network."""

    def local(file: Artefact) -> Artefact:
        if not file.url:
            return file
        path = mirror / file.sha256
        if not path.exists():
            os.link(store / "blobs" / file.sha256[:2] / file.sha256, path)
        return msgspec.structs.replace(file, url=path.as_uri())

    def all_of(items: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(msgspec.structs.replace(item, file=local(item.file)) for item in items)

    base = msgspec.structs.replace(
        lock.base, packages=all_of(lock.base.packages), tools=all_of(lock.base.tools)
    )
    return msgspec.structs.replace(lock, base=base, wheels=all_of(lock.wheels))


def running(store: Path) -> list[str]:
    """Return the processes whose command line names the store."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:  # it ended meanwhile
            continue
        if str(store).encode() in words:
            found.append(path.parent.name)
    return found


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def below(folder: str, files: dict[str, str]) -> dict[str, str]:
    return {name: digest for name, digest in files.items() if name.startswith(folder)}


def used(folder: Path) -> int:
    """Return the bytes of all files below a folder that may change meanwhile."""
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{above}/{name}").st_size
    return total


def rooms() -> str:
    """Return the hash of the program's modules, by which evidence is seen to be older than the code."""
    digest = hashlib.sha256()
    for path in sorted((ROOT / "reprobuild").rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT)} {sha256_of(path)}\n".encode())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
