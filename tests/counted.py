"""Names that count the comparisons with them, for tests of searches in lists."""

from __future__ import annotations


class CountedName(str):
    """A name that counts how often it is compared with another one."""

    __slots__ = ()
    comparisons = 0

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def counted_names(count: int) -> list[CountedName]:
    """Return names, and begin to count."""
    CountedName.comparisons = 0
    return [CountedName(f"w{number}") for number in range(count)]
