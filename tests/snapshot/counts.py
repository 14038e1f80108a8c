"""What the corpus was read as, counted: printed at the end of a run that had it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from reprobuild.snapshot.model import ParseNote
from tests.snapshot.samples import facts

CLASSES: dict[str, Counter[str]] = {}


def count(kind: str, values: Iterable[Any], remarks: Iterable[ParseNote]) -> None:
    """Add what one file gave."""
    counts = CLASSES.setdefault(kind, Counter())
    counts["files"] += 1
    for value in facts(values):
        name = type(value).__name__.lower()
        sort = getattr(value, "kind", None) or getattr(value, "mark", None)
        counts[f"{name} {sort}" if sort else name] += 1
        counts["suspect"] += bool(getattr(value, "suspect", ""))
    for remark in remarks:
        counts["remarks" if remark.understood else "not understood"] += remark.lines


def table() -> list[str]:
    """Return a line for each kind of file: how many files, values of each class, and remarks."""
    lines = []
    for kind, counts in sorted(CLASSES.items()):
        last = ("remarks", "not understood", "suspect")
        classes = ", ".join(
            f"{counts[name]} {name}" for name in (*sorted(counts.keys() - {"files", *last}), *last)
        )
        lines.append(f"{kind:<12} {counts['files']:>3} files: {classes}")
    return lines
