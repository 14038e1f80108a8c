"""Causes of a difference, judged by the text of a line."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from itertools import chain, islice
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.infra.untrusted.strings import Line
from reprobuild.trace.cause import Class, DriftCause
from reprobuild.trace.line_comparison import Origin
from reprobuild.trace.line_log import read_lines

_MOST_LOGS = 1000  # of one run
_MOST_RECORDS = 2_000_000  # of all logs
_LONGEST = 200  # characters of a line's text


class DifferenceSource(Struct, frozen=True, kw_only=True):
    """A row of `sources.toml`.

    Attributes:
        words: an expression for the text of a line.
        kind: the class of the cause.
        subject: the source of the difference.
        remedy: what cures it.
    """

    words: Line
    kind: Class
    subject: Line
    remedy: Line


class SourceTable(Struct, frozen=True, kw_only=True):
    """The tables of `sources.toml`.

    Attributes:
        source: of a difference of variables.
        ending: of a difference that no variable has.
    """

    source: tuple[DifferenceSource, ...]
    ending: tuple[DifferenceSource, ...]


@cache
def read_sources() -> SourceTable:
    """Return the tables of sources."""
    return decode_toml((files("reprobuild.trace") / "sources.toml").read_bytes(), SourceTable)


def explain_origin(origin: Origin, known: DriftCause | None = None) -> DriftCause:
    """Return the cause that a line names.

    Args:
        origin: the line.
        known: the cause as the records of steps and operations show it; the line gives it a place if its text names no
            source.
    """
    names = ", ".join(origin.names[:3]) or "the way that the program takes"
    reason = f"{names} differs after this line, although the variables that it reads are the same"
    if origin.is_shared:
        return DriftCause(
            kind="host code", subject="a value that threads share", place=origin.place, text=origin.text,
            reason=f"{names} differs at this line, and other threads use it",
            remedy="protect it with a lock, and add the parts in a fixed order after all threads ended",
        )  # fmt: skip
    for source in read_sources().source:
        if re.search(source.words, origin.text):
            return DriftCause(
                kind=source.kind, subject=source.subject, place=origin.place, reason=reason, text=origin.text,
                remedy=source.remedy,
            )  # fmt: skip
    if known is not None and known.kind not in ("unknown", "host code"):
        return msgspec.structs.replace(known, place=origin.place, text=origin.text)
    return DriftCause(
        kind="host code", subject=f"the line {origin.place.rpartition('/')[2]}", place=origin.place, reason=reason,
        text=origin.text,
    )  # fmt: skip


def find_ending(folder: Path) -> DriftCause | None:
    """Return the line that ends another process, or None. Such a line explains files that alone differ.

    Raises:
        InconclusiveError: a log is damaged.
    """
    logs = islice(sorted(folder.glob("*.lines")), _MOST_LOGS)
    for record in islice(chain.from_iterable(map(read_lines, logs)), _MOST_RECORDS):
        for source in read_sources().ending:
            if record.text and re.search(source.words, record.text):
                return DriftCause(
                    kind=source.kind, subject=source.subject, place=f"{record.path}:{record.line}",
                    text=record.text[:_LONGEST], remedy=source.remedy,
                    reason="files differ and no variable does: the time decides how far the other process comes "
                    "before this line",
                )  # fmt: skip
    return None
