"""What is a secret: rules as data, by name and by value, and the ways to cut one out.

Names may be shown, values never. The rules lean to the safe side for environment variables, where a
lost value costs a question, and to the quiet side for source text, where a false alarm stops a build.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

GONE = "***"
# conda's token in a path, as in https://host/t/TOKEN/channel; servers of companies have a path before it.
CONDA_TOKEN = re.compile(r"(?<!:/)/t/[^/?#]+")

# First match wins; an empty rule name means "not a secret". Matched against the whole name, any case.
NAMES: tuple[tuple[str, str], ...] = (
    ("", r"(OLD)?PWD|KEYBOARD|SSH_AUTH_SOCK(HOST)?|SSH_AGENT_PID|.*_PASSES|(N|NUM|MAX|MIN)_PASS"),
    ("", r".*TOKENI[ZS](ER|ERS|ATION|E|ED)(_.*)?"),
    ("", r"((.*_)?(MAX|MIN|NUM|N|TOTAL|BATCH|NEW|CONTEXT|TRAIN|GLOBAL)_)(.*_)?TOKENS?(_.*)?"),
    ("", r"(.*_)?TOKENS?_(PER|LEN|LENGTH|COUNT|LIMIT|BUDGET|DISPATCHER|TYPE)(_.*)?"),
    ("", r"(XDG|GNOME|TERM|ITERM|TMUX|DESKTOP|KDE|KONSOLE|BYOBU)_.*SESSION_?ID"),
    ("", r"(.*_)?PUBLIC_?KEYS?"),
    ("", r"(?!GOOGLE_APPLICATION_CREDENTIALS).*_(FILE|FILENAME|PATH|DIR|VERSION|TYPE|BACKEND|STORE)"),
    ("", r"(.*_)?(SORT|PRIMARY|FOREIGN|CACHE|PARTITION|HOT)_?KEYS?"),
    (
        "named",
        r"HF_TOKEN|HUGGING_?FACE_HUB_TOKEN|WANDB_(API_)?KEY|AWS_(SECRET_ACCESS_KEY|SESSION_TOKEN|ACCESS_KEY_ID)"
        r"|AZURE_.*|GOOGLE_APPLICATION_CREDENTIALS.*|GITHUB_TOKEN|GH_TOKEN|OPENAI_API_KEY|ANTHROPIC_API_KEY"
        r"|NGC_API_KEY|NGC_CLI_API_KEY|MLFLOW_TRACKING_(PASSWORD|TOKEN)|COMET_API_KEY|NEPTUNE_API_TOKEN"
        r"|KRB5CCNAME|MYSQL_PWD|PGPASSWORD|REDISCLI_AUTH|NETRC|DOCKER_AUTH_CONFIG|SSHPASS",
    ),
    ("token", r".*(TOKEN|BEARER|JWT).*"),
    ("password", r".*(PASSW(OR)?D|PASSPHRASE|PASSCODE).*|(.*_)?(PASS|PW)|.*_PWD"),
    ("secret", r".*SECRET.*"),
    ("credential", r".*(CREDENTIAL|CREDS).*"),
    (
        "key",
        r".*(API|APP|AUTH|SERVICE|ACCOUNT|DB|CLIENT|ACCESS|PRIVATE|PRIV|ENCRYPTION|SIGNING|SSH|MASTER)_?KEY.*"
        r"|(.*_)?KEY",
    ),
    ("cookie", r".*COOKIE.*"),
    ("session", r".*SESSION_?(ID|KEY)"),
    ("signature", r"(.*_)?(SIGNATURE|SIG)"),
    ("sas", r"(.*_)?SAS(_URL|_URI)?"),
    ("webhook", r".*WEBHOOK.*|.*CONNECTION_?STRING.*|(.*_)?DSN"),
)


def _random(text: str) -> bool:
    """Whether `text` reads like a generated key: letters and digits mixed, and no word that stands for one."""
    if re.search(r"(?i)example|your|change.?me|dummy|placeholder|xxx|\*\*\*|[${}<>%]", text):
        return False
    return bool(re.search(r"\d", text) and re.search(r"[A-Za-z]", text)) and entropy(text) >= 3.5


def _no_sample(text: str) -> bool:
    return not text.endswith("EXAMPLE")


def _real_login(text: str) -> bool:
    """Whether `user:password` of an address is more than a sample or a template."""
    text = _plain(text)
    password = text.partition(":")[2]
    return not re.search(r"[${}<>%*\\]|\.\.\.", text) and not re.fullmatch(
        r"(?i)(my)?_?(pass(word|wd)?|pwd|secret|token|x+|user(name)?|foo|bar|changeme|example|port|\d{1,5})",
        password,
    )


def _token_login(text: str) -> bool:
    """Whether the user of an address is a token: its password is absent, or says nothing (`x-oauth-basic`)."""
    return _random(_plain(text.partition(":")[0]))


def _plain(text: str) -> str:
    """Take the percent signs of encoded characters off: a password may have any, and a template has others."""
    return re.sub("%[0-9A-Fa-f]{2}", "-", text)


class Rule(NamedTuple):
    """One kind of secret.

    A line is searched only if it holds one of `marks`, in any case. Group 1 of `pattern` is the secret
    itself; `real` may still call it a sample.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    real: Callable[[str], bool] = lambda text: True


