"""Finding secrets: in the value of a variable, and line by line in a source, a patch or an output."""

from __future__ import annotations

import re
from collections.abc import Callable

from reprobuild.secrets.rules import NUMBER, VALUES, Rule, judged, marked, secrets_of
from reprobuild.secrets.words import CONDA_TOKEN, GONE, is_login, looks_generated, secret_name

_WEAK_NAME = re.compile(r"(?i)(^|_)(KEYS?|AUTH|CRED|PRIV|LOGIN|ACCESS|API|LICENSE)(_|$)")
NOTHING = re.compile(
    r"(?i)\s*|yes|no|true|false|on|off|[01]|none|null|\(null\)|undefined"
    r"|\$[a-z_]\w{0,60}|\$?\{{1,2} ?[a-z_][\w.]{0,60} ?\}{1,2}|%\([a-z_]\w{0,60}\)s|</?[a-z_|/ -]{1,"
    r"40}>|<\|\w{1,40}\|>|\[[a-z_]{1,20}\]"
)
# Names that stand before `:` and ` = ` for much else: there the value must look like a secret, too.
LOOSE = re.compile(r"(?i)keys?|pass|sig|signature|tokens|cookies?|sas|dsn")
_INSIDE = re.compile(
    r"(?<![A-Za-z0-9_.-])-{0,2}([A-Za-z_][A-Za-z0-9_-]{0,60})[\"']?\s{0,4}[=:]\s{0,4}[\"']?([^\s"
    r"\"',;]{1,200})"
)
OPTION = re.compile(r"(?<![^\s\"'=])(--?[A-Za-z][A-Za-z0-9_-]{1,60})(?: {1,9}|=)(?=\S)")
# What a shell takes for one word; a quote that is never closed reaches to the end.
WORD = re.compile(r"(?:\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'[^']*(?:'|\Z)|[^\s\"'])+", re.DOTALL)
LOGIN = re.compile(rf"(?<![^\s\"'])(-[uU]|--user|--proxy-user)( {{1,9}}|=|)({WORD.pattern})", re.DOTALL)
# The password of `sshpass`, and Hydra's `+secrets.hf=value`.
SSHPASS = re.compile(rf"(?<![A-Za-z0-9_.-])(sshpass[ \t]+(?:-v[ \t]+)?-p[ \t]*)({WORD.pattern})", re.DOTALL)
GROUPED = re.compile(
    r"(?i)(?<![A-Za-z0-9_.-])((?:[a-z0-9_-]{1,60}\.){0,9}(?:secrets?|credentials?|creds|passwords?)"
    rf"(?:\.[a-z0-9_-]{{1,60}}){{1,9}}=)(?!=)({WORD.pattern})",
    re.DOTALL,
)
ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>]+")
# The value of the header, to the end of the line or of the quotes around it; the scheme stays.
AUTHORIZATION = re.compile(
    r"(?i)(([\"']?)authorization[\\\"']{0,4}\s{0,9}[:=]\s{0,9}(?:[bfru]{0,2}\\?([\"']))?"
    r"(?:[a-z][a-z0-9-]{0,30}[ \t]{1,9})?)(?=\S)"
)
BEARER = re.compile(r"(?i)((?:authorization:\s*)?(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})")
_SCHEMES = re.compile(r"(?i)(basic|bearer|token|digest|negotiate|ntlm|api-?key|aws4-hmac-sha256)[ \t]")
# What stands for a value: `$TOKEN`, `{token}`, `%(token)s`, `<token>`.
_TEMPLATE = re.compile(r"[\\\"']{0,3}([${<]|%[({A-Z]|\*\*\*)")
# A group of the system after a user, a module after a file, a port after a host, a place in a container.
_NO_PASSWORD = re.compile(r"[a-z_][a-z_-]*|\d{1,5}|[./].*", re.DOTALL)
_GROUP = re.compile(r"[a-z_][a-z0-9_-]*\$?|\d+")
_RUNS_AS = re.compile(r"(?i)docker|podman|nerdctl|chown|chroot|kubectl|container")
# How far from an option the name of its program may stand.
_NEAR = 200
# A long line is searched in pieces; no pattern matches more than the second.
_PIECE, _OVERLAP = 1 << 18, 1 << 15
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
_DIGIT = re.compile(rb"\d")
_MARKS = tuple(tuple(mark.encode() for mark in rule.marks) for rule in VALUES)
_UNMARKED = tuple(number for number, rule in enumerate(VALUES) if not rule.marks)
_BY_MARK = tuple((mark, number) for number, marks in enumerate(_MARKS) for mark in marks)
_IN_RUNS = tuple((mark, number) for mark, number in _BY_MARK if VALUES[number].run)
_IN_LINES = tuple((mark, number) for mark, number in _BY_MARK if not VALUES[number].run)
_WORDED = tuple(one for one in _IN_LINES if any(word in one[0] for word in _WORDS))
_IN_NUMBERED = tuple(one for one in _WORDED if VALUES[one[1]].near == NUMBER)
_IN_WORDED = tuple(one for one in _WORDED if one not in _IN_NUMBERED)
_ANYWHERE = tuple(one for one in _IN_LINES if one not in _WORDED)


