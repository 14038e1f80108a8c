"""What may differ between two runs of one command, told by name and by form; the rules are `excuses.json`.

A rule excuses a value only where it has the form that its name promises: a time must lie within its run or last no
longer than it, a host must be the run's own. `never` names what no rule excuses, a tensor never is, and everything
that was excused is told. What the user names with `--ignore` is excused whatever it is, but tensors and their keys.
"""

import calendar
import json
import math
import os
import re
import time
from fnmatch import fnmatchcase

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Match, Optional, Sequence, Set

SLACK = (
    2.0  # seconds about a run that still count as within it: clocks of containers start before and end after
)
_QUARTER = 900  # local times differ from UTC by quarters of an hour
_FURTHEST = 14 * 3600
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "m": 60.0, "h": 3600.0}
_STAMP = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[T _](\d\d):(\d\d):(\d\d)([.,]\d+)?(Z|[+-]\d\d:?\d\d)?$")
_OF_DAY = re.compile(r"(\d\d):(\d\d):(\d\d)(?:[.,]\d+)?$")
_LASTED = re.compile(r"(?:(\d{1,3}):)?(\d{1,3}):(\d\d(?:\.\d+)?)(?:<(?:\?|[\d:]+))?$")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?(?:e-?\d+)?) ?([a-zµ]*)$")
# Bounded, and begun at no letter within a word, so that a long line without any key is not read over and over.
_TOLD_KEY = re.compile(
    r"(?<!\w)([A-Za-z_][\w./-]{0,99})([\"']?\s{0,9}[=:]\s{0,9})"
    r"(\d+(?::\d\d)+(?:\.\d+)?|[-+]?\d[\w.+-]*|\"[^\"]*\"|'[^']*'|[^\s,;|&(){}\[\]]+)"
)
_LONGEST = 1 << 17  # characters of a text in which anything is excused


class Run:
    """One of the two runs: when it began and ended, in seconds since 1970, and the name of its host."""

    def __init__(self, began: float, ended: float, host: str) -> None:
        self.began, self.ended, self.host = began - SLACK, ended + SLACK, host

    def moment(self, seconds: float, zoned: bool = False) -> bool:
        """Tell whether a time lies within the run; without its zone, in any."""
        if zoned:
            return self.began <= seconds <= self.ended
        shift = math.ceil((self.began - seconds) / _QUARTER) * _QUARTER
        return abs(shift) <= _FURTHEST and self.began <= seconds + shift <= self.ended

    def of_day(self, seconds: float) -> bool:
        """Tell whether a time of the day is one within the run, in any zone."""
        shift = math.ceil((self.began - seconds) / _QUARTER) * _QUARTER
        return seconds + shift <= self.ended

    def length(self, seconds: float) -> bool:
        """Tell whether something can have lasted so long within the run."""
        return 0 <= seconds <= self.ended - self.began


def stamp(text: str, run: "Run") -> bool:
    """Tell whether a text is a time within the run."""
    text = text.strip()
    found = _STAMP.match(text)
    if found:
        year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
        zone, zoned = found.group(8) or "", bool(found.group(8))
        offset = 0
        if zone not in ("", "Z"):
            digits = zone[1:].replace(":", "")
            offset = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return False
        return run.moment(calendar.timegm((year, month, day, hour, minute, second)) - offset, zoned)
    found = _OF_DAY.match(text)
    if found:
        hour, minute, second = (int(part) for part in found.groups())
        return run.of_day(hour * 3600 + minute * 60 + second)
    words = text.split()
    if len(words) in (5, 6):  # as ctime(3) and date(1) write it
        try:
            return run.moment(
                calendar.timegm(time.strptime(" ".join(words[:4] + words[-1:]), "%a %b %d %H:%M:%S %Y"))
            )
        except ValueError:
            return False
    return False


def clock(value: "Any", run: "Run", key: str = "") -> bool:
    """Tell whether a value is a time within the run, or a length of time no longer than it."""
    if isinstance(value, bool):
        return False
    if isinstance(value, (int, float)):
        if not math.isfinite(value):
            return False
        unit = next(
            (factor for name, factor in _UNITS.items() if key.endswith("_" + name) or key == name), 1.0
        )
        # Epochs are counted in seconds down to nanoseconds; lengths are taken for seconds where the key does not say.
        if any(run.moment(value / scale, True) for scale in (1, 1e3, 1e6, 1e9)):
            return True
        return run.length(value * unit) or (unit == 1.0 and "millis" in key and run.length(value / 1e3))
    if not isinstance(value, str):
        return False
    if stamp(value, run):
        return True
    found = _LENGTH.match(value.strip())
    if found:
        word = found.group(2)
        return run.length(float(found.group(1)) * _UNITS.get(word, 60.0 if word.startswith("min") else 1.0))
    found = _LASTED.match(value.strip())
    if not found:
        return False
    hours, minutes, seconds = found.groups()
    return run.length(int(hours or 0) * 3600 + int(minutes) * 60 + float(seconds))


