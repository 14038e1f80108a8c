"""Two values made of dictionaries, lists, arrays and single values, compared part by part."""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

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
        self.seen: "Set[Tuple[int, int]]" = set()  # shared objects are compared once, and rings end

    def compare(self, where: str, key: "Any", one: "Any", two: "Any", depth: int = 0) -> None:
        """Compare two values; `key` is the nearest key of a dictionary above them."""
        if depth > DEEPEST:
            raise Unreadable("it is nested more than %d deep" % DEEPEST)
        name, other = _type(one), _type(two)
        if name != other:
            # A number may be whole in one run only: 3 and 3.1.
            self.found.leaf(where, key, one, two, "%s and %s" % (quoted(one), quoted(two)))
            return
        if isinstance(one, (dict, list, tuple, set, frozenset, Opaque)):
            if (id(one), id(two)) in self.seen:
                return
            self.seen.add((id(one), id(two)))
        if isinstance(one, Array):
            compare_arrays(where, one, two, self.found)
        elif isinstance(one, dict):
            self._dictionaries(where, key, one, two, depth)
        elif isinstance(one, (list, tuple)):
            self._sequences(where, key, one, two, depth)
        elif isinstance(one, (set, frozenset)):
            self._sets(where, one, two)
        elif isinstance(one, Opaque):
            self._sequences(where, key, one.parts, two.parts, depth)
        else:
            self._single(where, key, one, two)

    def _dictionaries(self, where: str, key: "Any", one: "Any", two: "Any", depth: int) -> None:
        names = [[_key(name) for name in part] for part in (one, two)]
        for which, there, others in (("first", names[0], set(names[1])), ("second", names[1], set(names[0]))):
            for name in there:
                if name not in others and not self.found.rules.ignores(name):
                    self.found.differ("%s: only in the %s run" % (_below(where, name), which))
        common = set(names[0]) & set(names[1])
        if [name for name in names[0] if name in common] != [name for name in names[1] if name in common]:
            self.found.differ("%s: the same keys in another order" % (where or "at the top"))
        values = dict(zip(names[1], two.values()))
        for name, value in zip(names[0], one.values()):
            if name in common:
                # Below a number (an optimizer's state by index) the key that has a meaning stands above.
                self.compare(
                    _below(where, name), name if not name.isdigit() else key, value, values[name], depth + 1
                )

    def _sequences(
        self, where: str, key: "Any", one: "Sequence[Any]", two: "Sequence[Any]", depth: int
    ) -> None:
        if len(one) != len(two):
            self.found.differ("%s: %d and %d entries" % (where or "at the top", len(one), len(two)))
        for index, (a, b) in enumerate(zip(one, two)):
            self.compare("%s[%d]" % (where, index), key, a, b, depth + 1)

    def _sets(self, where: str, one: "Any", two: "Any") -> None:
        if any(isinstance(item, (Opaque, Array)) for item in (*one, *two)):
            raise Unreadable("a set holds objects, which have no order")
        for which, more in (("first", one - two), ("second", two - one)):
            for item in sorted(map(quoted, more)):
                self.found.differ("%s: %s only in the %s run" % (where, item, which))

    def _single(self, where: str, key: "Any", one: "Any", two: "Any") -> None:
        if isinstance(one, float):
            if one.hex() != two.hex():
                far = " (%d ULP)" % steps(one, two) if abs(one) < float("inf") > abs(two) else ""
                self.found.leaf(where, key, one, two, "%r and %r%s" % (one, two, far))
        elif one != two:
            self.found.leaf(where, key, one, two, "%s and %s" % (quoted(one), quoted(two)))


def _type(value: "Any") -> str:
    return value.name if isinstance(value, Opaque) else type(value).__name__


def _key(name: "Any") -> str:
    return name if isinstance(name, str) else "(%s)" % _type(name) if isinstance(name, Opaque) else repr(name)


def _below(where: str, name: str) -> str:
    shown = name if name.isprintable() and len(name) < 200 else quoted(name)
    return "%s.%s" % (where, shown) if where else shown
