"""The directory of a rebuild: fresh, or left by an interrupted run.

Until the rebuild is finished, the directory has a marker file, which the process locks. Only that file is ever removed
from it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.flock import try_lock as locked
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.model import Lock
from reprobuild_portable.host import fcntl

MARK = "unfinished-rebuild"
_ANOTHER = "name another directory with -o, or remove that one if nobody needs it"


@contextlib.contextmanager
def prepare_directory(folder: Path, lock: Lock, *, links: bool = True) -> Iterator[None]:
    """Prepare a directory for a rebuild; mark it finished at the end.

    Args:
        folder: the new directory.
        lock: the lock of the image.
        links: whether the directory may be a link, as one that the user named may be.

    Raises:
        UsageError: it is a link, it has other contents, or another rebuild is at work in it.
        OSError: it cannot be written to.
    """
    words = f"The image of the lock sha256:{lock.digest} is being rebuilt here. The same command goes on.\n"
    if folder.is_symlink() and not links:
        raise UsageError(f"{folder} is a link, which may lead anywhere", hint=_ANOTHER)
    before = _has_begun(folder, words.encode())
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / MARK
    number = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        # Some file systems have no locks, so the contents could belong to a process that is still at work.
        if not locked(number, fcntl.LOCK_EX | fcntl.LOCK_NB) and (before or os.fstat(number).st_size):
            raise UsageError(
                f"another rebuild is at work in {folder}, or its disk has no locks to tell", hint=_ANOTHER
            )
        try:
            mark.write_text(words)
            yield
        except BaseException:
            _remove_marker(folder, is_new=is_new)
            raise
        mark.unlink()
    finally:
        os.close(number)


def _has_begun(folder: Path, words: bytes) -> bool:
    """Return whether an earlier run of the same rebuild began here.

    If not, the directory is empty or absent.

    Raises:
        UsageError: the directory has other contents.
    """
    names = set()
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
    elif folder.exists() or folder.is_symlink():
        names = {folder.name}
    if not names:
        return False
    with contextlib.suppress(OSError), open_plain(folder / MARK, links=False)[0] as stream:
        # A run that was killed or had no space before it wrote its marker has written no other file.
        if stream.read(len(words) + 1) == words or names == {MARK}:
            return True
    raise UsageError(f"{folder} is there already, and a rebuild needs a fresh directory", hint=_ANOTHER)


def _remove_marker(folder: Path, *, is_new: bool) -> None:
    """Remove the marker and the new directory after an early failure."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [MARK]:
            (folder / MARK).unlink()
            if is_new:
                folder.rmdir()
