"""The lists of installed files in an image, within bounds.

An image of some kilobytes can have a list of many megabytes, and thousands of hard links to it. Each path counts, since
the same list means other files at another path.
"""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

# The largest images have half a million paths, and conda lists those of its Python packages twice. The RECORD of
# torch 2.8 has 1.4 MB; conda states some 500 bytes for a file. One list at a time is in memory.
LARGEST_LIST = 16 << 20
MOST_BYTES = 256 << 20
MOST_LINES = 1_000_000
# Bytes in memory of the listed paths. Half a million of 90 characters need 70 MB, but a character can need 4 bytes.
MOST_MEMORY = 128 << 20
# Bytes of a row of a RECORD, which is a path, a hash and a size: a row of 16 MB can have 8 million fields. The module
# `csv` takes 128 kB for one field.
LONGEST_ROW = 256 << 10

_Item = TypeVar("_Item")


class ListBudget:
    """The remaining bounds for the lists of one image.

    `unread` is the number of lists that were not read, or not to their end.
    """

    def __init__(self) -> None:
        self._bytes, self._lines, self._memory = MOST_BYTES, MOST_LINES, MOST_MEMORY
        self.unread = 0

    def take_file(self, size: int) -> bool:
        """Count a list of some bytes; return whether it may be read."""
        fits = size <= min(LARGEST_LIST, self._bytes) and self._lines > 0 and self._memory > 0
        self._bytes -= size if fits else 0
        self.unread += not fits
        return fits

    def take_lines(self, lines: Iterable[_Item]) -> Iterator[_Item]:
        """Yield the lines of a list, up to the bound."""
        for line in lines:
            if not self._lines:
                self.unread += 1
                return
            self._lines -= 1
            yield line

    def take_rows(self, content: bytes) -> Iterator[list[str]]:
        """Yield the rows of a RECORD, up to a damaged one or the bound."""
        lines = _RowLines(content)
        try:
            for row in self.take_lines(csv.reader(lines)):
                lines.size = 0
                yield row
        except csv.Error:
            self.unread += 1

    def take_paths(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths of a list that are used, up to the bound."""
        for path in paths:
            self._memory -= sys.getsizeof(path)
            if self._memory < 0:
                self.unread += 1
                return
            yield path


class _RowLines:
    """The lines of a RECORD; `size` is the bytes of the current row.

    A row has several lines if a path in quotes does.
    """

    def __init__(self, content: bytes) -> None:
        self._stream = io.BytesIO(content)
        self.size = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._stream:
            self.size += len(line)
            if self.size > LONGEST_ROW:
                raise csv.Error("the row is too long")
            yield line.decode("utf-8", "surrogateescape")


def describe_unread(name: str, count: int) -> str:
    """Return the remark on lists that were not read."""
    bound = (
        f"{LARGEST_LIST >> 20} MB or a row that is damaged or of {LONGEST_ROW >> 10} kB, or all more than "
        f"{MOST_BYTES >> 20} MB, {MOST_LINES} lines or {MOST_MEMORY >> 20} MB of paths"
    )
    return (
        f"{count} lists of installed files of {name} were not read to their end, so the inputs of some paths may be "
        f"unknown: one has more than {bound}"
    )
