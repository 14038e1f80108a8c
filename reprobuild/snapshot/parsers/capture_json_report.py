"""Report on the interpreter in `capture.json`.

Only facts that affect the image are read.
"""

from __future__ import annotations

import re
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct

from reprobuild.infra.display import display_text, escape_text
from reprobuild.infra.untrusted.strings import Line
from reprobuild.snapshot import text
from reprobuild.snapshot.model import MachineReport, ParseNote, ReportedValue, SourceLocation
from reprobuild.snapshot.parsers.capture_json import DAMAGED, NEWEST

_Short = Annotated[str, Meta(max_length=100)]


class _Python(Struct, frozen=True):
    version: Annotated[str, Meta(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,3}[0-9a-z+.-]{0,30}\Z")]
    implementation: _Short = ""
    libc: _Short = ""
    abiflags: _Short = ""
    platform: _Short = ""


class _Document(Struct, frozen=True):
    capture: int
    python: _Python | None = None  # None if that part failed
    machine: msgspec.Raw = msgspec.Raw(b"null")  # of many forms; one field is used


class _Machine(Struct, frozen=True):
    uname: tuple[Line, Line, Line, Line, Line]


class _Version(Struct, frozen=True):
    capture: int


Read = tuple[tuple[MachineReport, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "capture.json") -> Read:
    """Return the capture's report on its interpreter.

    There is no report if the capture has no facts.

    Raises:
        SnapshotError: it is of a newer version, or damaged.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).capture
        if version > NEWEST:
            raise text.parse_error(
                file,
                f"it is of version {version}, and this reprobuild reads {NEWEST}",
                "read it with the reprobuild that took it, or a newer one",
            )
        document = msgspec.json.decode(data, type=_Document)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:  # nested brackets; broken UTF-8
        raise text.parse_error(file, escape_text(str(err)), DAMAGED) from None
    python, machine = document.python, _find_machine(document)
    if python is None:
        machine_report = MachineReport(file=file, kind="capture", facts=(), machine=machine or UNSET)
        return ((machine_report,) if machine else ()), ()
    place = SourceLocation(file, data.count(b"\n", 0, max(0, data.find(b'\n "python"') + 1)) + 1)
    facts = tuple(
        ReportedValue(place=place, name=name, value=display_text(value))
        for name, value in (
            ("Python version", python.version), ("implementation", python.implementation), ("libc", python.libc)
        )
        if value
    )  # fmt: skip
    # A build between two releases adds a plus.
    known = python.version.rstrip("+") if python.implementation == "CPython" else ""
    report = MachineReport(
        file=file, kind="capture", facts=facts, python=known, libc=display_text(python.libc),
        free_threaded=True if known and "t" in python.abiflags else UNSET, machine=machine or UNSET,
    )  # fmt: skip
    return (report,), ()


def _find_machine(document: _Document) -> str:
    """Return the machine of the interpreter, or else of the kernel.

    The interpreter's form is `linux-x86_64`. The result is empty if both are unknown.
    """
    of_python = re.fullmatch(
        r"linux-([A-Za-z0-9_]{1,30})", document.python.platform if document.python else ""
    )
    if of_python:
        return of_python[1]
    try:
        uname = msgspec.json.decode(document.machine, type=_Machine).uname
    except msgspec.DecodeError:
        return ""
    return uname[4] if uname[0] == "Linux" and re.fullmatch(r"[A-Za-z0-9_]{1,30}", uname[4]) else ""
