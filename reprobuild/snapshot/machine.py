"""`capture.json`, of which only what decides about the image is taken: the interpreter that ran the capture."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct

from reprobuild.snapshot import text
from reprobuild.snapshot.captured import DAMAGED, NEWEST
from reprobuild.snapshot.model import Fact, Place, Remark, Report

_Short = Annotated[str, Meta(max_length=100)]


class _Python(Struct, frozen=True):
    version: Annotated[str, Meta(pattern=r"^\d{1,3}\.\d{1,3}\.\d{1,3}[0-9a-z+.-]{0,30}\Z")]
    implementation: _Short = ""
    libc: _Short = ""
    abiflags: _Short = ""


class _Document(Struct, frozen=True):
    capture: int
    python: _Python | None = None  # None where that part failed


class _Version(Struct, frozen=True):
    capture: int


Read = tuple[tuple[Report, ...], tuple[Remark, ...]]


def parse(data: bytes, file: str = "capture.json") -> Read:
    """Return what the capture said of its interpreter; no report where it said nothing.

    Raises:
        SnapshotError: it is of a newer version, or damaged.
    """
    try:
        version = msgspec.json.decode(data, type=_Version).capture
        if version > NEWEST:
            raise text.broken(
                file,
                f"it is of version {version}, and this reprobuild reads {NEWEST}",
                "read it with the reprobuild that took it, or a newer one",
            )
        python = msgspec.json.decode(data, type=_Document).python
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as err:  # nested brackets; broken UTF-8
        raise text.broken(file, text.escaped(str(err)), DAMAGED) from None
    if python is None:
        return (), ()
    place = Place(file, data.count(b"\n", 0, max(0, data.find(b'\n "python"') + 1)) + 1)
    facts = tuple(
        Fact(place=place, name=name, value=text.shown(value))
        for name, value in (
            ("Python version", python.version), ("implementation", python.implementation), ("libc", python.libc)
        )
        if value
    )  # fmt: skip
    # A build between two releases adds a plus.
    known = python.version.rstrip("+") if python.implementation == "CPython" else ""
    report = Report(
        file=file, kind="capture", facts=facts, python=known, libc=text.shown(python.libc),
        free_threaded=True if known and "t" in python.abiflags else UNSET,
    )  # fmt: skip
    return (report,), ()
