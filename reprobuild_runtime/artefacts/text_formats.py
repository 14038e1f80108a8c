"""Text files: JSON, JSON lines, CSV, and logs by line."""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import csv
import decimal
import json
import math
import re
from itertools import chain, zip_longest

from reprobuild_runtime.artefacts.findings import Collector, UnreadableError, quoted
from reprobuild_runtime.artefacts.forms import Exact, canonical
from reprobuild_runtime.artefacts.nested import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

LONGEST = 16 << 20  # bytes of one line
LONGEST_DRAWN = 1 << 17  # characters of a line to search for bars and NaN
WHOLE = 256 << 20  # bytes of a JSON document
_UP = "\x1b[A"  # the cursor goes up: a bar below another one was drawn, and is erased
_HELD = 8  # lines that a cursor can go up
_PERCENT = re.compile(r"\s*\d{1,3}(?:\.\d+)? ?%\s*")
_SHOWN = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\x08")
# Texts of NaN and infinities beside a key, or in a cell: `loss nan`, `"loss": NaN`, `,inf,`.
_STRANGE = re.compile(
    r"(?:[=:,(\[]\s{0,9}|(?:loss|ppl|perplexity|norm|accuracy|acc|error)\s{1,9}|^)[\"']?[-+]?(?:(nan)|inf|infinity)[\"']?"
    r"(?=\s*(?:$|[,;|)\]}]|-? ?[A-Za-z_]+[=:]))", re.IGNORECASE,
)  # fmt: skip
_STAMP = re.compile(r"\[[\d/:., -]{8,30}\](?= )")
_STEPS = ("step", "global_step", "iteration", "iter", "epoch", "batch")


def lines(path: str, bar: "Optional[Callable[[str], bool]]" = None) -> "Iterator[str]":
    """Yield the lines of a text without their ends.

    Args:
        bar: returns whether a text is only a progress bar: an overwritten one is left out.
    """
    buffer: "List[str]" = []
    for text in _read(path):
        if bar is None:
            yield text
            continue
        ups = text.count(_UP) if len(text) <= LONGEST_DRAWN else 0
        if ups and ups <= len(buffer):
            pieces = text.split(_UP)
            if all(_gone(piece, bar) for piece in pieces[:-1]):
                text = buffer[-ups] + "\r" + pieces[-1]
                del buffer[-ups:]
        buffer.append(text)
        if len(buffer) > _HELD:
            yield _left(buffer.pop(0), bar)
    for text in buffer:
        yield text if bar is None else _left(text, bar)


def _read(path: str) -> "Iterator[str]":
    with open(path, "rb") as file:
        while True:
            line = file.readline(LONGEST + 1)
            if not line:
                return
            if len(line) > LONGEST:
                raise UnreadableError("a line is longer than %d bytes" % LONGEST)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError:
                raise UnreadableError("it is no text in UTF-8") from None
            yield text[:-1] if text.endswith("\n") else text


def _gone(text: str, bar: "Callable[[str], bool]") -> bool:
    return all(not part.strip() or _is_bar(part, bar) for part in text.split("\r"))


def _is_bar(text: str, bar: "Callable[[str], bool]") -> bool:
    shown = _SHOWN.sub("", text)
    return _PERCENT.fullmatch(shown) is not None or bar(shown)


def _left(text: str, bar: "Callable[[str], bool]") -> str:
    """Return a line without overwritten progress bars.

    Other text that ends in `\\r` stays, and counts.
    """
    if "\r" not in text:
        return text
    parts = [part for part in text.split("\r") if part.strip()]
    return "\r".join([*(part for part in parts[:-1] if not _is_bar(part, bar)), *parts[-1:]])


def look_at(where: str, text: str, collector: "Collector", log: bool = False) -> None:
    """Record the NaN and infinities of one line.

    Of a log only NaN counts, because `best so far: inf` is not a result.
    """
    collector.values += bool(text.strip())
    if "n" in text[:LONGEST_DRAWN].lower():
        nan_flags = [bool(match.group(1)) for match in _STRANGE.finditer(text[:LONGEST_DRAWN])]
        collector.see(where, sum(nan_flags), 0 if log else len(nan_flags) - sum(nan_flags), len(nan_flags))


def unique(pairs: "List[Tuple[str, Any]]") -> "Dict[str, Any]":
    """Return a dictionary of pairs; ValueError for a repeated key."""
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise ValueError("a key stands twice")
    return mapping


def _number(text: str) -> float:
    """Return a number, with all its digits if a float is too short.

    `1e-400` and `2e-400` are two numbers.
    """
    number = float(text)
    if repr(number) == text:
        return number
    if math.isinf(number):  # `1e400` and `1e500` are two numbers
        raise ValueError("a number is too large")
    try:
        whole = decimal.Decimal(text)
    except decimal.InvalidOperation:
        raise ValueError("a number is too small") from None
    if whole == decimal.Decimal(repr(number)):
        return number
    exact = Exact(number)
    exact.digits = whole
    return exact


def _whole(text: str) -> "int | float":
    if len(text) > _DIGITS:
        raise ValueError("a number is too long")
    return int(text) if text != "-0" else -0.0


_DIGITS = 4300  # of a whole number, which take time with the square of their number
NUMBERS: "Dict[str, Any]" = {"parse_float": _number, "parse_int": _whole}


