"""Checks of an xz block's filters in a squashfs.

https://tukaani.org/xz/xz-file-format.txt, sections 3.1 and 5.3.
"""

from __future__ import annotations

_STREAM_HEADER = 12
_LZMA2 = 0x21
_BRANCH = frozenset(range(0x04, 0x0A))  # x86, PowerPC, IA-64, ARM, ARM-Thumb, SPARC
_PACKED_SIZE, _PLAIN_SIZE = 0x40, 0x80  # flags: a size follows


def check_xz(packed: bytes, window: int) -> None:
    """Refuse a filter or dictionary that the kernel lacks.

    Only the first block of the stream is checked.

    Args:
        packed: a stream that was unpacked without an error.
        window: the largest dictionary in bytes.

    Raises:
        ValueError: a filter is neither LZMA2 nor one for branches, or the dictionary is larger.
    """
    flags, at = packed[_STREAM_HEADER + 1], _STREAM_HEADER + 2
    for size in (_PACKED_SIZE, _PLAIN_SIZE):
        if flags & size:
            _, at = _number(packed, at)
    for _ in range((flags & 3) + 1):
        kind, at = _number(packed, at)
        length, at = _number(packed, at)
        if kind == _LZMA2:
            bits = packed[at] & 0x3F
            if (2 | bits & 1) << (bits // 2 + 11) > window:
                raise ValueError("a packed block needs a larger dictionary than the kernel has")
        elif kind not in _BRANCH:
            raise ValueError(f"a packed block has the filter {kind:#x}, which the kernel does not know")
        at += length


def _number(packed: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length number, and the position after it.

    It has seven bits in each byte, least first.
    """
    value = shift = 0
    while True:
        byte = packed[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at