# Every repeat is bounded, so that no input makes the search slow.
VALUES: tuple[Rule, ...] = (
    Rule(
        "aws-access-key",
        ("a3t", "akia", "asia", "abia", "acca"),
        r"(?<![A-Za-z0-9])((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?![A-Za-z0-9])",
        _no_sample,
    ),
    Rule(
        "aws-secret-key",
        ("aws",),
        r"(?i:aws_?secret_?access_?key)[\"']?\s{0,5}[=:]\s{0,5}[\"']?([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        lambda text: not re.search("(?i)example", text),
    ),
    Rule(
        "huggingface",
        ("hf_", "api_org_"),
        r"(?<![A-Za-z0-9_])((?:hf|api_org)_[A-Za-z0-9]{30,60})(?![A-Za-z0-9_])",
    ),
    Rule(
        "github",
        ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        r"(?<![A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{50,255})",
    ),
    Rule(
        "gitlab",
        ("glpat-", "gldt-", "glptt-", "glrt-", "glcbt-"),
        r"(?<![A-Za-z0-9])(gl(?:pat|dt|ptt|rt|cbt)-[A-Za-z0-9_-]{20,64})",
    ),
    Rule("slack", ("xox",), r"(?<![A-Za-z0-9])(xox[abeoprs]-[A-Za-z0-9-]{10,250})"),
    Rule("anthropic", ("sk-ant-",), r"(?<![A-Za-z0-9])(sk-ant-[A-Za-z0-9_-]{20,250})"),
    Rule(
        "openai",
        ("sk-",),
        r"(?<![A-Za-z0-9_-])(sk-(?!ant-)(?=[A-Za-z0-9_-]{0,200}\d)(?=[A-Za-z0-9_-]{0,200}[A-Z])[A-Za-z0-9_-]{20,250})",
    ),
    Rule("nvidia", ("nvapi-",), r"(?<![A-Za-z0-9])(nvapi-[A-Za-z0-9_-]{40,100})"),
    Rule("google", ("aiza",), r"(?<![A-Za-z0-9])(AIza[A-Za-z0-9_-]{35})(?![A-Za-z0-9_-])"),
    Rule("index-upload", ("pypi-",), r"(?<![A-Za-z0-9])(pypi-[A-Za-z0-9_-]{50,250})"),
    Rule("docker", ("dckr_",), r"(?<![A-Za-z0-9])(dckr_[a-z]{3}_[A-Za-z0-9_-]{20,100})"),
    Rule("npm", ("npm_",), r"(?<![A-Za-z0-9])(npm_[A-Za-z0-9]{36})(?![A-Za-z0-9])"),
    Rule("stripe", ("k_live_",), r"(?<![A-Za-z0-9])([sr]k_live_[A-Za-z0-9]{20,100})"),
    Rule(
        "jwt",
        ("eyj",),
        r"(?<![A-Za-z0-9])(eyJ[A-Za-z0-9_-]{10,4000}\.eyJ[A-Za-z0-9_-]{10,8000}\.[A-Za-z0-9_-]{10,2000})",
    ),
    Rule(
        "private-key", ("private key",), r"(-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----)"
    ),
    Rule(
        "azure-key",
        ("accountkey=", "sharedaccesskey="),
        r"(?i:AccountKey|SharedAccessKey)=([A-Za-z0-9+/]{40,100}={0,2})",
    ),
    Rule(
        "wandb",
        ("wandb",),
        r"(?i:wandb)[\w.()\[\]\"' ,=:]{0,60}(?i:key)[\"'\]]{0,2}\s{0,4}[=:,]\s{0,4}[\"']?([0-9a-f]{40})(?![0-9a-f])",
    ),
    Rule("url-credential", ("://",), r"://([^\s/:@'\"<>]{1,100}:[^\s/@'\"<>]{1,300})@", _real_login),
    Rule(
        "url-token",
        ("http",),
        r"(?i:https?)://([A-Za-z0-9_~+%-]{16,100}(?::[^\s/@'\"<>]{0,300})?)@(?!sha\d)",
        _token_login,
    ),
    Rule(
        "assigned",
        ("key", "token", "secret", "passw"),
        r"(?i:api_?key|secret_?key|access_?token|auth_?token|client_?secret|password|passwd)[\"']?\s{0,4}[=:]\s{0,4}"
        r"[\"']([^\s\"'/]{16,200})[\"']",
        _random,
    ),
)

