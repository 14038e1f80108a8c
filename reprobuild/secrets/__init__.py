"""What is a secret: rules as data, by name and by value, and the ways to cut one out.

Names may be shown, values never. The rules lean to the safe side for environment variables, where a
lost value costs a question, and to the quiet side for source text, where a false alarm stops a build.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable
from urllib.parse import unquote, urlsplit, urlunsplit

from reprobuild.secrets.rules import CONDA_TOKEN as CONDA_TOKEN
from reprobuild.secrets.rules import COUNT as COUNT
from reprobuild.secrets.rules import FIELD as FIELD
from reprobuild.secrets.rules import GONE as GONE
from reprobuild.secrets.rules import NAMES as NAMES
from reprobuild.secrets.rules import PATTERN as PATTERN
from reprobuild.secrets.rules import VALUES as VALUES
from reprobuild.secrets.rules import Rule as Rule
from reprobuild.secrets.rules import entropy as entropy
from reprobuild.secrets.rules import looks_generated as looks_generated

# The first alternative that fits the whole name wins. One pattern is compiled four times as fast as its parts; those of
# `VALUES` are compiled where a mark was found, which is seldom.
_NAMES = re.compile("|".join(f"(?P<r{n}>{pattern})" for n, (_, pattern) in enumerate(NAMES)), re.IGNORECASE)
_WEAK_NAME = re.compile(r"(?i)(^|_)(KEYS?|AUTH|CRED|PRIV|LOGIN|ACCESS|API|LICENSE)(_|$)")
_NOTHING = re.compile(r"(?i)\s*|yes|no|true|false|on|off|[01]|none|null|\(null\)|undefined")
# A number or a switch, with what may enclose it in JSON.
_AMOUNT = re.compile(
    r"(?i)[\"']?([+-]?\d[\d_]{0,19}(\.\d{1,9})?(e[+-]?\d{1,3})?[kmgbt]?|yes|no|true|false|on|off|none|null)[\"'\])}]{0,9}"
)
# Words, numbers, and words that end in a number, with what may enclose them in JSON: `created_at`, `v3-linux-py311`.
_IDENTIFIER = re.compile(
    r"[\"'\[({]{0,3}([A-Za-z]{1,20}\d{0,6}|\d{1,8})(([-_.:/]|[\"']?,[ ]?[\"']?)([A-Za-z]{1,20}\d{0,6}|\d{1,8})){0,9}"
    r"[\"'\])},;]{0,9}|[\[({]+"
)
_GLOB = re.compile(r".*[*?\\^$()|\[\]{}].*", re.DOTALL)
# `NAME=value`, `name = value`, `"name": "value"` in a command line, a file or a comment; `==` is a pinned version.
_ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_-]{0,100})([\\\"']{0,4}[ \t]{0,40})(:?=(?!=)|:(?!:|//))(\s{0,40})"
    r"[\\\"']{0,4}(?=\S)"
)
# Names that stand before `:` and ` = ` for much else: there the value must look like a secret, too.
_LOOSE = re.compile(r"(?i)keys?|pass|sig|signature|tokens|cookies?|sas|dsn")
_INSIDE = re.compile(
    r"(?<![A-Za-z0-9_.-])-{0,2}([A-Za-z_][A-Za-z0-9_-]{0,60})[\"']?\s{0,4}[=:]\s{0,4}[\"']?([^\s\"',;]{1,200})"
)
_OPTION = re.compile(r"(?<![^\s\"'=])(--?[A-Za-z][A-Za-z0-9_-]{1,60})(?: {1,9}|=)(?=\S)")
# What a shell takes for one word; a quote that is never closed reaches to the end.
_WORD = re.compile(r"(?:\"(?:[^\"\\]|\\.)*(?:\"|\\?\Z)|'[^']*(?:'|\Z)|[^\s\"'])+", re.DOTALL)
_LOGIN = re.compile(rf"(?<![^\s\"'])(-[uU]|--user|--proxy-user)( {{1,9}}|=|)({_WORD.pattern})", re.DOTALL)
# The password of `sshpass`, and Hydra's `+secrets.hf=value`.
_SSHPASS = re.compile(rf"(?<![A-Za-z0-9_.-])(sshpass[ \t]+(?:-v[ \t]+)?-p[ \t]*)({_WORD.pattern})", re.DOTALL)
_GROUPED = re.compile(
    r"(?i)(?<![A-Za-z0-9_.-])((?:[a-z0-9_-]{1,60}\.){0,9}(?:secrets?|credentials?|creds|passwords?)"
    rf"(?:\.[a-z0-9_-]{{1,60}}){{1,9}}=)(?!=)({_WORD.pattern})",
    re.DOTALL,
)
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>]+")
# A host far into an address: no scope (`/@scope`), no commit or branch (`r.git@main`), no version.
_LATER_HOST = re.compile(
    r"(?<!/)(?<!\.git)@(?:[A-Za-z][A-Za-z0-9.-]{0,252}|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?(?:(/)|\Z)"
)
# Parameters of links that are signed for a time, by stores of files and their front ends.
_SIGNED = re.compile(r"(?i)x_(amz|goog|ms|oss|cos)_.*|hdn(ea|ts|tl)|hmac|auth|expires")
# The value of the header, to the end of the line or of the quotes around it; the scheme stays.
_AUTHORIZATION = re.compile(
    r"(?i)(([\"']?)authorization[\\\"']{0,4}\s{0,9}[:=]\s{0,9}(?:[bfru]{0,2}\\?([\"']))?"
    r"(?:[a-z][a-z0-9-]{0,30}[ \t]{1,9})?)(?=\S)"
)
_BEARER = re.compile(r"(?i)((?:authorization:\s*)?(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})")
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


def secret_name(name: str, value: str = "") -> str | None:
    """Return the rule by which a variable of this name holds a secret, or None.

    Args:
        name: of a variable, an option or a parameter.
        value: what it holds, where that is known: `NEW_TOKEN` counts something if it is a number,
            `SORT_KEY` names something if it is a short identifier.
    """
    found = _NAMES.fullmatch(name)
    rule = NAMES[int(str(found.lastgroup)[1:])][0] if found else ""
    if rule == COUNT:
        return None if _AMOUNT.fullmatch(value) else "token"
    if rule == FIELD:
        return None if _IDENTIFIER.fullmatch(value) else "key"
    if rule == PATTERN:
        harmless = _AMOUNT.fullmatch(value) or _GLOB.fullmatch(value)
        return None if harmless and value != GONE else "token"
    return rule or None


def secret_value(value: str) -> str | None:
    """Return the rule by which this text holds a secret, whatever its name, or None."""
    lowered = value.lower()
    for rule in VALUES:
        if any(mark in lowered for mark in rule.marks) and any(
            rule.real(m[1]) for m in re.finditer(rule.pattern, value)
        ):
            return rule.name
    return None


def secret_variable(name: str, value: str) -> str | None:
    """Return the rule by which this environment variable is a secret, or None.

    A variable with a secret's name and nothing in it (empty, a switch) is none. A name that only hints
    (`SOME_AUTH`) needs a value that looks generated.
    """
    if _NOTHING.fullmatch(value):
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
        if rule and not _NOTHING.fullmatch(match[2]):
            return rule
    return None


def _login_inside(name: str, value: str) -> str | None:
    """Return the rule by which a value holds what `redact` cuts: a header, a login of curl, an option, a token.

    A template (`Bearer $TOKEN`) and what other programs have after `-u` (`docker -u ada:users`) are none.
    """
    for header in _AUTHORIZATION.finditer(value):
        word = value[header.end() : header.end() + _NEAR].split()[0].strip("\"',;}")
        known = _SCHEMES.search(header[0]) or len(word) >= 16 or re.search(r"[^A-Za-z-]", word)
        if known and not (_TEMPLATE.match(word) or _NOTHING.fullmatch(word)):
            return "header"
    if any(_is_bearer(match[1], match[2]) for match in _BEARER.finditer(value)):
        return "header"
    if any(_is_login(match, name) for match in _LOGIN.finditer(value)):
        return "login"
    if any(not _TEMPLATE.match(match[2]) for match in _SSHPASS.finditer(value)):
        return "password"
    if any(not _TEMPLATE.match(m[2]) and not _NOTHING.fullmatch(m[2]) for m in _GROUPED.finditer(value)):
        return "secret"
    for match in _ADDRESS.finditer(value):
        token = CONDA_TOKEN.search(match[0]) if match[0].lower().startswith("http") else None
        if token and looks_generated(token[0][3:]):
            return "conda-token"
    return _option_inside(value)


def _is_bearer(scheme: str, token: str) -> bool:
    """Whether this is a header's value without its name, and no text about something basic."""
    if scheme.lower().startswith("bearer"):
        return len(token) >= 16 and looks_generated(token)
    try:
        return b":" in binascii.a2b_base64(token.rstrip("=") + "=" * (-len(token.rstrip("=")) % 4))
    except ValueError:
        return False


