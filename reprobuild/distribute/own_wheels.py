"""Wheels of reprobuild and its dependencies, from the installed files.

They are made from the installed files, without a query to an index.
https://packaging.python.org/en/latest/specifications/binary-distribution-format/ and
recording-installed-packages/
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path, PurePosixPath

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reprobuild.errors import DistributionError
from reprobuild.recipe import render

NAME = "reprobuild"
# Files that an installation writes, and that no wheel has.
_OF_THE_INSTALLATION = ("INSTALLER", "REQUESTED", "RECORD", "RECORD.jws", "direct_url.json")
_INSTALL = "install reprobuild with pip into an environment of its own, and bundle with that"
# An installer replaces `#!python` by the interpreter's path, or, if that is too long or has a blank, by three
# lines of a shell that starts it.
_PYTHON = rb"[^\r\n]*/(?:python|pypy)[\d.]*"
_SHEBANG = re.compile(rb"\A#!" + _PYTHON + rb"(?=[ \t\r\n]|\Z)")
_BY_SHELL = re.compile(
    rb"\A#!/bin/sh\r?\n\'\'\'exec\' " + _PYTHON + rb"['\"]* \"\$0\" \"\$@\"\r?\n' \'\'\'(?=\r?\n)"
)
_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can hold
_PACKED = zipfile.ZIP_DEFLATED
_LEVEL = 1  # some hundred megabytes of machine code: higher levels take five times as long for a tenth less


def write_own_wheels(folder: Path) -> list[Path]:
    """Write the wheels of reprobuild and its dependencies.

    The result is sorted.

    Args:
        folder: made for them.

    Raises:
        DistributionError: a distribution is missing, or its files are unknown: it was not installed by pip or uv.
    """
    folder.mkdir(parents=True)
    return sorted(_write_wheel(folder, dist) for dist in _required_distributions())


def _required_distributions() -> list[Distribution]:
    dists: dict[str, Distribution] = {}
    waiting = [NAME]
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in dists:
            continue
        try:
            dists[name] = distribution(name)
        except PackageNotFoundError:
            raise DistributionError(
                f"{name} is not installed, and reprobuild needs it", hint=_INSTALL
            ) from None
        needs = (Requirement(text) for text in dists[name].requires or ())
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return list(dists.values())


def _write_wheel(folder: Path, dist: Distribution) -> Path:
    name, version = canonicalize_name(dist.name).replace("-", "_"), dist.version
    info = f"{name}-{version}.dist-info"
    is_reprobuild = canonicalize_name(dist.name) == NAME
    content = dict(
        _own_files(dist, info) if is_reprobuild else _recorded_files(dist, info, f"{name}-{version}.data")
    )
    path = folder / f"{name}-{version}-{_wheel_tag(content[f'{info}/WHEEL'].decode())}.whl"
    rows = [f'"{file}",sha256={_record_hash(data)},{len(data)}\n' for file, data in sorted(content.items())]
    content[f"{info}/RECORD"] = ("".join(rows) + f"{info}/RECORD,,\n").encode()
    with zipfile.ZipFile(path, "w") as archive:
        for file, data in sorted(content.items()):
            member = zipfile.ZipInfo(file, _TIME)
            member.external_attr = (0o100755 if ".data/scripts/" in file else 0o100644) << 16
            archive.writestr(member, data, _PACKED, _LEVEL)
    return path


def _record_hash(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _wheel_tag(wheel: str) -> str:
    """Return the compressed tag of a WHEEL file's lines."""
    tags = [tag.split("-") for tag in Parser().parsestr(wheel).get_all("Tag", [])]
    return "-".join(".".join(dict.fromkeys(part)) for part in zip(*tags, strict=True))


def _recorded_files(dist: Distribution, info: str, data: str) -> Iterator[tuple[str, bytes]]:
    """Yield a distribution's files by RECORD, without the installation's own."""
    if dist.files is None:
        raise DistributionError(f"which files {dist.name} has is not known", hint=_INSTALL)
    scripts = {point.name for point in dist.entry_points if point.group.endswith("_scripts")}
    for file in dist.files:
        path = PurePosixPath(file.as_posix())
        if path.suffix == ".pyc" or (
            path.parent.suffix == ".dist-info" and path.name in _OF_THE_INSTALLATION
        ):
            continue
        if ".." in path.parts:
            if path.parent.name == "bin" and path.name not in scripts:
                yield f"{data}/scripts/{path.name}", _restore_shebang(Path(str(file.locate())).read_bytes())
            continue
        name = (
            f"{info}/{path.relative_to(path.parts[0])}" if path.parts[0].endswith(".dist-info") else str(path)
        )
        yield name, Path(str(file.locate())).read_bytes()


def _restore_shebang(script: bytes) -> bytes:
    """Return a script as in a wheel, with `#!python` restored.

    The installer writes the interpreter into it, and here that is ours.
    """
    return _SHEBANG.sub(b"#!python", _BY_SHELL.sub(b"#!python", script))


def _own_files(dist: Distribution, info: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files of reprobuild, wherever it runs from.

    A checkout has no list of them.
    """
    for package in (NAME, "reprobuild_portable", "reprobuild_runtime"):
        root = Path(str(files(package)))
        for path in sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield f"{package}/{path.relative_to(root).as_posix()}", path.read_bytes()
    folder = render.template_folder()
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{NAME}/recipe/templates/{path.relative_to(folder).as_posix()}", path.read_bytes()
    for name in ("METADATA", "entry_points.txt"):
        yield f"{info}/{name}", (dist.read_text(name) or "").encode()
    yield (
        f"{info}/WHEEL",
        b"Wheel-Version: 1.0\nGenerator: reprobuild\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    )
