"""Extraction of a tar into a directory, as any user.

No file is written outside of the directory.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import tarfile
from pathlib import Path

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import normalise_name
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.names import check_name, check_target
from reprobuild.store.store import CHUNK

_HINT = "the archive was not made by a package build; find out where it came from"
# The errors of the system if two members, or a member and an existing file, cannot both exist.
_IMPOSSIBLE = (
    errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOENT, errno.ELOOP, errno.ENAMETOOLONG, errno.EINVAL,
    errno.EMLINK, errno.ENOTEMPTY, errno.EPERM,
)  # fmt: skip


def unpack_root(tar: Path, folder: Path) -> None:
    """Unpack a realised tree into an empty directory.

    It becomes the root of a sandbox.

    Owners are ignored and device nodes left out, so any user can do it; set-user-id bits are left out too.

    Args:
        tar: an uncompressed tar.
        folder: an existing directory.

    Raises:
        BuildError: see `extract`.
    """
    with tar.open("rb") as opened:
        try:
            with tars.open_stream(opened) as stream:
                extract(stream, folder, tar.name)
        except tars.UNREADABLE as err:
            raise BuildError(f"{tar.name} cannot be read: {err}", hint=_HINT) from None


def extract(tar: tarfile.TarFile, root: Path, name: str, *, packed: int | None = None) -> None:
    """Write the members of a tar below a directory.

    Existing files are replaced, but directories are not.

    Args:
        tar: an open tar, of `infra.untrusted.tars.open_stream`.
        root: an existing directory.
        name: the archive's name for an error.
        packed: size of the compressed archive in bytes, if it is one; see `infra.untrusted.tars.members`.

    Raises:
        BuildError: a member would be outside of the directory, on an existing directory, or is impossible; or there are
            too many, or they are too large.
    """
    real = root.resolve()
    checked: set[Path] = set()
    for info in tars.members(tar, name, packed=packed):
        try:
            _extract(tar, info, real, name, checked)
        except OSError as err:
            if err.errno not in _IMPOSSIBLE:
                raise
            raise BuildError(
                f"{name} holds {info.name[:200]!r}, which cannot be unpacked: {err.strerror}", hint=_HINT
            ) from None


def _extract(tar: tarfile.TarFile, info: tarfile.TarInfo, real: Path, name: str, checked: set[Path]) -> None:
    path = _member_path(info.name, real, name, checked)
    if path == real:
        return
    mode = info.mode & 0o1777
    if info.isdir():
        if not path.is_dir():
            path.mkdir()
            path.chmod(mode | 0o700)
        elif not path.is_symlink():
            path.chmod(mode | 0o700)
        return
    if path.is_symlink():
        checked.clear()  # directories seen in the root may have been seen through this link
    elif path.is_dir():
        raise BuildError(f"{name} would put a file in the place of the directory {info.name}", hint=_HINT)
    path.unlink(missing_ok=True)
    if info.issym():
        check_target(info.linkname, info.name, name)
        path.symlink_to(info.linkname)
    elif info.islnk():
        os.link(_member_path(info.linkname, real, name, checked), path, follow_symlinks=False)
    elif info.isreg():
        _write(tar, info, path, mode | 0o600)


def make_directory(path: Path) -> None:
    """Make a directory and its parents, mode 755 for any umask.

    Existing ones stay as they are.
    """
    if not path.is_dir():
        make_directory(path.parent)
        path.mkdir()
        path.chmod(0o755)


def _write(tar: tarfile.TarFile, info: tarfile.TarInfo, path: Path, mode: int) -> None:
    source = tar.extractfile(info)
    assert source is not None  # it is a regular file
    with path.open("xb") as target:
        shutil.copyfileobj(source, target, CHUNK)
    path.chmod(mode)


def _member_path(member: str, root: Path, name: str, checked: set[Path]) -> Path:
    """Return the path for a member, and make its parent directories.

    They must be in the root.

    `checked` are directories that are known to be in the root.
    """
    relative = normalise_name(member)
    if ".." in relative.split("/"):
        raise BuildError(f"{name} holds a path that leaves its directory: {member!r}", hint=_HINT)
    if relative:
        check_name(posixpath.normpath(relative), name)
    path = root / relative
    parent = path.parent
    if path == root or parent in checked:
        return path
    try:
        inside = parent.resolve().is_relative_to(root)
    except RuntimeError:  # links that lead to each other
        inside = False
    if not inside:
        raise BuildError(f"{name} holds a path that leaves its directory: {member!r}", hint=_HINT)
    make_directory(parent)
    checked.add(parent)
    return path