def parse(text: str) -> "Any":
    """Parse a JSON text.

    Unreadable is raised if it is not valid, or has a key twice.
    """
    try:
        return json.loads(text, object_pairs_hook=unique, **NUMBERS)
    except (ValueError, RecursionError) as err:
        raise UnreadableError("no JSON: %s" % ascii(str(err))[:200]) from None


def compare_json(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two JSON documents."""
    values = []
    for path in (first_path, second_path):
        with open(path, "rb") as file:
            text = file.read(WHOLE + 1)
        if len(text) > WHOLE:
            raise UnreadableError("it is longer than %d bytes" % WHOLE)
        try:
            values.append(parse(text.decode("utf-8")))
        except UnicodeDecodeError:
            raise UnreadableError("it is no text in UTF-8") from None
    Walk(collector).compare("", None, *values)
    if not collector.count and not collector.excused:
        collector.note("written differently, and equal in what it says")


def compare_json_lines(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two files of JSON lines.

    The first differing line shows the step at which the drift began.
    """
    wrong = total = 0
    for total, (first, second) in enumerate(zip_longest(lines(first_path), lines(second_path)), 1):
        look_at("line %d" % total, first or "", collector)
        if first == second:
            continue
        before = collector.count
        if first is None or second is None:
            collector.differ("line %d: only in the %s run%s" % (
                total, "second" if first is None else "first", _step(_record(second or first or ""))
            ))  # fmt: skip
        else:
            values = parse(first), parse(second)
            Walk(collector).compare("line %d%s" % (total, _step(values[0])), None, *values)
        wrong += collector.count > before
    _sum_up(wrong, total, collector)


def _record(text: str) -> "Any":
    try:
        return parse(text)
    except UnreadableError:
        return None


def _step(record: "Any") -> str:
    if isinstance(record, dict):
        for name in _STEPS:
            if isinstance(record.get(name), (int, float)):
                return " (%s %s)" % (name, record[name])
    return ""


def compare_csv(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two tables; the first row names the columns."""
    wrong, row = 0, 0
    names: "List[str]" = []
    for row, (first, second) in enumerate(zip_longest(_rows(first_path), _rows(second_path)), 1):
        look_at("row %d" % row, ",".join(first or []), collector)
        if row == 1 and first == second:
            names = first or []
        if first == second:
            continue
        before = collector.count
        if first is None or second is None:
            collector.differ("row %d: only in the %s run" % (row, "second" if first is None else "first"))
        elif len(first) != len(second):
            collector.differ("row %d: %d and %d columns" % (row, len(first), len(second)))
        else:
            granted = collector.rules.loggers.granted(dict(zip(names, first)), dict(zip(names, second)))
            for index, (a, b) in enumerate(zip(first, second)):
                name = names[index] if index < len(names) else "column %d" % (index + 1)
                if a == b:
                    continue
                where, values = "row %d %s" % (row, quoted(name)[1:-1]), (_cell(a), _cell(b))
                if canonical(values[0]) == canonical(values[1]):  # `007` and `7` are two names
                    values = a, b
                Walk(collector).compare(where, name, *values, envelope=True, granted=granted.get(name))
        wrong += collector.count > before
    _sum_up(wrong, row, collector)


def _rows(path: str) -> "Iterator[List[str]]":
    try:
        texts = lines(path)
        head = next(texts, None)
        if head is not None:
            tabs = "\t" in head and "," not in head
            rows = chain([head], texts)
            yield from csv.reader((text + "\n" for text in rows), delimiter="\t" if tabs else ",")
    except csv.Error as err:
        raise UnreadableError("no table: %s" % err) from None


def _cell(text: str) -> "Any":
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class OmittedTimes:
    """The times that rich's handler leaves out, where they equal the one above (`omit_repeated_times`)."""

    def __init__(self) -> None:
        self._stamps = ["", ""]

    def restore(self, texts: "List[str]") -> "List[str]":
        """Return a line of both runs, with the time that only one of them leaves out."""
        omits = [
            bool(stamp.strip()) and text.startswith(" " * (len(stamp) + 1))
            for text, stamp in zip(texts, self._stamps)
        ]
        for run, text in enumerate(texts):
            match = _STAMP.match(text)
            if match:
                self._stamps[run] = match.group()
        if sum(omits) != 1 or not _STAMP.match(texts[omits.index(False)]):
            return texts
        return [
            stamp + text[len(stamp) :] if omitted else text
            for text, stamp, omitted in zip(texts, self._stamps, omits)
        ]


def compare_text(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two logs."""
    wrong = total = 0
    bar, times = collector.rules.loggers.bar, OmittedTimes()
    for total, (first, second) in enumerate(zip_longest(lines(first_path, bar), lines(second_path, bar)), 1):
        look_at("line %d" % total, first or "", collector, log=True)
        if first is not None and second is not None:
            first, second = times.restore([first, second])
        if first == second:
            continue
        before = collector.count
        if first is None or second is None:
            only = quoted(second or first or "")
            collector.differ(
                "line %d: only in the %s run: %s" % (total, "second" if first is None else "first", only)
            )
        else:
            collector.line("line %d" % total, first, second)
        wrong += collector.count > before
    _sum_up(wrong, total, collector)
    if not collector.count and not collector.excused:
        collector.note("equal but for line ends, and for what a progress bar wrote over")


def _sum_up(wrong: int, total: int, collector: "Collector") -> None:
    if wrong:
        collector.note("%d of %d lines differ" % (wrong, total))