def _is_login(match: re.Match[str], name: str) -> bool:
    """Whether `user:password` after an option is a login, in a variable of this name."""
    user, _, password = match[3].strip("\"'").partition(":")
    if _without_login(match) == match[0] or not user or not password or _TEMPLATE.match(password):
        return False
    before = f"{name} {match.string[max(match.start() - _NEAR, 0) : match.start()]}"
    if re.search("(?i)curl|proxy", before + match[1]):
        return not _NOTHING.fullmatch(password)
    if _RUNS_AS.search(before):
        return not _GROUP.fullmatch(password)
    return not _NO_PASSWORD.fullmatch(password) and "/" not in user


def _option_inside(value: str) -> str | None:
    """Return the rule by which a word after an option (`--token abc`) is a secret."""
    for match in _OPTION.finditer(value):
        word = value[match.end() : match.end() + _NEAR].split()[0].strip("\"',;")
        rule = secret_name(match[1].lstrip("-").replace("-", "_"), word)
        nothing = _NOTHING.fullmatch(word) or _TEMPLATE.match(word) or re.match(r"-|[~.]{0,2}/", word)
        loose = _LOOSE.fullmatch(match[1].lstrip("-")) and not (len(word) >= 16 and looks_generated(word))
        if rule and not nothing and not loose:
            return rule
    return None


