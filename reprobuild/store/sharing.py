"""Stores that a group of users shares.

Each writer of a shared store is trusted like the user: a writer can read its key, and so can make others trust any
remembered result. All files in it get the rights of the group by default ACLs, for any umask
(https://man7.org/linux/man-pages/man5/acl.5.html).

Rights are changed on open files, never by path: another user of the group could put a link at a path at any moment.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from reprobuild.errors import UsageError
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.writers import find_writers
from reprobuild.store.signature import NAME, is_private, make_key, stored_key
from reprobuild.store.store import Store
from reprobuild_portable.host import host

# linux/posix_acl_xattr.h: version 2, then (tag, rights, id) each; the id is of named users alone.
_ENTRY = struct.Struct("<HHI")
_USER, _GROUP, _OTHER, _NO_ID = 0x01, 0x04, 0x20, 0xFFFFFFFF
_ACL = struct.pack("<I", 2) + b"".join(
    _ENTRY.pack(tag, rights, _NO_ID) for tag, rights in ((_USER, 7), (_GROUP, 7), (_OTHER, 0))
)
_FOLDERS = ("apt", "blobs", "kept", "made", "making", "packages", "partial", "roots", "tmp")
_NESTED = (
    "apt",
    "blobs",
    "packages",
)  # their directories are shared, too; the trees in `roots` are one user's each
_MEND = "let XDG_DATA_HOME name a directory that you alone can write to"
_NAME_STORE = "name a store, such as the one that `reprobuild store share --group NAME --store DIR` shares"
_DIRECTORY = host.O_RDONLY | host.O_DIRECTORY | host.O_CLOEXEC
_FILE = host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK | host.O_CLOEXEC


def share(store: Store, group: str) -> None:
    """Let a group read and write a store.

    The store is made if it is missing; all other users are kept out.

    Raises:
        UsageError: there is no such group, the file system has no ACLs, an entry is a link or another user's, the
            store belongs to another user, or its key cannot be recorded.
        OSError: the user is not in the group.
    """
    import grp  # not on Windows

    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageError(
            f"there is no group {group!r} on this machine", hint="`id -Gn` shows those of yours"
        ) from None
    _refuse_other_owner(store.root)
    store.make()
    if make_key(store.root, store.known, renew=True) is None:
        raise _unrecordable_key_error(store)
    root = host.open(store.root, _DIRECTORY)
    try:
        place = _Place(store.root, root, number, host.fstat(root).st_uid)
        _share(place, sticky=True)
        for name in _FOLDERS:
            with contextlib.suppress(FileExistsError):
                host.mkdir(name, dir_fd=root)
            with _open_directory(place, name) as folder:
                _share(folder, sticky=name == "tmp")
                for inner in sorted(_list_names(folder, directories=True)) if name in _NESTED else ():
                    with _open_directory(folder, inner) as deep:
                        _share(deep)
    finally:
        host.close(root)


def _refuse_other_owner(root: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        owner = root.stat().st_uid
        if host.geteuid() not in (0, owner):
            raise UsageError(
                f"{root} belongs to {_owner(owner)}, who alone can share it",
                hint=f"to use what its group shares: `reprobuild store join {quote_path(root)}`",
            )


def join(store: Store, say: Callable[[str], object]) -> str:
    """Trust a store's key from now on; return its owner's name.

    Args:
        store: each of its writers is trusted like the user.
        say: logs the owner before the key is recorded.

    Raises:
        UsageError: it is missing, closed to the user, or has no key, or the key cannot be recorded.
    """
    if not store.root.is_dir():
        raise UsageError(f"there is no directory {store.root}", hint=_NAME_STORE)
    if not os.access(store.root, os.R_OK | os.X_OK):
        raise _closed_store_error(store.root)
    key = stored_key(store.root)
    if key is None:
        raise UsageError(
            f"{store.root} has no key that this user can read and its owner alone can write",
            hint=_NAME_STORE,
        )
    owner = _owner(store.root.stat().st_uid)
    say(f"{store.root} belongs to {owner}")
    if not store.known.add(key):
        raise _unrecordable_key_error(store)
    return owner


def _closed_store_error(root: Path) -> UsageError:
    import grp  # not on Windows

    facts = root.stat()
    try:
        group = grp.getgrgid(facts.st_gid).gr_name
    except KeyError:
        group = f"number {facts.st_gid}"
    owner = _owner(facts.st_uid)
    return UsageError(
        f"{root} is open to the members of the group {group} alone, and this process is not in it",
        hint=f"`id -Gn` shows your groups: ask {owner} or an administrator to add you to {group}, and log in again",
    )


def key_note(store: Store) -> str:
    """Return a note on a store's key, or an empty string."""
    key = stored_key(store.root)
    if key is not None and store.known.has(key):
        return ""
    if not store.known.usable:
        return (
            f"what {store.root} remembers does not count: {store.known} cannot keep keys of stores; {_MEND}"
        )
    if key is None:
        return _exposure(store.root)
    if is_private(store.root):
        return (
            f"{store.root} has a key from elsewhere: what it remembers is made again, under a key of your own"
        )
    return (
        f"{store.root} has a key that you did not join: what it remembers does not count; to trust each of its "
        f"writers as yourself: `reprobuild store join {quote_path(store.root)}`"
        + "".join(f"; {note}" for note in (_exposure(store.root),) if note)
    )


