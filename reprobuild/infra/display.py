"""Make untrusted text safe to display: no terminal escapes, no secrets, one line, bounded."""

from __future__ import annotations

from reprobuild_portable import secrets

_SHOWN = 1000
_LONGEST = 20_000

# Characters that paint nothing and count as printable: Default_Ignorable_Code_Point less those of Cf and unassigned.
# https://www.unicode.org/Public/UCD/latest/ucd/DerivedCoreProperties.txt
UNSEEN = frozenset(
    map(chr, (0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810), 0x3164, *range(0xFE00, 0xFE10), 0xFFA0,
              *range(0xE0100, 0xE01F0)))
)  # fmt: skip


def shown(text: str) -> str:
    """Return `text` fit to print: one line, no terminal escapes, no secrets, not endless."""
    if len(text) > _LONGEST:  # cutting it first could cut a secret into something that no rule knows
        return f"({len(text)} characters: too long to show)"
    plain = escaped(secrets.redact(text))
    return plain if len(plain) <= _SHOWN else plain[:_SHOWN] + "…"


def escaped(text: str) -> str:
    """Return `text` with everything that does not print, or paints nothing, written as an escape.

    A terminal acts on C0 and C1 controls, bidirectional marks make a line read as another one, and two names that
    differ in what nobody sees look like one.
    """
    return "".join(
        c if c.isprintable() and c not in UNSEEN else c.encode("unicode_escape").decode() for c in text
    )
