"""Known loggers: times, rates and memory in their output.

The data is in `loggers.json`.

A pattern is a regular expression; in it `<time>`, `<ms>`, `<clock>`, `<eta>`, `<daytime>`, `<moment>`, `<rate>`,
`<memory>` and `<run>` match values that may differ, and `<int>`, `<num>` and `<text>` match compared values. A `word`
of the logger's must be in a line before its pattern is tried: most lines are not a logger's, and trying takes time.
"""

import json
import os
import re

from reprobuild_runtime.artefacts import moments
from reprobuild_runtime.artefacts.moments import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Match, Optional, Tuple

LONGEST = 2048  # characters of a line to search for loggers
_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+|nan|inf)"
_LENGTH = r" *\d+(?:\.\d+)?(?:e-\d+)?"
_CLOCK = r"(?:\d+ days?, )?\d+:\d\d(?::\d\d)?(?:\.\d+)?"
_COMPARED = {"int": r" *\d+", "num": " *" + _NUMBER, "text": ".*"}
_MAY_DIFFER = {
    "time": _LENGTH, "ms": _LENGTH, "clock": _CLOCK, "eta": _CLOCK + r"|\?|-+:-+:-+", "daytime": r"\d\d:\d\d:\d\d",
    "rate": " *" + _NUMBER + r"[kMGT]?|\?", "memory": " *" + _NUMBER + " ?(?:[kKMGT]i?B?)?",
    "moment": r"\d[^|\]]{9,40}?",
    # uuid4(), with and without its dashes: the version and the variant have fixed positions.
    "run": r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
           r"|[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}",
}  # fmt: skip
_KINDS = {
    "time": "time", "ms": "time", "clock": "time", "eta": "time", "daytime": "time", "moment": "time", "rate": "rate",
    "memory": "memory", "span": "time", "process": "process", "thread": "process", "run": "run",
}  # fmt: skip
_LEAST_THREAD = 1 << 32  # threads are identified by addresses


def _clock(text: str) -> float:
    days, _, rest = text.rpartition(" ")
    seconds = 0.0
    for part in rest.split(":"):
        seconds = seconds * 60 + float(part)
    return seconds + 86400 * int(days.split()[0] if days else 0)


# A time is excluded only if it cannot have passed within its run; a rate and memory have no bound.
_POSSIBLE: "Dict[str, Callable[[str, Run], bool]]" = {
    "time": lambda text, run: run.length(float(text)),
    "ms": lambda text, run: run.length(float(text) / 1e3),
    "clock": lambda text, run: run.length(int(_clock(text))),
    "daytime": lambda text, run: moments.of_day_at(text, 0, run) is not None,
    "moment": lambda text, run: moments.is_moment(text, run),
}


class Span:
    """A part of a text that may differ: place, kind, and logger."""

    def __init__(self, start: int, end: int, kind: str, logger: str) -> None:
        self.start, self.end, self.kind, self.logger = start, end, kind, logger


def _compiled(pattern: str) -> "Any":
    counts: "List[str]" = []

    def macro(match: "Match[str]") -> str:
        name = match.group(1)
        if name in _COMPARED:
            return "(?:%s)" % _COMPARED[name]
        counts.append(name)
        return "(?P<%s_%d>%s)" % (name, len(counts), _MAY_DIFFER[name])

    return re.compile(re.sub(r"<(%s)>" % "|".join([*_COMPARED, *_MAY_DIFFER]), macro, pattern))


class _Line:
    """A pattern of a logger's lines.

    It has the keys with numbers that may differ.
    """

    def __init__(self, logger: str, pattern: str, word: str, fields: "Dict[str, str]", bar: bool) -> None:
        self.logger, self.pattern, self.word, self.bar = logger, _compiled(pattern), word, bar
        self.fields = [
            (form, re.compile(
                r"(?<![\w/])[\"']?" + re.escape(key) + r"[\"']?(?:\s?[=:]|(?= ))\s{0,9}[\"']?"
                r"(" + _MAY_DIFFER[form] + r")(?=[\s\"',|})]|[A-Za-z]{1,2}\b|$)"
            )) for key, form in fields.items()
        ]  # fmt: skip

    def spans(self, text: str, run: "Run") -> "Iterator[Span]":
        """Yield the parts of this logger's text that may differ."""
        match = self.pattern.search(text) if self.word in text else None
        if match is None:
            return
        for name, value in match.groupdict().items():
            form = name.partition("_")[0]
            if form in _KINDS and value is not None and _may_have_form(form, value, run):
                yield Span(match.start(name), match.end(name), _KINDS[form], self.logger)
        for form, field in self.fields:
            for occurrence in field.finditer(text, match.start(), match.end()):
                if _may_have_form(form, occurrence.group(1), run):
                    yield Span(occurrence.start(1), occurrence.end(1), _KINDS[form], self.logger)


