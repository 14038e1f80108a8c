"""What was found in one artefact: differences, what was excused, notes; bounded, since files may differ everywhere."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    from reprobuild_runtime.artefacts.excuses import Rules

TOLD = 20  # differences that are told in words
MOST = 100  # excused keys that are told
LONGEST = 120  # characters of a value that are quoted


class Unreadable(Exception):
    """A file is not of the format that it seems to be of."""


class Found:
    """Collects what is found."""

    def __init__(self, rules: "Rules") -> None:
        self.rules = rules
        self.count = 0
        self.differences: "List[str]" = []
        self.excused: "Dict[Tuple[str, str], List[Any]]" = {}
        self.notes: "List[str]" = []

    def differ(self, text: str) -> None:
        """Note a difference."""
        self.count += 1
        if len(self.differences) < TOLD:
            self.differences.append(text)

    def note(self, text: str) -> None:
        """Note what is to be known of the comparison, once."""
        if text not in self.notes:
            self.notes.append(text)

    def leaf(self, where: str, key: "Any", one: "Any", two: "Any", text: str) -> None:
        """Note that two single values differ, in words `text`, unless a rule excuses it.

        Args:
            where: place and key, for people.
            key: the key that leads to the values, None where there is none.
        """
        name = self.rules.excuse(key if isinstance(key, str) else None, one, two)
        if not name:
            self.differ("%s: %s" % (where, text))
            return
        self.excuse(key if isinstance(key, str) else "text", name, where, text)

    def excuse(self, key: str, name: str, where: str, text: str) -> None:
        """Note what a rule excused."""
        self.excused.setdefault((key[:LONGEST], name), [0, where, text])[0] += 1

    def excuses(self) -> "List[str]":
        """Return what was excused, in words: one line for each key and rule."""
        told = [
            "%s (%s): %d time%s, the first %s: %s" % (key, name, count, "s" * (count != 1), where, text)
            for (key, name), (count, where, text) in list(self.excused.items())[:MOST]
        ]
        more = len(self.excused) - len(told)
        return [*told, "and %d keys more" % more] if more > 0 else told


def quoted(value: "Any") -> str:
    """Return a value as it is written in Python, cut short; never a control character."""
    if isinstance(value, (bytes, str)) and len(value) > LONGEST:
        return "%s of %d: %s..." % (type(value).__name__, len(value), ascii(value[:LONGEST]))
    text = (
        ascii(value)
        if isinstance(value, (str, bytes, int, float, bool, type(None)))
        else type(value).__name__
    )
    return text if len(text) <= 2 * LONGEST else text[:LONGEST] + "..."
