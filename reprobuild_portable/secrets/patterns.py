"""Patterns of the text before a secret: options, logins, addresses, headers."""

from __future__ import annotations

import re

from reprobuild_portable.secrets.templates import VARIABLE
from reprobuild_portable.secrets.words import GONE, looks_generated, rule_of_name, secret_name

NOTHING = re.compile(
    r"(?i)\s*|yes|no|true|false|on|off|[01]|none|null|\(null\)|undefined"
    rf"|\${VARIABLE}"
    r"|\$?\{{1,2} ?[a-z_][\w.]{0,60} ?\}{1,2}|%\([a-z_]\w{0,60}\)s|</?[a-z_|/ -]{1,"
    r"40}>|<\|\w{1,40}\|>|\[[a-z_]{1,20}\]"
)
# Names that stand before `:` and ` = ` for much else: there the value must look like a secret, too.
LOOSE = re.compile(r"(?i)keys?|pass|sig|signature|tokens|cookies?|sas|dsn")
OPTION = re.compile(r"(?<![^\s\"'=])(--?[A-Za-z][A-Za-z0-9_.-]{1,60})(?: {1,9}|=)(?!<<<)(?=\S)")
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


def option_name(match: re.Match[str]) -> str:
    """Return the name of an option as the name of a variable; `--pwd` has a password, the variable PWD a directory."""
    name = match[1].lstrip("-").replace("-", "_")
    return "password" if name.lower() == "pwd" and match[1].startswith("--") else name


def secret_option(name: str, value: str) -> str | None:
    """Return the rule that makes the value of an option a secret, or None.

    An option with dots sets a field of a configuration (`--wandb.key`). The field of a name like `--data.key` is
    seldom a secret, so its value must look like one.
    """
    group, _, field = name.rpartition(".")
    rule = secret_name(name.replace(".", "_"), value)
    if not group or not rule or rule_of_name(name):
        return rule
    if not rule_of_name(field):
        return None
    loose = rule != "named" and field.lower() != "pass" and LOOSE.fullmatch(field)
    return rule if not loose or (len(value) >= 16 and looks_generated(value)) else None


def without_login(match: re.Match[str]) -> str:
    """Cut `user:password` after curl's `-u`; other tools have numbers and addresses there."""
    option, space, word = match[1], match[2], match[3].strip("\"'")
    glued = not space and not (option == "-u" and "curl" in match.string[: match.start()][-200:])
    if glued or ":" not in word or "://" in word or re.fullmatch(r"\d+:\d+", word):
        return match[0]
    return f"{option} {GONE}"
