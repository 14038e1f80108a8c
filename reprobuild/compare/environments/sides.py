"""Compare two environments in all kinds of facts, and rank their differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reprobuild.compare.environments.addresses import find_cut_addresses
from reprobuild.compare.environments.comparison import (
    ComparedSide,
    EnvironmentComparison,
    EnvironmentDifference,
    NotCompared,
    sort_key,
)
from reprobuild.compare.environments.evidence import Doubted, find_unproven
from reprobuild.compare.environments.kinds import compare_kind
from reprobuild.compare.environments.model import Environment, UnreadLine, find_kinds, shorten_value
from reprobuild.compare.environments.ranking import rank_difference
from reprobuild.lock.diff import uncovered_changes


def compare_sides(first: Environment, second: Environment) -> EnvironmentComparison:
    """Return the differences of two environments."""
    differences: list[EnvironmentDifference] = []
    unsaid: list[NotCompared] = []
    for kind in find_kinds(first, second):
        outcome = compare_kind(kind, first, second)
        if isinstance(outcome, NotCompared):
            unsaid.append(outcome)
        else:
            differences += outcome[0]
            unsaid += outcome[1]
    for called, side, without in (("A", first, second), ("B", second, first)):
        unsaid += [
            *_list_duplicates(side, without, called), *_doubts(side, without, called),
            *_list_unread_lines(side, without, called)
        ]  # fmt: skip
    unsaid += find_cut_addresses(
        first, second, {(difference.kind, difference.name) for difference in differences}
    )
    differences += map(_unproven_difference, find_unproven(first, second))
    differences += _compare_fields(first, second, differences)
    differences.sort(key=sort_key)
    return EnvironmentComparison(
        one=ComparedSide(name=first.name, form=first.form), other=ComparedSide(name=second.name, form=second.form),
        differ=tuple(d for d in differences if d.one is not None and d.other is not None),
        only_in_one=tuple(d for d in differences if d.other is None),
        only_in_other=tuple(d for d in differences if d.one is None),
        not_compared=tuple(unsaid),
    )  # fmt: skip


def _unproven_difference(doubt: Doubted) -> EnvironmentDifference:
    """Return the difference of a thing for which both sides state one id that the files do not prove."""
    place, rule = rank_difference(doubt.kind, doubt.name)
    return EnvironmentDifference(
        rank=place, group=rule.group, reason=rule.reason, kind=doubt.kind, name=doubt.name, one=doubt.one,
        other=doubt.other, note=doubt.note,
    )  # fmt: skip


def _compare_fields(
    first: Environment, second: Environment, differences: Iterable[EnvironmentDifference]
) -> Iterator[EnvironmentDifference]:
    """Yield the differences of two locks beyond the facts: equal facts can make another image."""
    if first.lock is None or second.lock is None:
        return
    # Noise is not shown, and in an image each variable counts.
    lines = {(difference.kind, difference.name) for difference in differences if not difference.noise}
    for field in uncovered_changes(first.lock, second.lock, lines):
        place, rule = rank_difference("recipe", field.path)
        first_value, second_value = (value and shorten_value(value) for value in (field.one, field.other))
        yield EnvironmentDifference(
            rank=place, group=rule.group, reason=rule.reason, kind="recipe", name=field.path,
            one=first_value, other=second_value,
        )  # fmt: skip


def _list_duplicates(side: Environment, without: Environment, called: str) -> list[NotCompared]:
    return [
        NotCompared(
            kind=kind, reason=f"{number} more lines of {called} repeat a name",
            grave=any(kind == repeated[0] for repeated in side.repeats - without.repeats),
        )
        for kind, number in side.doubled.items()
    ]  # fmt: skip


def _doubts(side: Environment, without: Environment, called: str) -> Iterator[NotCompared]:
    """Yield the doubts of a side, shared ones separately."""
    common = {(doubt.kind, doubt.reason, name) for doubt in without.doubts for name in doubt.names}
    for doubt in side.doubts:
        shared: dict[bool, list[str]] = {}
        for name in doubt.names:
            shared.setdefault((doubt.kind, doubt.reason, name) in common, []).append(name)
        for both, names in shared.items():
            grave = doubt.weight == "hidden" or (doubt.weight == "stated" and not both)
            reason = doubt.reason.replace("{}", called)
            yield NotCompared(kind=doubt.kind, reason=reason, names=tuple(names), grave=grave)


def _list_unread_lines(side: Environment, without: Environment, called: str) -> Iterator[NotCompared]:
    """Yield the lines that were not understood.

    Lines that are in the same file of both sides are left out.
    """
    common = {_line_key(line) for line in without.unread}
    places = [line.place for line in side.unread if not line.text or _line_key(line) not in common]
    if places:
        reason = f"{called} has lines or files that are not understood"
        yield NotCompared(kind="file", reason=reason, names=tuple(dict.fromkeys(places)), grave=True)


def _line_key(line: UnreadLine) -> tuple[str, str, str]:
    return line.kind, line.place.rpartition(":")[0], line.text
