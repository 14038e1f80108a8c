"""Untrusted names of files, written safely below a directory.

No name and no link leads out of the directory. Each directory on the way is opened from its parent, and never
through a link (openat(2), O_NOFOLLOW). An existing file is never written through: it may be a link, or
another name of a file of the store.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from reprobuild.errors import BuildError, UsageError
from reprobuild.infra.directory_fd import open_new_file
from reprobuild.infra.untrusted.names import HOSTILE, check_name
from reprobuild_portable.host import host, is_portable

_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC
_WRITE = host.O_WRONLY | host.O_CREAT | host.O_NOFOLLOW | host.O_CLOEXEC
# The kernel's errors for a link or a file in place of a directory.
_NO_DIRECTORY = (errno.ELOOP, errno.ENOTDIR)


def refuse_link(folder: Path, contents: str) -> None:
    """Refuse a directory for new files that is a link: its parent may be of someone else.

    Args:
        folder: the directory; it may be missing.
        contents: names the files in the error.

    Raises:
        UsageError: it is a link.
    """
    if folder.is_symlink():
        raise UsageError(
            f"{folder} is a link, and {contents} are not written through it",
            hint="remove the link, and run this again",
        )


@contextlib.contextmanager
def directory_of(top: Path, name: str, mode: int | None = None) -> Iterator[tuple[int, str]]:
    """Yield a name's directory below `top`, and last component.

    The directory is an open descriptor.

    Args:
        top: an existing directory.
        name: a relative path; missing directories on its way are made.
        mode: of the directories that are made, whatever the umask; else the umask decides.

    Raises:
        BuildError: the name is absolute, has `..`, `.` or an empty component, or a link or a file is on its
            way; on Windows also a drive, a stream of a file or a device.
    """
    check_name(name, str(top))
    *above, last = parts = name.split("/")
    if os.name == "nt" and not all(map(is_portable, parts)):
        raise BuildError(f"{name!r} has another meaning on Windows", hint=HOSTILE)
    number = host.open(top, _DIRECTORY)
    try:
        for step in above:
            lower = _enter(number, step, name, mode)
            host.close(number)
            number = lower
        yield number, last
    finally:
        host.close(number)


def open_below(top: Path, name: str, *, replace: bool = False, mode: int | None = None) -> IO[bytes]:
    """Open a new file below a directory for writing.

    Args:
        top: as in `directory_of`.
        name: as in `directory_of`.
        replace: whether a file or a link of that name is removed first; it is not written through.
        mode: of directories, as in `directory_of`.

    Raises:
        BuildError: as `directory_of` does.
        FileExistsError: the name exists already.
    """
    with directory_of(top, name, mode) as (number, last):
        if replace:
            with contextlib.suppress(FileNotFoundError):
                host.unlink(last, dir_fd=number)
        return open_new_file(last, number)


def write_below(top: Path, name: str, content: bytes, *, replace: bool = False) -> None:
    """Write a new file below a directory.

    Arguments and errors are those of `open_below`.
    """
    with open_below(top, name, replace=replace) as stream:
        stream.write(content)


def link_below(source: Path, top: Path, name: str) -> None:
    """Link or copy a file below a directory.

    A copy has the mode of the file.

    Args:
        source: the file.
        top: as in `directory_of`.
        name: as in `directory_of`.

    Raises:
        BuildError: as `directory_of` does.
        FileExistsError: the name exists already.
    """
    with directory_of(top, name) as (number, last):
        try:
            host.link(source, last, dst_dir_fd=number)
        except FileExistsError:
            raise
        except OSError:  # another file system, or one without hard links
            target = open_new_file(last, number)
        else:
            return
    with target as stream, source.open("rb") as original:
        shutil.copyfileobj(original, stream)
        host.fchmod(stream.fileno(), stat.S_IMODE(host.fstat(original.fileno()).st_mode))


def move_below(source: str, top: Path, name: str, *, above: int, file: int) -> None:
    """Move a file below a directory, replacing a former one.

    It may come from another file system.

    Args:
        source: the name of the file in its directory.
        top: as in `directory_of`.
        name: as in `directory_of`.
        above: the descriptor of the file's directory.
        file: the descriptor of the file; a file that replaced it meanwhile is not moved.

    Raises:
        BuildError: as `directory_of` does, or another file replaced it.
    """
    with directory_of(top, name) as (number, last):
        try:
            host.rename(source, last, src_dir_fd=above, dst_dir_fd=number)
        except OSError as err:
            if err.errno != errno.EXDEV:
                raise
        else:
            if not os.path.samestat(host.stat(last, dir_fd=number, follow_symlinks=False), host.fstat(file)):
                host.unlink(last, dir_fd=number)
                raise BuildError(f"{name!r} was replaced while it was moved", hint=HOSTILE)
            return
    with open_below(top, name, replace=True) as stream, os.fdopen(host.dup(file), "rb") as original:
        shutil.copyfileobj(original, stream)
    host.unlink(source, dir_fd=above)


def make_below(top: Path, name: str, *, mode: int | None = None) -> None:
    """Make a directory below another one, if it is missing.

    Arguments and errors are those of `directory_of`.
    """
    with directory_of(top, name, mode) as (number, last):
        host.close(_enter(number, last, name, mode))


def touch_below(top: Path, name: str, *, mode: int) -> None:
    """Make a file below a directory, and set its mode.

    A missing file is made empty; an existing one keeps its content.

    Args:
        top: as in `directory_of`.
        name: as in `directory_of`; directories on its way are made with mode 755.
        mode: of the file.

    Raises:
        BuildError: as `directory_of` does, or a link has the name.
    """
    with directory_of(top, name, 0o755) as (above, last):
        try:
            number = host.open(last, _WRITE | host.O_NONBLOCK, mode, dir_fd=above)
        except OSError as err:
            if err.errno != errno.ELOOP:
                raise
            raise BuildError(f"{name!r} is a link, and no file", hint=HOSTILE) from None
        try:
            host.fchmod(number, mode)
        finally:
            host.close(number)


def symlink_below(text: str, top: Path, name: str, *, mode: int | None = None) -> None:
    """Make a symbolic link below a directory.

    Its text is not followed here.

    Args:
        text: the text of the link.
        top: as in `directory_of`.
        name: as in `directory_of`.
        mode: of directories, as in `directory_of`.

    Raises:
        BuildError: as `directory_of` does.
        FileExistsError: the name exists already.
    """
    with directory_of(top, name, mode) as (number, last):
        host.symlink(text, last, dir_fd=number)


def _enter(number: int, step: str, name: str, mode: int | None) -> int:
    """Return the descriptor of a directory in an open one.

    A missing directory is made.
    """
    with contextlib.suppress(FileExistsError):
        host.mkdir(step, dir_fd=number)
        if mode is not None:
            host.chmod(step, mode, dir_fd=number)
    try:
        return host.open(step, _DIRECTORY | host.O_NOFOLLOW, dir_fd=number)
    except OSError as err:
        if err.errno not in _NO_DIRECTORY:
            raise
        raise BuildError(
            f"{name!r} leads through {step!r}, which is a link or a file, and no directory", hint=HOSTILE
        ) from None
