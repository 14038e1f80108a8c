"""`host`: the module `os`, with descriptors of directories on Windows, too; and `fcntl`.

On Linux and macOS both are the modules of that name. Windows opens no directory: its descriptor is there a number for
its path. Between two calls another program could put a link there, so only Linux and macOS are safe against that.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional, Tuple

# Names that Windows takes for a device, a drive or a stream of a file, or changes:
# https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
_CHANGED = re.compile(r"[\\/:]|[. ]\Z|\A\Z")
_DEVICE = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[1-9\xb9\xb2\xb3]) *(?:\.|\Z)", re.IGNORECASE
)


def is_portable(name: str) -> bool:
    """Return whether a component of a path is the same name on Windows."""
    return not (_CHANGED.search(name) or _DEVICE.match(name))


class HostStatus:
    """The status of a file of Windows. Its mode shows no rights of other users."""

    def __init__(self, status: os.stat_result) -> None:
        self._status = status
        self.st_mode = status.st_mode & ~0o077

    def __getattr__(self, name: str) -> Any:
        return getattr(self._status, name)


class WindowsHost:
    """The module `os` of Windows, with the functions and flags that others have.

    A function takes the descriptor of a directory as `dir_fd`, and in place of a path. Flags that Windows has no use
    for are 0. Files have no modes and owners.
    """

    O_DIRECTORY, O_NOFOLLOW = 1 << 24, 1 << 25  # Windows has no flags of these numbers
    O_CLOEXEC = O_NONBLOCK = 0
    O_OWN = O_DIRECTORY | O_NOFOLLOW

    def __init__(self) -> None:
        self._directories: Dict[int, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def _path(self, path: Any, above: Optional[int] = None) -> Any:
        if isinstance(path, int):
            return self._directories.get(path, path)
        if above is None:
            return path
        name = os.fsdecode(path)
        if name != "." and not is_portable(name):  # it would lead to another directory, or to a device
            raise FileNotFoundError(errno.ENOENT, "Windows has no file of this name", name)
        return os.path.join(self._directories[above], name)

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> int:
        place = self._path(path, dir_fd)
        if flags & self.O_NOFOLLOW and os.path.islink(place):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        if os.path.isdir(place):
            number = os.open(os.devnull, os.O_RDONLY)  # so no other file gets the number
            self._directories[number] = os.path.realpath(place)
            return number
        if flags & self.O_DIRECTORY and os.path.lexists(place):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), place)
        exact = getattr(os, "O_BINARY", 0) | getattr(os, "O_NOINHERIT", 0)
        return os.open(place, flags & ~self.O_OWN | exact, mode)

    def close(self, number: int) -> None:
        self._directories.pop(number, None)
        os.close(number)

    def dup(self, number: int) -> int:
        if number in self._directories:
            return self.open(self._directories[number], os.O_RDONLY)
        return os.dup(number)

    def fstat(self, number: int) -> HostStatus:
        return HostStatus(os.stat(self._path(number)))

    def stat(self, path: Any, *, dir_fd: Optional[int] = None, follow_symlinks: bool = True) -> HostStatus:
        return HostStatus(os.stat(self._path(path, dir_fd), follow_symlinks=follow_symlinks))

    def lstat(self, path: Any) -> HostStatus:
        return HostStatus(os.lstat(path))

    def listdir(self, path: Any) -> List[str]:
        return os.listdir(self._path(path))

    def scandir(self, path: Any) -> Any:
        return os.scandir(self._path(path))

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: Optional[int] = None) -> None:
        os.mkdir(self._path(path, dir_fd), mode)

    def rmdir(self, path: Any, *, dir_fd: Optional[int] = None) -> None:
        os.rmdir(self._path(path, dir_fd))

    def unlink(self, path: Any, *, dir_fd: Optional[int] = None) -> None:
        os.unlink(self._path(path, dir_fd))

    def rename(
        self, source: Any, target: Any, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None
    ) -> None:  # fmt: skip
        os.rename(self._path(source, src_dir_fd), self._path(target, dst_dir_fd))

    def replace(
        self, source: Any, target: Any, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None
    ) -> None:  # fmt: skip
        os.replace(self._path(source, src_dir_fd), self._path(target, dst_dir_fd))

    def link(
        self, source: Any, target: Any, *, src_dir_fd: Optional[int] = None, dst_dir_fd: Optional[int] = None,
        follow_symlinks: bool = True,
    ) -> None:  # fmt: skip
        place = self._path(source, src_dir_fd)
        if not follow_symlinks and os.path.islink(place):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), place)
        os.link(place, self._path(target, dst_dir_fd))

    def symlink(self, text: Any, path: Any, *, dir_fd: Optional[int] = None) -> None:
        os.symlink(text, self._path(path, dir_fd))

    def readlink(self, path: Any, *, dir_fd: Optional[int] = None) -> Any:
        text = os.readlink(self._path(path, dir_fd))
        return os.fsencode(text) if isinstance(path, bytes) else text

    def chmod(self, path: Any, mode: int, *, dir_fd: Optional[int] = None) -> None:
        pass  # it would make a file read-only, and such a file cannot be removed

    fchmod = chmod

    def utime(
        self, path: Any, times: Any = None, *, dir_fd: Optional[int] = None, follow_symlinks: bool = True, **ns: Any
    ) -> None:  # fmt: skip
        os.utime(self._path(path, dir_fd), times, **ns)

    def fwalk(self, top: str, *, dir_fd: int) -> Iterator[Tuple[str, List[str], List[str], int]]:
        for above, folders, files in os.walk(self._path(top, dir_fd)):
            number = self.open(above, os.O_RDONLY)
            try:
                yield above, folders, files, number
            finally:
                self.close(number)

    def geteuid(self) -> int:
        return 0  # the owner of each file of Windows, as `stat` tells it

    getegid = geteuid


class WindowsLocks:
    """The locks of the module `fcntl`, refused as by some network file systems."""

    LOCK_SH, LOCK_EX, LOCK_NB = 1, 2, 4

    def flock(self, number: int, kind: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "Windows has no such file locks")


if TYPE_CHECKING or os.open in os.supports_dir_fd:
    import fcntl as fcntl

    host = os
else:
    fcntl, host = WindowsLocks(), WindowsHost()
