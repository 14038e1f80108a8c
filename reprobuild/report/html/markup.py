"""Markup from values: no value can become markup."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape

from reprobuild.infra.display import UNSEEN

# Characters to show of one value: the beginning, and the end, which is more useful in a path or an error.
LONGEST, HEAD, TAIL = 600, 420, 140
# Marks over one letter; more of them would be painted over other lines.
MARKS = 3
_MARKS = ("Mn", "Me")  # over, under and around; those of Mc take space of their own
_AS_EMOJI = "\ufe0f"  # after a symbol this is visible, and ordinary


def text(value: str, longest: int | None = LONGEST) -> str:
    """Return a value as readable, inert markup.

    Unprintable characters are written out and marked as such.

    Args:
        value: anything.
        longest: the most characters to show; None for all.
    """
    parts, shown = [], ""
    for piece, is_escape in _pieces(value if longest is None else shorten_middle(value)):
        if is_escape:
            parts.append(escape(shown) + f'<i class="x">{escape(piece)}</i>')
            shown = ""
        else:
            shown += piece
    return "".join(parts) + escape(shown)


def prose(value: str) -> str:
    """Return a sentence as markup, with the words between backquotes as code."""
    value = shorten_middle(value)
    parts = value.split("`")
    if len(parts) % 2 == 0:  # a backquote without its counterpart
        return text(value)
    return "".join(
        f"<code>{text(part)}</code>" if number % 2 else text(part) for number, part in enumerate(parts)
    )


def attribute_text(value: str) -> str:
    """Return a value for an attribute.

    It is shortened, and unprintable characters are written out.
    """
    return "".join(piece for piece, _ in _pieces(shorten_middle(value)))


def shorten_middle(value: str) -> str:
    """Return a long value without its middle, but with its length."""
    if len(value) <= LONGEST:
        return value
    return f"{value[:HEAD]} [... {len(value):,} characters ...] {value[-TAIL:]}"


def _pieces(value: str) -> Iterable[tuple[str, bool]]:
    """Yield (characters, whether they represent an unprintable one).

    `str.isprintable` is false for controls, for characters that change the direction of writing or have no width, and
    for lone surrogates: https://docs.python.org/3/library/stdtypes.html#str.isprintable.
    """
    marks, before = 0, ""
    for character in value:
        marks = marks + 1 if unicodedata.category(character) in _MARKS else 0
        unseen = character in UNSEEN and not (
            character == _AS_EMOJI and before and unicodedata.category(before) == "So"
        )
        if character.isprintable() and not unseen and marks <= MARKS:
            yield character, False
        else:
            yield character.encode("unicode_escape").decode(), True
        before = character
