"""Environment variables that are secrets, by name or by value."""

from __future__ import annotations

import re
from urllib.parse import unquote

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
    option_name,
    secret_option,
    without_login,
)
from reprobuild_portable.secrets.redact import (
    SIGNED,
    assigns_secret,
    find_assignments,
    hide_path_tokens,
    redact,
)
from reprobuild_portable.secrets.search import secret_value
from reprobuild_portable.secrets.templates import VARIABLE
from reprobuild_portable.secrets.words import (
    CONDA_TOKEN,
    decode_base64,
    is_login,
    looks_generated,
    rule_of_name,
    secret_name,
)

_WEAK_NAME = re.compile(r"(?i)(^|_)(KEYS?|AUTH|CRED|PRIV|LOGIN|ACCESS|API|LICENSE)(_|$)")
_INSIDE = re.compile(
    r"(?<![A-Za-z0-9_.-])-{0,2}([A-Za-z_][A-Za-z0-9_-]{0,60})[\"']?\s{0,4}[=:]\s{0,4}[\"']?([^\s"
    r"\"',;]{1,200})"
)
# A parameter of an address that is long enough for a signature.
_PARAMETER = re.compile(r"[?&;]([A-Za-z][A-Za-z0-9_%-]{0,40})=([A-Za-z0-9%+/=_.~-]{16,400})")
_WORD_END = re.compile(r"[\s\"',;|&<>)\]}]")
_SCHEMES = re.compile(r"(?i)(basic|bearer|token|digest|negotiate|ntlm|api-?key|aws4-hmac-sha256)[ \t]")
# What stands for a value: `$TOKEN`, `{token}`, `%(token)s`, `<token>`.
_TEMPLATE = re.compile(
    rf"[\\\"']{{0,3}}(\$(?:{VARIABLE}|\d(?!\w)|[^A-Za-z0-9_$]|\Z)|[{{<]|%[({{]|%[A-Z][A-Z0-9_]{{1,40}}%|\*\*\*)"
)
# A group of the system after a user, a module after a file, a port after a host, a place in a container.
_NO_PASSWORD = re.compile(r"[a-z_][a-z_-]*|\d{1,5}|[./].*", re.DOTALL)
_GROUP = re.compile(r"[a-z_][a-z0-9_-]*\$?|\d+")
_RUNS_AS = re.compile(r"(?i)docker|podman|nerdctl|chown|chroot|kubectl|container")
# A proxy without a scheme, which programs take, too.
_PROXY = re.compile(r"(?i)[a-z0-9_]{0,40}proxy")
_PROXY_LOGIN = re.compile(r"[^\s/:@]{1,100}:(?![${])[^\s@]{1,300}@[A-Za-z0-9\[]")
# An index of packages, whose token may be a directory of its address.
_INDEX = re.compile(
    r"(?i)(?:pip|uv|poetry|pdm|pipenv|conda)_.{0,80}(?:index|links|url|channel|mirror).{0,40}"
)
# A text in base64, of which the line breaks are taken out.
_ENCODED = re.compile(r"[A-Za-z0-9+/_-]{24,999999}={0,2}")
# How far from an option the name of its program may stand.
_NEAR = 200


def secret_variable(name: str, value: str) -> str | None:
    """Return the rule that makes an environment variable a secret, or None.

    The value of a secret name may be empty or a switch: then it is not a secret. A weaker name (`SOME_AUTH`) needs
    a value that looks generated.
    """
    if NOTHING.fullmatch(value):
        return None
    if _PROXY.fullmatch(name) and _PROXY_LOGIN.match(value):
        return "login"
    rule = (
        secret_name(name, value)
        or secret_value(value)
        or _find_assigned_rule(value)
        or _assigned_inside(value)
        or _find_redacted_rule(name, value)
        or _find_encoded_rule(value)
        or _find_index_rule(name, value)
    )
    if rule is None and name.endswith(("AUTH", "LOGIN")) and secret_value(f"{name}={value}") == "auth-login":
        return "login"
    if rule is None and _WEAK_NAME.search(name) and re.fullmatch(r"[A-Za-z0-9+/_=-]{20,512}", value):
        return "generated" if not value.startswith("/") and looks_generated(value) else None
    return rule


def holds_secret(name: str, value: str) -> bool:
    """Return whether a variable must stay out of an image and a lock: a secret, or a text that `redact` changes."""
    return secret_variable(name, value) is not None or redact(value) != value


def _find_index_rule(name: str, value: str) -> str | None:
    """Return the rule for an address of an index with a token among its directories, or None."""
    urls = (url[0] for url in ADDRESS.finditer(value)) if _INDEX.fullmatch(name) else ()
    return "index-path" if any(hide_path_tokens(url, index=True) != url for url in urls) else None


def _find_encoded_rule(value: str) -> str | None:
    """Return the rule for a secret in base64, or None: a service account, a kubeconfig."""
    value = re.sub(r"\r?\n", "", value)
    text = decode_base64(value) if _ENCODED.fullmatch(value) else None
    if text is None:
        return None
    return secret_value(text) or _find_assigned_rule(text) or _assigned_inside(text)


def _find_assigned_rule(value: str) -> str | None:
    """Return the rule for a value that assigns a secret, or None: JSON, `key=value` lists, options."""
    for match in _INSIDE.finditer(value):
        rule = secret_name(match[1].replace("-", "_"), match[2])
        if (
            value[match.end(1) : match.end(1) + 1] == ":"
            and value[max(match.start() - 1, 0) : match.start()] == "/"
        ):
            continue  # `registry/token:latest`
        if rule and not NOTHING.fullmatch(match[2]):
            return rule
    return None


def _assigned_inside(value: str) -> str | None:
    """Return the rule for an assignment that `redact` cuts, anywhere in a value, or None.

    A name may be inside the value of another (`mode:x?secret=...`). A template is not a secret.
    """
    for match in find_assignments(value):
        if not rule_of_name(match[1].replace("-", "_")):
            continue
        word = _WORD_END.split(value[match.end() : match.end() + _NEAR], maxsplit=1)[0]
        if word and assigns_secret(match) and not (NOTHING.fullmatch(word) or _TEMPLATE.match(word)):
            return secret_name(match[1].replace("-", "_"), word) or "assigned"
    for match in _PARAMETER.finditer(value):
        if SIGNED.fullmatch(unquote(match[1]).replace("-", "_")) and looks_generated(match[2]):
            return "signature"
    return None


def _find_redacted_rule(name: str, value: str) -> str | None:
    """Return the rule for a header, a login of curl, an option or a token that `redact` cuts, or None.

    A template (`Bearer $TOKEN`) does not count, nor does the `-u` of other programs (`docker -u ada:users`).
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
    """Return whether a scheme and a token are the value of a header, and not words of a text."""
    if scheme.lower().startswith("bearer"):
        return len(token) >= 16 and looks_generated(token)
    return is_login(token)


def _is_login(match: re.Match[str], name: str) -> bool:
    """Return whether `user:password` after an option is a login, in a variable of this name."""
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
    """Return the rule for a secret after an option (`--token abc`), or None."""
    for match in OPTION.finditer(value):
        word = value[match.end() : match.end() + _NEAR].split()[0].strip("\"',;")
        rule = secret_option(option_name(match), word)
        nothing = NOTHING.fullmatch(word) or _TEMPLATE.match(word) or re.match(r"-|[~.]{0,2}/", word)
        loose = LOOSE.fullmatch(match[1].lstrip("-")) and not (len(word) >= 16 and looks_generated(word))
        if rule and not nothing and not loose:
            return rule
    return None
