"""The number that a command prints or writes."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.regular_files import read_plain

LARGEST = 16 << 20  # bytes of a file with numbers
LONGEST = 1 << 16  # bytes at the end of standard output
LONGEST_LINE = (
    512  # characters; an ordinary expression may take the cube of it, as `([0-9]+[.]?[0-9]*) it/s` does
)
# Parts of an expression that match no text of their own, or any: lookarounds, flags, classes, escapes, repetitions.
_WITHOUT_TEXT = re.compile(r"\(\?<?[=!][^)]*\)|\(\?[a-zA-Z-]*[:)]|\[\^?\]?[^\]]*\]|\\.|\{[\d,]*\}")
# A number has none of these signs; `.`, `^` and `|` are of the expression.
_OF_NO_NUMBER = re.compile(r"[^\d\s+.*?^$|()eE_-]")
# The end of an expression that repeats classes: `[0-9.]+` of `loss=[0-9.]+`.
_REPEAT = r"(?:[+*]|\{[\d,]+\})"
_REPEATED_END = re.compile(
    rf"(?:(?:\\[dSw.]|\[[^\]]+\]|[-.])(?:{_REPEAT}|\?)?)*(?:\\[dSw]|\[[^\]]+\]|\.){_REPEAT}\Z"
)
_INDEX = re.compile(r"-?[0-9]{1,18}")  # of a list
_PLAIN_TEXT = re.compile(r"[\w =:/,-]*")


class Metric(Struct, frozen=True, kw_only=True):
    """The place of a number.

    Attributes:
        pattern: a regular expression for a part of a line, whose first group is the number in its last match; in a file
            of JSON, keys with dots between them.
        file: the file's path, as `--output-file` has it; empty for standard output.
    """

    pattern: str
    file: str = ""

    def read_output(self, output: bytes) -> float | None:
        """Return the number in standard output, or None."""
        return self._match(output[-LONGEST:].decode(errors="replace"))

    def read_file(self, path: Path) -> float | None:
        """Return the number in a file that a container wrote, or None."""
        try:
            content = read_plain(path, LARGEST)
        except OSError:
            return None
        try:
            value = msgspec.json.decode(content)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._match(content[-LONGEST:].decode(errors="replace"))
        for key in self.pattern.split("."):
            if isinstance(value, list) and _INDEX.fullmatch(key) and -len(value) <= int(key) < len(value):
                value = value[int(key)]
            elif isinstance(value, dict) and key in value:
                value = value[key]
            else:
                return None
        return _read_number(value)

    def _match(self, text: str) -> float | None:
        for line in reversed(text.splitlines()):
            if matches := list(re.finditer(self.pattern, line[:LONGEST_LINE])):
                return _read_number(matches[-1][1 if matches[-1].re.groups else 0])
        return None


def _read_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def check_metric(metric: Metric) -> Metric:
    """Return a metric whose expression is valid, and can match a number.

    Raises:
        UsageError: it is not, or its match has signs of no number and no group; a key of a file is too long.
    """
    if metric.file and max(map(len, metric.pattern.split("."))) > LONGEST_LINE:
        raise UsageError(
            f"--metric: a key of {metric.file} has more than {LONGEST_LINE} characters",
            hint="name the keys of the number, with dots between them: --metric val.loss",
        )
    try:
        groups = re.compile(metric.pattern).groups
    except (re.error, RecursionError, OverflowError) as err:
        raise UsageError(
            f"--metric {metric.pattern}: not a regular expression: {err}",
            hint="its first group is the number: --metric 'loss=([0-9.]+)'",
        ) from None
    if not groups and not metric.file and _OF_NO_NUMBER.search(_WITHOUT_TEXT.sub("", metric.pattern)):
        raise UsageError(
            f"--metric {metric.pattern}: no group, so that the whole match would be the number",
            hint=f"put the number in parentheses: --metric {shlex.quote(_add_group(metric.pattern))}; "
            "a key needs its file: --metric-file",
        )
    return metric


def _add_group(pattern: str) -> str:
    """Return an expression with a group for the number: its repeated end, or the place behind its text."""
    if match := _REPEATED_END.search(pattern):
        return f"{pattern[: match.start()]}({match[0]})"
    return f"{pattern}([-+.e0-9]+)" if _PLAIN_TEXT.fullmatch(pattern) else "loss=([-+.e0-9]+)"
