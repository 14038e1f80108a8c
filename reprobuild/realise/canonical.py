"""Wheels in one canonical form.

A build with equal files then gives equal bytes.

Back ends write members in directory order, with the times and modes of files. The members are stored, not deflated:
zlib and zlib-ng, which newer Pythons have, compress one content into different bytes.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
import zipfile
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name
from packaging.version import InvalidVersion, Version

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.metadata import read_metadata
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.wheels import read_wheel_filename

# The first time that a zip archive can hold.
_TIME = (1980, 1, 1, 0, 0, 0)
_WIDE = 1 << 31


def canonical_wheel(wheel_file: Path, target: Path, name: str) -> str:
    """Rewrite a wheel in canonical form; return its version.

    Members are sorted and have one time and modes 0644 or 0755, and RECORD is correct.

    Args:
        wheel_file: the wheel from a back end, which is untrusted.
        target: the path of the new one.
        name: the project that was built.

    Raises:
        BuildError: it is damaged, or its file name or metadata are not those of one version of the project.
    """
    origin = f"the wheel that was built of {name}"
    with zips.open_zip(wheel_file, origin) as (archive, members), zipfile.ZipFile(target, "w") as out:
        try:
            info, version = _identity(archive, members, wheel_file.name, name, origin)
            rows = []
            for member in sorted(members, key=lambda path: (path.startswith(info), path)):
                if not re.fullmatch(re.escape(info) + r"RECORD(\.jws|\.p7s)?", member):
                    rows.append(_copy(archive, members[member], out))
        except zips.UNREADABLE as err:
            raise BuildError(f"{origin} cannot be read: {err}", hint=HOSTILE) from None
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([*rows, (f"{info}RECORD", "", "")])
        out.writestr(_member(f"{info}RECORD", executable=False, size=0), text.getvalue())
    return version


def _identity(
    archive: zipfile.ZipFile, members: zips.Members, filename: str, name: str, origin: str
) -> tuple[str, str]:
    """Return the .dist-info path, with a slash, and the version."""
    paths = [member for member in members if re.fullmatch(r"[^/]+\.dist-info/METADATA", member)]
    try:
        project, version, _ = read_wheel_filename(filename)
        raw = read_metadata(zips.read_text(archive, members[paths[0]], origin), origin)
        identity = (canonicalize_name(raw["name"]), Version(raw["version"]))
    except (InvalidWheelFilename, InvalidVersion, IndexError, KeyError):
        raise BuildError(
            f"{origin}, {filename}, does not state its name and version",
            hint="build it by hand with `python -m build --wheel`, and look at what its back end says",
        ) from None
    if len(paths) != 1 or identity != (project, version) or project != canonicalize_name(name):
        raise BuildError(
            f"{origin} is one of {identity[0]} {identity[1]}, in a file named {filename}",
            hint=f"is {name} the name in its pyproject.toml, or setup.py?",
        )
    return paths[0].removesuffix("METADATA"), str(version)


def _copy(archive: zipfile.ZipFile, info: zipfile.ZipInfo, out: zipfile.ZipFile) -> tuple[str, str, str]:
    """Copy one member, and return its row of RECORD."""
    executable = bool((info.external_attr >> 16) & 0o111)
    digest = hashlib.sha256()
    member = _member(info.filename, executable=executable, size=info.file_size)
    with archive.open(info) as source, out.open(member, "w", force_zip64=info.file_size >= _WIDE) as target:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            target.write(chunk)
    encoded = base64.urlsafe_b64encode(digest.digest()).decode().rstrip("=")
    return info.filename, f"sha256={encoded}", str(info.file_size)


def _member(name: str, *, executable: bool, size: int) -> zipfile.ZipInfo:
    member = zipfile.ZipInfo(name, _TIME)
    member.create_system = 3  # Unix, for the modes below
    member.external_attr = (0o100755 if executable else 0o100644) << 16
    member.file_size = size
    return member