def find(
    text: bytes, most: int | None = None, look: Callable[[], object] = lambda: None
) -> list[tuple[int, str]]:
    """Return (line from 1, rule) of each secret in a source, a patch or an output, in order of lines.

    Args:
        text: what is searched.
        most: the first so many are enough.
        look: called again and again; what it raises ends the search.
    """
    lowered = text.lower()
    found = []
    for rule in VALUES:
        lines = sorted(_marked_lines(lowered, [mark.encode() for mark in rule.marks], look))
        pattern = re.compile(rule.pattern.encode() if lines else b"")
        number, counted, times = 1, 0, 0
        for start, end in lines:
            number += text.count(b"\n", counted, start)
            counted = start
            if times != most and _holds(rule, pattern, text, start, end, look):
                found.append((number, rule.name))
                times += 1
    return sorted(found)[:most]


def _holds(
    rule: Rule, pattern: re.Pattern[bytes], text: bytes, start: int, end: int, look: Callable[[], object]
) -> bool:
    """Tell whether a line holds a secret of a rule."""
    for at in range(start, end, _PIECE):
        look()
        stop = min(end, at + _PIECE + _OVERLAP)
        for match in pattern.finditer(text, at, stop):
            whole = stop == end or match.end() < stop  # else it may go on, and the next piece has it
            if whole and rule.real(match[1].decode("utf-8", "replace")):
                return True
    return False


def _marked_lines(text: bytes, marks: list[bytes], look: Callable[[], object]) -> set[tuple[int, int]]:
    """Return start and end of each line with a mark: plain search is a hundred times as fast as the patterns."""
    lines = set()
    for mark in marks:
        at = text.find(mark)
        while at >= 0:
            look()
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            lines.add((text.rfind(b"\n", 0, at) + 1, end))
            at = text.find(mark, end)
    return lines


def strip_credentials(url: str) -> tuple[str, bool]:
    """Return the address without user, password and secret parameters, and whether there were any.

    The `git@` of an ssh address stays: it names an account that everybody shares, and nothing works without it.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _cut_values(url)
    authority, slash, tail = _authority(rest, scheme)
    user, at, host = authority.rpartition("@")
    keep = "git@" if user == "git" and scheme.endswith("ssh") else ""
    bare = f"{scheme}://{keep}{host}{slash}{tail}"
    try:
        parts = urlsplit(bare)
        cut = urlunsplit(
            parts._replace(query=_without_secrets(parts.query), fragment=_without_secrets(parts.fragment))
        )
    except ValueError:  # "Invalid IPv6 URL" and its like: nothing in it can be told apart
        return f"{scheme}://{GONE}", True
    # urlunsplit writes file:///x and an empty query its own way; only a real cut may change the text.
    same = parts.query == _without_secrets(parts.query) and parts.fragment == _without_secrets(parts.fragment)
    clean, more = _cut_values(bare if same else cut)
    tokenless = clean if scheme == "file" else CONDA_TOKEN.sub("", clean)
    return tokenless, bool(at and not keep) or not same or more or tokenless != clean


def redact(text: str) -> str:
    """Return `text` for the eyes: addresses without credentials, secrets and values of secret names as `***`."""
    text = _ADDRESS.sub(lambda match: strip_credentials(match[0])[0], text)
    text = _BEARER.sub(lambda match: match[1] + GONE, text)
    text = _LOGIN.sub(_without_login, _without_header(text))
    text = _GROUPED.sub(lambda match: match[1] + GONE, _SSHPASS.sub(lambda match: match[1] + GONE, text))
    text = _without_options(text)
    for match in _ASSIGNED.finditer(text):
        if _assigns_secret(match):
            return _cut_values(text[: match.end()])[0] + GONE
    return _cut_values(text)[0]


def _without_header(text: str) -> str:
    """Cut the logins out of headers that are called Authorization."""
    kept, at = [], 0
    for match in _AUTHORIZATION.finditer(text):
        if match.start() >= at:
            ends = [
                i for i in (text.find(c, match.end()) for c in ("\n", match[3] or match[2]) if c) if i >= 0
            ]
            kept += [text[at : match.end()], GONE]
            at = min(ends, default=len(text))
    return "".join([*kept, text[at:]])


def _without_login(match: re.Match[str]) -> str:
    """Cut `user:password` after curl's `-u`; other tools have numbers and addresses there."""
    option, space, word = match[1], match[2], match[3].strip("\"'")
    glued = not space and not (option == "-u" and "curl" in match.string[: match.start()][-200:])
    if glued or ":" not in word or "://" in word or re.fullmatch(r"\d+:\d+", word):
        return match[0]
    return f"{option} {GONE}"


