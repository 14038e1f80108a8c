"""The lists of installed files in an image, within bounds.

An image of some kilobytes can have a list of many megabytes, and thousands of hard links to it. Each path counts, since
the same list means other files at another path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

# The largest images have half a million paths, and conda lists those of its Python packages twice. The RECORD of
# torch 2.8 has 1.4 MB; conda states some 500 bytes for a file.
LARGEST_LIST = 16 << 20
MOST_BYTES = 256 << 20
MOST_LINES = 1_000_000

_Item = TypeVar("_Item")


class ListBudget:
    """The remaining bounds for the lists of one image.

    `unread` is the number of lists that were not read, or not to their end.
    """

    def __init__(self) -> None:
        self._bytes, self._lines = MOST_BYTES, MOST_LINES
        self.unread = 0

    def take_file(self, size: int) -> bool:
        """Count a list of some bytes; return whether it may be read."""
        fits = size <= min(LARGEST_LIST, self._bytes) and self._lines > 0
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


def describe_unread(name: str, count: int) -> str:
    """Return the remark on lists that were not read."""
    bound = f"{LARGEST_LIST >> 20} MB, or all more than {MOST_BYTES >> 20} MB or {MOST_LINES} lines"
    return (
        f"{count} lists of installed files of {name} were not read to their end, so the inputs of some paths may be "
        f"unknown: one has more than {bound}"
    )
