"""Distances of numbers: differing elements, ULP, absolute and relative.

Elements are compared by bytes, not by value.

`+0.0` and `-0.0`, and two NaNs with other payloads, are different bytes and are counted as such; NaNs and infinities
have no distance. The distance of two floating-point numbers in units in the last place (ULP) is the number of
representable steps between them; of integers it is their difference.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import math
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

BLOCK = 1 << 16  # bytes that are compared at once; equal ones are not examined further
LOOK = 2_000_000  # differing elements to examine without NumPy, which is a hundred times faster


class ElementType:
    """A type of elements: width in bytes, form, mantissa bits.

    The last one is for floating point.
    """

    def __init__(self, width: int, form: str, mantissa: int = 0, finite: bool = False) -> None:
        self.width, self.form, self.mantissa = width, form, mantissa
        self.finite = finite  # the largest exponent holds numbers too, and NaN is all ones (OCP's e4m3)


KINDS: "Dict[str, ElementType]" = {
    "float64": ElementType(8, "float", 52), "float32": ElementType(4, "float", 23),
    "float16": ElementType(2, "float", 10),
    "bfloat16": ElementType(2, "float", 7), "float8_e5m2": ElementType(1, "float", 2),
    "float8_e4m3fn": ElementType(1, "float", 3, finite=True), "bool": ElementType(1, "raw"),
    **{"int%d" % (8 * width): ElementType(width, "int") for width in (1, 2, 4, 8)},
    **{"uint%d" % (8 * width): ElementType(width, "uint") for width in (1, 2, 4, 8)},
    "complex64": ElementType(4, "float", 23), "complex128": ElementType(8, "float", 52),
    "complex32": ElementType(2, "float", 10),
}  # fmt: skip
RAW = ElementType(1, "raw")
_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class Tally:
    """The statistics of differing elements."""

    def __init__(self, kind: "ElementType") -> None:
        self.kind = kind
        self.differing = self.looked = 0
        self.first: "Optional[int]" = None
        self.steps = 0  # ULP, or the difference of integers
        self.absolute = self.relative = 0.0
        self.zeros = self.payloads = self.nans = self.infinite = 0

    @property
    def partial(self) -> bool:
        """Whether only some differing elements were examined."""
        return self.looked < self.differing

    def add(self, at: int, first: bytes, second: bytes) -> None:
        """Count the elements of two pieces of equal length.

        They begin at element `at`.
        """
        numpy = _numpy() if len(first) > 4096 else None
        if numpy is not None:
            self._add_with(numpy, at, first, second)
            return
        code = "<%d%s" % (len(first) // self.kind.width, _CODES[self.kind.width])
        for index, (a, b) in enumerate(zip(struct.unpack(code, first), struct.unpack(code, second))):
            if a != b:
                self.differing += 1
                if self.first is None:
                    self.first = at + index
                if self.looked < LOOK:
                    self.looked += 1
                    self._look(a, b)

    def _look(self, a: int, b: int) -> None:
        """Record two elements with different bits."""
        kind = self.kind
        if kind.form == "raw":
            return
        if kind.form in ("int", "uint"):
            signed = kind.form == "int"
            far = abs(_whole(a, kind.width, signed) - _whole(b, kind.width, signed))
            self.steps, self.absolute = max(self.steps, far), max(self.absolute, float(far))
            return
        first, second = decode(a, kind), decode(b, kind)
        if math.isnan(first) or math.isnan(second):
            both = math.isnan(first) and math.isnan(second)
            self.payloads, self.nans = self.payloads + both, self.nans + (not both)
        elif math.isinf(first) or math.isinf(second):
            self.infinite += 1
        else:
            self.zeros += first == second
            self.steps = max(self.steps, abs(_ordered(a, kind) - _ordered(b, kind)))
            self._far(abs(first - second), max(abs(first), abs(second)))

    def _far(self, absolute: float, size: float) -> None:
        self.absolute = max(self.absolute, absolute)
        if size:
            self.relative = max(self.relative, absolute / size)

    def _add_with(self, numpy: "Any", at: int, first: bytes, second: bytes) -> None:
        """Count the elements with NumPy."""
        kind = self.kind
        bits = [numpy.frombuffer(piece, "<u%d" % kind.width) for piece in (first, second)]
        where = numpy.flatnonzero(bits[0] != bits[1])
        if not where.size:
            return
        self.differing += int(where.size)
        self.looked += int(where.size)
        if self.first is None:
            self.first = at + int(where[0])
        a, b = bits[0][where], bits[1][where]
        if kind.form in ("int", "uint"):
            a, b = (part.view("<%s%d" % ("i" if kind.form == "int" else "u", kind.width)) for part in (a, b))
            more = numpy.where(a > b, a, b).astype("i8" if kind.form == "int" else "u8").view("u8")
            less = numpy.where(a > b, b, a).astype("i8" if kind.form == "int" else "u8").view("u8")
            far = int((more - less).max())  # unsigned, so that it cannot overflow
            self.steps, self.absolute = max(self.steps, far), max(self.absolute, float(far))
        elif kind.form == "float":
            with numpy.errstate(all="ignore"):
                self._floats_with(numpy, a, b)

    def _floats_with(self, numpy: "Any", a: "Any", b: "Any") -> None:
        kind = self.kind
        first, second = _values(numpy, a, kind), _values(numpy, b, kind)
        nan = (numpy.isnan(first), numpy.isnan(second))
        self.payloads += int((nan[0] & nan[1]).sum())
        self.nans += int((nan[0] ^ nan[1]).sum())
        some = ~(nan[0] | nan[1])
        finite = numpy.isfinite(first) & numpy.isfinite(second)
        self.infinite += int((some & ~finite).sum())
        if not finite.any():
            return
        a, b, first, second = a[finite].astype("u8"), b[finite].astype("u8"), first[finite], second[finite]
        self.zeros += int((first == second).sum())
        top = numpy.uint64(8 * kind.width - 1)
        mask = numpy.uint64((1 << (8 * kind.width - 1)) - 1)
        big, small = numpy.maximum(a & mask, b & mask), numpy.minimum(a & mask, b & mask)
        self.steps = max(
            self.steps, int(numpy.where((a >> top) == (b >> top), big - small, big + small).max())
        )
        far, size = numpy.abs(first - second), numpy.maximum(numpy.abs(first), numpy.abs(second))
        self.absolute = max(self.absolute, float(far.max()))
        known = size > 0
        if known.any():
            self.relative = max(self.relative, float((far[known] / size[known]).max()))


def count_specials(kind: "ElementType", piece: bytes) -> "Tuple[int, int]":
    """Return the numbers of NaN and infinite elements.

    The bits of floating-point elements decide.
    """
    mantissa = (1 << kind.mantissa) - 1
    most = ((1 << (8 * kind.width - 1)) - 1) & ~mantissa  # the largest exponent; only NaN is above it
    numpy = _numpy() if len(piece) > 4096 else None
    if numpy is not None:
        number = numpy.dtype("u%d" % kind.width).type
        bits = numpy.frombuffer(piece, "<u%d" % kind.width) & number(most | mantissa)
        if kind.finite:
            return int((bits == number(most | mantissa)).sum()), 0
        return int((bits > number(most)).sum()), int((bits == number(most)).sum())
    codes = struct.unpack("<%d%s" % (len(piece) // kind.width, _CODES[kind.width]), piece)
    candidates = [bits & (most | mantissa) for bits in codes if bits & most == most]
    if kind.finite:
        return sum(bits == most | mantissa for bits in candidates), 0
    return sum(bits > most for bits in candidates), sum(bits == most for bits in candidates)


def decode(bits: int, kind: "ElementType") -> float:
    """Return the number that an element's bits represent."""
    if kind.width == 8:
        return float(struct.unpack("<d", struct.pack("<Q", bits))[0])
    if kind.width == 4 or (kind.width == 2 and kind.mantissa == 7):
        return float(struct.unpack("<f", struct.pack("<I", bits if kind.width == 4 else bits << 16))[0])
    if kind.width == 2:
        return float(struct.unpack("<e", struct.pack("<H", bits))[0])
    exponents = 7 - kind.mantissa
    bias, top = (1 << (exponents - 1)) - 1, (1 << exponents) - 1
    fraction, exponent = bits & ((1 << kind.mantissa) - 1), (bits >> kind.mantissa) & top
    sign = -1.0 if bits >> 7 else 1.0
    if exponent == top and (not kind.finite or fraction == (1 << kind.mantissa) - 1):
        return math.nan if fraction else sign * math.inf
    scale = 2.0 ** (max(exponent, 1) - bias)
    return sign * scale * ((1.0 if exponent else 0.0) + fraction / (1 << kind.mantissa))


