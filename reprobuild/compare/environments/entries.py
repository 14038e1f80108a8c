"""Entries of two lists such as PATH: removed, added, moved and repeated ones."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_LISTS = re.compile(r"LD_PRELOAD|LD_AUDIT|LOADEDMODULES|_LMFILES_|processor flags|loaded libraries|.*PATH")


class MovedEntry(NamedTuple):
    """An entry of both lists in another order, with its numbers in them, from 1."""

    entry: str
    first: int
    second: int


class EntryChanges(NamedTuple):
    """The difference of two lists.

    `removed` are entries of the first list alone, `added` those of the second. `moved` are the fewest entries
    of both whose move gives the order of the second. `fewer` and `more` occur less or more often in the second.
    """

    removed: Sequence[str] = ()
    added: Sequence[str] = ()
    moved: Sequence[MovedEntry] = ()
    fewer: Sequence[str] = ()
    more: Sequence[str] = ()

    @property
    def same_entries(self) -> bool:
        """Whether only the order or the number of entries differs."""
        return not self.removed and not self.added


def compare_entries(name: str, first: str, second: str) -> EntryChanges | None:
    """Return the changes from one list to the other, or None.

    None means that the values are not lists.

    Args:
        name: of a variable or of a fact of the machine.
        first: entries between colons, or between blanks if there is no colon.
        second: likewise.
    """
    if not (_LISTS.fullmatch(name) or (":/" in first and ":/" in second)):
        return None
    first_entries, second_entries = list(_split_entries(first)), list(_split_entries(second))
    if len(first_entries) < 2 and len(second_entries) < 2:
        return None
    in_first, in_second = Counter(first_entries), Counter(second_entries)
    common = in_first.keys() & in_second.keys()
    return EntryChanges(
        removed=[entry for entry in in_first if entry not in common],
        added=[entry for entry in in_second if entry not in common],
        moved=_find_moved(first_entries, second_entries),
        fewer=[entry for entry in in_first if entry in common and in_first[entry] > in_second[entry]],
        more=[entry for entry in in_second if entry in common and in_first[entry] < in_second[entry]],
    )


def _split_entries(text: str) -> Iterator[str]:
    return (entry for entry in text.split(":" if ":" in text else " ") if entry)


def _find_moved(first: Sequence[str], second: Sequence[str]) -> list[MovedEntry]:
    """Return the entries outside of a longest part in the same order; the first occurrence of each counts."""
    first_numbers, second_numbers = _number_entries(first), _number_entries(second)
    rows = [
        MovedEntry(entry, number, second_numbers[entry])
        for entry, number in first_numbers.items()
        if entry in second_numbers
    ]
    # Patience sorting: `ends[n]` is the row that ends the best increasing part of n + 1 rows, so far.
    lowest: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, row in enumerate(rows):
        length = bisect_left(lowest, row.second)
        before.append(ends[length - 1] if length else -1)
        lowest[length : length + 1] = [row.second]
        ends[length : length + 1] = [index]
    unmoved, index = set(), ends[-1] if ends else -1
    while index >= 0:
        unmoved.add(index)
        index = before[index]
    return [row for index, row in enumerate(rows) if index not in unmoved]


def _number_entries(entries: Sequence[str]) -> dict[str, int]:
    """Return the number of each entry's first occurrence, in their order."""
    numbers: dict[str, int] = {}
    for number, entry in enumerate(entries, 1):
        numbers.setdefault(entry, number)
    return numbers
