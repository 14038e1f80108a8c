"""INI texts of untrusted files, for `configparser`."""

from __future__ import annotations

import re

_BLANKS = re.compile(r"[^\S\n]{2,}")


def collapse_blanks(text: str) -> str:
    """Return a text with one blank for each run of them within a line.

    The patterns of `configparser` take time with the square of a run's length.
    """
    return _BLANKS.sub(" ", text)


def without_references(text: str) -> str:
    """Return a text without references between values; each `%` is plain text.

    `configparser` puts ten levels of references into each other, without a bound on the result.
    """
    return text.replace("%", "%%")
