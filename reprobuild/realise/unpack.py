"""Files from a tar into a folder, as any user, and never outside of it."""

from __future__ import annotations

import os
import shutil
import tarfile
from pathlib import Path

from reprobuild.archive import normal
from reprobuild.errors import BuildError
from reprobuild.store import CHUNK

_HINT = "the archive was not made by a package build; find out where it came from"


def unpack_root(tar: Path, folder: Path) -> None:
    """Unpack a realised tree into an empty folder, to be the root of a sandbox.

    Owners are ignored and device nodes left out, so any user can do it; set-user-id bits are left out too.

    Args:
        tar: an uncompressed tar.
        folder: an existing folder.

    Raises:
        BuildError: a member would land outside of the folder.
    """
    with tarfile.open(tar, mode="r|") as stream:
        extract(stream, folder, tar.name)


def extract(tar: tarfile.TarFile, root: Path, name: str) -> None:
    """Write the members of a tar below a folder; what is there already is replaced, but for folders.

    Args:
        tar: an open tar.
        root: an existing folder.
        name: the archive's name for an error.

    Raises:
        BuildError: a member would land outside of the folder, or on a folder that is there.
    """
    real = root.resolve()
    checked: set[Path] = set()
    for info in tar:
        path = _inside(info.name, real, name, checked)
        if path == real:
            continue
        mode = info.mode & 0o1777
        if info.isdir():
            if not path.is_dir():
                path.mkdir()
                path.chmod(mode | 0o700)
            elif not path.is_symlink():
                path.chmod(mode | 0o700)
            continue
        if path.is_dir() and not path.is_symlink():
            raise BuildError(f"{name} would put a file in the place of the folder {info.name}", hint=_HINT)
        path.unlink(missing_ok=True)
        if info.issym():
            path.symlink_to(info.linkname)
        elif info.islnk():
            os.link(_inside(info.linkname, real, name, checked), path, follow_symlinks=False)
        elif info.isreg():
            _write(tar, info, path, mode | 0o600)


def make_folder(path: Path) -> None:
    """Make a folder and those above it, mode 755 whatever the umask; existing ones stay as they are."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir()
        path.chmod(0o755)


def _write(tar: tarfile.TarFile, info: tarfile.TarInfo, path: Path, mode: int) -> None:
    source = tar.extractfile(info)
    assert source is not None  # it is a regular file
    with path.open("xb") as target:
        shutil.copyfileobj(source, target, CHUNK)
    path.chmod(mode)


def _inside(member: str, root: Path, name: str, checked: set[Path]) -> Path:
    """Return where a member goes; the folders on its way are made, and must lie in the root."""
    path = root / normal(member)
    parent = path.parent
    if path == root or parent in checked:
        if ".." in path.parts:
            raise BuildError(f"{name} holds a path that leaves its folder: {member!r}", hint=_HINT)
        return path
    if ".." in path.parts or not parent.resolve().is_relative_to(root):
        raise BuildError(f"{name} holds a path that leaves its folder: {member!r}", hint=_HINT)
    make_folder(parent)
    checked.add(parent)
    return path
