"""Files and folders that appear whole or not at all, and go away when their process is killed.

What is unfinished stands in a private folder beside its place, on which its process holds a lock. A process
that makes such a folder removes those whose lock nobody holds any more.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from reprobuild.infra.directory_fd import remove
from reprobuild.infra.flock import lock

# No room, or none that may be written to: the user can mend it, and the next run goes on.
FULL = (errno.ENOSPC, errno.EDQUOT)
PREFIX = ".reprobuild-"
PATIENCE = 5.0  # seconds; a process of ours holds the lock for milliseconds
_POLL = 0.01


@contextlib.contextmanager
def naming(place: Path) -> Iterator[None]:
    """Give an `OSError` that names no file the name of a place: writing to a full disk tells none."""
    try:
        yield
    except OSError as err:
        if err.filename is None and err.errno is not None:
            err.filename = str(place)
        raise


def write_file(path: Path, content: bytes) -> None:
    """Write a file; whoever reads it finds the former content or the new one.

    Raises:
        OSError: it cannot be written; it names the file.
    """
    with private_folder(path.parent, f"{PREFIX}{path.name}.") as own:
        part = own / "new"
        part.write_bytes(content)
        part.replace(path)


@contextlib.contextmanager
def private_folder(parent: Path, prefix: str = PREFIX) -> Iterator[Path]:
    """Give an empty folder of one's own in a folder, and remove it afterwards.

    Those of killed processes, whose names begin with `prefix`, too, are removed first.

    Args:
        parent: made where it is missing.
        prefix: of the names; nothing else in `parent` may begin with it.

    Raises:
        OSError: there is no room, or no right to write; it names a file.
    """
    with naming(parent):
        parent.mkdir(parents=True, exist_ok=True)
        folder, holder, dead = _make(parent, prefix)
    try:
        for number, left in dead:
            with contextlib.suppress(OSError):  # of another user
                remove(left)
            os.close(number)
        with naming(parent):
            yield folder
    finally:
        with contextlib.suppress(OSError):  # what the block met is what is told
            remove(folder)
        os.close(holder)


@contextlib.contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """Give an empty folder that takes the place of `target` when the block ends well.

    Raises:
        OSError: there is no room, or no right to write; what stood at `target` is there as before.
    """
    with private_folder(target.parent, f"{PREFIX}{target.name}.") as own:
        part, old = own / "new", own / "old"
        part.mkdir()
        part.chmod(0o755)
        yield part
        if target.exists():
            target.rename(old)
        try:
            part.rename(target)
        except OSError:
            if old.exists():
                old.rename(target)
            raise


def _make(parent: Path, prefix: str) -> tuple[Path, int, list[tuple[int, Path]]]:
    """Return a new folder with the descriptor that holds its lock, and those whose lock nobody held.

    While the lock of the parent is held, no folder is between its making and its locking.
    """
    above = os.open(parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        alone = _locked(above)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        holder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        if not (lock(holder, fcntl.LOCK_EX) and alone):  # some network file systems have no locks
            return folder, holder, []
        others = [path for path in parent.iterdir() if path.name.startswith(prefix) and path != folder]
        return folder, holder, [pair for path in others if (pair := _abandoned(path)) is not None]
    finally:
        os.close(above)


def _locked(number: int) -> bool:
    """Lock a directory, and tell whether that was possible: whoever may read it can hold its lock for ever."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)
        except OSError:
            return False
        else:
            return True


def _abandoned(path: Path) -> tuple[int, Path] | None:
    """Return what is the caller's own and has no lock, with a lock on it; a pipe of that name is not waited for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:  # it went away meanwhile, or is not ours
        return None
    if os.fstat(number).st_uid == os.geteuid() and lock(number, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return number, path
    os.close(number)
    return None