_FORMS: "Dict[str, Callable[[Any, Run, str], bool]]" = {
    "clock": clock,
    "text": lambda value, run, key: isinstance(value, str) and clock(value, run, key),
    "rate": lambda value, run, key: isinstance(value, (int, float, str)) and not isinstance(value, bool),
    "host": lambda value, run, key: value == run.host,
    "whole": lambda value, run, key: isinstance(value, int) and 0 < value < 1 << 48,
    "name": lambda value, run, key: isinstance(value, (int, str)) and not isinstance(value, bool),
    "path": lambda value, run, key: isinstance(value, str),
}
_CHECKS: "Dict[str, Callable[[str, Run], bool]]" = {
    "moment": lambda text, run: (
        run.moment(float(text), True) if text.replace(".", "", 1).isdigit() else stamp(text, run)
    ),
    "length": lambda text, run: clock(text, run),
    "rate": lambda text, run: True,
    "whole": lambda text, run: True,
    "temporary": lambda text, run: True,
    "address": lambda text, run: True,
}


def plain(key: str) -> str:
    """Return a key as the rules spell it: small letters and digits, words parted by `_`."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", key)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


class Rules:
    """The rules, for two runs and with the keys that the user ignores."""

    def __init__(self, runs: "Sequence[Run]", ignored: "Sequence[str]" = ()) -> None:
        with open(
            os.path.join(os.path.dirname(os.path.abspath(__file__)), "excuses.json"), encoding="utf-8"
        ) as file:
            data = json.load(file)
        self.runs = runs
        self.ignored = [plain(key) if "*" not in key else key.lower() for key in ignored]
        self.never, self.anywhere = re.compile(data["never"]), frozenset(data["anywhere"])
        self.keys = [(rule["name"], re.compile(rule["pattern"]), rule["form"]) for rule in data["keys"]]
        self.forms = [(rule["name"], re.compile(rule["pattern"]), rule["check"]) for rule in data["forms"]]

    def ignores(self, key: str) -> bool:
        """Tell whether the user ignores a key."""
        return any(fnmatchcase(plain(key), wanted) for wanted in self.ignored)

    def always(self, key: str) -> bool:
        """Tell whether a key, and all below it, is of what no rule ever excuses: `loss` among its words."""
        return not self.anywhere.isdisjoint(plain(key).split("_"))

    def refuses(self, key: str) -> bool:
        """Tell whether no rule but the user's own excuses a key."""
        return self.always(key) or self.never.fullmatch(plain(key)) is not None

    def excuse(self, key: "Optional[str]", one: "Any", two: "Any") -> str:
        """Return the name of the rule that lets two values of one key differ; nothing where none does."""
        if key is not None:
            if self.ignores(key):
                return "--ignore"
            spelled = plain(key)
            if self.refuses(key):
                return ""
            for name, pattern, form in self.keys:
                if pattern.fullmatch(spelled):
                    suits = _FORMS[form]
                    return (
                        name
                        if suits(one, self.runs[0], spelled) and suits(two, self.runs[1], spelled)
                        else ""
                    )
        if isinstance(one, str) and isinstance(two, str) and self.same_text(one, two):
            return "form"
        return ""

    def same_text(self, one: str, two: str) -> bool:
        """Tell whether two texts differ only in what may differ."""
        if max(len(one), len(two)) > _LONGEST:
            return False
        return self.reduced(one, self.runs[0]) == self.reduced(two, self.runs[1])

    def reduced(self, text: str, run: "Run") -> str:
        """Return a text with `<NAME>` in the place of what may differ in it."""
        pieces: "List[str]" = []
        end = 0
        for found in _TOLD_KEY.finditer(text):
            key, between, _ = found.groups()
            if self.ignores(key):
                kept = key + between + "<--ignore>"
            elif self.refuses(key):
                kept = found.group()
            else:
                continue
            pieces += [self._free(text[end : found.start()], run), kept]
            end = found.end()
        return "".join([*pieces, self._free(text[end:], run)])

    def _free(self, text: str, run: "Run") -> str:
        """Reduce a text in which no key stands whose value never differs."""
        if run.host:
            text = text.replace(run.host, "<host>")
        text = self._formed(text, run, {"moment"})

        def told(found: "Match[str]") -> str:
            key, between, value = found.groups()
            spelled = plain(key)
            for name, pattern, form in self.keys:
                if pattern.fullmatch(spelled) and _FORMS[form](_number(value), run, spelled):
                    return key + between + "<%s>" % name
            return found.group()

        return self._formed(_TOLD_KEY.sub(told, text), run, set(_CHECKS) - {"moment"})

    def _formed(self, text: str, run: "Run", checks: "Set[str]") -> str:
        for name, pattern, check in self.forms:
            if check in checks:
                text = pattern.sub(_replacing("<%s>" % name, _CHECKS[check], run), text)
        return text


def _replacing(name: str, passes: "Callable[[str, Run], bool]", run: "Run") -> "Callable[[Match[str]], str]":
    return lambda found: name if passes(found.group(), run) else found.group()


def _number(text: str) -> "Any":
    """Return the number that a text is, else the text without its quotation marks."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")
