"""The ranked differences of two environments, in three tables.

It also lists the facts that could not be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Literal

from msgspec import Struct

from reprobuild.compare.environments.evidence import Doubted, find_unproven
from reprobuild.compare.environments.model import (
    ASPECTS,
    HASHES,
    Aspect,
    Aspects,
    Environment,
    Kind,
    UnreadLine,
    differs_in_build,
    find_kinds,
    same_statement,
    shorten_value,
)
from reprobuild.compare.environments.origin import CONDA, INDEX, same_file_name
from reprobuild.compare.environments.ranking import rank_difference, rank_last
from reprobuild.lock.diff import uncovered_changes

SECRET = "(secret)"
UNKNOWN = "(there)"
NEITHER = "not known of either side"
# Aspects with several possible values, of which one is installed.
_CHOICES: dict[Aspect, str] = {
    "sha256": "both tell several files, of which some are the same; which was installed is not told",
    "channel": "both tell several channels, of which some are the same; which brought it is not told",
}
# Aspects that are shown without their name.
_PLAIN = ("version", "value")


class EnvironmentDifference(Struct, frozen=True, kw_only=True):
    """A difference between two environments.

    `rank` counts from 1, the likeliest to change numbers or speed, and `group` and `reason` explain it. `one` and
    `other` are None if that side lacks it; secrets have no values. `aspects` are those that differ if both have it.
    `noise` differs between any two jobs of one environment. `note` has further facts. `left_out`: a lock excluded it.
    """

    rank: int
    group: str
    reason: str
    kind: Kind
    name: str
    one: str | None
    other: str | None
    aspects: tuple[Aspect, ...] = ()
    noise: bool = False
    note: str = ""
    left_out: bool = False


class NotCompared(Struct, frozen=True, kw_only=True):
    """Facts that were not compared, and the reason.

    They are a kind, or names in it. `kind` is `file` for files of a snapshot. `grave`: both sides may differ there.
    """

    kind: Kind | Literal["file"]
    reason: str
    names: tuple[str, ...] = ()
    grave: bool = False


class ComparedSide(Struct, frozen=True, kw_only=True):
    """A side: the user's name for it, and its form."""

    name: str
    form: str


class EnvironmentComparison(Struct, frozen=True, kw_only=True):
    """The comparison of two environments.

    Each table is sorted by rank, then by name.
    """

    one: ComparedSide
    other: ComparedSide
    differ: tuple[EnvironmentDifference, ...]
    only_in_one: tuple[EnvironmentDifference, ...]
    only_in_other: tuple[EnvironmentDifference, ...]
    not_compared: tuple[NotCompared, ...]

    @property
    def differences(self) -> list[EnvironmentDifference]:
        """All differences, likeliest first."""
        return sorted(chain(self.differ, self.only_in_one, self.only_in_other), key=_sort_key)

    @property
    def is_same(self) -> bool:
        """Whether only noise differs."""
        return all(difference.noise for difference in self.differences)


def _sort_key(difference: EnvironmentDifference) -> tuple[int, str, str]:
    return difference.rank, difference.kind, difference.name


def compare_sides(first: Environment, second: Environment) -> EnvironmentComparison:
    """Return the differences of two environments."""
    differences: list[EnvironmentDifference] = []
    unsaid: list[NotCompared] = []
    for kind in find_kinds(first, second):
        outcome = _compare_kind(kind, first, second)
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
    differences += map(_unproven_difference, find_unproven(first, second))
    differences += _compare_fields(first, second, differences)
    differences.sort(key=_sort_key)
    return EnvironmentComparison(
        one=ComparedSide(name=first.name, form=first.form), other=ComparedSide(name=second.name, form=second.form),
        differ=tuple(d for d in differences if d.one is not None and d.other is not None),
        only_in_one=tuple(d for d in differences if d.other is None),
        only_in_other=tuple(d for d in differences if d.one is None),
        not_compared=tuple(unsaid),
    )  # fmt: skip


def _unproven_difference(doubt: Doubted) -> EnvironmentDifference:
    """Return the difference of a thing with an unproven id.

    Both sides state one id, and the files do not prove it.
    """
    place, rule = rank_difference(doubt.kind, doubt.name)
    return EnvironmentDifference(
        rank=place, group=rule.group, reason=rule.reason, kind=doubt.kind, name=doubt.name, one=doubt.one,
        other=doubt.other, note=doubt.note,
    )  # fmt: skip


def _compare_fields(
    first: Environment, second: Environment, differences: Iterable[EnvironmentDifference]
) -> Iterator[EnvironmentDifference]:
    """Yield the differences of two locks beyond the facts.

    The same facts do not make the same image.
    """
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
            kind=kind, reason=f"{number} more lines of {called} are of names that stand there before",
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


def _compare_kind(
    kind: Kind, first: Environment, second: Environment
) -> NotCompared | tuple[list[EnvironmentDifference], list[NotCompared]]:  # fmt: skip
    if kind not in first.known and kind not in second.known:
        return NotCompared(kind=kind, reason=NEITHER)
    for called, side in (("A", first), ("B", second)):
        if kind not in side.known:
            return NotCompared(kind=kind, reason=f"{called} does not tell of it")
    compared = _Kind(kind, first, second)
    differences = list(compared.differences())
    return differences, list(compared.list_uncompared())


