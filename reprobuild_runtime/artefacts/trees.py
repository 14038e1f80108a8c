"""Two values made of dictionaries, lists, arrays and single values, compared part by part."""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import hashlib
import struct

from reprobuild_runtime.artefacts.distance import steps
from reprobuild_runtime.artefacts.found import Found, Unreadable, quoted
from reprobuild_runtime.artefacts.sections import Array, compare_arrays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Sequence, Set, Tuple

DEEPEST = 200


class Opaque:
    """An object of a class that is not made here: its name, and all that it was made of."""

    def __init__(self, name: str, parts: "Tuple[Any, ...]") -> None:
        self.name, self.parts = name, parts


class Walk:
    """One comparison of two values."""

    def __init__(self, found: "Found") -> None:
        self.found = found
        # Shared objects are compared once below each key, which decides what is excused, and rings end.
        self.seen: "Set[Tuple[int, int, Any, bool, Any]]" = set()

    def compare(
        self, where: str, key: "Any", one: "Any", two: "Any", depth: int = 0, envelope: bool = False,
        granted: "Any" = None,
    ) -> None:  # fmt: skip
        """Compare two values.

        Args:
            key: the nearest key of a dictionary above them.
            envelope, granted: see `Rules.excuse`.
        """
        if depth > DEEPEST:
            raise Unreadable("it is nested more than %d deep" % DEEPEST)
        name, other = _type(one), _type(two)
        if name != other:
            # A number may be whole in one run only: 3 and 3.1. An array is never excused.
            text = "%s and %s" % (quoted(one), quoted(two))
            if isinstance(one, Array) or isinstance(two, Array):
                self.found.differ("%s: %s" % (where, text))
            else:
                self.found.leaf(where, key, one, two, text, envelope, granted)
            return
        if isinstance(one, (dict, list, tuple, set, frozenset, Opaque)):
            pair = (id(one), id(two), key, envelope, repr(granted))
            if pair in self.seen:
                return
            self.seen.add(pair)
        if isinstance(one, Array):
            compare_arrays(where, one, two, self.found)
        elif isinstance(one, dict):
            self._dictionaries(where, key, one, two, depth, granted)
        elif isinstance(one, (list, tuple)):
            self._sequences(where, key, one, two, depth)
        elif isinstance(one, (set, frozenset)):
            self._sets(where, one, two)
        elif isinstance(one, Opaque):
            self._sequences(where, key, one.parts, two.parts, depth)
        else:
            self._single(where, key, one, two, envelope, granted)

    def _dictionaries(
        self, where: str, key: "Any", one: "Any", two: "Any", depth: int, granted: "Any"
    ) -> None:
        names = [[_key(name) for name in part] for part in (one, two)]
        for which, there, others in (("first", names[0], set(names[1])), ("second", names[1], set(names[0]))):
            for name, value in zip(there, (one if which == "first" else two).values()):
                if name not in others:
                    self._missing(_below(where, name[1]), name[1], which, isinstance(value, Array))
        common = set(names[0]) & set(names[1])
        if [name for name in names[0] if name in common] != [name for name in names[1] if name in common]:
            self.found.differ("%s: the same keys in another order" % (where or "at the top"))
        values = dict(zip(names[1], two.values()))
        rules = self.found.rules
        top = depth == 0 or (depth == 1 and rules.metadata(key))
        below = rules.loggers.granted(one, two, granted)
        for name, value in zip(names[0], one.values()):
            if name in common:
                # Below a number (an optimizer's state by index) the key that has a meaning stands above.
                shown = name[1]
                above = isinstance(key, str) and shown.isdigit() and not rules.ignores(shown)
                self.compare(
                    _below(where, shown), key if above else shown, value, values[name], depth + 1,
                    top and name[0], below.get(shown) if name[0] else None,
                )  # fmt: skip

    def _missing(self, where: str, name: str, which: str, array: bool) -> None:
        if array or not self.found.rules.ignores(name):
            self.found.differ("%s: only in the %s run" % (where, which))
        else:
            self.found.excuse(name, "ignored", "--ignore", where, "only in the %s run" % which)

    def _sequences(
        self, where: str, key: "Any", one: "Sequence[Any]", two: "Sequence[Any]", depth: int
    ) -> None:
        if len(one) != len(two):
            self.found.differ("%s: %d and %d entries" % (where or "at the top", len(one), len(two)))
        for index, (a, b) in enumerate(zip(one, two)):
            self.compare("%s[%d]" % (where, index), key, a, b, depth + 1)

    def _sets(self, where: str, one: "Any", two: "Any") -> None:
        first, second = ({canonical(item): item for item in items} for items in (one, two))
        for which, these, others in (("first", first, second), ("second", second, first)):
            for item in sorted(quoted(these[form]) for form in these if form not in others):
                self.found.differ("%s: %s only in the %s run" % (where, item, which))

    def _single(self, where: str, key: "Any", one: "Any", two: "Any", envelope: bool, granted: "Any") -> None:
        text, found = "", self.found
        found.values += 1
        if isinstance(one, float):
            found.see(where, one != one, abs(one) == float("inf"), 1)
            if struct.pack("<d", one) != struct.pack("<d", two):
                far = " (%d ULP)" % steps(one, two) if abs(one) < float("inf") > abs(two) else ""
                text = "%r and %r%s" % (one, two, far)
        elif isinstance(one, complex):
            text = "%r and %r" % (one, two) if canonical(one) != canonical(two) else ""
        elif one != two:
            text = "%s and %s" % (quoted(one), quoted(two))
        if text:
            found.leaf(where, key, one, two, text, envelope, granted)


def _type(value: "Any") -> str:
    return value.name if isinstance(value, Opaque) else type(value).__name__


def canonical(value: "Any") -> str:
    """Return a text that is the same for equal values alone: of one type, and floats of one bit pattern."""
    if isinstance(value, float):
        return "float:%s" % struct.pack("<d", value).hex()
    if isinstance(value, complex):
        return "complex:%s" % struct.pack("<2d", value.real, value.imag).hex()
    if isinstance(value, (str, bytes, int, type(None))):
        return repr(value)
    if isinstance(value, Array):
        digest = hashlib.sha256()
        for piece in value.section.pieces(1 << 20):
            digest.update(piece)
        facts = (value.dtype, value.shape, value.layout, value.note, digest.hexdigest())
        return "array:%r" % (facts,)
    if isinstance(value, dict):
        parts = ["%s: %s" % (canonical(name), canonical(item)) for name, item in value.items()]
    else:
        parts = [canonical(item) for item in (value.parts if isinstance(value, Opaque) else value)]
    return "%s(%s)" % (
        _type(value), ", ".join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)
    )  # fmt: skip


def _key(name: "Any") -> "Tuple[bool, str]":
    """Return whether a key is a text, and the text that shows it: 1 and "1" are two keys."""
    return (True, name) if isinstance(name, str) else (False, canonical(name))


def _below(where: str, name: str) -> str:
    shown = name if name.isprintable() and len(name) < 200 else quoted(name)
    return "%s.%s" % (where, shown) if where else shown
