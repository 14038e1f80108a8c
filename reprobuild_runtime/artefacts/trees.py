"""Comparison of two nested values, part by part.

They have dictionaries, lists, arrays and single values.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import struct
from collections import Counter

from reprobuild_runtime.artefacts.distance import steps
from reprobuild_runtime.artefacts.forms import (
    DEEPEST,
    Exact,
    Forms,
    Members,
    Opaque,
    OrderedDict,
    canonical,
    type_name,
)
from reprobuild_runtime.artefacts.found import LONGEST, Collector, UnreadableError, quoted
from reprobuild_runtime.artefacts.sections import Array, compare_arrays

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Set, Tuple


class Walk:
    """One comparison of two values."""

    def __init__(self, found: "Collector") -> None:
        self.found = found
        # Shared objects are compared once below each key, because the key decides the excuses; this also ends rings.
        self.seen: "Set[Tuple[int, int, Any, bool, Any, int]]" = set()
        self.forms = Forms()

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
            raise UnreadableError("it is nested more than %d deep" % DEEPEST)
        if type_name(one) != type_name(two):
            # A number may be whole in one run only: 3 and 3.1. An array is never excused.
            text = "%s and %s" % (_said(one), _said(two))
            if isinstance(one, Array) or isinstance(two, Array):
                self.found.differ("%s: %s" % (where, text))
            else:
                self.found.leaf(where, key, one, two, text, envelope, granted)
            return
        if isinstance(one, (dict, list, Opaque)):
            # Excuses at the top do not apply further down.
            pair = (id(one), id(two), key, envelope, repr(granted), min(depth, 2))
            if pair in self.seen:
                return
            self.seen.add(pair)
        if isinstance(one, Array):
            compare_arrays(where, one, two, self.found)
        elif isinstance(one, dict):
            self._dictionaries(where, key, one, two, depth, granted)
        elif isinstance(one, list):
            # A list below a granted key is one of such values.
            self._sequences(where, key, one, two, depth, granted)
        elif isinstance(one, Members):
            self._sets(where, one, two)
        elif isinstance(one, Opaque):
            if one.steps != two.steps:
                self.found.differ("%s: made in other steps: %s and %s" % (where, one.steps, two.steps))
            self._sequences(where, key, one.parts, two.parts, depth)
        else:
            self._single(where, key, one, two, envelope, granted)

    def _dictionaries(
        self, where: str, key: "Any", one: "Any", two: "Any", depth: int, granted: "Any"
    ) -> None:
        names = [self._keys(part) for part in (one, two)]
        for which, there, others in (("first", names[0], set(names[1])), ("second", names[1], set(names[0]))):
            for name, value in zip(there, (one if which == "first" else two).values()):
                if name not in others:
                    self._missing(_below(where, name[1]), name[1], which, isinstance(value, Array))
        common = set(names[0]) & set(names[1])
        if [name for name in names[0] if name in common] != [name for name in names[1] if name in common]:
            self.found.differ("%s: the same keys in another order" % (where or "at the top"))
        values = dict(zip(names[1], two.values()))
        if isinstance(one, OrderedDict):
            below_it = _below(where, "(attributes)")
            self._sequences(below_it, "(attributes)", one.attributes, two.attributes, depth + 1)
        rules = self.found.rules
        top = depth == 0 or (depth == 1 and rules.metadata(key))
        below = rules.loggers.granted(one, two, granted)
        for name, value in zip(names[0], one.values()):
            if name in common:
                # Below a number (an optimizer's state by index) the meaningful key is above.
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
            self.found.excuse(name, "ignored", "--ignore-key", where, "only in the %s run" % which)

    def _sequences(
        self,
        where: str,
        key: "Any",
        one: "Sequence[Any]",
        two: "Sequence[Any]",
        depth: int,
        granted: "Any" = None,
    ) -> None:
        if len(one) != len(two):
            self.found.differ("%s: %d and %d entries" % (where or "at the top", len(one), len(two)))
        for index, (a, b) in enumerate(zip(one, two)):
            self.compare("%s[%d]" % (where, index), key, a, b, depth + 1, granted=granted)

    def _keys(self, names: "Dict[Any, Any]") -> "List[Tuple[bool, str, int]]":
        """Return the type, text and repetition of each key.

        The parts are whether the key is a text, the text that shows it, and the number of earlier keys with that text.

        1 and "1" are two keys, and so are two objects of equal content.
        """
        keys: "List[Tuple[bool, str, int]]" = []
        before: "Counter[str]" = Counter()
        for name in names:
            if isinstance(name, str):
                keys.append((True, name, 0))
                continue
            form = self.forms.of(name)
            keys.append((False, form, before[form]))
            before[form] += 1
        return keys

    def _sets(self, where: str, one: "Members", two: "Members") -> None:
        forms = [[self.forms.of(item) for item in members.parts] for members in (one, two)]
        said = dict(zip([*forms[0], *forms[1]], [*one.parts, *two.parts]))
        self.found.values += len(forms[0])
        first, second = (Counter(part) for part in forms)
        for which, more in (("first", first - second), ("second", second - first)):
            for item in sorted(_said(said[form], form) for form in more.elements()):
                self.found.differ("%s: %s only in the %s run" % (where, item, which))

    def _single(self, where: str, key: "Any", one: "Any", two: "Any", envelope: bool, granted: "Any") -> None:
        text, found = "", self.found
        found.values += 1
        if isinstance(one, float):
            found.see(where, one != one, abs(one) == float("inf"), 1)
            if struct.pack("<d", one) != struct.pack("<d", two):
                far = " (%d ULP)" % steps(one, two) if abs(one) < float("inf") > abs(two) else ""
                text = "%r and %r%s" % (one, two, far)
            elif isinstance(one, Exact) or isinstance(two, Exact):
                digits = [value.digits if isinstance(value, Exact) else value for value in (one, two)]
                if digits[0] != digits[1]:
                    text = "%s and %s" % (quoted(str(digits[0]))[1:-1], quoted(str(digits[1]))[1:-1])
        elif isinstance(one, complex):
            text = "%r and %r" % (one, two) if canonical(one) != canonical(two) else ""
        elif one != two:
            text = "%s and %s" % (quoted(one), quoted(two))
        if text:
            found.leaf(where, key, one, two, text, envelope, granted)


def _said(value: "Any", form: str = "") -> str:
    """Describe a value; an object by its form or class name."""
    if not isinstance(value, (Opaque, OrderedDict)):
        return quoted(value)
    words = form or type_name(value)
    return words if words.isprintable() and len(words) <= LONGEST else ascii(words[:LONGEST])


def _below(where: str, name: str) -> str:
    shown = name if name.isprintable() and len(name) < 200 else quoted(name)
    return "%s.%s" % (where, shown) if where else shown
