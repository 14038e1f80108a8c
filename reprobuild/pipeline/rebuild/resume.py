"""The new folder of a rebuild: fresh, or what an earlier run of the same rebuild left when it was interrupted.

As long as it is not finished, a file in it says so, whose lock its process holds. Nothing in a folder is ever removed
but that file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.flock import lock as locked
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.lock.model import Lock

MARK = "unfinished-rebuild"
_ANOTHER = "name another folder with -o, or remove that one if nobody needs it"


@contextlib.contextmanager
def working_in(folder: Path, lock: Lock, *, links: bool = True) -> Iterator[None]:
    """Have a folder to rebuild the image of a lock in; when the block ends well, it counts as finished.

    Args:
        folder: the new folder.
        lock: whose image is rebuilt.
        links: whether the folder may be a link, as one may that the user named.

    Raises:
        UsageError: it is a link, something else is there, or another rebuild is at work in it.
        OSError: it cannot be written to.
    """
    words = f"The image of the lock sha256:{lock.digest} is being rebuilt here. The same command goes on.\n"
    if folder.is_symlink() and not links:
        raise UsageError(f"{folder} is a link, which may lead anywhere", hint=_ANOTHER)
    before = _begun(folder, words.encode())
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / MARK
    number = os.open(mark, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        # Some file systems have no locks: what is there could be another's, who is at work.
        if not locked(number, fcntl.LOCK_EX | fcntl.LOCK_NB) and (before or os.fstat(number).st_size):
            raise UsageError(
                f"another rebuild is at work in {folder}, or its disk has no locks to tell", hint=_ANOTHER
            )
        try:
            mark.write_text(words)
            yield
        except BaseException:
            _tidy(folder, made=made)
            raise
        mark.unlink()
    finally:
        os.close(number)


def _begun(folder: Path, words: bytes) -> bool:
    """Return whether an earlier run of the same rebuild began here; else the folder is empty, or not there.

    Raises:
        UsageError: neither is so.
    """
    names = set()
    if folder.is_dir():
        names = {path.name for path in folder.iterdir()}
    elif folder.exists() or folder.is_symlink():
        names = {folder.name}
    if not names:
        return False
    with contextlib.suppress(OSError), open_plain(folder / MARK, links=False)[0] as stream:
        # One that was killed, or had no room, before it had written its words has written nothing else.
        if stream.read(len(words) + 1) == words or names == {MARK}:
            return True
    raise UsageError(f"{folder} is there already, and a rebuild needs a fresh folder", hint=_ANOTHER)


def _tidy(folder: Path, *, made: bool) -> None:
    """Leave nothing behind where nothing was made yet."""
    with contextlib.suppress(OSError):
        if [path.name for path in folder.iterdir()] == [MARK]:
            (folder / MARK).unlink()
            if made:
                folder.rmdir()
