"""Words and lists in the sentences of the page."""

from __future__ import annotations

from collections.abc import Sequence

# Names in a sentence; a table has the rest.
NAMED = 3


def is_or_are(number: int) -> str:
    """Return the verb for a number of things."""
    return "is" if number == 1 else "are"


def was_or_were(number: int) -> str:
    """Return the verb in the past for a number of things."""
    return "was" if number == 1 else "were"


def join_first(names: Sequence[str]) -> str:
    """Return the first of some names, and the number of the others."""
    more = len(names) - NAMED
    return join_words([*names[:NAMED], f"{more} more"] if more > 0 else names)


def join_words(words: Sequence[str]) -> str:
    """Join words by commas, and the last one by "and"."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
