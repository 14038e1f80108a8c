"""Parser of `rpm-packages.txt`.

It reads the list of `reprobuild capture` (name, version, machine), or of `rpm -qa`.
"""

from __future__ import annotations

import re

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import ParseNote, RpmPackage, SourceLocation

_NAME = r"[A-Za-z0-9_][A-Za-z0-9._+-]*"
_VERSION = r"(?:\d+:)?[A-Za-z0-9][A-Za-z0-9._+~^]*-[A-Za-z0-9][A-Za-z0-9._+~^]*"
_MACHINE = r"[a-z][a-z0-9_]+|\(none\)"
_ROW = re.compile(rf"(?P<name>{_NAME})\s+(?P<version>{_VERSION})\s+(?P<machine>{_MACHINE})")
_JOINED = re.compile(rf"(?P<name>{_NAME})-(?P<version>{_VERSION})\.(?P<machine>[a-z][a-z0-9_]+)")

Read = tuple[tuple[RpmPackage, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "rpm-packages.txt") -> Read:
    """Return the installed packages and remarks.

    rpm may keep several versions of one package (kernels).

    Raises:
        SnapshotError: it is not text.
    """
    rows = text.decode_lines(data, file)
    packages: dict[tuple[str, str, str], RpmPackage] = {}
    remarks: list[ParseNote] = list(text.empty_file_remarks(file, rows))
    for number, row in enumerate(rows, 1):
        line = row.strip()
        if not line:
            continue
        note = _extra_row_remark(file, number, line)
        match = None if note else _ROW.fullmatch(line) or _JOINED.fullmatch(line)
        if match:
            package = RpmPackage(
                place=SourceLocation(file, number), text=display_text(line), name=match["name"],
                version=match["version"],
                architecture="" if match["machine"] == "(none)" else match["machine"],
            )  # fmt: skip
            first = packages.setdefault((package.name, package.version, package.architecture), package)
            note = None if first is package else text.remark(file, number, line, f"repeats {first.place}")
        elif note is None:
            note = text.remark(file, number, line, "not a row of a list of rpm", understood=False)
        if note:
            remarks.append(note)
    return tuple(packages.values()), tuple(remarks)


def _extra_row_remark(file: str, number: int, line: str) -> ParseNote | None:
    if len(line) > text.LONGEST_ROW:
        return text.remark(file, number, line, "too long for a row of a package list", understood=False)
    if line.startswith("#"):
        return text.remark(file, number, line, "a comment")
    if line.startswith(("warning:", "error:")):
        return text.remark(
            file, number, line, "an error of rpm: the list may be incomplete", understood=False
        )
    return text.noise_remark(file, number, line) or text.secret_remark(file, number, line)
