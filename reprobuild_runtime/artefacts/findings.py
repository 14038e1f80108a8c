"""The findings on one artefact: differences, excuses, notes.

Their number is limited, because files may differ everywhere.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from reprobuild_runtime.artefacts.ignore_rules import ExcuseRules

TOLD = 20  # differences in a report
MOST = 100  # excused keys in a report
LONGEST = 120  # characters of a quoted value


class UnreadableError(Exception):
    """A file does not have its apparent format."""


class Collector:
    """The findings of a comparison.

    Attributes:
        counts: the numbers of excused values, by kind.
        strange: the numbers of NaN or infinite values, by place, up to some places.
        numbers, nans: floating-point elements of arrays, and those of them that are NaN.
        values: elements and single values of all kinds.
    """

    def __init__(self, rules: "ExcuseRules") -> None:
        self.rules = rules
        self.count = 0
        self.differences: "List[str]" = []
        self.excused: "Dict[Tuple[str, str], List[Any]]" = {}
        self.counts: "Dict[str, int]" = {}
        self.notes: "List[str]" = []
        self.strange: "Dict[str, str]" = {}
        self.places = self.numbers = self.nans = self.values = 0

    def differ(self, text: str) -> None:
        """Record a difference."""
        self.count += 1
        if len(self.differences) < TOLD:
            self.differences.append(text)

    def note(self, text: str) -> None:
        """Record a note on the comparison, once."""
        if text not in self.notes:
            self.notes.append(text)

    def leaf(
        self,
        where: str,
        key: "Any",
        first: "Any",
        second: "Any",
        text: str,
        envelope: bool = False,
        granted: "Any" = None,
    ) -> None:
        """Record a difference of two single values, unless excused.

        `text` describes it.

        Args:
            where: place and key, for people.
            key: the key that leads to the values, None without a key.
            envelope, granted: see `Rules.excuse`.
        """
        name = key if isinstance(key, str) else None
        self._excused_or_not(
            self.rules.excuse(name, first, second, envelope, granted), name or "text", where, text
        )

    def line(self, where: str, first: str, second: str) -> None:
        """Record a difference of two log lines, unless excused."""
        text = "%s and %s" % (quoted(first), quoted(second))
        self._excused_or_not(self.rules.texts(first, second), "text", where, text)

    def _excused_or_not(self, rules: "List[Tuple[str, str]]", key: str, where: str, text: str) -> None:
        if not rules:
            self.differ("%s: %s" % (where, text))
        for kind, name in rules:
            self.excuse(key, kind, name, where, text)

    def excuse(self, key: str, kind: str, name: str, where: str, text: str) -> None:
        """Record an excused difference."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.excused.setdefault((key[:LONGEST], name), [0, where, text])[0] += 1

    def see(self, where: str, nans: int, infinite: int, total: int) -> None:
        """Record the NaN and infinite numbers at a place."""
        if not nans and not infinite:
            return
        self.places += 1
        if len(self.strange) < TOLD:
            texts = ["%d NaN" % nans] * bool(nans) + ["%d infinite" % infinite] * bool(infinite)
            self.strange.setdefault(where or "at the top", "%s of %d" % (", ".join(texts), total))

    def warnings(self) -> "List[str]":
        """Return the places of NaN and infinities, in words."""
        lines = ["%s: %s" % item for item in self.strange.items()]
        more = self.places - len(lines)
        return [*lines, "and in %d places more" % more] if more > 0 else lines

    def excuses(self) -> "List[str]":
        """Return the excuses in words, a line for each key and rule."""
        lines = [
            "%s (%s): %d time%s, the first %s: %s" % (key, name, count, "s" * (count != 1), where, text)
            for (key, name), (count, where, text) in list(self.excused.items())[:MOST]
        ]
        more = len(self.excused) - len(lines)
        return [*lines, "and %d keys more" % more] if more > 0 else lines


def quoted(value: "Any") -> str:
    """Return a value in Python's notation, shortened.

    It has no control characters.
    """
    if isinstance(value, (bytes, str)) and len(value) > LONGEST:
        return "%s of %d: %s..." % (type(value).__name__, len(value), ascii(value[:LONGEST]))
    if isinstance(value, int) and value.bit_length() > 256:
        return (
            "an integer of %d bits" % value.bit_length()
        )  # its digits take time with the square of their number
    text = (
        ascii(value)
        if isinstance(value, (str, bytes, int, float, bool, type(None)))
        else type(value).__name__
    )
    return text if len(text) <= 2 * LONGEST else text[:LONGEST] + "..."
