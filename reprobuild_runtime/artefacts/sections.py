"""File sections with the elements of an array.

They are compared piece by piece.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import math
import os

from reprobuild_runtime.artefacts.findings import Collector, UnreadableError
from reprobuild_runtime.artefacts.ulp import (
    BLOCK,
    KINDS,
    RAW,
    ElementType,
    Tally,
    count_specials,
    describe,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Iterator, Optional, Sequence


class FileSection:
    """Bytes of a file from an offset.

    `data` replaces the file if they are in memory.
    """

    def __init__(self, path: str, start: int, length: int, data: "Optional[bytes]" = None) -> None:
        if start < 0 or length < 0 or (data is None and start + length > os.path.getsize(path)):
            raise UnreadableError("it names bytes that it does not have")
        self.path, self.start, self.length, self.data = path, start, length, data

    def part(self, start: int, length: int) -> "FileSection":
        """Return a part of the section."""
        if start < 0 or length < 0 or start + length > self.length:
            raise UnreadableError("an array reaches past the bytes that it is made of")
        return FileSection(self.path, self.start + start, length, self.data)

    def pieces(self, size: int) -> "Iterator[bytes]":
        """Yield the bytes, in pieces of equal size but for the last."""
        if self.data is not None:
            for at in range(self.start, self.start + self.length, size):
                yield self.data[at : min(at + size, self.start + self.length)]
            return
        with open(self.path, "rb") as file:
            file.seek(self.start)
            for at in range(0, self.length, size):
                yield _read_exactly(file, min(size, self.length - at))


def _read_exactly(file: "IO[bytes]", size: int) -> bytes:
    data = file.read(size)
    if len(data) != size:
        raise UnreadableError("it ends early")
    return data


class Array:
    """An array: element type, shape, bytes, and layout.

    The layout is empty if the elements are in order.
    """

    def __init__(
        self,
        dtype: str,
        shape: "Sequence[int]",
        section: "FileSection",
        layout: "Sequence[object]" = (),
        note: str = "",
    ) -> None:
        self.dtype, self.shape, self.section = dtype, tuple(shape), section
        self.layout, self.note = tuple(layout), note

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


def compare_arrays(where: str, first: "Array", second: "Array", collector: "Collector") -> None:
    """Compare type, shape, layout and bytes of two arrays.

    NaN and infinities in the first one are recorded.
    """
    look_at(where, first, collector)
    for name, a, b in (
        ("type", first.dtype, second.dtype), ("shape", first.shape, second.shape),
        ("layout", first.layout, second.layout), ("device or flags", first.note, second.note),
    ):  # fmt: skip
        if a != b:
            collector.differ("%s: another %s: %s and %s" % (where, name, a, b))
    if first.dtype != second.dtype:
        return
    if first.section.length != second.section.length:
        # Objects, texts and fields: the shape does not determine the number of bytes.
        if (first.shape, first.layout) == (second.shape, second.layout):
            collector.differ("%s: %d and %d bytes" % (where, first.section.length, second.section.length))
        return
    kind = KINDS.get(first.dtype, RAW)
    if first.section.length % kind.width:
        kind = RAW
    tally = compare_sections(kind, first.section, second.section)
    if tally.differing:
        shape = first.shape if kind is not RAW and first.shape == second.shape and not first.layout else None
        total = first.section.length // kind.width
        collector.differ("%s: %s %s: %s" % (
            where, first.dtype, list(first.shape), describe(tally, total, shape, first.dtype.startswith("complex"))
        ))  # fmt: skip


def look_at(where: str, array: "Array", collector: "Collector") -> None:
    """Count the NaN and the infinities of an array."""
    kind = KINDS.get(array.dtype, RAW)
    collector.values += max(array.section.length // kind.width, 0)
    if kind.form != "float" or array.section.length % kind.width:
        return
    nans = infinite = 0
    for piece in array.section.pieces(BLOCK):
        counted = count_specials(kind, piece)
        nans, infinite = nans + counted[0], infinite + counted[1]
    total = array.section.length // kind.width
    collector.numbers, collector.nans = collector.numbers + total, collector.nans + nans
    collector.see(where, nans, infinite, total)


def compare_sections(kind: "ElementType", first: "FileSection", second: "FileSection") -> "Tally":
    """Compare the bytes of two sections of equal length."""
    tally, at = Tally(kind), 0
    for a, b in zip(first.pieces(BLOCK), second.pieces(BLOCK)):
        if a != b:
            tally.add(at, a, b)
        at += len(a) // kind.width
    return tally
