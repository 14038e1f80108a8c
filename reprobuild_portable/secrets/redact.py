"""Cut secrets out of addresses, and of texts that are shown."""

from __future__ import annotations

import functools
import re
from typing import FrozenSet, Iterator, Match
from urllib.parse import unquote, urlsplit, urlunsplit

from reprobuild_portable.secrets.judges import secrets_of
from reprobuild_portable.secrets.patterns import (
    ADDRESS,
    AUTHORIZATION,
    BEARER,
    GROUPED,
    LOGIN,
    LOOSE,
    NOTHING,
    OPTION,
    SSHPASS,
    WORD,
    option_name,
    secret_option,
    without_login,
)
from reprobuild_portable.secrets.rules import select_rules
from reprobuild_portable.secrets.tokens import TOKENS
from reprobuild_portable.secrets.words import (
    CONDA_TOKEN,
    GONE,
    is_path_token,
    looks_generated,
    rule_of_name,
    secret_name,
)

# `NAME=value`, `name = value`, `"name": "value"` in a command line, a file or a comment; `==` is a pinned version.
ASSIGNED = re.compile(
    r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_-]{0,100})([\\\"']{0,4}[ \t]{0,40})(:?=(?!=)|:(?!:|//))(\s{0,40})"
    r"[\\\"']{0,4}(?=\S)"
)
# A host far into an address: no scope (`/@scope`), no commit or branch (`r.git@main`), no version.
_LATER_HOST = re.compile(
    r"(?<!/)(?<!\.git)@(?:[A-Za-z][A-Za-z0-9.-]{0,252}|\d{1,3}(?:\.\d{1,3}){3}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?(?:(/)|\Z)"
)
# A login whose `@` is percent-encoded; no host has one.
# A login with a blank or a quote in its password, at which an address ends in a text, or behind the one slash that a
# path leaves; digits before a sign are a port.
_LOOSE_LOGIN = re.compile(
    r"(:/{1,9})[^\s/:@]{0,200}:(?!\d{1,5}(?:[/?#\s\"'`,;)\]]|\Z))(?=[^\s/])[^@\n/]{1,300}@(?=[A-Za-z0-9\[])"
)
# A login before a host without a scheme, as scp and variables of proxies have it; no `image:tag@sha256:...`.
_PLAIN_LOGIN = re.compile(
    r"(?<![\w.:@-])[A-Za-z0-9][\w.+-]{0,100}:(?!/)[^\s@\"'`]{1,300}@(?!sha\d)(?=[A-Za-z0-9\[])"
)
_ENCODED_AT = re.compile("%(?:25){0,9}40")
# After an address of IPv6: what is neither a port nor a template.
_NO_PORT = re.compile(r"^(\[[^\]]{0,100}\]):(?!\d{0,5}\Z|[${]).*", re.DOTALL)
_OF_PATH = re.compile(r";([^;/]{1,9999})")
# What counts in a path, in which other rules would take directories for a value.
_OF_PATHS = frozenset((*(name for name, _, _ in TOKENS), "index-path"))
# Parameters of links that are signed for a time, by stores of files and their front ends.
SIGNED = re.compile(r"(?i)x_(amz|goog|ms|oss|cos)_.*|hdn(ea|ts|tl)|hmac|auth|expires")


@functools.lru_cache(
    maxsize=1024
)  # a value names the same addresses again, and is judged once more when it is shown
def strip_credentials(url: str) -> tuple[str, bool]:
    """Return the address without user, password and secret parameters, and whether there were any.

    The `git@` of an ssh address stays: it is an account that all users share, and the address needs it.
    """
    scheme, mark, rest = url.partition("://")
    if not mark:
        return _cut_values(url)
    authority, slash, tail = _authority(rest, scheme)
    user, at, named = authority.rpartition("@")
    host = _NO_PORT.sub(r"\1", _ENCODED_AT.split(named)[-1])
    keep = "git@" if user == "git" and scheme.endswith("ssh") else ""
    bare = f"{scheme}://{keep}{host}{slash}{tail}"
    try:
        parts = urlsplit(bare)
        plain = parts._replace(
            path=_without_parameters(parts.path),
            query=_without_secrets(parts.query),
            fragment=_without_secrets(parts.fragment),
        )
        cut = urlunsplit(plain)
    except ValueError:  # "Invalid IPv6 URL" and its like: nothing in it can be told apart
        return f"{scheme}://{GONE}", True
    # urlunsplit writes file:///x and an empty query its own way; only a real cut may change the text.
    same = parts == plain
    clean, more = _cut_values(bare if same else cut)
    tokenless = clean if scheme.rpartition("+")[2] == "file" else CONDA_TOKEN.sub("", clean)
    return tokenless, bool(at and not keep) or host != named or not same or more or tokenless != clean


def cut_tokens(text: str) -> str:
    """Return a text with `***` for each token of a vendor. The rest stays as it is."""
    return _cut_values(text, _OF_PATHS)[0]


def hide_path_tokens(url: str, *, index: bool) -> str:
    """Return the address of packages with `***` for each token of a vendor in its path.

    Args:
        url: an address without a login.
        index: True for an index. A server may have its own token there (`/TOKEN/org/repo/simple`), so each
            directory that looks generated counts.
    """
    scheme, mark, rest = url.partition("://")
    if not mark or scheme.rpartition("+")[2].lower() == "file":
        return url
    end = min((i for i in (rest.find(c) for c in "?#") if i >= 0), default=len(rest))
    names = rest[:end].split("/")
    if index:
        names[1:] = (GONE if is_path_token(unquote(name)) else name for name in names[1:])
    return cut_tokens(f"{scheme}://{'/'.join(names)}") + rest[end:]


def without_logins(text: str) -> str:
    """Return a message with its addresses as `strip_credentials` leaves them. The other words stay.

    `redact` cuts more: it would cut words of a message that names a secret.
    """
    if not any(mark in text for mark in ("@", "://", "%40")):
        return text
    text = ADDRESS.sub(lambda match: strip_credentials(match[0])[0], text)
    return _cut_values(_PLAIN_LOGIN.sub(f"{GONE}@", _LOOSE_LOGIN.sub(_without_loose_login, text)))[0]


def cut_secrets(text: str) -> str:
    """Return a message without the logins of its addresses, and with `***` for each secret that a rule finds.

    The other words stay, as in `without_logins`.
    """
    return _cut_values(without_logins(text))[0]


def _without_loose_login(match: Match[str]) -> str:
    """Return a match without its login. Quotes stay: the message may be a command that quotes its words."""
    return match[1] + GONE + "".join(c for c in match[0] if c in "'\"") + "@"


def redact(text: str) -> str:
    """Return `text` to be shown: no credentials in addresses, `***` for secrets and for values of secret names."""
    text = ADDRESS.sub(lambda match: strip_credentials(match[0])[0], text)
    text = BEARER.sub(lambda match: match[1] + GONE, text)
    text = LOGIN.sub(without_login, _without_header(text))
    text = GROUPED.sub(lambda match: match[1] + GONE, SSHPASS.sub(lambda match: match[1] + GONE, text))
    text = _without_options(text)
    for match in find_assignments(text):
        if assigns_secret(match):
            return _cut_values(text[: match.end()])[0] + GONE
    return _cut_values(text)[0]


def _without_header(text: str) -> str:
    """Cut the values of Authorization headers."""
    parts, at = [], 0
    for match in AUTHORIZATION.finditer(text):
        if match.start() >= at:
            ends = [
                i for i in (text.find(c, match.end()) for c in ("\n", match[3] or match[2]) if c) if i >= 0
            ]
            parts += [text[at : match.end()], GONE]
            at = min(ends, default=len(text))
    return "".join([*parts, text[at:]])


def _without_options(text: str) -> str:
    """Cut the words after options with the name of a secret."""
    parts, at = [], 0
    for match in OPTION.finditer(text):
        name, value = option_name(match), text[match.end() : match.end() + 200].split()[0]
        if match.start() >= at and secret_option(name, value):
            parts.append(f"{text[at : match.end(1)]} {GONE}")
            word = WORD.match(text, match.end())
            at = word.end() if word else match.end()
    return "".join([*parts, text[at:]])


def find_assignments(text: str) -> Iterator[Match[str]]:
    """Return possible assignments of a text. A text without `=` and `:` has none, and is not searched."""
    return ASSIGNED.finditer(text) if "=" in text or ":" in text else iter(())


def assigns_secret(match: re.Match[str]) -> bool:
    """Return whether an assignment has a secret as its value."""
    name = match[1].replace("-", "_")
    if not rule_of_name(name):
        return False
    whole = match.string[match.end() : match.end() + 200].split()[0]
    value = re.split("[\"',;]", whole)[0]
    rule = secret_name(name, value)
    if match.string[max(match.start() - 2, 0) : match.start()] == "*.":  # `*.key=01;31`: an ending of files
        return False
    if not rule or (not match[2] and (match[3] == "=" or match[4])):
        return bool(rule)
    before = match.string[max(match.start() - 1, 0) : match.start()]
    if before == "/" or NOTHING.fullmatch(whole.strip("\\\"',;)}]")):  # `registry/token:latest`
        return False
    return not LOOSE.fullmatch(name) or (len(value) >= 16 and looks_generated(value))


def _authority(rest: str, scheme: str) -> tuple[str, str, str]:
    """Return the authority, the sign after it, and the rest; a password may have a slash or an `@`."""
    end = _find_login_end(rest, 0)
    for _ in range(9):
        at = _find_real_host(rest, end, scheme)
        if at < 0:
            break
        end = _find_login_end(rest, at)
    return rest[:end], rest[end : end + 1], rest[end + 1 :]


def _find_login_end(rest: str, start: int) -> int:
    return min((i for i in (rest.find(c, start) for c in "/?#") if i >= 0), default=len(rest))


def _find_real_host(rest: str, end: int, scheme: str) -> int:
    """Return the place of the `@` before the real host, or -1 if the authority does end at `end`."""
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
    """Return whether a query of an address has a login or a part of a signature."""
    return _without_secrets(query) != query or _cut_values(query)[1]


def _without_secrets(query: str) -> str:
    """Drop the parameters with the name of a secret. `;` separates them like `&`."""
    pairs = [pair for pair in re.findall("(^|[&;])([^&;]*)", query) if not _is_secret_parameter(pair[1])]
    return "".join(mark + part for mark, part in pairs)[len(pairs[0][0]) if pairs else 0 :]


def _without_parameters(path: str) -> str:
    """Drop the parameters of a path with the name of a secret: `/a.whl;jsessionid=...`."""
    return _OF_PATH.sub(lambda match: "" if _is_secret_parameter(match[1]) else match[0], path)


def _is_secret_parameter(part: str) -> bool:
    name, has_value, value = part.partition("=")
    word = unquote(name).strip().replace("-", "_")
    return bool(has_value and (secret_name(word, value) or SIGNED.fullmatch(word)))


def _cut_values(text: str, among: FrozenSet[str] = frozenset()) -> tuple[str, bool]:
    """Replace each secret that a search finds; `among` limits the rules."""
    cut = text
    for rule in select_rules(text):
        if not among or rule.name in among:
            for start, end in reversed(secrets_of(rule, cut)):
                cut = f"{cut[:start]}{GONE}{cut[end:]}"
    return cut, cut != text