def _exposure(root: Path) -> str:
    """Return a note on the power of a store's owner over other users.

    It is empty if the owner is the user, or root.
    """
    with contextlib.suppress(FileNotFoundError):
        owner = root.stat().st_uid
        if owner not in (0, host.geteuid()):
            return (
                f"{root} belongs to {_owner(owner)}, who can exchange its files while a command uses them: use a "
                "store of your own where you do not trust that user as yourself"
            )
    return ""


def _unrecordable_key_error(store: Store) -> UsageError:
    return UsageError(
        f"the key of {store.root} cannot be kept: {store.known} cannot keep keys of stores", hint=_MEND
    )


def _owner(number: int) -> str:
    try:
        import pwd  # not on Windows

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return f"user number {number}"


def check_writers(store: Store) -> None:
    """Refuse a store that unrelated users may write to.

    They are users that it is not shared with.

    Raises:
        UsageError: they may write to its directory, or to one with trusted file names.
    """
    try:
        root = host.stat(store.root)
    except OSError:  # it is not there yet, or the first use reports why it cannot be read
        return
    reachable = root.st_mode & (stat.S_IXGRP | stat.S_IXOTH)
    for path in (store.root, *(store.root / name for name in ("blobs", "made") if reachable)):
        with contextlib.suppress(FileNotFoundError):
            who = find_writers(path)
            if who:
                raise UsageError(
                    f"{path} can be written to by {who}, and is not shared with `reprobuild store share`",
                    hint=f"close it: `chmod go-w {quote_path(path)}`, or share it with a group: "
                    f"`reprobuild store share --group NAME --store {quote_path(store.root)}`",
                )


class _Place(NamedTuple):
    """An open directory of a store."""

    path: Path
    number: int
    group: int
    owner: int  # of the store


@contextlib.contextmanager
def _open_directory(place: _Place, name: str) -> Iterator[_Place]:
    """Open a directory in an open one.

    Raises:
        UsageError: it is a link, a file, or belongs to a user outside of the group.
    """
    path = place.path / name
    try:
        number = host.open(name, _DIRECTORY | host.O_NOFOLLOW, dir_fd=place.number)
    except OSError as err:
        if err.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
        raise _foreign_entry_error(path, "is a link or a file, and no directory of the store") from None
    try:
        facts = host.fstat(number)
        if facts.st_uid != place.owner and facts.st_gid != place.group:
            raise _foreign_entry_error(path, f"belongs to another user, number {facts.st_uid}")
        yield place._replace(path=path, number=number)
    finally:
        host.close(number)


def _foreign_entry_error(path: Path, problem: str) -> UsageError:
    return UsageError(
        f"{path} {problem}: it is not shared",
        hint="remove what others put into the store, and run the command again",
    )


def _list_names(place: _Place, *, directories: bool) -> list[str]:
    with host.scandir(place.number) as entries:
        children = list(entries)
    for entry in children:
        if entry.is_symlink():
            raise _foreign_entry_error(place.path / entry.name, "is a link")
    kind = os.DirEntry.is_dir if directories else os.DirEntry.is_file
    return [entry.name for entry in children if kind(entry, follow_symlinks=False)]


def _share(place: _Place, *, sticky: bool = False) -> None:
    """Give the group an open directory and the files in it.

    In a `sticky` one, a member cannot exchange or remove what others made.

    Blobs are left out, because no user writes to them.

    Files that members made since the store was shared belong to the group already.
    """
    if host.fstat(place.number).st_uid == place.owner:
        _open(place.number, place.path, place.group, 0o3770 if sticky else 0o2770)
    if "blobs" in place.path.parts[-2:]:
        return
    for name in _list_names(place, directories=False):
        number = host.open(name, _FILE, dir_fd=place.number)
        try:
            facts = host.fstat(number)
            if facts.st_nlink > 1:
                raise _foreign_entry_error(place.path / name, "is a file that has another name, too")
            if stat.S_ISREG(facts.st_mode) and facts.st_uid == place.owner:
                os.fchown(number, -1, place.group)
                host.fchmod(number, 0o640 if name == NAME else 0o660)
        finally:
            host.close(number)


def _open(folder: int, path: Path, group: int, mode: int = 0o2770) -> None:
    os.fchown(folder, -1, group)
    host.fchmod(folder, mode)
    try:
        os.setxattr(folder, "system.posix_acl_default", _ACL)
    except OSError as err:
        raise UsageError(
            f"the file system of {path} has no ACLs of POSIX: {err.strerror}",
            hint="put the store on a file system that has them, as ext4, xfs and Lustre do",
        ) from None