def steps(first: float, second: float) -> int:
    """Return the distance of two finite Python floats in ULP."""
    kind = KINDS["float64"]
    a, b = (struct.unpack("<Q", struct.pack("<d", value))[0] for value in (first, second))
    return abs(_ordered(a, kind) - _ordered(b, kind))


def _ordered(bits: int, kind: "ElementType") -> int:
    """Return an integer that rises by one with each number.

    Numbers are the representable ones; both zeros are 0.
    """
    top = 1 << (8 * kind.width - 1)
    return -(bits - top) if bits & top else bits


def _whole(bits: int, width: int, signed: bool) -> int:
    return bits - (1 << 8 * width) if signed and bits >> (8 * width - 1) else bits


def _values(numpy: "Any", bits: "Any", kind: "ElementType") -> "Any":
    """Return the numbers of bit patterns, as float64."""
    if kind.width == 1:
        return numpy.array([decode(number, kind) for number in range(256)])[bits]
    if kind.width == 2 and kind.mantissa == 7:
        return (bits.astype("<u4") << numpy.uint32(16)).view("<f4").astype("f8")
    return bits.view("<f%d" % kind.width).astype("f8")


_found: "List[Any]" = []


def _numpy() -> "Any":
    """Return the image's NumPy, or None."""
    if not _found:
        try:
            from importlib import import_module

            _found.append(import_module("numpy") if sys.byteorder == "little" else None)
        except Exception:  # any error of a broken NumPy: it is not the subject
            _found.append(None)
    return _found[0]


