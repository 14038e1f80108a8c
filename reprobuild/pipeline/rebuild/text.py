"""Report of a rebuild for a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from reprobuild.infra.shell_words import quote_path
from reprobuild.pipeline.rebuild.rebuild import Level, RebuildResult, Row
from reprobuild.report.difference import render_image_diff, safe_text

_SHOWN = 5  # of the outputs that were not made again


def render_rebuilt(result: RebuildResult, level: Level, *, everything: bool = False) -> str:
    """Return the digests, reasons for differences, and next steps."""
    return "\n".join(_lines(result, level, everything))


def _lines(result: RebuildResult, level: Level, everything: bool) -> Iterator[str]:
    for row in (result.lock, *result.rows):
        yield f"{row.name:<8}  {_row(row)}"
    yield from (
        "",
        *(safe_text(line, 600) for line in (*result.not_made, *_absent_lines(result), *result.reasons)),
    )
    if result.explanation:
        yield from (render_image_diff(result.explanation, everything=everything), "")
    yield from _taken_lines(result)
    yield _verdict(result, level)
    yield (
        "what it computes is checked by: reprobuild verify "
        f"{shlex.quote(result.rebuilt)} --against {shlex.quote(result.out)}"
    )


def _row(row: Row) -> str:
    if row.damage:
        return f"{row.then}  DAMAGED, its bytes are others"
    if not row.now:
        return f"{row.then}  not made"
    return f"{row.now}  same" if row.now == row.then else f"{row.now}  DIFFERS, was {row.then}"


def _absent_lines(result: RebuildResult) -> Iterator[str]:
    if result.absent:
        yield f"{', '.join(result.absent)}: {result.out} has the digest and no bytes of it; the digest was compared"


def _taken_lines(result: RebuildResult) -> Iterator[str]:
    """Yield the outputs that were not made again, and the command that makes them."""
    if result.taken:
        shown, more = result.taken[:_SHOWN], len(result.taken) - _SHOWN
        names = ", ".join(shown) + (f", and {more} more" if more > 0 else "")
        yield safe_text(
            f"{_count_taken(result)} taken as {result.out} states them, and not made again: {names}", 600
        )
        yield (
            f"this command makes them again: reprobuild rebuild {quote_path(result.out)} "
            f"-o {quote_path(f'{result.rebuilt}-afresh')} --afresh"
        )


def _count_taken(result: RebuildResult) -> str:
    count = len(result.taken)
    return "1 output of a step was" if count == 1 else f"{count} outputs of steps were"


def _verdict(result: RebuildResult, level: Level) -> str:
    counted = result.counted(level)
    if any(row.damage for row in counted):
        return f"rebuilt in {result.rebuilt}: {result.out} does not hold the image that it states"
    if not result.is_same(level) and result.is_same("tree") and "tree" not in result.absent:
        return f"rebuilt in {result.rebuilt}: the tree that {result.out} holds, packed otherwise"
    if not result.is_same(level):
        return f"rebuilt in {result.rebuilt}: another image than {result.out} holds"
    if result.exit_code(level):
        return f"rebuilt in {result.rebuilt}: the same, as far as it was made"
    if any(row.name in result.absent for row in counted):
        return f"rebuilt in {result.rebuilt}: the digests that {result.out} states"
    beyond = "" if result.is_same() else f" up to its {level}"
    taken = ", if the outputs above come out of their steps" if result.taken else ""
    return f"rebuilt in {result.rebuilt}: the same image{beyond}{taken}"