def _may_have_form(form: str, text: str, run: "Run") -> bool:
    try:
        return form not in _POSSIBLE or _POSSIBLE[form](text.strip(), run)
    except ValueError:
        return False


class _Record:
    """The keys of a logger's record, and of its excused values.

    `*` is one beginning of keys.

    The form of a key is that of its value, or a dictionary of forms if its value is a dictionary.
    """

    def __init__(self, logger: str, keys: "List[str]", excused: "Dict[str, Any]") -> None:
        self.logger, self.keys, self.excused = logger, keys, excused

    def granted(self, record: "Dict[Any, Any]") -> "Dict[str, Any]":
        """Return {key: form} of a record's values that may differ.

        It is empty if the record is not of this logger.
        """
        first = self.keys[0]
        starts = [""]
        if "*" in first:
            end = first[1:]
            starts = [key[: -len(end)] for key in record if isinstance(key, str) and key.endswith(end)]
        return {
            key.replace("*", start): form
            for start in starts
            if all(needed.replace("*", start) in record for needed in self.keys)
            for key, form in self.excused.items()
        }


class Loggers:
    """All known loggers."""

    def __init__(self) -> None:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "loggers.json")
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.prefixes = [re.compile(pattern) for pattern in data["prefixes"]]
        self._lines = [
            _Line(
                logger["name"], line["pattern"], line["word"], line.get("fields", {}), line.get("bar", False)
            )
            for logger in data["loggers"]
            for line in logger.get("lines", [])
        ]
        self._records = [
            _Record(logger["name"], record["keys"], record["excused"])
            for logger in data["loggers"]
            for record in logger.get("records", [])
        ]

    def spans(self, text: str, run: "Run") -> "List[Span]":
        """Return the excused parts of a known logger's line.

        They are in order, and do not overlap.
        """
        spans: "List[Span]" = []
        if len(text) <= LONGEST and any(letter.isdigit() for letter in text):
            every = (span for line in self._lines for span in line.spans(text, run))
            for span in sorted(every, key=lambda span: (span.start, -span.end)):
                if not spans or span.start >= spans[-1].end:
                    spans.append(span)
        return spans

    def bar(self, text: str) -> bool:
        """Return whether a text is only a progress bar or percentage."""
        return len(text) <= LONGEST and any(
            line.bar and line.word in text and line.pattern.fullmatch(text) for line in self._lines
        )

    def granted(
        self, first: "Dict[Any, Any]", second: "Dict[Any, Any]", above: "Optional[Tuple[Any, str]]" = None
    ) -> "Dict[str, Tuple[Any, str]]":
        """Return {key: (form, logger)} of values that may differ.

        Both records must be of one logger.

        Args:
            above: the forms by key that the outer record grants to them, and the logger.
        """
        forms: "Dict[str, Tuple[Any, str]]" = {}
        if above is not None and isinstance(above[0], dict):
            forms.update({key: (form, above[1]) for key, form in above[0].items()})
        for rule in self._records:
            other = rule.granted(second)
            forms.update(
                {key: (form, rule.logger) for key, form in rule.granted(first).items() if key in other}
            )
        return forms


def has_possible_form(form: "Any", value: "Any", run: "Run") -> bool:
    """Return whether a record's value has its key's form.

    An empty cell of a table has no form.
    """
    if not isinstance(form, str):
        return False
    if form == "moment":
        return moments.is_moment(value, run)
    if form in ("process", "thread"):
        return type(value) is int and (run.owns(value) if form == "process" else value >= _LEAST_THREAD)
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return False
    text = repr(value) if isinstance(value, float) else str(value)
    return re.fullmatch(_MAY_DIFFER[form], text.strip()) is not None and _may_have_form(form, text, run)


def kind_of(form: str) -> str:
    """Return the category of a form: time, rate or memory."""
    return _KINDS[form]
