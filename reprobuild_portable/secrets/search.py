"""Search for secrets: in one text, and line by line in a source, a patch or an output."""

from __future__ import annotations

import re
from typing import Callable, Iterator, NamedTuple

from reprobuild_portable.secrets.judges import NUMBER, START, SecretRule, locate_secret, secrets_of
from reprobuild_portable.secrets.rules import VALUES, select_rules

# A long line is searched in pieces; no pattern matches more than the second.
_PIECE, _OVERLAP = 1 << 18, 1 << 15
# Lines are searched in blocks of about so many bytes: what is known of their places is kept for one block only.
_BLOCK = 1 << 16
# More values than this are looked for all at once.
_MANY = 100
# A token is one long word. At the edge of a piece it may be cut: what is left of it must have its mark.
_LONG, _EDGE = 20, 1 << 10
_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.~+/=:%-"
_ONLY_LETTERS = bytes(code if code in _LETTERS else 32 for code in range(256))
# Names, paths and addresses that are spoken. Each turn begins in its own way, so there is one way to match.
_SPOKEN = re.compile(
    rb"[a-z]{0,99}(?:[A-Z][a-z]{2,99}|[_./=:~+%-][a-z]{0,99}(?:\d{1,2}(?![A-Za-z0-9]))?){0,99}"
)
# What is public, and has any shape in its last line.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]{1,20000}-----END CERTIFICATE-----")
# Most rules that have no token of their own need one of these words in the line, and are looked for in such lines.
_WORDS = (b"key", b"token", b"secret", b"pass", b"pwd", b"auth", b"@")
# A command that is given a password has an option before it.
_OPTION = b" -"
_DIGIT = re.compile(rb"\d")
_MARKS = tuple(tuple(mark.encode() for mark in rule.marks) for rule in VALUES)
_UNMARKED = tuple(number for number, rule in enumerate(VALUES) if not rule.marks)
_BY_MARK = tuple((mark, number) for number, marks in enumerate(_MARKS) for mark in marks)
_IN_RUNS = tuple((mark, number) for mark, number in _BY_MARK if VALUES[number].run)
_IN_LINES = tuple((mark, number) for mark, number in _BY_MARK if not VALUES[number].run)
_WORDED = tuple(one for one in _IN_LINES if VALUES[one[1]].option or any(word in one[0] for word in _WORDS))
_IN_NUMBERED = tuple(one for one in _WORDED if VALUES[one[1]].near == NUMBER)
_IN_WORDED = tuple(one for one in _WORDED if one not in _IN_NUMBERED)
# Tokens that stand whole in one long word: none is longer than what two pieces share, nor has another character.
_WHOLE = {
    number: rule.pattern[len(START) :].encode()
    for number, rule in enumerate(VALUES)
    if rule.pattern.startswith(f"{START}(") and "@" not in rule.pattern
    and sum(map(int, re.findall(r"\{(?:\d+,)?(\d+)\}", rule.pattern))) < _EDGE
}  # fmt: skip
_IN_LISTS = tuple(one for one in _IN_LINES if VALUES[one[1]].inner)
_ANYWHERE = tuple(one for one in _IN_LINES if one not in _WORDED and one not in _IN_LISTS)
# A list of words that is given a password has one of these: programs have many names, and few texts such a list.
_OF_LISTS = (
    b'"-',
    b"'-",
    b'"alias',
    b"'alias",
    b"http-basic.",
    b'sqlplus"',
    b"sqlplus'",
    b'"ngrok',
    b"'ngrok",
)


def _group_marks(pairs: tuple[tuple[bytes, int], ...]) -> tuple[tuple[bytes, tuple[int, ...]], ...]:
    """Return each mark with its rules, so that one search serves them all."""
    rules: dict[bytes, tuple[int, ...]] = {}
    for mark, number in pairs:
        rules[mark] = (*rules.get(mark, ()), number)
    return tuple(rules.items())


# By the part of a text in which they are looked for.
_MARKS_OF_TEXTS = tuple(_group_marks(pairs) for pairs in (_IN_WORDED, _IN_NUMBERED, _ANYWHERE, _IN_LISTS))


class _Block(NamedTuple):
    """Whole lines of a text, also in small letters, with the place and the number of the first."""

    text: bytes
    lowered: bytes
    start: int
    line: int


def secret_value(value: str) -> str | None:
    """Return the rule for a secret in a text, without regard to a name, or None."""
    return next((rule.name for rule in select_rules(value) if secrets_of(rule, value)), None)


