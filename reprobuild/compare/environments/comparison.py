"""The comparison of two environments: ranked differences in three tables, and the facts that were not compared."""

from __future__ import annotations

from itertools import chain
from typing import Literal

from msgspec import Struct

from reprobuild.compare.environments.model import Aspect, Kind

# The reason of a kind that is in neither environment.
NEITHER = "neither side records it"


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
        return sorted(chain(self.differ, self.only_in_one, self.only_in_other), key=sort_key)

    @property
    def is_same(self) -> bool:
        """Whether only noise differs."""
        return all(difference.noise for difference in self.differences)


def sort_key(difference: EnvironmentDifference) -> tuple[int, str, str]:
    """Return the place of a difference in a table: its rank, then its kind and name."""
    return difference.rank, difference.kind, difference.name
