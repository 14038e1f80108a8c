"""Sixty pairs with planted causes, by chance from a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Sequence

from msgspec import Struct

from proof.bisection.differences import Planted, ordinary, special

COUNTS = (5, 8, 16, 32, 64, 120)
PAIRS = 60
KINDS = ("version", "added", "removed", "variable", "hunk")
# A script that exits with a number, and the pairs of ten that have it.
RULES = {
    "one": ("int({0})", 5),
    "two together": ("int({0} and {1})", 2),
    "three together": ("int({0} and {1} and {2})", 1),
    "one hides another": ("5 if {0} else int({1})", 1),
    "two that add up": ("int({0}) + 2 * int({1})", 1),
}
MOST_HUNKS = 20


class Pair(Struct, frozen=True, kw_only=True):
    """A pair of environments: all differences, those that are guilty, and the script that depends on these."""

    number: int
    rule: str
    script: str
    differences: tuple[Planted, ...]
    guilty: tuple[Planted, ...]

    @property
    def kinds(self) -> str:
        """The kinds of the guilty differences."""
        return ", ".join(item.kind for item in self.guilty)


def make_pairs() -> list[Pair]:
    """Return the pairs: ten of each number of differences, each special difference guilty at least twice."""
    rules = [rule for rule, (_, share) in RULES.items() for _ in range(share)]
    return [_make_pair(number, rules[number % 10]) for number in range(PAIRS)]


def _make_pair(number: int, rule: str) -> Pair:
    rng = random.Random(number)
    count = COUNTS[number // 10]
    specials = special()
    chosen = [specials[number % len(specials)]]  # each in turn, and others by chance
    chosen += rng.sample([item for item in specials if item not in chosen], k=rng.randint(0, 3))
    chosen = chosen[:count]
    chosen += _fill(rng, count - len(chosen))
    size = len({"one": "1", "three together": "123"}.get(rule, "12"))
    # Every other pair has a special difference among its guilty ones, and each of these is guilty three times.
    first = [chosen[0]] if (number + number // len(specials)) % 2 == 0 else []
    guilty = first + rng.sample(chosen[1:], k=size - len(first))
    script = f"sys.exit({RULES[rule][0].format(*(f'({item.test})' for item in guilty))})"
    return Pair(number=number, rule=rule, script=script, differences=tuple(chosen), guilty=tuple(guilty))


def _fill(rng: random.Random, count: int) -> Sequence[Planted]:
    """Return ordinary differences of all kinds."""
    numbers = dict.fromkeys(KINDS, 0)
    filled = []
    for _ in range(count):
        kind = rng.choice(KINDS if numbers["hunk"] < MOST_HUNKS else KINDS[:-1])
        filled.append(ordinary(kind, numbers[kind]))
        numbers[kind] += 1
    return filled