def find(
    text: bytes, most: int | None = None, look: Callable[[], object] = lambda: None
) -> list[tuple[int, str]]:
    """Return (line from 1, rule) of each line with a secret in a source, a patch or an output, in order of lines.

    Args:
        text: the content to search.
        most: the largest number of results; None for all.
        look: is called during the search, and may raise an error to end it.
    """
    text = _without_nuls(text)
    if b"BEGIN CERT" in text:
        text = _CERTIFICATE.sub(lambda match: b"\n" * match[0].count(b"\n"), text)
    in_runs, values = _of_long_words(text, look)
    rules: dict[int, str] = {}
    lists = any(mark in text for mark in _OF_LISTS)
    for block in _blocks(text):
        lines = {mark: _find_marked_lines(block.lowered, mark, look) for mark in (*_WORDS, _OPTION)}
        for number in sorted(in_runs | _marked_rules(block.lowered, lines, lists=lists)):
            places = _lines_to_search(number, block, lines, values, look)
            add = _add_lists if VALUES[number].after else _add_lines
            if places:
                add(VALUES[number], text, block, places, rules, most, look)
        if most is not None and len(rules) >= most:
            break
    return sorted(rules.items())[:most]


def _blocks(text: bytes) -> Iterator[_Block]:
    """Cut a text into blocks of whole lines."""
    start, line = 0, 1
    while start < len(text):
        end = text.find(b"\n", start + _BLOCK) + 1 or len(text)
        part = text[start:end]
        yield _Block(part, part.lower(), start, line)
        start, line = end, line + part.count(b"\n")


def _lines_to_search(
    number: int, block: _Block, lines: dict[bytes, list[tuple[int, int]]], values: dict[int, set[bytes]],
    look: Callable[[], object],
) -> list[tuple[int, int]]:  # fmt: skip
    """Return start and end, in a block, of each line to search for a rule, in order."""
    marks = _MARKS[number]
    if not marks:
        return _lines_with(values[number], block.text, look)
    for mark in marks:
        if mark not in lines:
            lines[mark] = _lines_of(mark, block.lowered, lines, look, option=VALUES[number].option)
    if len(marks) == 1:
        return lines[marks[0]]
    return sorted(set().union(*(lines[mark] for mark in marks)))


def _without_nuls(text: bytes) -> bytes:
    """Return a text in UTF-8, also if it is UTF-16, as Windows writes it. Its lines stay."""
    head = text[: _EDGE & ~1]
    marked = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}.get(head[:2])
    if marked is None and len(head) >= _LONG:
        halves = {"utf-16-be": head[::2], "utf-16-le": head[1::2]}
        marked = next((name for name, half in halves.items() if half.count(0) > 0.9 * len(half)), None)
        if marked and min(half.count(0) for half in halves.values()) > 0:  # compiled code has zeros anywhere
            return text
    return text.decode(marked, "replace").encode("utf-8", "replace") if marked else text


def _marked_rules(lowered: bytes, lines: dict[bytes, list[tuple[int, int]]], *, lists: bool) -> set[int]:
    """Return the numbers of the rules with a mark in some lines. Each mark is searched in its own kind of lines."""
    places = set().union(*lines.values())
    worded = b"\n".join(lowered[start:end] for start, end in places)
    numbered = b"\n".join(lowered[start:end] for start, end in places if _DIGIT.search(lowered, start, end))
    texts = zip(_MARKS_OF_TEXTS, (worded, numbered, lowered, lowered if lists else b""))
    return {
        number for marks, text in texts if text for mark, rules in marks if mark in text for number in rules
    }


def _of_long_words(text: bytes, look: Callable[[], object]) -> tuple[set[int], dict[int, set[bytes]]]:
    """Return the rules with a mark in a long word, and the secrets of each rule without marks."""
    numbers: set[int] = set()
    values: dict[int, set[bytes]] = {number: set() for number in _UNMARKED}
    for runs in _long_runs(text, look):
        lowered = runs.lower()
        for mark, number in _IN_RUNS:
            if number not in numbers and _in_run(mark, number, runs, lowered):
                numbers.add(number)
        for number in _UNMARKED:
            values[number] |= _without_marks(VALUES[number], runs)
    return numbers | {number for number, secrets in values.items() if secrets}, values


def _in_run(mark: bytes, number: int, runs: bytes, lowered: bytes) -> bool:
    """Return whether a long word has the mark of a rule, and matches its token if that stands in one word."""
    at = lowered.find(mark)
    if at < 0 or number not in _WHOLE:
        return at >= 0
    token = re.compile(_WHOLE[number])
    while at >= 0:
        start, end = lowered.rfind(b"\n", 0, at) + 1, lowered.find(b"\n", at)
        end = len(runs) if end < 0 else end
        if token.search(runs, start, end):
            return True
        at = lowered.find(mark, end)
    return False


def _add_lines(
    rule: SecretRule, text: bytes, block: _Block, places: list[tuple[int, int]], rules: dict[int, str],
    most: int | None, look: Callable[[], object],
) -> None:  # fmt: skip
    """Add the lines of a block with a secret of a rule, unless an earlier rule has added them."""
    pattern, near = re.compile(rule.pattern.encode()), re.compile(rule.near.encode())
    number, counted, times = block.line, block.start, 0
    for start, end in ((block.start + start, block.start + end) for start, end in places):
        if times == most:
            break
        if not near.search(text, start, end):
            continue
        at = _skip_lines_back(text, start, rule.lines) if rule.lines else start
        if _holds_secret(rule, pattern, text, at, start, end, look):
            number += text.count(b"\n", counted, start)
            counted = start
            rules.setdefault(number, rule.name)
            times += 1