# The first alternative that fits the whole name wins. One pattern is compiled four times as fast as its parts; those of
# `VALUES` are compiled where a mark was found, which is seldom.
_NAMES = re.compile("|".join(f"(?P<r{n}>{pattern})" for n, (_, pattern) in enumerate(NAMES)), re.IGNORECASE)
_WEAK_NAME = re.compile(r"(?i)(^|_)(KEYS?|AUTH|CRED|PRIV|LOGIN|ACCESS|API|LICENSE)(_|$)")
_NOTHING = re.compile(r"(?i)\s*|yes|no|true|false|on|off|[01]|none|null|\(null\)|undefined")
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


def entropy(text: str) -> float:
    """Return the Shannon entropy of `text` in bits for each character."""
    counts = Counter(text)
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts.values())


def secret_name(name: str) -> str | None:
    """Return the rule by which a variable of this name holds a secret, or None."""
    found = _NAMES.fullmatch(name)
    return NAMES[int(str(found.lastgroup)[1:])][0] or None if found else None


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
    found = secret_name(name) or secret_value(value) or _secret_inside(value)
    if found is None and _WEAK_NAME.search(name) and re.fullmatch(r"[A-Za-z0-9+/_=-]{20,512}", value):
        return "generated" if not value.startswith("/") and _random(value) else None
    return found


def _secret_inside(value: str) -> str | None:
    """Return the rule by which a value assigns a secret of its own: JSON, `key=value` lists, options."""
    for match in _INSIDE.finditer(value):
        rule = secret_name(match[1].replace("-", "_"))
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
        lambda m: f"{m[1]} {GONE}" if secret_name(m[1].lstrip("-").replace("-", "_")) else m[0], text
    )
    start = 0
    while match := _ASSIGNED.search(text, start):
        if secret_name(match[1]):
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
        name, has_value, _ = part.partition("=")
        word = unquote(name).replace("-", "_")
        if not (has_value and (secret_name(word) or _SIGNED.fullmatch(word))):
            kept.append(part)
    return "&".join(kept)


def _cut_values(text: str) -> tuple[str, bool]:
    """Replace each secret that is known by its looks."""
    cut, lowered = text, text.lower()
    for rule in VALUES:
        if any(mark in lowered for mark in rule.marks):
            cut = re.sub(rule.pattern, lambda match: match[0].replace(match[1], GONE), cut)
    return cut, cut != text
