"""Random pools of a few packages, and an oracle that tries every subset of them."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from reprobuild.ecosystems.apt.index import SystemIndex
from tests.system.samples import index, stanza

VERSIONS = ("1-1", "1-2", "2-1")  # of which the second is a later revision of the first
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "": lambda have, want: True,
    "=": lambda have, want: have == want,
    ">=": lambda have, want: have >= want,
    "<<": lambda have, want: have < want,
}


@dataclass(frozen=True)
class Condition:
    """A name, perhaps with a condition on its version, which is a place in VERSIONS."""

    name: str
    operator: str = ""
    version: int = 0

    def __str__(self) -> str:
        return f"{self.name} ({self.operator} {VERSIONS[self.version]})" if self.operator else self.name


@dataclass(frozen=True)
class Entry:
    """One version of one package."""

    name: str
    version: int
    architecture: str
    needs: tuple[tuple[Condition, ...], ...]
    conflicts: tuple[Condition, ...]
    provides: tuple[Condition, ...]

    @property
    def key(self) -> str:
        return self.name if self.architecture == "amd64" else f"{self.name}:{self.architecture}"

    def meets(self, condition: Condition) -> bool:
        compare = _COMPARE[condition.operator]
        return (condition.name == self.name and compare(self.version, condition.version)) or any(
            given.name == condition.name
            and (
                not condition.operator
                or (given.operator == "=" and compare(given.version, condition.version))
            )
            for given in self.provides
        )

    def text(self) -> str:
        more = [
            f"{name}: {', '.join(map(str, conditions))}"
            for name, conditions in (("Conflicts", self.conflicts), ("Provides", self.provides))
            if conditions
        ]
        needs = ", ".join(" | ".join(map(str, group)) for group in self.needs)
        return stanza(
            self.name,
            VERSIONS[self.version],
            needs,
            *more,
            "Multi-Arch: same",
            architecture=self.architecture,
        )


@dataclass
class RandomPool:
    """Entries, the captured version of some keys, and the keys asked for."""

    entries: list[Entry]
    captured: dict[str, int]
    asked: list[str]
    ways: dict[tuple[int, int], int] = field(
        default_factory=dict
    )  # a candidate's need: the mask of who meets it

    def __post_init__(self) -> None:
        for number, entry in enumerate(self.entries):
            for place, group in enumerate(entry.needs):
                self.ways[number, place] = self.mask(
                    other.architecture == entry.architecture and any(other.meets(one) for one in group)
                    for other in self.entries
                )

    @staticmethod
    def mask(picks: Iterable[bool]) -> int:
        return sum(1 << number for number, pick in enumerate(picks) if pick)

    def of(self, key: str) -> int:
        return self.mask(entry.key == key for entry in self.entries)

    def index(self) -> SystemIndex:
        return index(*(entry.text() for entry in self.entries))

    def clash(self, one: Entry, other: Entry) -> bool:
        if one.name == other.name:
            return one.key != other.key and one.version != other.version
        pairs = ((one, other), (other, one))
        return any(second.meets(each) for first, second in pairs for each in first.conflicts)

    def rules(self) -> Iterator[tuple[tuple[object, ...], Callable[[int], bool]]]:
        """Yield every restriction by name, with what tells whether a subset keeps it."""
        for key in self.asked:
            yield ("asked", key), partial(_meets, 0, self.of(key))
        for (number, place), ways in self.ways.items():
            entry = self.entries[number]
            name = ("needs", entry.key, VERSIONS[entry.version], " | ".join(map(str, entry.needs[place])))
            yield name, partial(_meets, 1 << number, ways)
        for (one, first), (two, second) in itertools.combinations(enumerate(self.entries), 2):
            if first.key == second.key:
                yield ("one", first.key), partial(_apart, 1 << one | 1 << two)
            elif self.clash(first, second):
                places = frozenset((each.key, VERSIONS[each.version]) for each in (first, second))
                yield ("clash", places), partial(_apart, 1 << one | 1 << two)

    def holds(self, rules: Iterable[Callable[[int], bool]]) -> Iterator[int]:
        """Yield the subsets that keep all rules."""
        listed = list(rules)
        return (subset for subset in range(1 << len(self.entries)) if all(rule(subset) for rule in listed))

    def founded(self, subset: int) -> bool:
        """Tell whether something that is asked for leads to every package of a subset."""
        found = before = subset & sum(self.of(key) for key in self.asked)
        while True:
            for (number, _), ways in self.ways.items():
                if found >> number & 1:
                    found |= ways & subset
            if found == before:
                return found == subset
            before = found

    def deviation(self, subset: int) -> tuple[int, int, int]:
        """Return what docs/system.md says of how systems compare."""
        entries = [entry for number, entry in enumerate(self.entries) if subset >> number & 1]
        moved = [
            (self.captured[entry.key], entry.version)
            for entry in entries
            if self.captured.get(entry.key, entry.version) != entry.version
        ]
        later = sum(pair == (0, 1) for pair in moved)
        there, passed = {entry.key for entry in entries}, set[str]()
        for (number, place), ways in self.ways.items():
            if subset >> number & 1:
                passed |= set(self.wished(self.entries[number].needs[place], ways)) - there
        return len(passed), len(moved) - later, later

    def wished(self, group: tuple[Condition, ...], ways: int) -> list[str]:
        """Return the first captured key that could fulfil a need: by alternative, and by its own name first."""
        able = [
            entry
            for number, entry in enumerate(self.entries)
            if ways >> number & 1 and entry.key in self.captured
        ]
        found = [
            (place, entry.name != condition.name, entry.key)
            for place, condition in enumerate(group)
            for entry in able
            if entry.meets(condition)
        ]
        return [min(found)[2]] if found else []

    def best(self) -> tuple[int, int, int] | None:
        """Return the least deviation, None where no system can be had."""
        systems = self.holds(rule for _, rule in self.rules())
        return min((self.deviation(each) for each in systems if self.founded(each)), default=None)


def _meets(own: int, ways: int, subset: int) -> bool:
    """Tell whether a subset has one of the ways, where it has all of `own`."""
    return subset & own != own or bool(subset & ways)


def _apart(both: int, subset: int) -> bool:
    return subset & both != both


def make_pool(seed: int) -> RandomPool:
    """Return a pool of two to five packages in up to three versions; a version of a captured one may be gone."""
    dice = random.Random(seed)
    names = [f"p{number}" for number in range(dice.randint(2, 5))]

    def condition(others: list[str]) -> Condition:
        return Condition(
            dice.choice([*others, "vv"]), dice.choice(["", "=", "=", ">=", "<<"]), dice.randrange(3)
        )

    def entry(name: str, version: int, architecture: str = "amd64") -> Entry:
        others = [other for other in names if other != name]
        needs = tuple(
            tuple(condition(others) for _ in range(dice.choice([1, 1, 1, 2])))
            for _ in range(dice.choice([0, 1, 1, 2]))
        )
        conflicts = tuple(condition(others) for _ in range(dice.choice([0, 0, 0, 1])))
        given = Condition("vv", dice.choice(["", "="]), dice.randrange(3))
        return Entry(name, version, architecture, needs, conflicts, (given,) if dice.random() < 0.3 else ())

    entries = [
        entry(name, v) for name in names for v in sorted(dice.sample(range(3), dice.choice([1, 2, 2, 3])))
    ]
    asked = [names[0], *(name for name in names[1:] if dice.random() < 0.2)]
    if dice.random() < 0.1:
        twins = [each for each in entries if each.name == "p0"] + [entry("p0", dice.randrange(3))]
        entries += {one.version: Entry("p0", one.version, "i386", (), (), ()) for one in twins}.values()
        asked.append("p0:i386")
    captured = {
        key: dice.randrange(3) for key in dict.fromkeys(each.key for each in entries) if dice.random() < 0.8
    }
    return RandomPool(
        entries[:11], captured, [key for key in asked if any(e.key == key for e in entries[:11])]
    )
