"""Checks of an unpacked package, and its new description.

Rattler then reads only metadata that was written here. Rattler (0.28) does not check the following, seen in
tests/conda/test_hostile.py: the hash of a package that comes from the disk; a row of paths.json whose file is
a link, which it reads through, to any file of this machine; names that lead out.
"""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.conda.package import (
    IndexJson,
    Linking,
    Noarch,
    PathRow,
    Paths,
    decode_document,
    document_lines,
    encode_json,
    split_filename,
)
from reprobuild.errors import BuildError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.names import HOSTILE, check_path
from reprobuild.infra.untrusted.regular_files import open_plain

_MOST_INFO = 64 << 20
# conda_build/post.py: the meaning of packages of 2012 to 2016 without a placeholder of their own.
_OLD_PLACEHOLDER = "/opt/anaconda1anaconda2anaconda3"
_ENTRY_POINT = re.compile(
    r"\s*(?P<name>[A-Za-z0-9_][\w.-]*)\s*=\s*[A-Za-z_][\w.]*(\s*:\s*[A-Za-z_][\w.]*)?\s*"
)
# Rattler's own files in a prefix; `__clobbers__` holds files replaced by those of another package.
_OURS = re.compile(r"conda-meta(/[^/]*\.json|/history)?|info(/.*)?|__clobbers__(/.*)?|CACHEDIR\.TAG")


class Unpacked(Struct, frozen=True, kw_only=True):
    """A package in a directory, ready for linking.

    `places` are {path in the prefix: its path type}.
    """

    index: IndexJson
    places: dict[str, str]


def prepare_package(folder: Path, filename: str, target: str, python: str) -> Unpacked:
    """Check an unpacked package, and replace its `info`.

    The new `info` has only checked content.

    Args:
        folder: the directory of the unpacked package.
        filename: the package's name for the user.
        target: the prefix that its files will name.
        python: the `X.Y` of the environment, for packages of Python that fit every one.

    Raises:
        BuildError: it is malicious or damaged.
    """
    origin = f"the package {filename}"
    documents = dict(_read_documents(folder, origin))
    index = decode_document(documents, "index.json", IndexJson, origin)
    if (index.name, index.version, index.build) != split_filename(filename):
        raise BuildError(f"{origin} holds {index.name} {index.version} {index.build}", hint=HOSTILE)
    linking = (
        decode_document(documents, "link.json", Linking, origin) if "link.json" in documents else Linking()
    )
    for_python = index.kind == "python"
    rows = [_correct_row(row, folder, target, origin) for row in _list_rows(documents, origin)]
    places: dict[str, str] = {}
    for row in rows:
        place = _installed_path(row.path, python) if for_python else row.path
        if place in places or _OURS.fullmatch(place):
            raise BuildError(
                f"{origin} lists {display_text(row.path)} twice, or it is not a package's to write",
                hint=HOSTILE,
            )
        places[place] = row.path_type
    _check_links(folder, dict(zip(places, rows, strict=True)), origin)
    points = linking.noarch.entry_points if for_python and linking.noarch else ()
    for point in points:
        match = _ENTRY_POINT.fullmatch(point)
        if match is None:
            raise BuildError(f"{origin} has the entry point {point[:100]!r}", hint=HOSTILE)
        if places.setdefault(f"bin/{match['name']}", "hardlink") != "hardlink":
            raise BuildError(f"{origin} has bin/{match['name']} as a link and an entry point", hint=HOSTILE)
    shutil.rmtree(folder / "info")
    (folder / "info").mkdir()
    (folder / "info" / "index.json").write_bytes(encode_json(index))
    (folder / "info" / "paths.json").write_bytes(
        encode_json(Paths(paths=tuple(sorted(rows, key=lambda r: r.path))))
    )
    if for_python:
        link = Linking(noarch=Noarch(type="python", entry_points=points))
        (folder / "info" / "link.json").write_bytes(encode_json(link))
    return Unpacked(index=index, places=places)


def check_together(packages: Mapping[str, Unpacked]) -> None:
    """Refuse packages with a file in place of another's directory.

    A link there would lead elsewhere.

    Raises:
        BuildError: with both names.
    """
    owner: dict[str, str] = {}
    for filename in sorted(packages):
        for place, kind in packages[filename].places.items():
            if kind != "directory":
                owner.setdefault(place, filename)
    for filename in sorted(packages):
        for place in packages[filename].places:
            above = posixpath.dirname(place)
            while above:
                if above in owner:
                    raise BuildError(
                        f"{filename} has {place}, and {above} is a file or link of {owner[above]}",
                        hint=HOSTILE,
                    )
                above = posixpath.dirname(above)


