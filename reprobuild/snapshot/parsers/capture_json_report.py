"""Report on the interpreter in `capture.json`.

Only facts that affect the image are read.
"""

from __future__ import annotations

import re

from msgspec import UNSET

from reprobuild.infra.display import display_text
from reprobuild.snapshot.capture_document import CaptureDocument
from reprobuild.snapshot.model import MachineReport, ParseNote, ReportedValue, SourceLocation
from reprobuild.snapshot.parsers import capture_json

Read = tuple[tuple[MachineReport, ...], tuple[ParseNote, ...]]


def parse(data: bytes, file: str = "capture.json") -> Read:
    """Return the capture's report on its interpreter.

    There is no report if the capture has no facts.

    Raises:
        SnapshotError: see `capture_json.parse`.
    """
    document = capture_json.parse(data, file)
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


def _find_machine(document: CaptureDocument) -> str:
    """Return the machine of the interpreter, or else of the kernel.

    The interpreter's form is `linux-x86_64`. The result is empty if both are unknown.
    """
    of_python = re.fullmatch(
        r"linux-([A-Za-z0-9_]{1,30})", document.python.platform if document.python else ""
    )
    if of_python:
        return of_python[1]
    uname = document.machine.uname if document.machine else ()
    of_linux = len(uname) == 5 and uname[0] == "Linux" and re.fullmatch(r"[A-Za-z0-9_]{1,30}", uname[4])
    return uname[4] if of_linux else ""
