"""Comparison of two nested values, part by part.

They have dictionaries, lists, arrays and single values.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import struct
from collections import Counter

from reprobuild_runtime.artefacts.findings import LONGEST, Collector, UnreadableError, quoted
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
from reprobuild_runtime.artefacts.sections import Array, compare_arrays
from reprobuild_runtime.artefacts.ulp import steps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence, Set, Tuple


class Walk:
    """One comparison of two values."""

    def __init__(self, collector: "Collector") -> None:
        self.found = collector
        # Shared objects are compared once below each key, because the key decides the excuses; this also ends rings.
        self.seen: "Set[Tuple[int, int, Any, bool, Any, int]]" = set()
        self.forms = Forms()

    def compare(
        self, where: str, key: "Any", first: "Any", second: "Any", depth: int = 0, envelope: bool = False,
        granted: "Any" = None,
    ) -> None:  # fmt: skip
        """Compare two values.

        Args:
            key: the nearest key of a dictionary above them.
            envelope, granted: see `Rules.excuse`.
        """
        if depth > DEEPEST:
            raise UnreadableError("it is nested more than %d deep" % DEEPEST)
        if type_name(first) != type_name(second):
            # A number may be whole in one run only: 3 and 3.1. An array is never excused.
            text = "%s and %s" % (_describe_value(first), _describe_value(second))
            if isinstance(first, Array) or isinstance(second, Array):
                self.found.differ("%s: %s" % (where, text))
            else:
                self.found.leaf(where, key, first, second, text, envelope, granted)
            return
        if isinstance(first, (dict, list, Opaque)):
            # Excuses at the top do not apply further down.
            pair = (id(first), id(second), key, envelope, repr(granted), min(depth, 2))
            if pair in self.seen:
                return
            self.seen.add(pair)
        if isinstance(first, Array):
            compare_arrays(where, first, second, self.found)
        elif isinstance(first, dict):
            self._dictionaries(where, key, first, second, depth, granted)
        elif isinstance(first, list):
            # A list below a granted key is one of such values.
            self._sequences(where, key, first, second, depth, granted)
        elif isinstance(first, Members):
            self._sets(where, first, second)
        elif isinstance(first, Opaque):
            if first.steps != second.steps:
                self.found.differ("%s: made in other steps: %s and %s" % (where, first.steps, second.steps))
            self._sequences(where, key, first.parts, second.parts, depth)
        else:
            self._single(where, key, first, second, envelope, granted)

    def _dictionaries(
        self, where: str, key: "Any", first: "Any", second: "Any", depth: int, granted: "Any"
    ) -> None:
        names = [self._keys(part) for part in (first, second)]
        for which, keys, others in (("first", names[0], set(names[1])), ("second", names[1], set(names[0]))):
            for name, value in zip(keys, (first if which == "first" else second).values()):
                if name not in others:
                    self._missing(_child_path(where, name[1]), name[1], which, isinstance(value, Array))
        common = set(names[0]) & set(names[1])
        if [name for name in names[0] if name in common] != [name for name in names[1] if name in common]:
            self.found.differ("%s: the same keys in another order" % (where or "at the top"))
        values = dict(zip(names[1], second.values()))
        if isinstance(first, OrderedDict):
            below_it = _child_path(where, "(attributes)")
            self._sequences(below_it, "(attributes)", first.attributes, second.attributes, depth + 1)
        rules = self.found.rules
        top = depth == 0 or (depth == 1 and rules.metadata(key))
        below = rules.loggers.granted(first, second, granted)
        for name, value in zip(names[0], first.values()):
            if name in common:
                # Below a number (an optimizer's state by index) the meaningful key is above.
                shown = name[1]
                above = isinstance(key, str) and shown.isdigit() and not rules.ignores(shown)
                self.compare(
                    _child_path(where, shown), key if above else shown, value, values[name], depth + 1,
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
        first: "Sequence[Any]",
        second: "Sequence[Any]",
        depth: int,
        granted: "Any" = None,
    ) -> None:
        if len(first) != len(second):
            self.found.differ("%s: %d and %d entries" % (where or "at the top", len(first), len(second)))
        for index, (a, b) in enumerate(zip(first, second)):
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

    def _sets(self, where: str, first: "Members", second: "Members") -> None:
        forms = [[self.forms.of(item) for item in members.parts] for members in (first, second)]
        by_form = dict(zip([*forms[0], *forms[1]], [*first.parts, *second.parts]))
        self.found.values += len(forms[0])
        first_counts, second_counts = (Counter(part) for part in forms)
        for which, more in (
            ("first", first_counts - second_counts),
            ("second", second_counts - first_counts),
        ):
            for item in sorted(_describe_value(by_form[form], form) for form in more.elements()):
                self.found.differ("%s: %s only in the %s run" % (where, item, which))

    def _single(
        self, where: str, key: "Any", first: "Any", second: "Any", envelope: bool, granted: "Any"
    ) -> None:
        text, collector = "", self.found
        collector.values += 1
        if isinstance(first, float):
            collector.see(where, first != first, abs(first) == float("inf"), 1)
            if struct.pack("<d", first) != struct.pack("<d", second):
                far = " (%d ULP)" % steps(first, second) if abs(first) < float("inf") > abs(second) else ""
                text = "%r and %r%s" % (first, second, far)
            elif isinstance(first, Exact) or isinstance(second, Exact):
                digits = [value.digits if isinstance(value, Exact) else value for value in (first, second)]
                if digits[0] != digits[1]:
                    text = "%s and %s" % (quoted(str(digits[0]))[1:-1], quoted(str(digits[1]))[1:-1])
        elif isinstance(first, complex):
            text = "%r and %r" % (first, second) if canonical(first) != canonical(second) else ""
        elif first != second:
            text = "%s and %s" % (quoted(first), quoted(second))
        if text:
            collector.leaf(where, key, first, second, text, envelope, granted)


def _describe_value(value: "Any", form: str = "") -> str:
    """Describe a value; an object by its form or class name."""
    if not isinstance(value, (Opaque, OrderedDict)):
        return quoted(value)
    words = form or type_name(value)
    return words if words.isprintable() and len(words) <= LONGEST else ascii(words[:LONGEST])


def _child_path(where: str, name: str) -> str:
    shown = name if name.isprintable() and len(name) < 200 else quoted(name)
    return "%s.%s" % (where, shown) if where else shown