def secret_value(value: str) -> str | None:
    """Return the rule by which this text holds a secret, whatever its name, or None."""
    lowered = value.lower()
    for rule in VALUES:
        if marked(rule, lowered) and secrets_of(rule, value):
            return rule.name
    return None


def secret_variable(name: str, value: str) -> str | None:
    """Return the rule by which this environment variable is a secret, or None.

    A variable with a secret's name and nothing in it (empty, a switch) is none. A name that only hints
    (`SOME_AUTH`) needs a value that looks generated.
    """
    if NOTHING.fullmatch(value):
        return None
    found = (
        secret_name(name, value) or secret_value(value) or _secret_inside(value) or _login_inside(name, value)
    )
    if found is None and _WEAK_NAME.search(name) and re.fullmatch(r"[A-Za-z0-9+/_=-]{20,512}", value):
        return "generated" if not value.startswith("/") and looks_generated(value) else None
    return found


def _secret_inside(value: str) -> str | None:
    """Return the rule by which a value assigns a secret of its own: JSON, `key=value` lists, options."""
    for match in _INSIDE.finditer(value):
        rule = secret_name(match[1].replace("-", "_"), match[2])
        if rule and not NOTHING.fullmatch(match[2]):
            return rule
    return None


def _login_inside(name: str, value: str) -> str | None:
    """Return the rule by which a value holds what `redact` cuts: a header, a login of curl, an option, a token.

    A template (`Bearer $TOKEN`) and what other programs have after `-u` (`docker -u ada:users`) are none.
    """
    for header in AUTHORIZATION.finditer(value):
        word = value[header.end() : header.end() + _NEAR].split()[0].strip("\"',;}")
        known = _SCHEMES.search(header[0]) or len(word) >= 16 or re.search(r"[^A-Za-z-]", word)
        if known and not (_TEMPLATE.match(word) or NOTHING.fullmatch(word)):
            return "header"
    if any(_is_bearer(match[1], match[2]) for match in BEARER.finditer(value)):
        return "header"
    if any(_is_login(match, name) for match in LOGIN.finditer(value)):
        return "login"
    if any(not _TEMPLATE.match(match[2]) for match in SSHPASS.finditer(value)):
        return "password"
    if any(not _TEMPLATE.match(m[2]) and not NOTHING.fullmatch(m[2]) for m in GROUPED.finditer(value)):
        return "secret"
    for match in ADDRESS.finditer(value):
        token = CONDA_TOKEN.search(match[0]) if match[0].lower().startswith("http") else None
        if token and looks_generated(token[0][3:]):
            return "conda-token"
    return _option_inside(value)


def _is_bearer(scheme: str, token: str) -> bool:
    """Whether this is a header's value without its name, and no text about something basic."""
    if scheme.lower().startswith("bearer"):
        return len(token) >= 16 and looks_generated(token)
    return is_login(token)


def _is_login(match: re.Match[str], name: str) -> bool:
    """Whether `user:password` after an option is a login, in a variable of this name."""
    user, _, password = match[3].strip("\"'").partition(":")
    if without_login(match) == match[0] or not user or not password or _TEMPLATE.match(password):
        return False
    before = f"{name} {match.string[max(match.start() - _NEAR, 0) : match.start()]}"
    if re.search("(?i)curl|proxy", before + match[1]):
        return not NOTHING.fullmatch(password)
    if _RUNS_AS.search(before):
        return not _GROUP.fullmatch(password)
    return not _NO_PASSWORD.fullmatch(password) and "/" not in user


def _option_inside(value: str) -> str | None:
    """Return the rule by which a word after an option (`--token abc`) is a secret."""
    for match in OPTION.finditer(value):
        word = value[match.end() : match.end() + _NEAR].split()[0].strip("\"',;")
        rule = secret_name(match[1].lstrip("-").replace("-", "_"), word)
        nothing = NOTHING.fullmatch(word) or _TEMPLATE.match(word) or re.match(r"-|[~.]{0,2}/", word)
        loose = LOOSE.fullmatch(match[1].lstrip("-")) and not (len(word) >= 16 and looks_generated(word))
        if rule and not nothing and not loose:
            return rule
    return None


