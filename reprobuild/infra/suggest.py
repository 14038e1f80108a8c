"""Suggest a name for a mistyped one."""

from __future__ import annotations

from collections.abc import Iterable


def find_close(word: str, names: Iterable[str], least: float = 0.6) -> str:
    """Return the name that is closest to a word, or an empty text.

    `least` is the least likeness, from 0 to 1. Dashes before an option do not count.
    """
    from difflib import get_close_matches  # most commands have no use for it

    candidates = {name.lstrip("-"): name for name in names if name != word}
    close = get_close_matches(word.lstrip("-"), candidates, n=1, cutoff=least)
    return candidates[close[0]] if close else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Ask whether a close name was meant, or return an empty text."""
    close = find_close(word, names)
    return f"did you mean `{close}`?" if close else ""
