"""Words of commands that a message proposes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

# A word of `shlex.quote` with a line break; a letter before the quote is of prose.
_QUOTED = re.compile(r"(?<![\w\"'])'[^']*'(?:\"'\"'[^']*')*")


def as_path(path: str | Path) -> str:
    """Return a path that no program takes for an option: `./-x`."""
    text = str(path)
    return f"./{text}" if text.startswith("-") else text


def quote_path(path: str | Path) -> str:
    """Return a path as a shell reads it, in one line, that no program takes for an option."""
    return escape_breaks(shlex.quote(as_path(path)))


def escape_breaks(text: str) -> str:
    r"""Return a text with each quoted word that has a line break as `$'...\n...'`, which bash, zsh and ksh read."""
    if "'" not in text or "\n" not in text:
        return text
    return _QUOTED.sub(_escape_word, text)


def _escape_word(match: re.Match[str]) -> str:
    if "\n" not in match[0]:
        return match[0]
    (word,) = shlex.split(match[0])
    plain = word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"$'{plain}'"
