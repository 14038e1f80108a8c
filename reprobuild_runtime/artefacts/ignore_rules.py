"""Values that may differ between two runs of a command.

By default a value is excused only if its form proves its meaning (a moment within its run, the run's own host or
process, a random uuid, an address) and if it is in the envelope of a log: the beginning of a line, a top-level key of a
record. Beyond that `loggers.json` lists the times and rates of known loggers, and `--ignore-key` names the rest. A
tensor is never excused, and each excuse is counted.
"""

# ruff: noqa: B905  zip has no `strict` before Python 3.10

import json
import os
import re
from fnmatch import fnmatchcase

from reprobuild_runtime.artefacts import moments
from reprobuild_runtime.artefacts.loggers import Loggers, has_possible_form, kind_of
from reprobuild_runtime.artefacts.moments import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Match, Optional, Pattern, Sequence, Tuple

    Excuse = Tuple[str, str]  # the kind that is counted, and the rule in words

IGNORED = "ignored"
_LONGEST = 1 << 17  # characters of a text that may have excuses
_TOKENS = 12  # of an envelope
_OWN = re.compile(r"\d{1,10}")
_PROCESS = re.compile(r"pid[ =:](\d{1,10})")
_WORDY = 8  # characters of a host's name that no other text has by chance
_NUMBER = r"[-+]?(?:\d[\w.]*(?:[eE][-+]\d+)?|\.\d+)"
# Bounded, and not begun within a word, so that a long line without any key is not read over and over.
_KEY = re.compile(
    r"(?<!\w)([A-Za-z_][\w./-]{0,99})([\"']?\s{0,9}[=:]\s{0,9}|\s{1,9}(?=[-+.]?\d))"
    r"(\d+(?::\d\d)+(?:\.\d+)?|" + _NUMBER + r"[\w.+-]*%?|\"[^\"]*\"|'[^']*'|[^\s,;|&(){}\[\]]+)"
)
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def plain(key: str) -> str:
    """Return a key in the spelling of the rules.

    It has small letters and digits, and words separated by `_`.
    """
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", key)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def _phrase(text: str) -> "Pattern[str]":
    """Return the pattern of an ignored text.

    `#` is a number in it; without one, the number after it is ignored.
    """
    spelled = text if "#" in text else text + " #"
    parts = [
        (r"\s{0,9}" if part[:1].isspace() else "")
        + r"\s{1,9}".join(re.escape(word) for word in part.split())
        + (r"\s{0,9}[=:]?\s{0,9}" if part[-1:].isspace() else "")
        for part in spelled.split("#")
    ]
    begin = (
        r"(?<!\w)"
        if spelled[0].isalnum() or spelled[0] == "_"
        else r"(?<![\d.])"
        if spelled[0] == "#"
        else ""
    )
    end = r"(?!\w)" if spelled[-1].isalnum() or spelled[-1] == "_" else ""
    return re.compile(begin + r"(%s%%?)".join(["%s"] * len(parts)) % _woven(parts) + end, re.IGNORECASE)


def _woven(parts: "List[str]") -> "Tuple[str, ...]":
    woven = [parts[0]]
    for part in parts[1:]:
        woven += [_NUMBER, part]
    return tuple(woven)


class Piece:
    """A text with marks for parts that may differ, and those parts."""

    def __init__(self) -> None:
        self.parts: "List[str]" = []
        self.marks: "List[Tuple[Excuse, str]]" = []

    def mark(self, excuse: "Excuse", text: str) -> str:
        """Record a part of the text, and return its mark."""
        self.marks.append((excuse, text))
        return "<%s>" % excuse[1]


