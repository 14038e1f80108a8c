"""Report of the comparison of two environments.

It has the most likely cause, three tables, and the parts that were not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reprobuild.compare.environments.comparison import (
    NEITHER,
    EnvironmentComparison,
    EnvironmentDifference,
    NotCompared,
)
from reprobuild.compare.environments.entries import EntryChanges, compare_entries
from reprobuild.compare.environments.model import Kind
from reprobuild.infra.columns import align
from reprobuild.report.difference import safe_text

# Most lines of one table, and names of one line, unless everything is asked for.
SHOWN = 40
NAMES = 6
# Most entries of one list in a line, likewise.
ENTRIES = 4
LONGEST = 96
LONGEST_NAME = 48
# Characters to show of a common start.
SHOWN_BEFORE = 8
_WITH_LISTS: tuple[Kind, ...] = ("environment", "gpu", "machine")
_EMPTY = "(empty)"
# The start of a digest, or of the id of a commit or tree, identifies it.
_DIGEST = re.compile(r"\b([0-9a-f]{12})[0-9a-f]{28,52}\b")
_WORDS: dict[Kind, str] = {
    "python": "distributions of Python",
    "conda": "other packages of conda",
    "system": "system packages",
    "environment": "variables",
    "module": "modules",
    "source": "repositories of what is installed",
    "job": "the job's own repositories",
    "gpu": "GPU and driver",
    "machine": "processor, kernel and limits",
    "release": "release of the system",
    "recipe": "settings of the lock",
    "choices": "saved choices of compilers",
    "realised": "what the lock was sealed with",
}


def render_comparison(comparison: EnvironmentComparison, *, everything: bool = False, width: int = 0) -> str:
    """Return the report of `compare`.

    Names and values are escaped, and long ones shortened.

    Args:
        comparison: the differences.
        everything: list all, noise included.
        width: of the terminal in columns, for its tables; 0 leaves each row on one line.
    """
    noise = sum(difference.noise for difference in comparison.differences)
    shown = [difference for difference in comparison.differences if everything or not difference.noise]
    grave = sum(item.grave for item in comparison.not_compared)
    lines = list(_headline_lines(shown, noise, _describe_scope(comparison), grave))
    lines += [
        "",
        f"A  {safe_text(comparison.one.name)} ({comparison.one.form})",
        f"B  {safe_text(comparison.other.name)} ({comparison.other.form})",
    ]
    plain = [difference for difference in shown if not difference.left_out]
    tables = [
        ("differ", [d for d in plain if d.one is not None and d.other is not None]),
        ("only in A", [d for d in plain if d.other is None]),
        ("only in B", [d for d in plain if d.one is None]),
    ]
    tables.sort(key=lambda table: table[1][0].rank if table[1] else 0)
    tables += [
        ("left out of B by its lock", [d for d in shown if d.left_out and d.other is None]),
        ("left out of A by its lock", [d for d in shown if d.left_out and d.one is None]),
    ]
    for title, rows in tables:
        if rows:
            lines += ["", f"{title}: {len(rows)}", *_table_lines(rows, None if everything else SHOWN, width)]
    if noise and shown and not everything:
        lines += [
            "",
            f"noise: {noise} more differ, of the session, the job or the host: --verbose lists them",
        ]
    if comparison.not_compared:
        lines += [
            "",
            "not compared:",
            *_not_compared_lines(comparison.not_compared, None if everything else NAMES),
        ]
    return "\n".join(lines)


def _describe_scope(comparison: EnvironmentComparison) -> str:
    """Describe the scope of a comparison of two locks.

    The text is empty for other comparisons. Of an output directory, only the lock is read.
    """
    if not comparison.one.form == comparison.other.form == "lock":
        return ""
    half = any(
        item.kind == "realised" and item.reason != NEITHER and not item.names
        for item in comparison.not_compared
    )
    return f" between the two locks{', of which one is not sealed' if half else ''}; no image was read"


def _headline_lines(
    shown: Sequence[EnvironmentDifference], noise: int, between: str, grave: int
) -> Iterator[str]:
    doubt = f"; in doubt: {grave} of the things that were not compared, see below" if grave else ""
    if shown:
        first = next((difference for difference in shown if not difference.left_out), shown[0])
        where = ", only in A" if first.other is None else ", only in B" if first.one is None else ""
        yield f"likeliest: {safe_text(first.name, LONGEST_NAME)}{where}: {_format_values(first)} ({first.reason})"
    elif noise:
        summary = f"{noise}, of the session, the job or the host: --verbose lists them"
        yield f"no difference but noise{between}: {summary}{doubt}"
    else:
        yield f"no difference{between}{doubt}"


def _table_lines(rows: Sequence[EnvironmentDifference], most: int | None, width: int) -> Iterator[str]:
    cells = [
        (
            row.kind,
            safe_text(row.name, LONGEST_NAME),
            _format_values(row, most and ENTRIES),
            _describe_reason(row),
        )
        for row in rows[:most]
    ]
    yield from (f"  {line}" for line in align(cells, width=max(0, width - 2)))
    if len(rows) > len(cells):
        yield f"  ... and {len(rows) - len(cells)} more: --verbose or --json lists them"


def _describe_reason(difference: EnvironmentDifference) -> str:
    """Return the reason of the rank, and the note.

    For a line on one side only, the note replaces the reason.
    """
    note = safe_text(difference.note)
    if difference.one is None or difference.other is None:
        return note or difference.reason
    return f"{difference.reason}; {note}" if note else difference.reason


def _format_values(difference: EnvironmentDifference, most: int | None = ENTRIES) -> str:
    """Return both values, or the differing entries of two lists, at most `most` of each sort."""
    first, second = (value and _DIGEST.sub(r"\1", value) for value in (difference.one, difference.other))
    if first is None or second is None:
        return safe_text(first or second or "", LONGEST) or _EMPTY
    # Channels and fields of a lock hold addresses, which are not lists.
    changes = compare_entries(difference.name, first, second) if difference.kind in _WITH_LISTS else None
    if changes is None:
        return " -> ".join(
            safe_text(value, LONGEST // 2) or _EMPTY for value in _strip_common_start(first, second)
        )
    return _format_changes(changes, most)


def _format_changes(changes: EntryChanges, most: int | None) -> str:
    """Return the entries that make two lists differ, at most `most` of each sort."""
    moved = [
        f"{safe_text(row.entry, LONGEST // 2)} (from {row.first} to {row.second})"
        for row in changes.moved[:most]
    ]
    parts = [
        f"{title} {shown}{f' and {total - most} more' if most and total > most else ''}"
        for title, shown, total in (
            ("only A", _join_entries(changes.removed[:most]), len(changes.removed)),
            ("only B", _join_entries(changes.added[:most]), len(changes.added)),
            ("moved", ", ".join(moved), len(changes.moved)),
            ("more often in A", _join_entries(changes.fewer[:most]), len(changes.fewer)),
            ("more often in B", _join_entries(changes.more[:most]), len(changes.more)),
        )
        if total
    ]
    return ", ".join(parts) or "the same entries, between other separators"


def _join_entries(entries: Sequence[str]) -> str:
    return ":".join(safe_text(entry, LONGEST // 2) for entry in entries)


def _strip_common_start(first: str, second: str) -> tuple[str, str]:
    """Return two values without a long common start.

    The start of long values would hide the difference.
    """
    if max(len(first), len(second)) <= LONGEST // 2:
        return first, second
    pairs = enumerate(zip(first, second, strict=False))
    parting = next((index for index, (a, b) in pairs if a != b), min(len(first), len(second)))
    start = max(0, parting - SHOWN_BEFORE)
    return (f"...{first[start:]}", f"...{second[start:]}") if start else (first, second)


def _not_compared_lines(unsaid: Sequence[NotCompared], most: int | None) -> Iterator[str]:
    unsaid = sorted(unsaid, key=lambda item: not item.grave)
    neither = [_kind_text(item) for item in unsaid if item.reason == NEITHER]
    for item in unsaid:
        if item.reason != NEITHER:
            names = ", ".join(safe_text(name, LONGEST_NAME) for name in item.names[:most])
            more = ", ..." if len(item.names) > len(item.names[:most]) else ""
            detail = f" ({len(item.names)}: {names}{more})" if item.names else ""
            doubt = "in doubt: " if item.grave else ""
            yield f"  {doubt}{_kind_text(item)}: {safe_text(item.reason)}{detail}"
    if neither:
        yield f"  {NEITHER}: {'; '.join(neither)}"


def _kind_text(item: NotCompared) -> str:
    return "files of the snapshot" if item.kind == "file" else _WORDS.get(item.kind, item.kind)
