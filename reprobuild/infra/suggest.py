"""Suggest a name for a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable


def find_close(word: str, names: Iterable[str]) -> str:
    """Return the name that is closest to a word, or an empty text."""
    from difflib import get_close_matches  # most commands have no use for it

    close = get_close_matches(word, [name for name in dict.fromkeys(names) if name != word], n=1)
    return close[0] if close else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Ask whether a close name was meant, or return an empty text."""
    close = find_close(word, names)
    return f"did you mean `{close}`?" if close else ""
