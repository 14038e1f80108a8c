"""What is a secret: rules as data, by name and by value, and the ways to cut one out.

Names may be shown, values never. The rules lean to the safe side for environment variables, where a
lost value costs a question, and to the quiet side for source text, where a false alarm stops a build.
"""

from __future__ import annotations

import re
from urllib.parse import unquote, urlsplit, urlunsplit

from reprobuild.secrets.rules import CONDA_TOKEN as CONDA_TOKEN
from reprobuild.secrets.rules import COUNT as COUNT
from reprobuild.secrets.rules import GONE as GONE
from reprobuild.secrets.rules import NAMES as NAMES
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
# `NAME=value` and `--name value` in a command line or a comment; `==` is a pinned version.
_ASSIGNED = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]{0,100})(=(?!=)|:\s)(.+)")
_INSIDE = re.compile(
    r"(?<![A-Za-z0-9_.-])-{0,2}([A-Za-z_][A-Za-z0-9_-]{0,60})[\"']?\s{0,4}[=:]\s{0,4}[\"']?([^\s\"',;]{1,200})"
)
_OPTION = re.compile(r"(?<!\S)(--?[A-Za-z][A-Za-z0-9-]{1,60})[ =](\S+)")
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}://[^\s'\"<>]+")
# Parameters of links that are signed for a time, by stores of files and their front ends.
_SIGNED = re.compile(r"(?i)x_(amz|goog|ms|oss|cos)_.*|hdn(ea|ts|tl)|hmac|auth|expires")
_BEARER = re.compile(r"(?i)((?:authorization:\s*)?(?:bearer|basic)\s+)([A-Za-z0-9._~+/=-]{8,})")


def secret_name(name: str, value: str = "") -> str | None:
    """Return the rule by which a variable of this name holds a secret, or None.

    Args:
        name: of a variable, an option or a parameter.
        value: what it holds, where that is known: `NEW_TOKEN` counts something if it is a number.
    """
    found = _NAMES.fullmatch(name)
    rule = NAMES[int(str(found.lastgroup)[1:])][0] if found else ""
    if rule == COUNT:
        return None if _AMOUNT.fullmatch(value) else "token"
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
    found = secret_name(name, value) or secret_value(value) or _secret_inside(value)
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


def find(text: bytes) -> list[tuple[int, str]]:
    """Return (line from 1, rule) of each secret in a source, a patch or an output, in order of lines."""
    lowered = text.lower()
    found = set()
    for rule in VALUES:
        lines = _marked_lines(lowered, [mark.encode() for mark in rule.marks])
        pattern = re.compile(rule.pattern.encode() if lines else b"")
        for start, end in lines:
            for match in pattern.finditer(text, start, end):
                if rule.real(match[1].decode("utf-8", "replace")):
                    found.add((text.count(b"\n", 0, start) + 1, rule.name))
    return sorted(found)


def _marked_lines(text: bytes, marks: list[bytes]) -> set[tuple[int, int]]:
    """Return start and end of each line with a mark: plain search is a hundred times as fast as the patterns."""
    lines = set()
    for mark in marks:
        at = text.find(mark)
        while at >= 0:
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
    authority, slash, tail = _authority(rest)
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
    text = _OPTION.sub(
        lambda m: f"{m[1]} {GONE}" if secret_name(m[1].lstrip("-").replace("-", "_"), m[2]) else m[0], text
    )
    start = 0
    while match := _ASSIGNED.search(text, start):
        if secret_name(match[1], match[3].strip().partition(" ")[0]):
            return _cut_values(text[: match.start(3)])[0] + GONE
        start = match.start(3)
    return _cut_values(text)[0]


def _authority(rest: str) -> tuple[str, str, str]:
    """Split what follows `://`; a password with a slash in it must not end the authority early."""
    end = min((i for i in map(rest.find, "/?#") if i >= 0), default=len(rest))
    head = rest[:end]
    port = head.rpartition("@")[2].partition(":")[2]
    if port and not port.isdigit() and "[" not in head and "@" in rest[end:]:
        end = rest.index("@", end)
        after = min((i for i in (rest.find(c, end) for c in "/?#") if i >= 0), default=len(rest))
        return rest[:after], rest[after : after + 1], rest[after + 1 :]
    return head, rest[end : end + 1], rest[end + 1 :]


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
