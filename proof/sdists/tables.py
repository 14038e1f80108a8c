"""The figures of the experiment on old releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from proof.sdists.cases import NAMES
from proof.sdists.outcome import CLASSES, COLLECTION, PASSED

ENOUGH = 100  # cases
HEAD = ("release", "day", "Python", "newest", "reason", "as of the day", "reason")


def cases_of(found: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the candidates that are cases."""
    return [row for row in found if "newest" in row]


def count_classes(found: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return how many cases have each outcome with the newest versions, and with those of the day."""
    cases = cases_of(found)
    newest, ours = (Counter(row[way]["outcome"] for row in cases) for way in ("newest", "as of"))
    return [[name, str(newest[name]), str(ours[name])] for name in CLASSES]


def count_pairs(found: Iterable[Mapping[str, Any]]) -> Counter[tuple[bool, bool]]:
    """Return how many cases pass with the newest versions, and with those of the day."""
    return Counter(
        (row["newest"]["outcome"] == PASSED, row["as of"]["outcome"] == PASSED) for row in cases_of(found)
    )


def count_uncollected(found: Iterable[Mapping[str, Any]]) -> int:
    """Return how many cases have the same collection error both ways: the archive does not state all they need."""
    return sum(
        row["newest"] == row["as of"] and row["newest"]["outcome"] == COLLECTION for row in cases_of(found)
    )


def describe(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the figures in sentences."""
    pairs, skipped = count_pairs(found), Counter(row["skipped"] for row in found if "skipped" in row)
    count = sum(pairs.values())
    newest, ours = pairs[True, True] + pairs[True, False], pairs[True, True] + pairs[False, True]
    reasons = ", ".join(f"{name} {number}" for name, number in sorted(skipped.items()))
    return (
        f"Of {count} releases, {newest} ({newest / max(1, count):.0%}) pass with today's newest versions, and {ours} "
        f"({ours / max(1, count):.0%}) with those of the day. {pairs[True, True]} pass both ways, "
        f"{pairs[False, True]} only with those of the day, {pairs[True, False]} only with the newest, "
        f"{pairs[False, False]} in no way; of these, {count_uncollected(found)} have the same collection error both "
        f"ways. Of the first {len(found)} of {len(NAMES)} candidates, {sum(skipped.values())} are no case: "
        f"{reasons or 'none'}."
    )


def list_failures(found: Iterable[Mapping[str, Any]]) -> list[list[str]]:
    """Return a row for each case that does not pass both ways."""
    return [
        [
            f"{row['project']} {row['version']}", row["day"], row["python"],
            *(cell for way in ("newest", "as of") for cell in (row[way]["outcome"], row[way].get("reason", ""))),
        ]
        for row in cases_of(found) if {row["newest"]["outcome"], row["as of"]["outcome"]} != {PASSED}
    ]  # fmt: skip


def held(found: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether there are enough cases, and more of them pass with the versions of the day."""
    pairs = count_pairs(found)
    return sum(pairs.values()) >= ENOUGH and pairs[False, True] > pairs[True, False]
