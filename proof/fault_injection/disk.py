"""Disks and processes as the faults disturb them."""

from __future__ import annotations

import contextlib
import hashlib
import os
import subprocess
from pathlib import Path


class Bound:
    """A directory, mounted read-only over itself."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __enter__(self) -> None:
        mount("--bind", self.folder, self.folder)
        mount("-o", "remount,bind,ro", self.folder)

    def __exit__(self, *failure: object) -> None:
        subprocess.run(["umount", str(self.folder)], check=True)


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", "-n", *map(str, arguments)], check=True)


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


def used(folder: Path) -> int:
    """Return the bytes of all files below a directory.

    The directory may change meanwhile.
    """
    total = 0
    for above, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{above}/{name}").st_size
    return total


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()
