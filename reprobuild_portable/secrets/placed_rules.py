"""List passwords that have no name: in lists of words, calls and sections of settings."""

from __future__ import annotations

import functools
import re

from reprobuild_portable.secrets.command_rules import COMMAND_RULES
from reprobuild_portable.secrets.commands import COMMANDS
from reprobuild_portable.secrets.judges import (
    SecretRule,
    _argument,
    _drawn_key,
    _names_quoted,
    _setting_login,
    has_marks,
    secrets_of,
)
from reprobuild_portable.secrets.lists import WORDS_OF_LIST, join_words, place_in_list
from reprobuild_portable.secrets.login_rules import LOGIN_RULES
from reprobuild_portable.secrets.logins import LOGINS

# What a command has that is given a password.
_MAY_BE_GIVEN = re.compile(" -[A-Za-z]|/|http-basic|ngrok")
# The rules for words of a command.
_NAMES_OF_COMMANDS = frozenset(
    ("curl", "curl-token", "mysql", "sshpass", *(command[0] for command in COMMANDS))
)
_OF_COMMANDS = tuple(rule for rule in (*LOGIN_RULES, *COMMAND_RULES) if rule.name in _NAMES_OF_COMMANDS)


@functools.lru_cache(maxsize=256)
def _secret_of_list(text: str) -> tuple[int, int] | None:
    """Return start and end of a password in a list of words, or None, by the rules for commands."""
    line, places = join_words(text)
    if not _MAY_BE_GIVEN.search(line):
        return None
    lowered = line.lower()
    for rule in _OF_COMMANDS:
        if has_marks(rule, lowered):
            for start, end in secrets_of(rule, line):
                return place_in_list(places, start, end)
    return None


PLACED_RULES: tuple[SecretRule, ...] = (
    SecretRule(  # the words of a command, each in quotes
        "command-list",
        WORDS_OF_LIST.marks,
        WORDS_OF_LIST.pattern,
        near=WORDS_OF_LIST.near,
        after=8,
        inner=_secret_of_list,
    ),
    *(SecretRule(name, marks, pattern, _argument, after=4) for name, marks, pattern in LOGINS),
    SecretRule(  # a text that black or prettier puts on the line after its name; also in a notebook
        "assigned-wrapped",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_-]{0,60})\\?[\"'\]]{0,2}[ \t]{0,4}"
        r"(?::[ \t]{0,4}[A-Za-z][\w.\[\], |]{0,60})?(?:<{1,2}-|[=:])[ \t]{0,4}[(\\]?(?:\\n[\"'],)?[ \t\r]{0,4}\n[+ ]?"
        r"[ \t]{0,40}(?:\"[ \t]{0,40}\\)?[bru]{0,2}[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        _names_quoted,
        near=r"[=:-][ \t]{0,4}[(\\]?(?:\\n[\"'],)?[ \t\r]{0,4}\Z",
        after=2,
    ),
    SecretRule(  # in three quotes, a block of YAML or an element, on the line after its name
        "assigned-lines",
        ("key", "token", "secret", "pass", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_-]{0,60})(?:\\?[\"'\]]{0,2}[ \t]{0,4}"
        r"(?:[=:][ \t]{0,4}[bru]{0,2}(?:\"{3}|'{3})\\?|:[ \t]{1,4}[|>][+-]?)|(?:[ \t][^<>\n]{0,200})?>)"
        r"[ \t\r]{0,4}\n[+ ]?[ \t]{0,40}(?P<secret>[^\s\"'\\<>]{8,200})[ \t\r]{0,4}(?=\n|\Z|</|\"{3}|'{3})",
        _names_quoted,
        near=r"(?:\"{3}\\?|'{3}\\?|[|>][+-]?)[ \t\r]{0,4}\Z",
        after=2,
    ),
    SecretRule(
        "fernet",
        ("fernet(",),
        r"Fernet\([ \t]{0,4}(?:key[ \t]{0,2}=[ \t]{0,2})?[bru]{0,2}\\?[\"']([A-Za-z0-9_-]{43}=)\\?[\"']",
        _drawn_key,
    ),
    SecretRule(  # the section of a client in `my.cnf`
        "client-setting",
        ("password",),
        r"(?<![^\n])[+ ]?\[(?:client|mysql|mariadb)[\w-]{0,20}\][ \t\r]{0,9}(?:\n[^\n\[]{0,200}){0,8}?"
        r"\n[+ ]?[ \t]{0,9}password[ \t]{0,9}=[ \t]{0,9}(?P<before>[\"']?)(?P<secret>[^\s\"'#]{4,200})",
        _setting_login,
        near=r"password[ \t]{0,9}=",
        lines=9,
    ),
)
