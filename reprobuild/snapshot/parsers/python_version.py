"""Parser of `python.txt`.

It reads the output of `python -VV`, and the platform of `sysconfig` below it.
"""

from __future__ import annotations

import re

from msgspec import UNSET

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import MachineReport, ParseNote, ReportedValue, SourceLocation

# `Python 3.13.1 experimental free-threading build (main, ...) [GCC 12.2.0]`; conda and PyPy break the line.
_VERSION = re.compile(r"Python (?P<version>3\.\d{1,3}\.\d{1,3})\+?(?P<rest>\s.{0,1000})?")
_PLATFORM = re.compile(r"(?P<system>linux|macosx|win)-?(?P<rest>[A-Za-z0-9_.-]{0,60})")
_CONTINUED = re.compile(r"\[[^\]]{1,200}\]")
Read = tuple[tuple[MachineReport, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "python.txt") -> Read:
    """Return the report, if there is a version, and remarks.

    Raises:
        SnapshotError: it is not text.
    """
    rows = [row.strip() for row in text.decode_lines(data, file)]
    facts: list[ReportedValue] = []
    remarks: list[ParseNote] = list(text.empty_file_remarks(file, rows))
    for number, row in enumerate(rows, 1):
        if row and not (fact := _parse_fact(file, number, row)):
            remarks.append(_row_remark(file, number, row))
        elif row and fact:
            facts.append(fact)
    return ((_make_report(file, facts, "PyPy" in data.decode("utf-8", "replace")),) if facts else ()), tuple(
        remarks
    )


def _parse_fact(file: str, number: int, row: str) -> ReportedValue | None:
    for name, pattern in (("Python version", _VERSION), ("platform", _PLATFORM)):
        if len(row) <= text.LONGEST_ROW and pattern.fullmatch(row):
            return ReportedValue(place=SourceLocation(file, number), name=name, value=display_text(row))
    return None


def _row_remark(file: str, number: int, row: str) -> ParseNote:
    if _CONTINUED.fullmatch(row):
        return text.remark(file, number, row, "the compiler of this Python")
    return text.noise_remark(file, number, row) or text.remark(
        file, number, row, "not a line of `python -VV`", understood=False
    )


def _make_report(file: str, facts: list[ReportedValue], pypy: bool) -> MachineReport:
    values = {fact.name: fact.value or "" for fact in reversed(facts)}
    version = _VERSION.fullmatch(values.get("Python version", ""))
    machine = re.fullmatch(r"linux-([A-Za-z0-9_]{1,30})", values.get("platform", ""))
    return MachineReport(
        file=file, kind="python", facts=tuple(facts), python=version["version"] if version and not pypy else "",
        free_threaded=True if version and "free-threading" in (version["rest"] or "") else UNSET,
        machine=machine[1] if machine else UNSET,
    )  # fmt: skip
