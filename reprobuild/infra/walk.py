"""A walk over directories of any depth."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path


def _raise(err: OSError) -> None:
    raise err


def walk(
    top: Path, most: int, report: Callable[[OSError], object] = _raise
) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield a directory and those below it, each before its own.

    `os.walk` of Python 3.11 recurses, and fails if directories are nested a thousand deep. A directory comes with the
    names of its directories and of its other files. The caller may remove names of directories that are not to be
    walked. No link is followed.

    Args:
        top: the first directory.
        most: entries that are read; the walk ends with an error if there are more.
        report: takes an error; if it returns, the walk goes on without that directory.

    Raises:
        OSError: see `report`.
    """
    waiting, count = [str(top)], 0
    while waiting:
        above = waiting.pop()
        folders: list[str] = []
        files: list[str] = []
        try:
            with os.scandir(above) as entries:
                for entry in entries:
                    count += 1
                    if count > most:
                        break
                    (folders if _is_directory(entry) else files).append(entry.name)
        except OSError as err:
            report(err)
            continue
        if count > most:
            report(OSError(errno.E2BIG, f"more than {most} files and directories", str(top)))
            return
        yield above, folders, files
        waiting += [f"{above}/{name}" for name in reversed(folders)]


def _is_directory(entry: os.DirEntry[str]) -> bool:
    with contextlib.suppress(OSError):
        return entry.is_dir(follow_symlinks=False)
    return False
