"""The choice of packages as a logic program for clingo.

It gives the system of least deviation, or a contradiction.

https://potassco.org/clingo; Spack's solver and Debian's aspcud use it, too. With one thread and one seed it gives the
same answer each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from reprobuild.ecosystems.apt.index import Candidate, SystemIndex
from reprobuild.resolve.system.alternatives import (
    Dependency,
    Fulfilment,
    Ways,
    is_later_revision,
    sort_by_preference,
)
from reprobuild.resolve.system.conflicts import Clash, Uneven, find_clashes, find_uneven_versions

if TYPE_CHECKING:
    from clingo import Control, Model

# A package is in only if a need leads to it. Each restriction has a name, for explaining a contradiction.
_RULES = """
needed(N) :- asked(N).
needed(N) :- in(C), needs(C, N).
{ in(C) : way(N, C) } :- needed(N).
met(N) :- in(C), way(N, C).
rule(asked(N)) :- asked(N).
rule(needs(C, N)) :- needs(C, N).
rule(clash(C, D)) :- clash(C, D).
rule(one(K)) :- key(C, K), key(D, K), C < D.
:- holds(asked(N)), asked(N), not met(N).
:- holds(needs(C, N)), in(C), needs(C, N), not met(N).
:- holds(clash(C, D)), in(C), in(D), clash(C, D).
:- holds(one(K)), rule(one(K)), 2 { in(C) : key(C, K) }.
"""
# Costs of a higher level come before all of a lower; docs/system.md lists them.
_BEST = """
holds(R) :- rule(R).
there(K) :- in(C), key(C, K).
wished(K) :- needed(N), first(N, K).
:~ wished(K), captured(K), not there(K). [1@6, K]
:~ in(C), other(C). [1@5, C]
:~ in(C), later(C). [1@4, C]
:~ there(K), not wished(K). [1@3, K]
:~ in(C), extra(C). [1@2, C]
:~ in(C), distance(C, D). [D@1, C]
"""
_ANY = "{ holds(R) : rule(R) }."
_OPTIONS = ("--warn=none", "--opt-strategy=usc", "--parallel-mode=1", "--seed=0")

Deviation = tuple[int, int, int]


class RequestRestriction(Struct, frozen=True):
    """A restriction: a package is requested."""

    key: str


class Needs(Struct, frozen=True):
    """A restriction: a package has a need.

    `possible` is set if any package satisfies it.
    """

    candidate: Candidate
    need: Dependency
    possible: bool


class OneVersion(Struct, frozen=True):
    """A restriction: only one version of a package can be installed."""

    key: str


Restriction = RequestRestriction | Needs | OneVersion | Clash | Uneven


class Best(Struct, frozen=True):
    """The best choice: candidates and their deviation.

    The deviation is from the captured list.

    `deviation` counts the captured packages that are passed over, those of another upstream version or an earlier
    revision, and those of a later revision.
    """

    chosen: dict[str, Candidate]
    deviation: Deviation


class PackagePool:
    """All candidate packages for a request, and their restrictions.

    Args:
        index: the available packages.
        ways: of the index.
        captured: the captured version of each installed package, by key.
        asked: the requested keys.
        whole: False leaves out candidates that are useful only if a captured package is passed over.
    """

    def __init__(
        self,
        index: SystemIndex,
        ways: Ways,
        captured: Mapping[str, str],
        requests: Iterable[str],
        *,
        whole: bool,
    ) -> None:
        self._index, self._captured, self._whole = index, captured, whole
        self._candidates: list[Candidate] = []
        self._numbers: dict[tuple[str, str], int] = {}
        self._keys: dict[str, int] = {}
        self._needs: dict[Dependency | str, int] = {}
        self._facts: list[str] = []
        self._restrictions: dict[str, Restriction] = {}
        for key in requests:
            number = self._need(key, ((key, index.versions(key)),))
            self._restrict(f"asked({number})", RequestRestriction(key))
        for candidate_number, candidate in enumerate(self._candidates):  # the list grows in the loop
            for group in candidate.needs:
                need = Dependency(group, candidate.architecture)
                fulfilment = ways.list_ways(need)
                self._restrict(
                    f"needs({candidate_number},{self._need(need, fulfilment)})",
                    Needs(candidate, need, bool(fulfilment)),
                )
        conflicts: list[Clash | Uneven] = [
            *find_clashes(self._candidates, index.architecture),
            *find_uneven_versions(self._candidates),
        ]
        for conflict in conflicts:
            self._restrict(f"clash({self._number(conflict.one)},{self._number(conflict.other)})", conflict)
        for key, number in self._keys.items():
            self._restrictions[f"one({number})"] = OneVersion(key)
            self._facts += self._costs(key, number)

    def best(self) -> Best | None:
        """Return the choice of least deviation, None without one."""
        control = self._control(_BEST)
        solutions: list[Best] = []
        control.solve(on_model=lambda model: solutions.append(self._read(model)))
        return solutions[-1] if solutions else None

    def contradiction(self) -> list[Restriction]:
        """Return a minimal set of contradicting restrictions.

        The pool must be whole.
        """
        control = self._control(_ANY)
        literals = {
            str(atom.symbol.arguments[0]): atom.literal
            for atom in control.symbolic_atoms.by_signature("holds", 1)
        }

        def refuted(names: list[str]) -> bool:
            return bool(control.solve([literals[name] for name in names]).unsatisfiable)

        core = set(_find_minimal_core([], [name for name in self._restrictions if name in literals], refuted))
        return [restriction for name, restriction in self._restrictions.items() if name in core]

    def _control(self, rules: str) -> Control:
        from clingo import Control  # only if needed: it needs libstdc++, and 60 ms

        control = Control(list(_OPTIONS))
        control.add("base", [], "\n".join((_RULES, rules, *self._facts)))
        control.ground([("base", [])])
        return control

    def _read(self, model: Model) -> Best:
        numbers = sorted(a.arguments[0].number for a in model.symbols(atoms=True) if a.match("in", 1))
        cost = dict(zip(model.priority, model.cost, strict=True))
        chosen = {self._candidates[number].key: self._candidates[number] for number in numbers}
        return Best(chosen, (cost.get(6, 0), cost.get(5, 0), cost.get(4, 0)))

    def _need(self, need: Dependency | str, fulfilment: Fulfilment) -> int:
        """Return the number of a need.

        On first use, its ways become facts.
        """
        if need not in self._needs:
            self._needs[need] = number = len(self._needs)
            captured = [package for package in fulfilment if package[0] in self._captured]
            for key, versions in (captured or fulfilment)[:1]:
                self._facts.append(f"first({number},{self._key(key)}).")
                if captured and not self._whole and len(versions) == len(self._index.versions(key)):
                    fulfilment = ((key, versions),)  # it is there, and any version of it satisfies the need
            for candidate in (candidate for _, versions in fulfilment for candidate in versions):
                self._facts.append(f"way({number},{self._number(candidate)}).")
        return self._needs[need]

    def _restrict(self, name: str, restriction: Restriction) -> None:
        self._restrictions[name] = restriction
        self._facts.append(f"{name}.")

    def _number(self, candidate: Candidate) -> int:
        place = (candidate.key, candidate.version)
        if place not in self._numbers:
            self._numbers[place] = number = len(self._candidates)
            self._candidates.append(candidate)
            self._facts.append(f"key({number},{self._key(candidate.key)}).")
        return self._numbers[place]

    def _key(self, key: str) -> int:
        return self._keys.setdefault(key, len(self._keys))

    def _costs(self, key: str, number: int) -> Iterator[str]:
        """Yield the costs of a package's versions.

        Files of an image are not additions to it.
        """
        captured = self._captured.get(key)
        if captured is not None:
            yield f"captured({number})."
        for distance, candidate in enumerate(sort_by_preference(self._index.versions(key), captured)):
            candidate_number = self._numbers.get((key, candidate.version))
            if candidate_number is None:
                continue
            yield f"distance({candidate_number},{distance})."
            if captured is None and candidate.file.sha256:
                yield f"extra({candidate_number})."
            elif captured not in (None, candidate.version):
                yield f"{'later' if is_later_revision(candidate.version, captured) else 'other'}({candidate_number})."


def _find_minimal_core(
    background: list[str], parts: list[str], refuted: Callable[[list[str]], bool]
) -> list[str]:
    """Return a minimal refuted set of parts, beside `background`.

    The algorithm is QuickXplain (Junker, AAAI 2004).

    All parts together are refuted, and `background` alone is not.
    """
    if len(parts) == 1:
        return parts
    first, second = parts[: len(parts) // 2], parts[len(parts) // 2 :]
    later = (
        [] if refuted([*background, *first]) else _find_minimal_core([*background, *first], second, refuted)
    )
    earlier = (
        []
        if later and refuted([*background, *later])
        else _find_minimal_core([*background, *later], first, refuted)
    )
    return [*earlier, *later]
