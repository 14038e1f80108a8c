"""Compare two environments in one kind of facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from reprobuild.compare.environments.comparison import NEITHER, EnvironmentDifference, NotCompared
from reprobuild.compare.environments.model import (
    ASPECTS,
    HASHES,
    Aspect,
    Aspects,
    Environment,
    Kind,
    differs_in_build,
    same_statement,
)
from reprobuild.compare.environments.origin import CONDA, INDEX, same_file_name
from reprobuild.compare.environments.ranking import rank_difference, rank_last

SECRET = "(secret)"
UNKNOWN = "(there)"
# Aspects with several possible values, of which one is installed.
_CHOICES: dict[Aspect, str] = {
    "sha256": "both record several files, of which some are the same; which was installed is not recorded",
    "channel": "both record several channels, of which some are the same; which brought it is not recorded",
}
# Aspects that are shown without their name.
_PLAIN = ("version", "value")


def compare_kind(
    kind: Kind, first: Environment, second: Environment
) -> NotCompared | tuple[list[EnvironmentDifference], list[NotCompared]]:  # fmt: skip
    """Return the differences of two sides in a kind and the facts left out, or why it cannot be compared."""
    if kind not in first.known and kind not in second.known:
        return NotCompared(kind=kind, reason=NEITHER)
    for called, side in (("A", first), ("B", second)):
        if kind not in side.known:
            return NotCompared(kind=kind, reason=f"{called} does not record it")
    compared = _KindComparison(kind, first, second)
    differences = list(compared.differences())
    return differences, list(compared.list_uncompared())


class _KindComparison:
    """The comparison of a kind that both sides record, and the facts in it that cannot be compared."""

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
        for called, side, without in (("A", first, second), ("B", second, first)):
            for aspect in sorted(side.keys() - without.keys()):
                if side[aspect] not in (INDEX, CONDA):  # no fact of a distribution; conda's build is one
                    self._leave(f"only {called} records the {aspect}", name)
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
            self._leave("files of one name in two places, whose sha256 is not recorded", name, grave=True)
            return False
        sides = ("A", first, self._one, second), ("B", second, self._other, first)
        for called, aspects, side, other_aspects in sides:
            if (aspects["origin"], other_aspects["origin"]) == (INDEX, CONDA) and "conda" not in side.known:
                self._leave(f"{called} does not state whether conda brought them", name)
                return False
        return True

    def _compare_absent(
        self, name: str, aspects: Aspects, without: Environment, called: str
    ) -> EnvironmentDifference | None:
        if name in without.unlisted.get(self._kind, ()) or self._kind in without.partial:
            self._leave(f"{called} does not list them, even if it has them", name)
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
