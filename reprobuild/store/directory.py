"""The directory of a store, and the file lock of the processes that use it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from reprobuild.errors import FetchError
from reprobuild.infra.atomic import PrivateDirectory, open_private_directory
from reprobuild.infra.flock import machine_name, try_lock
from reprobuild_portable.host import fcntl, host

_PATIENCE, _POLL = 60, 0.1  # seconds
_OPENED = ("in-use", "key")  # files that are opened without following a link
_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC
_CHOOSE = "or choose another directory with `--store`; the whole store may stand behind a link"


class StoreDirectory:
    """A private directory with a file lock for its users.

    Each object holds a shared lock from its first use. `hold_exclusive_lock` takes the lock alone.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._guard = threading.RLock()
        self._holder: int | None = None  # the open file of the lock
        self._let_go: Callable[[], object] = lambda: None
        self._locked = False
        self._checked = False  # for links

    @contextlib.contextmanager
    def hold_exclusive_lock(self) -> Iterator[bool]:
        """Lock the store for this process alone.

        Yield False if the file system has no locks.

        Raises:
            FetchError: another process uses it.
        """
        self._hold(make=True)
        with self._guard:
            alone = fcntl.LOCK_EX | fcntl.LOCK_NB
            if self._locked and self._holder is not None and not try_lock(self._holder, alone):
                self._share(self._holder)  # Linux drops it when a stronger lock is refused
                raise FetchError(
                    f"another process uses the store {self.root}", hint="run it again when that has ended"
                )
            try:
                yield self._locked
            finally:
                if self._locked and self._holder is not None:
                    fcntl.flock(self._holder, fcntl.LOCK_SH)

    def make(self) -> None:
        """Make the store's private directory if it is missing.

        Raises:
            FetchError: a link is at the path of a directory.
        """
        self.refuse_links()
        self.root.parent.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)

    def refuse_links(self) -> None:
        """Refuse a store with links that lead elsewhere: files there would be overwritten or removed.

        The store itself may be a link.

        Raises:
            FetchError: a link is at the path of a directory.
        """
        if self._checked:
            return
        with contextlib.suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            for folder in (self.root, self.root / "blobs"):
                with host.scandir(folder) as entries:
                    links = (entry for entry in entries if entry.is_symlink() and entry.name not in _OPENED)
                    link = next((entry.path for entry in links), None)
                if link is not None:
                    raise FetchError(
                        f"{link} in the store is a link, and no program puts one there",
                        hint=f"remove the link, {_CHOOSE}",
                    )
            self._checked = True

    @contextlib.contextmanager
    def open_folder(self, *steps: str) -> Iterator[int]:
        """Yield the descriptor of a directory in the store; a missing one is made.

        No link in the store is followed: in a shared store, a member can put one there at any moment.

        Args:
            steps: the names of directories, each in the former one.

        Raises:
            FetchError: a link or a file is at the path of a directory.
        """
        try:
            number = host.open(self.root, _DIRECTORY)
        except FileNotFoundError:
            self.make()
            number = host.open(self.root, _DIRECTORY)
        place = self.root
        try:
            for step in steps:
                place /= step
                lower = _enter(number, step, place)
                host.close(number)
                number = lower
            yield number
        finally:
            host.close(number)

    @contextlib.contextmanager
    def open_scratch(self) -> Iterator[PrivateDirectory]:
        """Yield a private directory inside the store, with its descriptor.

        It is removed afterwards, with those of killed processes.
        """
        self._hold(make=True)
        with open_private_directory(self.root / "tmp", prefix=f"{machine_name()}.") as folder:
            yield folder

    @contextlib.contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield the path of an `open_scratch` directory, for programs that take no descriptor.

        In a shared store, the sticky bit of `tmp` keeps members from exchanging it.
        """
        with self.open_scratch() as folder:
            yield folder.path

    @contextlib.contextmanager
    def workspace(self) -> Iterator[Path]:
        """Yield a `scratch` directory for files of an image.

        A shared store gives new files the rights and the group of its members. Here they get those that programs give
        them, and the user's own group, because a namespace may have no other.
        """
        with self.scratch() as scratch:
            folder = scratch / "w"
            folder.mkdir()
            if self.shared:
                stop_inheritance(folder)
            yield folder

    @property
    def shared(self) -> bool:
        """Whether other users may write here: see `share`."""
        return bool(host.stat(self.root).st_mode & stat.S_IWGRP)

    def release(self) -> None:
        """Let others remove files from the store, until its next use.

        No thread may be at work with it.
        """
        with self._guard:
            self._let_go()
            self._holder, self._locked = None, False

    def _hold(self, *, make: bool = False) -> None:
        """Hold the lock that marks the store as used.

        It is held for the life of this object.

        Raises:
            FetchError: a link is at the path of a directory, or the lock is no plain file.
        """
        if self._holder is not None:
            return
        self.refuse_links()
        with self._guard, contextlib.suppress(OSError):  # not there yet; or not ours to write to
            if self._holder is None:
                if make:
                    self.make()
                flags = host.O_RDWR | host.O_CREAT if make else host.O_RDONLY
                number = host.open(self.root / "in-use", flags | host.O_NOFOLLOW | host.O_NONBLOCK, 0o666)
                if not stat.S_ISREG(host.fstat(number).st_mode):  # a pipe: locks would not hold in it
                    host.close(number)
                    raise FetchError(
                        f"{self.root / 'in-use'} in the store is no plain file, and no program makes it so",
                        hint="remove it, or choose another directory with `--store`",
                    )
                self._let_go = weakref.finalize(self, host.close, number)
                self._locked = self._share(number)
                self._holder = number

    def _share(self, number: int) -> bool:
        """Take the shared lock on an open file, and return whether the file system has locks.

        Raises:
            FetchError: another process has the store alone for a minute.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # any user who can read the file can lock it
                if time.monotonic() > deadline:
                    raise FetchError(
                        f"another process has had the store {self.root} alone for {_PATIENCE} seconds",
                        hint="wait until its `reprobuild store gc` has ended; `fuser -v` on its file `in-use` names it",
                    ) from None
                time.sleep(_POLL)
            except OSError:
                return False
            else:
                return True


def _enter(above: int, name: str, place: Path) -> int:
    """Return the descriptor of a directory in an open one; a missing one is made.

    `place` is its path.
    """
    try:
        try:
            return host.open(name, _DIRECTORY | host.O_NOFOLLOW, dir_fd=above)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):  # another process makes it
                host.mkdir(name, dir_fd=above)
            return host.open(name, _DIRECTORY | host.O_NOFOLLOW, dir_fd=above)
    except OSError as err:
        err.filename = str(place)
        if err.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise FetchError(
            f"{place} in the store is a link or a file, and no program puts one there",
            hint=f"remove it, {_CHOOSE}",
        ) from None


def stop_inheritance(folder: Path) -> None:
    """Take from an own directory what new entries in it would inherit from a shared store."""
    for name in ("system.posix_acl_default", "system.posix_acl_access"):
        with contextlib.suppress(OSError):  # without it
            os.removexattr(folder, name)
    os.chown(folder, -1, os.getegid())
    folder.chmod(0o700)
