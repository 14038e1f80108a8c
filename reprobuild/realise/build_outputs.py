"""What a build writes into an editable project's own tree, and the image needs there: compiled modules, and such."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection
from itertools import accumulate
from pathlib import Path

import msgspec

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import TarEntry, parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.names import HOSTILE, check_path, most_bytes
from reprobuild.infra.untrusted.strings import MemberPath
from reprobuild.lock.system import EPOCH
from reprobuild.store.store import Store, hash_file

# What builds leave behind that nothing imports: their own folders, objects, and C that was made of Cython.
_FOLDERS = re.compile(
    r"\.eggs|__pycache__|\.git|CMakeFiles|_skbuild|\.mesonpy-.*|\.pdm-build|.*\.(egg|dist)-info"
)
# Names that packages have, too (`mypkg/build/_native.so`): they are folders of builds where builds make them.
_AT_THE_TOP = ("build", "dist", "target")
# What cargo writes into its own, wherever that is: https://bford.info/cachedir/
_CARGO, _TAG = "/target/CACHEDIR.TAG", "CACHEDIR.TAG"
_FILES = re.compile(r".*\.(o|obj|a|d|pyc|c|cc|cpp|cxx|lock)|\.gitignore|\.pdm-python")


def paths_below(folder: Path) -> frozenset[str]:
    """Return the paths of all regular files below a folder; no link is followed."""
    found = set()
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above) / name
            if stat.S_ISREG(path.lstat().st_mode):
                found.add(path.relative_to(folder).as_posix())
    return frozenset(found)


def keep_parts(
    folder: Path, before: Collection[str], project: str, brought: Collection[str], origin: str, store: Store
) -> tuple[str, tuple[str, ...]]:
    """Put what a build added to a tree into the store, as a tar.

    Files that were there before stay those of the source, whatever the build made of them.

    Args:
        folder: the tree after the build.
        before: the paths of its files before.
        project: the path of the project's own folder in it, empty where that is the tree.
        brought: paths of what is known to be installed, and kept whatever its name is.
        origin: what the user knows it by.
        store: receives the tar.

    Returns:
        The sha256 of the tar and the paths of its files; empty where there is nothing.

    Raises:
        BuildError: a path is one that no layer or no lock can hold, or the files are nearly all holes.
    """
    new = paths_below(folder) - set(before)
    left = _folders_of_builds(new, project)
    added = sorted(path for path in new if path in brought or _is_part(path, left))
    if not added:
        return "", ()
    _check_names(added, origin)
    _check_holes([(folder / path).stat() for path in added], origin)
    with store.scratch() as scratch:
        tar = scratch / "parts.tar"
        with tar.open("wb") as stream:
            writer = TarWriter(stream, EPOCH)
            for directory in parents(added):
                check_path(directory, origin)
                writer.directory(directory)
            for path in added:
                check_path(path, origin)
                facts = (folder / path).stat()
                mode = 0o755 if facts.st_mode & 0o100 else 0o644
                with (folder / path).open("rb") as content:
                    writer.add(TarEntry(path=path, type="file", mode=mode, size=facts.st_size), content)
            writer.close()
        digest = hash_file(tar)
        store.adopt(tar, digest)
    return digest, tuple(added)


def _check_names(paths: Collection[str], origin: str) -> None:
    """Refuse what the lock could not name, before it is read by that and by the image's own record of the source.

    Raises:
        BuildError: a path has a control character, or is not UTF-8.
    """
    for path in paths:
        try:
            path.encode()
            msgspec.convert(path, MemberPath)
        except (UnicodeEncodeError, msgspec.ValidationError):
            raise BuildError(
                f"{origin} left {path[:200]!r}, a name that no lock can hold", hint=HOSTILE
            ) from None


def _check_holes(files: Collection[os.stat_result], origin: str) -> None:
    """Refuse files that are far larger than what the disk holds of them: the tar would fill it.

    Raises:
        BuildError: they are a bomb.
    """
    size, held = sum(facts.st_size for facts in files), sum(facts.st_blocks * 512 for facts in files)
    if size > most_bytes(held):
        raise BuildError(
            f"{origin} left files of {size} bytes, of which the disk holds {held}: all else is holes",
            hint=HOSTILE,
        )


def _folders_of_builds(new: Collection[str], project: str) -> frozenset[str]:
    """Return the folders that builds make for themselves, each with a slash: at the project's top, and above it.

    A workspace of cargo, or of CMake, has its folder at the top of the repository.
    """
    steps = [step for step in project.split("/") if step not in ("", ".")]
    tops = ["", *(f"{top}/" for top in accumulate(steps, "{}/{}".format))]
    found = {f"{top}{name}/" for top in tops for name in _AT_THE_TOP}
    return frozenset(found | {path.removesuffix(_TAG) for path in new if f"/{path}".endswith(_CARGO)})


def _is_part(path: str, left: Collection[str]) -> bool:
    *above, name = path.split("/")
    if any(_FOLDERS.fullmatch(folder) for folder in above) or _FILES.fullmatch(name):
        return False
    return not any(path.startswith(folder) for folder in left)