class _Kind:
    """The comparison of one kind that both sides know.

    It also keeps the facts that cannot be compared.
    """

    def __init__(self, kind: Kind, first: Environment, second: Environment) -> None:
        self._kind, self._one, self._other = kind, first, second
        self._left: dict[str, list[str]] = {}
        self._grave: set[str] = set()

    def differences(self) -> Iterator[EnvironmentDifference]:
        first, second = self._one.known[self._kind], self._other.known[self._kind]
        for name in sorted({*first, *second}):
            first_aspects, second_aspects = first.get(name), second.get(name)
            if first_aspects is not None and second_aspects is not None:
                difference = self._compare_aspects(name, first_aspects, second_aspects)
            elif first_aspects is not None:
                difference = self._compare_absent(name, first_aspects, self._other, "B")
            else:
                difference = self._compare_absent(name, second[name], self._one, "A")
            if difference:
                yield difference

    def list_uncompared(self) -> Iterator[NotCompared]:
        for reason, names in self._left.items():
            grave = reason in self._grave
            yield NotCompared(kind=self._kind, reason=reason, names=tuple(names), grave=grave)

    def _leave(self, reason: str, name: str, *, grave: bool = False) -> None:
        self._left.setdefault(reason, []).append(name)
        if grave:
            self._grave.add(reason)

    def _compare_aspects(self, name: str, first: Aspects, second: Aspects) -> EnvironmentDifference | None:
        if first == second and (first or self._kind == "module"):
            return None
        shared = [aspect for aspect in ASPECTS if aspect in first and aspect in second]
        if not shared:
            self._leave(_explain_no_comparison(self._kind, bool(first or second)), name)
            return None
        for called, tells, without in (("A", first, second), ("B", second, first)):
            for aspect in sorted(tells.keys() - without.keys()):
                if tells[aspect] not in (INDEX, CONDA):  # no fact of a distribution; conda's build is one
                    self._leave(f"only {called} tells the {aspect}", name)
        differing = [a for a in shared if not same_statement(self._kind, a, first[a], second[a])]
        if "origin" in differing and not self._elsewhere(name, first, second):
            differing.remove("origin")
        if "channel" in differing and any(a in shared and a not in differing for a in HASHES):
            differing.remove("channel")  # the same file, from any channel
        for aspect, reason in _CHOICES.items():
            several = " " in first.get(aspect, "") + second.get(aspect, "")
            if several and aspect in shared and aspect not in differing and first[aspect] != second[aspect]:
                self._leave(reason, name, grave=True)
        if "version" in differing and "series" in differing:
            differing.remove("series")  # the version contains it
        if not differing:
            return None
        built = self._kind == "python" and (
            differs_in_build(first["version"], second["version"])
            if "version" in differing
            else not {"build", "origin", "channel", *HASHES}.isdisjoint(differing)
        )
        note = "another build of one version" if built else ""
        values = [describe(self._kind, side, differing) for side in (first, second)]
        return self._difference(name, values[0], values[1], differing, note)

    def _elsewhere(self, name: str, first: Aspects, second: Aspects) -> bool:
        """Return whether two origins prove different distributions.

        If they cannot, that is recorded.
        """
        if "sha256" in first and "sha256" in second:
            return not same_statement(
                self._kind, "sha256", first["sha256"], second["sha256"]
            )  # one file, any origin
        if same_file_name(first["origin"], second["origin"]):
            self._leave("files of one name in two places, whose sha256 is not told", name, grave=True)
            return False
        sides = ("A", first, self._one, second), ("B", second, self._other, first)
        for called, aspects, side, other_aspects in sides:
            if (aspects["origin"], other_aspects["origin"]) == (INDEX, CONDA) and "conda" not in side.known:
                self._leave(f"{called} does not tell whether conda brought them", name)
                return False
        return True

    def _compare_absent(
        self, name: str, aspects: Aspects, without: Environment, called: str
    ) -> EnvironmentDifference | None:
        if name in without.unlisted.get(self._kind, ()) or self._kind in without.partial:
            self._leave(f"{called} does not list them, even where they are there", name)
            return None
        names = [a for a in ASPECTS if a in aspects and aspects[a] not in (INDEX, CONDA)]
        value = describe(self._kind, aspects, names)
        reason = without.left_out.get((self._kind, name), "")
        note = f"{called} leaves it out, {reason}" if reason else ""
        first, second = (value, None) if called == "B" else (None, value)
        last = (self._kind, name) in without.unneeded
        return self._difference(name, first, second, [], note, last, reason.startswith("excluded"))

    def _difference(
        self, name: str, first: str | None, second: str | None, aspects: list[Aspect], note: str,
        last: bool = False, left_out: bool = False,
    ) -> EnvironmentDifference:  # fmt: skip
        place, rule = rank_last() if last else rank_difference(self._kind, name)
        return EnvironmentDifference(
            rank=place, group=rule.group, reason=rule.reason, kind=self._kind, name=name, one=first, other=second,
            aspects=tuple(aspects), noise=rule.noise, note=note, left_out=left_out,
        )  # fmt: skip


def _explain_no_comparison(kind: Kind, more: bool) -> str:
    """Return why a thing of both sides was not compared; `more`: either side states more than its name."""
    if kind == "environment":
        return "values of secrets are not kept"
    return "other facts are known of A than of B" if more else "only the name is known of both"


def describe(kind: Kind, aspects: Aspects, names: Iterable[Aspect]) -> str:
    """Return the statements on a thing, in one line.

    The version or value is shown as it is, other aspects by name.
    """
    if not aspects:
        return SECRET if kind == "environment" else UNKNOWN
    return ", ".join(aspects[name] if name in _PLAIN else f"{name} {aspects[name]}" for name in names)