def _without_options(text: str) -> str:
    """Cut the words after options that are called like a secret."""
    kept, at = [], 0
    for match in _OPTION.finditer(text):
        name, value = match[1].lstrip("-").replace("-", "_"), text[match.end() : match.end() + 200].split()[0]
        if match.start() >= at and secret_name(name, value):
            kept.append(f"{text[at : match.end(1)]} {GONE}")
            word = _WORD.match(text, match.end())
            at = word.end() if word else match.end()
    return "".join([*kept, text[at:]])


def _assigns_secret(match: re.Match[str]) -> bool:
    """Tell whether what follows is the value of a secret."""
    name = match[1].replace("-", "_")
    whole = match.string[match.end() : match.end() + 200].split()[0]
    value = re.split("[\"',;]", whole)[0]
    found = secret_name(name, value)
    if not found or (not match[2] and (match[3] == "=" or match[4])):
        return bool(found)
    before = match.string[max(match.start() - 1, 0) : match.start()]
    if before == "/" or _NOTHING.fullmatch(whole.strip("\\\"',;)}]")):  # `registry/token:latest`
        return False
    return not _LOOSE.fullmatch(name) or (len(value) >= 16 and looks_generated(value))


def _authority(rest: str, scheme: str) -> tuple[str, str, str]:
    """Split what follows `://`; a password with a slash or an `@` in it must not end the authority early."""
    end = _ends(rest, 0)
    for _ in range(9):
        at = _goes_on(rest, end, scheme)
        if at < 0:
            break
        end = _ends(rest, at)
    return rest[:end], rest[end : end + 1], rest[end + 1 :]


def _ends(rest: str, start: int) -> int:
    return min((i for i in (rest.find(c, start) for c in "/?#") if i >= 0), default=len(rest))


def _goes_on(rest: str, end: int, scheme: str) -> int:
    """Return where the `@` stands before the real host, if what ends at `end` is a password's first part, or -1."""
    login, _, host = rest[:end].rpartition("@")
    name, _, port = host.partition(":")
    if "[" in rest[:end] or port.isdigit():
        return -1
    if port:
        return rest.find("@", end)
    if ":" not in login or "." in name or name == "localhost":
        return -1
    later = _LATER_HOST.search(rest, end)
    return later.start() if later and (later[1] or "+" not in scheme) else -1


def secret_query(query: str) -> bool:
    """Tell whether a parameter of an address may be a login, or a part of a signature."""
    return _without_secrets(query) != query or _cut_values(query)[1]


def _without_secrets(query: str) -> str:
    """Drop the parameters whose names are those of secrets."""
    kept = []
    for part in query.split("&"):
        name, has_value, value = part.partition("=")
        word = unquote(name).replace("-", "_")
        if not (has_value and (secret_name(word, value) or _SIGNED.fullmatch(word))):
            kept.append(part)
    return "&".join(kept)


def _cut_values(text: str) -> tuple[str, bool]:
    """Replace each secret that is known by its looks."""
    cut, lowered = text, text.lower()
    for rule in VALUES:
        if any(mark in lowered for mark in rule.marks):
            cut = re.sub(rule.pattern, lambda match: match[0].replace(match[1], GONE), cut)
    return cut, cut != text
