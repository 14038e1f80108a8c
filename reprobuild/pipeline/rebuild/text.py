"""Report of a rebuild for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reprobuild.pipeline.rebuild.rebuild import Level, RebuildResult, Row
from reprobuild.report.difference import render_explanation, safe


def render_rebuilt(found: RebuildResult, level: Level, *, everything: bool = False) -> str:
    """Return the digests, reasons for differences, and next steps."""
    return "\n".join(_lines(found, level, everything))


def _lines(found: RebuildResult, level: Level, everything: bool) -> Iterator[str]:
    for row in (found.lock, *found.rows):
        yield f"{row.name:<8}  {_row(row)}"
    yield from ("", *(safe(line, 600) for line in (*found.not_made, *_absent(found), *found.reasons)))
    if found.explanation:
        yield from (render_explanation(found.explanation, everything=everything), "")
    yield _verdict(found, level)
    yield (
        "what it computes is checked by: reprobuild verify "
        f"{shlex.quote(found.rebuilt)} --against {shlex.quote(found.out)}"
    )


def _row(row: Row) -> str:
    if row.damage:
        return f"{row.then}  DAMAGED, its bytes are others"
    if not row.now:
        return f"{row.then}  not made"
    return f"{row.now}  same" if row.now == row.then else f"{row.now}  DIFFERS, was {row.then}"


def _absent(found: RebuildResult) -> Iterator[str]:
    if found.absent:
        yield f"{', '.join(found.absent)}: {found.out} has the digest and no bytes of it; the digest was compared"


def _verdict(found: RebuildResult, level: Level) -> str:
    counted = found.counted(level)
    if any(row.damage for row in counted):
        return f"rebuilt in {found.rebuilt}: {found.out} does not hold the image that it states"
    if not found.same(level):
        return f"rebuilt in {found.rebuilt}: another image than {found.out} holds"
    if found.exit_code(level):
        return f"rebuilt in {found.rebuilt}: the same, as far as it was made"
    if any(row.name in found.absent for row in counted):
        return f"rebuilt in {found.rebuilt}: the digests that {found.out} states"
    beyond = "" if found.same() else f" up to its {level}"
    return f"rebuilt in {found.rebuilt}: the same image{beyond}"