def _long_runs(text: bytes, look: Callable[[], object]) -> Iterator[bytes]:
    """Yield the long words of each piece that do not consist of words: few of a text, and most marks are in them."""
    for at in range(0, len(text), _PIECE):
        look()
        piece = text[max(at - _EDGE, 0) : at + _PIECE + _EDGE].translate(_ONLY_LETTERS)
        words = {word for word in piece.split() if len(word) >= _LONG}
        yield b"\n".join([word for word in words if not _SPOKEN.fullmatch(word)])


def _without_marks(rule: SecretRule, runs: bytes) -> set[bytes]:
    """Return the secrets of a rule without marks."""
    pattern = re.compile(rule.pattern.encode())
    return {match[1] for match in pattern.finditer(runs) if locate_secret(rule, match)}


def _holds_secret(
    rule: SecretRule, pattern: re.Pattern[bytes], text: bytes, before: int, start: int, end: int,
    look: Callable[[], object],
) -> bool:  # fmt: skip
    """Return whether a line has a secret of a rule. The match may begin in an earlier line."""
    for at in (before, *range(start + _PIECE, end, _PIECE)):
        look()
        stop = min(end, max(at, start) + _PIECE + _OVERLAP)
        for match in pattern.finditer(text, at, stop):
            whole = stop == end or match.end() < stop  # else it may go on, and the next piece has it
            span = locate_secret(rule, match) if whole else None
            if span and span[1] > start:
                return True
    return False


def _add_lists(
    rule: SecretRule, text: bytes, block: _Block, places: list[tuple[int, int]], rules: dict[int, str],
    most: int | None, look: Callable[[], object],
) -> None:  # fmt: skip
    """Add the lines of a block in which a secret begins that may end in a later line. Each text is judged once."""
    pattern, near = re.compile(rule.pattern.encode()), re.compile(rule.near.encode())
    passed, times = 0, 0
    for start, end in ((block.start + start, block.start + end) for start, end in places):
        look()
        if times == most:
            break
        if end <= passed or not near.search(text, max(start, passed), end):
            continue
        for match in pattern.finditer(text, max(start, passed), _skip_lines_forward(text, end, rule.after)):
            if match.start() >= end:
                break
            look()
            passed = match.end()
            if locate_secret(rule, match):
                rules.setdefault(block.line + text.count(b"\n", block.start, start), rule.name)
                times += 1
                break


def _skip_lines_forward(text: bytes, end: int, count: int) -> int:
    """Return the end of the line `count` lines after the line that ends at `end`, within a limit."""
    last = min(len(text), end + _EDGE)
    for _ in range(count):
        after = text.find(b"\n", end + 1, last)
        if after < 0:
            return last
        end = after
    return end


def _skip_lines_back(text: bytes, start: int, count: int) -> int:
    """Return the start of the line `count` lines before `start`, or of the first line after a long line."""
    for _ in range(count):
        begin = text.rfind(b"\n", max(start - _EDGE, 0), max(start - 1, 0)) + 1
        if not begin and start > _EDGE:
            break
        start = begin
    return start


def _find_marked_lines(text: bytes, mark: bytes, look: Callable[[], object]) -> list[tuple[int, int]]:
    """Return start and end of each line with a mark. Plain search is a hundred times as fast as the patterns."""
    lines = []
    at = text.find(mark)
    while at >= 0:
        look()
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        lines.append((text.rfind(b"\n", 0, at) + 1, end))
        at = text.find(mark, end)
    return lines


def _lines_of(
    mark: bytes,
    text: bytes,
    lines: dict[bytes, list[tuple[int, int]]],
    look: Callable[[], object],
    *,
    option: bool,
) -> list[tuple[int, int]]:
    """Return the lines with a mark. If lines with a part of it are known, only these are searched."""
    word = _OPTION if option else next((word for word in _WORDS if word in mark), None)
    if word is None:
        return _find_marked_lines(text, mark, look)
    look()
    return [place for place in lines[word] if text.find(mark, *place) >= 0]


def _lines_with(values: set[bytes], text: bytes, look: Callable[[], object]) -> list[tuple[int, int]]:
    """Return start and end of each line with one of some words, in one pass if the words are many."""
    if len(values) <= _MANY:
        return sorted(set().union(*(_find_marked_lines(text, value, look) for value in values)))
    lengths = {len(value) for value in values}
    lines, start = [], 0
    while start < len(text):
        look()
        end = text.find(b"\n", start)
        end = len(text) if end < 0 else end
        if any(text[at : at + size] in values for size in lengths for at in range(start, end - size + 1)):
            lines.append((start, end))
        start = end + 1
    return lines
