"""Suggest a name for a mistyped one."""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Callable, Iterable
from pathlib import Path

from reprobuild.infra.display import escape_text
from reprobuild.infra.shell_words import quote_path

_MOST_NAMES = 1000  # of a directory
_MOST_CHARACTERS = 1 << 20  # of the names that are compared with a word: some seconds at worst
_LONGEST = 300  # characters of a word, and of a name


def find_close(word: str, names: Iterable[str], least: float = 0.6) -> str:
    """Return the name that is closest to a word, or an empty text.

    `least` is the least likeness, from 0 to 1. Dashes before an option do not count. Names past a megabyte, and long
    words, are not compared.
    """
    from difflib import get_close_matches  # most commands have no use for it

    if len(word) > _LONGEST:
        return ""
    candidates, left = {}, _MOST_CHARACTERS
    for name in names:
        if name != word and len(name) <= _LONGEST:
            candidates[name.lstrip("-")] = name
            left -= len(name)
            if left < 0:
                break
    close = get_close_matches(word.lstrip("-"), candidates, n=1, cutoff=least)
    return candidates[close[0]] if close else ""


def did_you_mean(word: str, names: Iterable[str], least: float = 0.6) -> str:
    """Ask whether a close name was meant, or return an empty text; see `find_close`."""
    close = find_close(word, names, least)
    return f"did you mean `{escape_text(shlex.quote(close))}`?" if close else ""


def suggest_path(path: Path, is_meant: Callable[[Path], bool] = lambda _: True) -> str:
    """Ask whether a path beside another was meant, or return an empty text.

    Args:
        path: which does not exist.
        is_meant: tells whether a path beside it comes into question.
    """
    try:
        beside = itertools.islice(path.absolute().parent.iterdir(), _MOST_NAMES)
        names = sorted(other.name for other in beside if is_meant(other))
    except OSError:
        return ""
    close = find_close(path.name, names)
    return f"did you mean `{escape_text(quote_path(path.parent / close))}`?" if close else ""
