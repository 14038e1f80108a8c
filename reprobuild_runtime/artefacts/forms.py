"""Values beyond Python's own, and their canonical texts.

The texts differ if and only if the values differ.
"""

import hashlib
import re
import struct

from reprobuild_runtime.artefacts.findings import UnreadableError
from reprobuild_runtime.artefacts.sections import Array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from decimal import Decimal
    from typing import Any, Dict, Iterable, List, Optional, Sequence, Set, Tuple

DEEPEST = 200
_LONGEST = 1000  # characters of a text; a longer one is replaced by its digest
_MOST = 200_000  # parts of objects that lead to a ring: such an object has a text of its own at each place
_NAME = re.compile(r"[\w.<>]+")


class Opaque:
    """An object of a class that is not created here.

    It has its name, its parts, and the steps of its creation.
    """

    def __init__(self, name: str, parts: "Iterable[Any]" = (), steps: str = "") -> None:
        self.name, self.parts, self.steps = name, list(parts), steps


class Members(Opaque):
    """A set: its members have no order.

    Two objects of equal content are two members.
    """


class OrderedDict(dict):  # type: ignore[type-arg]  # not to be written so before Python 3.9
    """An ordered dictionary, which may have attributes.

    Those of a module's state hold its version.
    """

    attributes: "Sequence[Any]" = ()

    def __setstate__(self, state: "Any") -> None:
        if self.attributes:
            raise UnreadableError("an object has two states")
        self.attributes = (state,)


class Exact(float):
    """A number with more digits than a float holds.

    `digits` is the number with all of them.
    """

    digits: "Decimal"


def type_name(value: "Any") -> str:
    """Return the name of a value's type, as people know it."""
    if isinstance(value, Exact):
        return "float"
    return value.name if isinstance(value, Opaque) else type(value).__name__


def canonical(value: "Any") -> str:
    """Return a text that only equal values share.

    They are of one type, and floats have one bit pattern.
    """
    return Forms().of(value)


class Forms:
    """The canonical texts of many values.

    Each shared object is read once.
    """

    def __init__(self) -> None:
        self._known: "Dict[int, Tuple[Any, str]]" = {}  # an id is only valid while its object lives
        self._open: "Dict[int, int]" = {}
        self._rings = 0

    def of(self, value: "Any") -> str:
        """Return the canonical text of a value."""
        return self._form(value)[0]

    def _form(self, value: "Any") -> "Tuple[str, bool]":
        """Return the text, and whether it has a ring.

        A text with a ring is valid only at its position.
        """
        text = _single(value)
        if text is not None:
            return (text if len(text) <= _LONGEST else _digest("", [text])), False
        if id(value) in self._known:
            return self._known[id(value)][1], False
        if id(value) in self._open:
            return "ring(%d up)" % (len(self._open) - self._open[id(value)]), True
        if len(self._open) >= DEEPEST:
            raise UnreadableError("it is nested more than %d deep" % DEEPEST)
        self._open[id(value)] = len(self._open)
        text, ringed = self._content(value)
        del self._open[id(value)]
        if not ringed:
            self._known[id(value)] = value, text
        return text, ringed

    def _content(self, value: "Any") -> "Tuple[str, bool]":
        if isinstance(value, Array):
            return _of_array(value), False
        forms = [self._form(part) for part in _parts(value)]
        texts = [form[0] for form in forms]
        ringed = any(form[1] for form in forms)
        self._rings += len(forms) if ringed else 0
        if self._rings > _MOST:
            raise UnreadableError("the rings in its keys and sets are too many")
        if isinstance(value, Members):
            texts.sort()
        name, steps = type_name(value), value.steps if isinstance(value, Opaque) else ""
        shown = (name if _NAME.fullmatch(name) else ascii(name)) + ("[%s]" % steps if steps else "")
        if sum(map(len, texts)) + len(shown) > _LONGEST:
            return _digest(shown, texts), ringed
        return "%s(%s)" % (shown, ", ".join(texts)), ringed


def _parts(value: "Any") -> "List[Any]":
    if isinstance(value, dict):
        parts = [part for pair in value.items() for part in pair]
        return [*parts, list(value.attributes)] if isinstance(value, OrderedDict) else parts
    return list(value.parts if isinstance(value, Opaque) else value)


def _single(value: "Any") -> "Optional[str]":
    if isinstance(value, Exact):
        return "float:%s:%s" % (struct.pack("<d", value).hex(), _exactly(value.digits))
    if isinstance(value, float):
        return "float:%s" % struct.pack("<d", value).hex()
    if isinstance(value, complex):
        return "complex:%s" % struct.pack("<2d", value.real, value.imag).hex()
    if isinstance(value, int) and value.bit_length() > 256:
        return hex(value)  # in decimal it takes time with the square of its length
    if isinstance(value, (str, bytes, bytearray, int, type(None))):
        return repr(value)
    return None


def _exactly(number: "Decimal") -> str:
    """Return a text that equal numbers share: `0.10` is `0.1`."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    short = text.rstrip("0")
    return "%d %s %d" % (sign, short, int(exponent) + len(text) - len(short))


def _of_array(value: "Array") -> str:
    digest = hashlib.sha256()
    for piece in value.section.pieces(1 << 20):
        digest.update(piece)
    facts = (value.dtype, value.shape, value.layout, value.note, digest.hexdigest())
    return "array:%r" % (facts,)


def _digest(name: str, texts: "List[str]") -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass"))
    for text in texts:
        data = text.encode("utf-8", "surrogatepass")
        digest.update(b"\0%d\0" % len(data) + data)
    return "%s(sha256:%s)" % (name, digest.hexdigest())


def reached(value: "Any", parts: "Any") -> "Set[int]":
    """Return the ids of all objects reachable from a value.

    Args:
        parts: returns the parts of an object; empty for a single value.
    """
    ids: "Set[int]" = set()
    stack = [value]
    while stack:
        item = stack.pop()
        inner = parts(item)
        if inner and id(item) not in ids:
            stack.extend(inner)
        ids.add(id(item))
    return ids
