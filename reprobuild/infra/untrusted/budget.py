"""Bounds of an image: members, names, and total bytes."""

from __future__ import annotations

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.names import HOSTILE, RATIO, most_bytes

# The largest images have half a million paths of some sixty bytes; each costs a kilobyte in memory.
MOST_PATHS = 2_000_000
MOST_TEXT = 256 << 20
# A layer of zeros compresses to a hundred-thousandth: a small image may be large, as long as reading it takes
# a minute.
SMALLEST_BOUND = 16 << 30


class Allowance:
    """The remaining bounds for the layers of one image.

    `packed` is the number of bytes of its files.
    """

    def __init__(self, packed: int = 0) -> None:
        self._packed = packed
        self._paths, self._text = MOST_PATHS, MOST_TEXT
        self._most = self._bytes = SMALLEST_BOUND + RATIO * packed

    def take_member(self, text: int, origin: str) -> None:
        """Count a member with `text` characters of names and attributes.

        Raises:
            BuildError: the image has too many, or too long ones.
        """
        self._paths -= 1
        self._text -= text
        if self._paths < 0:
            raise BuildError(f"{origin} is of an image of more than {MOST_PATHS} members", hint=HOSTILE)
        if self._text < 0:
            raise BuildError(
                f"{origin} is of an image whose names need more than {MOST_TEXT} bytes", hint=HOSTILE
            )

    def take_bytes(self, size: int, origin: str) -> None:
        """Count unpacked bytes.

        Raises:
            BuildError: the image is a decompression bomb.
        """
        self._bytes -= size
        if self._bytes < 0:
            raise BuildError(
                f"{origin} is of an image of {self._packed} bytes that unpacks to more than {self._most}",
                hint=HOSTILE,
            )


class BaseAllowance(Allowance):
    """The bounds of all layers of a base image, as of one archive.

    `packed` is the number of bytes of its distinct files: a small layer can be listed five hundred times.
    """

    def __init__(self, packed: int) -> None:
        super().__init__(packed)
        self._most = self._bytes = most_bytes(packed)