def _read_documents(folder: Path, origin: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name, content) of a package's metadata; links are refused."""
    if (folder / "info").is_symlink():
        raise BuildError(f"{origin} has a link in the place of its facts", hint=HOSTILE)
    for name in ("index.json", "paths.json", "link.json", "files", "has_prefix"):
        if not os.path.lexists(folder / "info" / name):
            continue
        try:
            stream, size = open_plain(folder / "info" / name, links=False)
        except OSError:
            raise BuildError(f"{origin} has an info/{name} that is no file", hint=HOSTILE) from None
        with stream:
            if size > _MOST_INFO:
                raise BuildError(f"{origin} has an info/{name} of {size} bytes", hint=HOSTILE)
            yield name, stream.read()


def _list_rows(documents: dict[str, bytes], origin: str) -> Iterable[PathRow]:
    """Return the rows of `paths.json`, or of older files.

    Packages from before it have `files` and `has_prefix`.
    """
    if "paths.json" in documents:
        return decode_document(documents, "paths.json", Paths, origin).paths
    prefixed: dict[str, dict[str, Any]] = {}
    for line in document_lines(documents, "has_prefix", origin):
        parts = [part.strip("\"'") for part in line.split()]
        if len(parts) == 3:
            prefixed[parts[2]] = {"file_mode": parts[1], "prefix_placeholder": parts[0]}
        elif parts:
            prefixed[parts[0]] = {"file_mode": "text", "prefix_placeholder": _OLD_PLACEHOLDER}
    names = document_lines(documents, "files", origin)
    return [PathRow(path=name, path_type="hardlink", **prefixed.get(name, {})) for name in names if name]


def _correct_row(row: PathRow, folder: Path, target: str, origin: str) -> PathRow:
    """Return a row corrected by the file itself.

    A link is recorded as a link, and no prefix is written into it.
    """
    check_path(row.path, origin)
    try:
        mode = (folder / row.path).lstat().st_mode
    except OSError:
        raise BuildError(
            f"{origin} lists {display_text(row.path)}, which is not in it", hint=HOSTILE
        ) from None
    if stat.S_ISREG(mode):
        _check_placeholder(row, target, origin)
        return msgspec.structs.replace(row, path_type="hardlink")
    kind = "softlink" if stat.S_ISLNK(mode) else "directory"
    return PathRow(path=row.path, path_type=kind)


def _check_placeholder(row: PathRow, target: str, origin: str) -> None:
    if (row.file_mode is None) != (row.prefix_placeholder is None) or row.file_mode not in (
        None,
        "text",
        "binary",
    ):
        raise BuildError(
            f"{origin} names a prefix of {display_text(row.path)} in an unknown way", hint=HOSTILE
        )
    placeholder = row.prefix_placeholder
    if placeholder is not None and (
        not placeholder or (row.file_mode == "binary" and len(placeholder) < len(target))
    ):
        raise BuildError(
            f"{origin} has the prefix {placeholder!r} in {display_text(row.path)}, and {target} does not fit there",
            hint=HOSTILE,
        )


def _check_links(folder: Path, rows: Mapping[str, PathRow], origin: str) -> None:
    """Refuse links that leave the prefix, and rows below links."""
    folders = {above for place, row in rows.items() for above in _list_parents(place, row)}
    real: set[str] = {""}
    for place, row in rows.items():
        above = posixpath.dirname(row.path)
        steps = []
        while above not in real:
            steps.append(above)
            above = posixpath.dirname(above)
        for step in steps:
            if (folder / step).is_symlink():
                raise BuildError(
                    f"{origin} has {display_text(row.path)} below the link {display_text(step)}", hint=HOSTILE
                )
        real.update(steps)
        if row.path_type == "softlink":
            target = str((folder / row.path).readlink())
            if not _leads_inside(posixpath.dirname(place), target, folders):
                raise BuildError(
                    f"{origin} has {display_text(row.path)}, a link to {target!r} outside of the prefix",
                    hint=HOSTILE,
                )


def _list_parents(place: str, row: PathRow) -> Iterator[str]:
    """Yield the directories that a row needs.

    The prefix is among them as the empty path.
    """
    yield from (place,) if row.path_type == "directory" else ()
    while place:
        place = posixpath.dirname(place)
        yield place


def _leads_inside(folder: str, target: str, folders: Collection[str]) -> bool:
    """Return whether a link in the prefix leads inside it.

    It is followed as the kernel does. `..` after another link leads to the target of that link, so it counts
    only after directories of the package; `check_together` makes sure that no other package has a link there.
    """
    place = folder
    for step in target.split("/"):
        if step == "..":
            if not place or place not in folders:
                return False
            place = posixpath.dirname(place)
        elif step not in ("", "."):
            place = posixpath.join(place, step)
    return not target.startswith("/")


def _installed_path(path: str, python: str) -> str:
    """Return the installed path of a noarch package's file.

    https://github.com/conda/ceps/blob/main/cep-0020.md
    """
    if path.startswith("site-packages/"):
        return f"lib/python{python}/{path}"
    return f"bin/{path.removeprefix('python-scripts/')}" if path.startswith("python-scripts/") else path
