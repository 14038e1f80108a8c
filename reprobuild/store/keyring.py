"""Keys of the stores that the user trusts.

They are the keys that this program made for the user, and those that the user joined.

A store that is handed over has its own key. Its results are trusted only if this directory has the key, and a store
cannot put it there. The directory has one empty file for each key, named by the sha256 of the key. It counts only if
directory and file belong to the user, and no other user may write to them.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from reprobuild_portable.host import host

_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC
_NEW = host.O_WRONLY | host.O_CREAT | host.O_NOFOLLOW | host.O_CLOEXEC


class StoreKeyring:
    """The keys that one user trusts.

    Without a directory there are no keys, and keys cannot be added.
    """

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def __str__(self) -> str:
        """Return the directory as messages name it."""
        return str(self.folder or "an environment without XDG_DATA_HOME and HOME")

    def has(self, key: bytes) -> bool:
        """Return whether the user trusts a key."""
        with contextlib.suppress(OSError), self._open() as number:
            return _is_own(host.stat(_name(key), dir_fd=number, follow_symlinks=False))
        return False

    @property
    def usable(self) -> bool:
        """Whether a key can be recorded."""
        try:
            with self._open():
                return os.access(self.folder or "", os.W_OK)
        except FileNotFoundError:
            above = [path for path in self.folder.parents if path.exists()] if self.folder else []
            return bool(above) and os.access(above[0], os.W_OK)
        except OSError:
            return False

    def add(self, key: bytes) -> bool:
        """Record a key, and return whether that was possible."""
        with contextlib.suppress(OSError):
            if self.folder is not None:
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._open() as number:
                host.close(host.open(_name(key), _NEW, 0o600, dir_fd=number))
        return self.has(key)

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        """Yield the open directory.

        Raises:
            OSError: it is not there, or other users may write to it.
        """
        if self.folder is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        number = host.open(self.folder, _DIRECTORY)
        try:
            if not _is_own(host.fstat(number)):
                raise PermissionError(errno.EPERM, "others may write to it", str(self.folder))
            yield number
        finally:
            host.close(number)


def keyring(env: Mapping[str, str] | None = None) -> StoreKeyring:
    """Return the keys of the environment's user.

    The environment is by default that of this process.
    """
    env = os.environ if env is None else env
    if Path(env.get("XDG_DATA_HOME", "")).is_absolute():
        return StoreKeyring(Path(env["XDG_DATA_HOME"]) / "reprobuild" / "keys")
    if Path(env.get("HOME", "")).is_absolute():
        return StoreKeyring(Path(env["HOME"]) / ".local" / "share" / "reprobuild" / "keys")
    return StoreKeyring(None)


def _name(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()


def _is_own(facts: os.stat_result) -> bool:
    return facts.st_uid == host.geteuid() and not facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
