"""Untrusted text made safe for display.

It has no terminal escapes and no secrets, one line, and a bounded length.
"""

from __future__ import annotations

import re

from reprobuild_portable import secrets

_SHOWN = 1000
_LONGEST = 20_000

# Invisible characters that count as printable: Default_Ignorable_Code_Point without those of Cf and
# unassigned ones. https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
UNSEEN = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0,
              *range(0xE0100, 0xE01F0)))
)  # fmt: skip
_PLACE = re.compile(r" - at `[^`\n]{1,300}`\Z")  # as msgspec names it


def display_text(text: str) -> str:
    """Return `text` safe to print, in one bounded line.

    It has no terminal escapes and no secrets.
    """
    if len(text) > _LONGEST:  # cutting it first could turn a secret into a text that no rule matches
        return f"({len(text)} characters: too long to show)"
    plain = escape_text(secrets.redact(text))
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "…"


def display_error(err: Exception) -> str:
    """Return a decoding error safe to print, in one bounded line that keeps the place it names."""
    text = str(err)
    shown, place = display_text(text), _PLACE.search(text)
    return shown + escape_text(place[0]) if place and place[0] not in shown else shown


def escape_text(text: str) -> str:
    """Return `text` with unprintable and invisible characters escaped.

    A terminal acts on C0 and C1 controls, bidirectional marks make a line read as another one, and two names
    that differ only in invisible characters look alike.
    """
    return "".join(
        c if c.isprintable() and c not in UNSEEN else c.encode("unicode_escape").decode() for c in text
    )
