"""A strip: one bar of parts, as wide as their amounts, in SVG.

Attributes set positions and classes set colours, so that no style needs to be allowed. A table beside it has the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

WIDTH, HEIGHT = 100, 34  # percent, pixels
SHADES = 6  # classes of colours, used in turn
_LETTER, _WIDE, _NARROW = (
    7.2,
    900,
    330,
)  # pixels: of a letter at most, and of a strip on a desktop and a phone
_SHORT, _ROWS = 24, 40  # parts that the strip draws, and rows of its table


class StripPart(Struct, frozen=True, kw_only=True):
    """A part: its name, and its amount in bytes or seconds."""

    name: str
    amount: int


class Block(Struct, frozen=True, kw_only=True):
    """A drawn part: its place and width in percent, the number of its colour, and its label if there is room.

    `roomy` is true if there is room on a phone.
    """

    title: str
    label: str
    x: float
    width: float
    shade: int
    roomy: bool


class StripRow(Struct, frozen=True, kw_only=True):
    """A row of the table: name, amount in words, and share of all."""

    name: str
    amount: str
    share: str


class Strip(Struct, frozen=True, kw_only=True):
    """A strip with its title, a description in words, its blocks, and its table with the largest first."""

    id: str
    title: str
    description: str
    blocks: Sequence[Block]
    rows: Sequence[StripRow]
    height: int = HEIGHT


def draw_strip(id_: str, title: str, parts: Sequence[StripPart], words: Callable[[int], str]) -> Strip:
    """Return a strip of parts in their order.

    Only the largest parts have a block of their own, and "others" is the last block.

    Args:
        id_: its id on the page.
        title: the title above it.
        parts: in the order of the drawing.
        words: returns an amount in words.
    """
    total = sum(part.amount for part in parts) or 1
    largest = sorted(parts, key=lambda part: -part.amount)
    shown = set(map(id, largest[:_SHORT]))
    drawn = [part for part in parts if id(part) in shown]
    rest = largest[_SHORT:]
    if rest:
        drawn.append(StripPart(name=f"{len(rest):,} others", amount=sum(part.amount for part in rest)))
    rows = [_make_row(part, total, words) for part in largest[:_ROWS]]
    if others := largest[_ROWS:]:
        left = StripPart(name=f"{len(others):,} others", amount=sum(part.amount for part in others))
        rows.append(_make_row(left, total, words))
    first = ", ".join(f"{part.name} {words(part.amount)}" for part in largest[:3])
    return Strip(
        id=id_,
        title=title,
        description=f"The largest: {first}",
        blocks=_place(drawn, total, words),
        rows=rows,
    )


def _make_row(part: StripPart, total: int, words: Callable[[int], str]) -> StripRow:
    return StripRow(name=part.name, amount=words(part.amount), share=f"{part.amount / total:.1%}")


def _place(parts: Sequence[StripPart], total: int, words: Callable[[int], str]) -> list[Block]:
    blocks, before = [], 0
    for number, part in enumerate(parts):
        x, end = (round(amount / total * WIDTH, 2) for amount in (before, before + part.amount))
        before += part.amount
        width = round(end - x, 2)
        label = part.name if part.name.endswith(" others") else part.name.partition(" ")[0]
        pixels = (len(label) + 1) * _LETTER * WIDTH
        block = Block(
            title=f"{part.name}: {words(part.amount)}", label=label if pixels <= width * _WIDE else "", x=x,
            width=width, shade=number % SHADES, roomy=pixels <= width * _NARROW,
        )  # fmt: skip
        blocks.append(block)
    return blocks