class ExcuseRules:
    """The rules for two runs, with the user's ignored keys."""

    def __init__(self, runs: "Sequence[Run]", ignored: "Sequence[str]" = ()) -> None:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "excuses.json")
        with open(path, encoding="utf-8") as file:
            data = json.load(file)
        self.runs, self.loggers = runs, Loggers()
        self.ignored = [plain(key) if "*" not in key else key.lower() for key in ignored if "#" not in key]
        self._phrases = [_phrase(key) for key in ignored if "*" not in key and key.strip()]
        self._metadata = re.compile(data["metadata"])
        self._keys = [(rule["kind"], re.compile(rule["pattern"])) for rule in data["keys"]]
        self._forms = [(rule["kind"], re.compile(rule["pattern"])) for rule in data["forms"]]
        self._level, self._passed = (re.compile(data[name]) for name in ("level", "passed"))
        self._between = re.compile(data["between"])

    def ignores(self, key: str) -> bool:
        """Return whether the user ignores a key."""
        return any(fnmatchcase(plain(key), pattern) for pattern in self.ignored)

    def metadata(self, key: "Any") -> bool:
        """Return whether a top-level key has metadata of a run.

        Examples are `meta` and `environment`.
        """
        return isinstance(key, str) and self._metadata.fullmatch(plain(key)) is not None

    def excuse(
        self, key: "Optional[str]", first: "Any", second: "Any", envelope: bool = False, granted: "Any" = None
    ) -> "List[Excuse]":
        """Return the rules that excuse a difference of two values.

        The list is empty if the difference counts.

        Args:
            envelope: the key is a top-level one of a record, or one of its metadata.
            granted: the form and the logger, if a known logger's record has the key.
        """
        if key is not None and self.ignores(key):
            return [(IGNORED, "--ignore-key")]
        if granted and granted[0] == "line" and isinstance(first, str) and isinstance(second, str):
            return self.texts(first, second)
        if (
            granted
            and has_possible_form(granted[0], first, self.runs[0])
            and has_possible_form(granted[0], second, self.runs[1])
        ):
            return [(kind_of(granted[0]), "%s, %s" % (kind_of(granted[0]), granted[1]))]
        if key is not None and envelope:
            for kind, pattern in self._keys:
                if pattern.fullmatch(plain(key)) and self._proved(kind, first, second):
                    return [(kind, kind)]
        if isinstance(first, str) and isinstance(second, str):
            return self.texts(first, second, line=False)
        return []

    def _proved(self, kind: str, first: "Any", second: "Any") -> bool:
        first_run, second_run = self.runs
        if kind == "time":
            return moments.is_moment(first, first_run) and moments.is_moment(second, second_run)
        if kind == "host":
            return bool(first_run.host) and (first, second) == (first_run.host, second_run.host)
        if kind == "process":
            return first_run.owns(first) and second_run.owns(second)
        return all(isinstance(value, str) and _RANDOM.fullmatch(value) for value in (first, second))

    def texts(self, first: str, second: str, line: bool = True) -> "List[Excuse]":
        """Return the rules that excuse a difference of two texts.

        The list is empty if a difference counts.

        Args:
            line: they are lines of a log, which begin with an envelope, and may be a known logger's.
        """
        if max(len(first), len(second)) > _LONGEST:
            return []
        first_piece, second_piece = (
            self._reduced(text, run, line) for text, run in zip((first, second), self.runs)
        )
        if first_piece.parts != second_piece.parts or len(first_piece.marks) != len(second_piece.marks):
            return []
        excuses = []
        for (excuse, was), (other, now) in zip(first_piece.marks, second_piece.marks):
            if excuse != other or (excuse[0] == "folder" and _alike(was, now)):
                return []
            if was != now:
                excuses.append(excuse)
        # Only padding beside a number that may differ is left.
        return excuses or ([("spaces", "spaces")] if first_piece.marks and first != second else [])

    def _reduced(self, text: str, run: "Run", line: bool) -> "Piece":
        piece = Piece()
        if line:
            piece.parts.append("".join(_ANSI.findall(text)))
            text = _ANSI.sub("", text)
        start = self._envelope(text, run, piece) if line else 0
        text = self._without_ignored(text[start:], piece)
        if line:
            text = self._without_logged(text, run, piece)
        piece.parts.append(self._without_forms(text, run, piece))
        return piece

    def _envelope(self, text: str, run: "Run", piece: "Piece") -> int:
        """Read the envelope at the beginning of a line.

        It has moments, the host, the process, and between them levels and brackets.
        """
        for prefix in self.loggers.prefixes:
            match = prefix.match(text)
            if match and self._of_prefix(match, run, piece):
                return match.end()
        place, envelope_end = 0, 0
        for _ in range(_TOKENS):
            between = self._between.match(text, place)
            begin = between.end() if between else place
            excuse, end = self._token(text, begin, run, after=bool(piece.marks))
            if end is None:
                match = self._passed.match(text, begin)
                if match is None:
                    break
                place = match.end()
                continue
            piece.parts.append(text[envelope_end:begin] + piece.mark((excuse, excuse), text[begin:end]))
            place = envelope_end = end
        return envelope_end

    def _of_prefix(self, match: "Match[str]", run: "Run", piece: "Piece") -> bool:
        """Read a known logger's prefix.

        A moment outside of the run is not excused.
        """
        parts = match.groupdict()
        moment = "%s/%s %s" % (parts["month"], parts["day"], parts["clock"])
        if moments.find_moment_end(moment, 0, run) != len(moment):
            return False
        marks = [
            piece.mark((kind, kind), parts[name]) for kind, name in (("time", "clock"), ("process", "pid"))
        ]
        piece.parts.append("".join([parts["level"], *marks, parts["rest"]]))
        return True

    def _token(self, text: str, begin: int, run: "Run", after: bool) -> "Tuple[str, Optional[int]]":
        """Return the kind and end of the token at a position.

        A short name of a host counts after a moment only.
        """
        end = moments.find_moment_end(text, begin, run)
        if end is not None:
            return "time", end
        end = moments.of_day_at(text, begin, run)
        if end is not None and self._level.match(text, end):
            return "time", end
        number = _OWN.match(text, begin) if after else None
        if number and run.owns(int(number.group())) and self._level.match(text, number.end()):
            return "process", number.end()
        named = _PROCESS.match(text, begin)
        process = named.group() if named and run.owns(int(named.group(1))) else ""
        host = run.host if after or len(run.host) >= _WORDY else ""
        for kind, word in (("host", host), ("process", process)):
            end = begin + len(word)
            if word and text.startswith(word, begin) and not _inside_word(text, begin, end):
                return kind, end
        return "", None

    def _without_ignored(self, text: str, piece: "Piece") -> str:
        if not self.ignored and not self._phrases:
            return text
        excuse = (IGNORED, "--ignore-key")

        def of_key(match: "Match[str]") -> str:
            key, between, value = match.groups()
            return key + between + piece.mark(excuse, value) if self.ignores(key) else match.group()

        def of_phrase(match: "Match[str]") -> str:
            parts, at = [], match.start()
            for number in range(1, len(match.groups()) + 1):
                parts += [text[at : match.start(number)].rstrip(), piece.mark(excuse, match.group(number))]
                at = match.end(number)
            return "".join([*parts, text[at : match.end()]])

        for phrase in self._phrases:
            text = phrase.sub(of_phrase, text)
        return _KEY.sub(of_key, text) if self.ignored else text

    def _without_logged(self, text: str, run: "Run", piece: "Piece") -> str:
        parts, at = [], 0
        for span in self.loggers.spans(text, run):
            # Padding before a number is part of it.
            parts += [text[at : span.start].rstrip(" ")]
            parts += [
                piece.mark((span.kind, "%s, %s" % (span.kind, span.logger)), text[span.start : span.end])
            ]
            at = span.end
        return "".join([*parts, text[at:]]).rstrip(" ") if parts else text

    def _without_forms(self, text: str, run: "Run", piece: "Piece") -> str:
        if len(run.host) >= _WORDY and run.host in text:
            word = r"(?<![\w.-])%s(?![\w-])" % re.escape(run.host)
            text = re.sub(word, _marking(piece, "host"), text)
        for kind, pattern in self._forms:
            text = pattern.sub(_marking(piece, kind), text)
        return text


# uuid4(), with and without its dashes: the version and the variant have fixed positions.
_RANDOM = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}"
)


def _marking(piece: "Piece", kind: str) -> "Callable[[Match[str]], str]":
    return lambda match: piece.mark((kind, kind), match.group())


def _inside_word(text: str, begin: int, end: int) -> bool:
    return text[:begin][-1:].isalnum() or text[end : end + 1].isalnum() or text[end : end + 1] in ("-", "_")


def _alike(first: str, second: str) -> bool:
    """Return whether two names are too similar to be random.

    An example is `tmpresnet18` and `tmpresnet50`.
    """
    return first != second and sum(a == b for a, b in zip(first[-8:], second[-8:])) > 3
