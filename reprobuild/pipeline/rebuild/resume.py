"""The directory of a rebuild: fresh, or left by an interrupted run.

Until the rebuild is finished, the directory has a marker file, which the process locks. Only that file is ever removed
from it. The directory and the marker stay open: by their paths, another user of a directory above them could lead the
process to another file.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.infra.flock import try_lock as locked
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.writers import find_writers
from reprobuild.lock.model import Lock
from reprobuild_portable.host import fcntl, host

MARK = "unfinished-rebuild"
_ANOTHER = "name another directory with -o, or remove that one if nobody needs it"
_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC


@contextlib.contextmanager
def prepare_directory(folder: Path, lock: Lock, *, links: bool = True) -> Iterator[None]:
    """Prepare a directory for a rebuild; mark it finished at the end.

    Args:
        folder: the new directory.
        lock: the lock of the image.
        links: whether the directory may be a link, as one that the user named may be.

    Raises:
        UsageError: it is a link, it has other contents, another user owns it or may write to it, or another rebuild is
            at work in it.
        OSError: it cannot be written to.
    """
    words = f"The image of the lock sha256:{lock.digest} is being rebuilt here. The same command goes on.\n"
    if folder.is_symlink() and not links:
        raise UsageError(f"{folder} is a link, which may lead anywhere", hint=_ANOTHER)
    place, is_new = _open_directory(folder, links=links)
    try:
        before = _has_begun(folder, place, words.encode())
        if not is_new:  # a server may show a new one as that of another user
            _refuse_other_users(folder, place)
        mark = host.open(
            MARK, host.O_RDWR | host.O_CREAT | host.O_NOFOLLOW | host.O_CLOEXEC, 0o666, dir_fd=place
        )
        try:
            # Some file systems have no locks, so the contents could belong to a process that is still at work.
            if not locked(mark, fcntl.LOCK_EX | fcntl.LOCK_NB) and (before or host.fstat(mark).st_size):
                raise UsageError(
                    f"another rebuild is at work in {folder}, or its disk has no locks to tell", hint=_ANOTHER
                )
            try:
                _write_marker(mark, words.encode())
                yield
            except BaseException:
                _remove_marker(folder, place, is_new=is_new)
                raise
            host.unlink(MARK, dir_fd=place)
        finally:
            host.close(mark)
    finally:
        host.close(place)


def _open_directory(folder: Path, *, links: bool) -> tuple[int, bool]:
    """Return an open directory, and whether this call made it.

    Raises:
        UsageError: there is something else.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(mode=0o755)  # a later run refuses one that a group may write to, as with the umask 002
        is_new = True
    except FileExistsError:
        is_new = False
    try:
        return host.open(folder, _DIRECTORY | (0 if links and not is_new else host.O_NOFOLLOW)), is_new
    except OSError as err:
        if err.errno not in (errno.ENOTDIR, errno.ELOOP, errno.ENOENT):
            raise
        raise _occupied_error(folder) from None


def _occupied_error(folder: Path) -> UsageError:
    return UsageError(f"{folder} is there already, and a rebuild needs a fresh directory", hint=_ANOTHER)


def _has_begun(folder: Path, place: int, words: bytes) -> bool:
    """Return whether an earlier run of the same rebuild began here.

    If not, the directory is empty.

    Raises:
        UsageError: the directory has other contents.
    """
    names = host.listdir(place)
    if not names:
        return False
    with contextlib.suppress(OSError), open_plain(MARK, links=False, place=place)[0] as stream:
        # A run that was killed or had no space before it wrote its marker has written no other file.
        if stream.read(len(words) + 1) == words or names == [MARK]:
            return True
    raise _occupied_error(folder)


def _refuse_other_users(folder: Path, place: int) -> None:
    """Refuse a directory in which another user can exchange files.

    Raises:
        UsageError: another user owns it, or may write to it.
    """
    owner = host.fstat(place).st_uid
    if owner not in (0, host.geteuid()):
        raise UsageError(
            f"{folder} belongs to the user number {owner}, who could exchange its files", hint=_ANOTHER
        )
    if writers := find_writers(place):
        raise UsageError(
            f"{folder} can be written to by {writers}, who could exchange its files",
            hint=f"name another directory with -o, or close that one: `chmod go-w {quote_path(folder)}`",
        )


def _write_marker(mark: int, words: bytes) -> None:
    os.ftruncate(mark, 0)
    with open(mark, "wb", closefd=False) as stream:
        stream.write(words)


def _remove_marker(folder: Path, place: int, *, is_new: bool) -> None:
    """Remove the marker and the new directory after an early failure."""
    with contextlib.suppress(OSError):
        if host.listdir(place) == [MARK]:
            host.unlink(MARK, dir_fd=place)
            if is_new:
                folder.rmdir()
