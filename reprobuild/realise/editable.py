"""A plain wheel to an editable one: its Python files stay in the source, the others are put beside them.

For back ends that know no editable builds (setuptools before 64, where pip ran `setup.py develop`), and for those
whose editables compile again whenever they are imported: an image has no compiler.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path

from reprobuild.errors import BuildError
from reprobuild.guard import zips
from reprobuild.lock import Source
from reprobuild.realise.unpack import make_folder

# Folders of a project in which its packages may lie, the most usual first.
_ROOTS = ("", "src", "python", "lib")


def as_editable(found: Path, tree: Path, source: Source, scratch: Path) -> Path:
    """Return an editable wheel of a plain one, which has its name.

    What the plain one has beside the source's own files, compiled and generated modules, is written into the tree.

    Args:
        found: the plain wheel.
        tree: the source's tree, as the build left it.
        source: says where the tree stands in the image.
        scratch: a folder of this run.

    Raises:
        BuildError: the wheel's packages lie in no one folder of the source, so that no path leads to them.
    """
    origin = f"the wheel that was built of {source.name}"
    project = tree / source.subdirectory
    target = scratch / "editable" / found.name
    target.parent.mkdir()
    with zips.open_zip(found, origin) as (archive, members), zipfile.ZipFile(target, "w") as out:
        modules = [name for name in members if not name.partition("/")[0].endswith((".dist-info", ".data"))]
        root = _root_of(modules, archive, project, source, origin)
        for name in modules:
            executable = bool((members[name].external_attr >> 16) & 0o111)
            _place(project / root / name, project, archive.read(members[name]), executable, origin)
        for name in members.keys() - set(modules):
            out.writestr(members[name], archive.read(members[name]))
        place = "/".join(part for part in (source.path, source.subdirectory, root) if part)
        out.writestr(f"__editable__.{source.name}.pth", f"{place}\n")
    return target


def _root_of(
    modules: Iterable[str], archive: zipfile.ZipFile, project: Path, source: Source, origin: str
) -> str:
    """Return the folder of the project in which the Python files of the wheel lie as they are."""
    python = [name for name in modules if name.endswith(".py")]
    if not python:
        return ""
    for root in _ROOTS:
        there = [name for name in python if _inside(project / root / name, project)]
        if there and all((project / root / name).read_bytes() == archive.read(name) for name in there):
            return root
    raise BuildError(
        f"{origin} has its packages in no one folder of the source, so nothing can lead to them there",
        hint=f"install {source.name} from its repository without `-e`, and capture again",
    )


def _inside(path: Path, project: Path) -> bool:
    """Tell whether a file is there, and in the project: a build may have left links."""
    return path.is_file() and path.resolve().is_relative_to(project.resolve())


def _place(path: Path, project: Path, content: bytes, executable: bool, origin: str) -> None:
    """Write a file of the wheel that the source lacks."""
    if _inside(path, project):
        return
    try:
        make_folder(path.parent)
        if not path.parent.resolve().is_relative_to(project.resolve()):
            raise FileExistsError
        with path.open("xb") as stream:
            stream.write(content)
    except (FileExistsError, NotADirectoryError):
        raise BuildError(
            f"{origin} has {path.relative_to(project)}, in whose place the source has something else",
            hint="leave a clean work tree behind before the capture: `git clean -xd` lists what is in the way",
        ) from None
    path.chmod(0o755 if executable else 0o644)
