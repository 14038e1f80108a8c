"""Conversion of a plain wheel to an editable one.

Its Python files stay in the source, and the others are put beside them.

It is for back ends without editable builds (setuptools before 64, for which pip ran `setup.py develop`), and for back
ends whose editables compile again at each import: an image has no compiler.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable
from pathlib import Path

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.regular_files import has_content, resolve_below
from reprobuild.lock.python import Source
from reprobuild.realise.unpack import make_directory

# Directories of a project that may hold its packages, the most usual first.
_ROOTS = ("", "src", "python", "lib")


def make_editable_wheel(
    wheel_file: Path, tree: Path, source: Source, scratch: Path
) -> tuple[Path, frozenset[str]]:
    """Return an editable wheel made of a plain one.

    It has the same name. The second value is the set of paths in the tree that the plain one supplied.

    The plain wheel's additional files, compiled and generated modules, are written into the tree.

    Args:
        wheel_file: the plain wheel.
        tree: the source's tree, as the build left it.
        source: has the path of the tree in the image.
        scratch: a directory of this run.

    Raises:
        BuildError: the wheel's packages are not in one directory of the source, so that no path leads to them; the
            wheel is damaged, or another entry is at the path of a file.
    """
    origin = f"the wheel that was built of {source.name}"
    target = scratch / "editable" / wheel_file.name
    target.parent.mkdir()
    with zips.open_zip(wheel_file, origin) as (archive, members), zipfile.ZipFile(target, "w") as out:
        modules = [name for name in members if not name.partition("/")[0].endswith((".dist-info", ".data"))]
        root = _root_of(modules, archive, tree, source, origin)
        inside = _join_path(source.subdirectory, root)
        module_paths = set()
        for name in modules:
            executable = bool((members[name].external_attr >> 16) & 0o111)
            content = _read_member(archive, name, origin)
            module_paths.add(_add_file(tree, _join_path(inside, name), content, executable, origin))
        for name in members.keys() - set(modules):
            out.writestr(members[name], _read_member(archive, name, origin))
        place = _join_path(source.path, inside)
        out.writestr(f"__editable__.{source.name}.pth", f"{place}\n")
    return target, frozenset(module_paths)


def _read_member(archive: zipfile.ZipFile, name: str, origin: str) -> bytes:
    try:
        return archive.read(name)
    except zips.UNREADABLE as err:
        raise BuildError(f"{origin} cannot be read: {err}", hint=HOSTILE) from None


def _join_path(*parts: str) -> str:
    return "/".join(part for part in parts if part)


def _root_of(
    modules: Iterable[str], archive: zipfile.ZipFile, tree: Path, source: Source, origin: str
) -> str:
    """Return the project directory with the wheel's unchanged Python files."""
    python = [name for name in modules if name.endswith(".py")]
    if not python:
        return ""
    for root in _ROOTS:
        places = {name: resolve_below(tree, _join_path(source.subdirectory, root, name)) for name in python}
        files = {name: path for name, path in places.items() if path and path.is_file()}
        if files and all(
            has_content(path, _read_member(archive, name, origin)) for name, path in files.items()
        ):
            return root
    raise BuildError(
        f"{origin} has its packages in no one directory of the source, so nothing can lead to them there",
        hint=f"install {source.name} from its repository without `-e`, and capture again",
    )


def _add_file(tree: Path, path: str, content: bytes, executable: bool, origin: str) -> str:
    """Write a wheel's file if the source lacks it.

    Return its path in the tree, with links resolved.

    The build may have changed the tree in any way. Links are resolved before any file is made: no file or directory is
    written outside of the tree or through a link.
    """
    above, _, name = path.rpartition("/")
    folder, place = resolve_below(tree, above), resolve_below(tree, path)
    if place and place.is_file():
        return place.relative_to(tree.resolve()).as_posix()
    try:
        if folder is None:
            raise FileExistsError
        make_directory(folder)
        with (folder / name).open("xb") as stream:
            stream.write(content)
            os.fchmod(stream.fileno(), 0o755 if executable else 0o644)
    except (FileExistsError, NotADirectoryError):
        raise BuildError(
            f"{origin} has {path}, in whose place the source has something else",
            hint="leave a clean work tree behind before the capture: `git clean -xd` lists what is in the way",
        ) from None
    return (folder / name).relative_to(tree.resolve()).as_posix()