def place(index: int, shape: "Sequence[int]") -> str:
    """Return the array index of an element.

    The element is given by the number of elements before it.
    """
    indices = []
    for size in reversed(shape):
        indices.append(index % size if size else 0)
        index = index // size if size else 0
    return "[%s]" % ", ".join(map(str, reversed(indices)))


def describe(tally: "Tally", elements: int, shape: "Optional[Sequence[int]]", pairs: bool = False) -> str:
    """Describe the differences."""
    parts = ["%d of %d elements differ" % (tally.differing, elements)]
    if tally.first is not None:
        at = tally.first // 2 if pairs else tally.first
        parts.append(
            "the first at %s" % (place(at, shape) if shape is not None else "element %d as stored" % at)
        )
    if tally.kind.form == "float" and tally.steps:
        parts.append(
            "at most %d ULP, %.3g absolute, %.3g relative apart"
            % (tally.steps, tally.absolute, tally.relative)
        )
    elif tally.kind.form in ("int", "uint"):
        parts.append("at most %d apart" % tally.steps)
    named: "Tuple[Tuple[int, str], ...]" = (
        (tally.zeros, "zeros with another sign"), (tally.payloads, "NaNs with other payloads"),
        (tally.nans, "NaN in one run only"), (tally.infinite, "infinite in one run only"),
    )  # fmt: skip
    parts += ["%d %s" % pair for pair in named if pair[0]]
    if tally.partial:
        parts.append("distances of the first %d (NumPy is not in the image)" % tally.looked)
    return ", ".join(parts)