def find(
    text: bytes, most: int | None = None, look: Callable[[], object] = lambda: None
) -> list[tuple[int, str]]:
    """Return (line from 1, rule) of each line with a secret in a source, a patch or an output, in order of lines.

    Args:
        text: what is searched.
        most: the first so many are enough.
        look: called again and again; what it raises ends the search.
    """
    if b"BEGIN CERT" in text:
        text = _CERTIFICATE.sub(lambda match: b"\n" * match[0].count(b"\n"), text)
    lowered, runs = text.lower(), _long_runs(text, look)
    lines = {mark: _marked_lines(lowered, mark, look) for mark in _WORDS}
    found: dict[int, str] = {}
    for number in sorted({*_marked_rules(lowered, runs, lines), *_UNMARKED}):
        rule = VALUES[number]
        if rule.marks:
            for mark in _MARKS[number]:
                if mark not in lines:
                    lines[mark] = _marked_lines(lowered, mark, look)
            places = set().union(*(lines[mark] for mark in _MARKS[number]))
        else:
            places = set().union(*(_marked_lines(text, one, look) for one in _without_marks(rule, runs)))
        if places:
            _add_lines(rule, text, sorted(places), found, most, look)
    return sorted(found.items())[:most]


def _marked_rules(lowered: bytes, runs: bytes, lines: dict[bytes, set[tuple[int, int]]]) -> set[int]:
    """Return the numbers of the rules that have a mark in a text: each is looked for where it can be."""
    places = set().union(*lines.values())
    worded = b"\n".join(lowered[start:end] for start, end in places)
    numbered = b"\n".join(lowered[start:end] for start, end in places if _DIGIT.search(lowered, start, end))
    lowered_runs = runs.lower()
    texts = (
        (_IN_RUNS, lowered_runs),
        (_IN_WORDED, worded),
        (_IN_NUMBERED, numbered),
        (_ANYWHERE, lowered),
    )
    return {number for marks, text in texts if text for mark, number in marks if mark in text}


def _add_lines(
    rule: Rule, text: bytes, places: list[tuple[int, int]], found: dict[int, str], most: int | None,
    look: Callable[[], object],
) -> None:  # fmt: skip
    """Add the lines that hold a secret of a rule, of which no rule before it knows."""
    pattern, near = re.compile(rule.pattern.encode()), re.compile(rule.near.encode())
    number, counted, times = 1, 0, 0
    for start, end in places:
        if times == most:
            break
        if near.search(text, start, end) and _holds(rule, pattern, text, start, end, look):
            number += text.count(b"\n", counted, start)
            counted = start
            found.setdefault(number, rule.name)
            times += 1


def _long_runs(text: bytes, look: Callable[[], object]) -> bytes:
    """Return the long words of a text that are not spoken, in which most marks are looked for: few of it."""
    found: list[bytes] = []
    for at in range(0, len(text), _PIECE):
        look()
        piece = text[max(at - _EDGE, 0) : at + _PIECE + _EDGE].translate(_ONLY_LETTERS)
        found += [word for word in piece.split() if len(word) >= _LONG]
    return b"\n".join([word for word in set(found) if not _SPOKEN.fullmatch(word)])


def _without_marks(rule: Rule, runs: bytes) -> set[bytes]:
    """Return the secrets of a kind that has no mark."""
    pattern = re.compile(rule.pattern.encode())
    return {match[1] for match in pattern.finditer(runs) if judged(rule, match)}


def _holds(
    rule: Rule, pattern: re.Pattern[bytes], text: bytes, start: int, end: int, look: Callable[[], object]
) -> bool:
    """Tell whether a line holds a secret of a rule."""
    for at in range(start, end, _PIECE):
        look()
        stop = min(end, at + _PIECE + _OVERLAP)
        for match in pattern.finditer(text, at, stop):
            whole = stop == end or match.end() < stop  # else it may go on, and the next piece has it
            if whole and judged(rule, match):
                return True
    return False


def _marked_lines(text: bytes, mark: bytes, look: Callable[[], object]) -> set[tuple[int, int]]:
    """Return start and end of each line with a mark: plain search is a hundred times as fast as the patterns."""
    lines = set()
    at = text.find(mark)
    while at >= 0:
        look()
        end = text.find(b"\n", at)
        end = len(text) if end < 0 else end
        lines.add((text.rfind(b"\n", 0, at) + 1, end))
        at = text.find(mark, end)
    return lines


def without_login(match: re.Match[str]) -> str:
    """Cut `user:password` after curl's `-u`; other tools have numbers and addresses there."""
    option, space, word = match[1], match[2], match[3].strip("\"'")
    glued = not space and not (option == "-u" and "curl" in match.string[: match.start()][-200:])
    if glued or ":" not in word or "://" in word or re.fullmatch(r"\d+:\d+", word):
        return match[0]
    return f"{option} {GONE}"
