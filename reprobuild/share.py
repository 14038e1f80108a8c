"""A store that a group of users shares.

Each writer of a shared store is trusted as oneself: whoever can read its key can make others believe what it remembers.
Files that anybody makes in it get the rights of the group by default ACLs, whatever the umask
(https://man7.org/linux/man-pages/man5/acl.5.html).
"""

from __future__ import annotations

import grp
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from reprobuild.errors import UsageError
from reprobuild.signature import NAME, make_key
from reprobuild.store import Store

# linux/posix_acl_xattr.h: version 2, then (tag, rights, id) each; the id is of named users alone.
_ENTRY = struct.Struct("<HHI")
_USER, _GROUP, _OTHER, _NO_ID = 0x01, 0x04, 0x20, 0xFFFFFFFF
_ACL = struct.pack("<I", 2) + b"".join(
    _ENTRY.pack(tag, rights, _NO_ID) for tag, rights in ((_USER, 7), (_GROUP, 7), (_OTHER, 0))
)
_FOLDERS = ("apt", "blobs", "kept", "made", "making", "packages", "partial", "roots", "tmp")


def share(store: Store, group: str) -> None:
    """Let a group read and write a store, which is made where it is not there; all others are kept out.

    Raises:
        UsageError: there is no such group, or the file system has no ACLs.
        OSError: the store belongs to another user, or the user is not in the group.
    """
    try:
        number = grp.getgrnam(group).gr_gid
    except KeyError:
        raise UsageError(
            f"there is no group {group!r} on this machine", hint="`id -Gn` shows those of yours"
        ) from None
    store.make()
    make_key(store.root)
    for name in _FOLDERS:
        (store.root / name).mkdir(exist_ok=True)
    for folder in (store.root, *_folders(store.root)):
        _open(folder, number)
        for path in folder.iterdir():
            if path.is_file() and not path.is_symlink() and "blobs" not in folder.parts[-2:]:
                os.chown(path, -1, number)
                path.chmod(0o640 if path.name == NAME else 0o660)


def _folders(root: Path) -> Iterator[Path]:
    """Yield the directories whose content is shared; the trees in `roots` belong to one user each."""
    for name in _FOLDERS:
        yield root / name
        for folder in sorted((root / name).iterdir()) if name in ("apt", "blobs", "packages") else ():
            if folder.is_dir() and not folder.is_symlink():
                yield folder


def _open(folder: Path, group: int) -> None:
    os.chown(folder, -1, group)
    folder.chmod(0o2770)
    try:
        os.setxattr(folder, "system.posix_acl_default", _ACL)
    except OSError as err:
        raise UsageError(
            f"the file system of {folder} has no ACLs of POSIX: {err.strerror}",
            hint="put the store on a file system that has them, as ext4, xfs and Lustre do",
        ) from None
