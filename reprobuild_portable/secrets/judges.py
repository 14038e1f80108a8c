"""Tell a secret from a sample: kinds of secrets, and the checks of their values."""

from __future__ import annotations

import re
from typing import Callable, NamedTuple

from reprobuild_portable.secrets.templates import is_single_quoted, is_stand_in
from reprobuild_portable.secrets.words import (
    decode_percent,
    entropy,
    is_login,
    is_password_name,
    is_plausible_token,
    is_real_login,
    is_word,
    looks_chosen,
    looks_generated,
    secret_name,
)


class SecretRule(NamedTuple):
    """One kind of secret.

    A line is searched only if it has one of `marks`, in any case. The secret is group `secret` of `pattern`, else group
    1. `real` tells a secret from a sample. It gets the groups `name` and `before`, too, if the pattern has them: the
    name of the value, and the text before it with its quotes. A match may begin `lines` lines before the line with the
    mark. With `run`, only long words are searched for marks, and a rule without marks matches any long word. A line of
    a source must also match `near`, which is faster than `pattern`. With `option`, it must also have ` -`, and no rule
    without `option` has such a mark. A match may end `after` lines after the line with the mark. `inner` returns the
    part of the group that is the secret, in place of `real`.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    real: Callable[..., bool] = lambda text: True
    run: bool = False
    near: str = ""
    option: bool = False
    lines: int = 0
    after: int = 0
    inner: Callable[[str], tuple[int, int] | None] | None = None


# Each value that `looks_chosen` passes has a digit.
NUMBER = r"\d"
# Behind a letter or digit there is no token, but behind what ends in one: `\n`, `\x22` and `\u0022` of programs, `%3D`
# and `%253D` of an address, `=3D` of a mail, a colour of a terminal, and an option of one letter.
_HEX = "[0-9A-Fa-f]{2}"
START = (
    rf"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=[%=]{_HEX})|(?<=%25{_HEX})|(?<=\\x{_HEX})|(?<=\\u{_HEX}{_HEX})"
    r"|(?<=\[[0-9]m)|(?<=\[[0-9]{2}m)|(?<=\[[0-9];[0-9]{2}m)|(?<=[\s\"'=\[(,]-[A-Za-z])|(?<=\A-[A-Za-z]))"
)
# What documents have for a password.
_SAMPLE_PASSWORD = re.compile(
    r"(?i)(?:my|the|test|some)?_?(?:pass(?:word|wd)?|pwd|secret|token|test|key)>?|change_?me|x{3,99}|\*{3,99}"
)
_UUID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Za-z]{4}){3}-[0-9A-Za-z]{12}"


def _names_secret(value: str, name: str, before: str = "'") -> bool:
    """Return whether the value of a secret name may be a secret, without quotes or in single quotes."""
    named = secret_name(name.replace("-", "_").replace(".", "_"), value) is not None
    return named and looks_chosen(value, literal=is_single_quoted(before), password=is_password_name(name))


def _names_generated(value: str, name: str) -> bool:
    drawn = looks_generated(value) or (is_password_name(name) and is_word(value))
    return len(value) >= 12 and drawn and _names_secret(value, name)


def _quoted(value: str, before: str = "", *, password: bool = False) -> bool:
    value = decode_percent(value)
    drawn = entropy(value) >= 3 if len(value) >= 12 else _has_mixed_characters(value)
    # `="` is of a shell, which replaces `$name`; ` = "` is of a program.
    shell = before in ("", '="', '=\\"')
    return drawn and looks_chosen(value, literal=not shell, password=password)


def _names_quoted(value: str, name: str) -> bool:
    """Return whether the value of a secret name may be a secret, in quotes or on its own."""
    named = secret_name(name.replace("-", "_").replace(".", "_"), value) is not None
    return named and _quoted(value, password=is_password_name(name))


def _names_format(value: str, name: str) -> bool:
    """Return whether a format text of a secret name has a secret outside of its fields."""
    return any(
        len(part) >= 12 and looks_generated(part) and _names_quoted(part, name)
        for part in re.split(r"\{[^{}]{0,80}\}", value)
    )


def _has_mixed_characters(value: str) -> bool:
    """Return whether a short value has characters of three kinds, or letters between numbers."""
    kinds = ("[a-z]", "[A-Z]", r"\d", r"[^A-Za-z0-9_.:/\s-]")
    drawn = (
        re.fullmatch(r"[A-Za-z]{0,9}\d{1,9}[A-Za-z]{1,9}\d[A-Za-z0-9]{0,9}", value) and entropy(value) >= 3
    )
    return bool(drawn) or sum(bool(re.search(kind, value)) for kind in kinds) >= 3


def _given(value: str, before: str = "") -> bool:
    return not is_stand_in(value, literal=is_single_quoted(before))


def _given_login(value: str, before: str = "") -> bool:
    return _given(value, before) and not _SAMPLE_PASSWORD.fullmatch(value)


def _chosen_login(value: str, before: str = "") -> bool:
    return looks_chosen(value, literal=is_single_quoted(before))


def _said_login(value: str, before: str = "") -> bool:
    return looks_chosen(value, literal=is_single_quoted(before), password=True)


def _machine_login(value: str, before: str) -> bool:
    """Return whether a file of logins has a password. Without a user before it, it must look like a password."""
    if "login" not in before or before.startswith("default"):
        return looks_chosen(value, literal=True)
    sample = "\n" in before and _SAMPLE_PASSWORD.fullmatch(value)
    return not sample and not is_stand_in(value, literal=True)


def _generated(value: str, name: str) -> bool:
    mixed = len(re.findall(r"\d{1,99}", value)) >= 2 and ("-" not in value or re.fullmatch(_UUID, value))
    return bool(mixed and _names_secret(value, name) and _quoted(value))


def _header_value(value: str, name: str) -> bool:
    """Return whether a header of curl has a secret name, and a value that may be a secret."""
    word = name.replace("-", "_")
    named = secret_name(word, value) or word.lower() == "authorization"
    return bool(named and looks_chosen(value) and _given(value))


# A quote ends a text of a program there, and a bracket an element of a page.
_ENDS = re.compile(r"[\"'][,;:+)\]}.%=>]|[,:+(\[{=%][\"']|<[/a-zA-Z]+>|^[\"'<]|>$")


def _quoted_login(value: str) -> bool:
    """Return whether quotes or angle brackets are a part of a login, and do not end a text or an element."""
    password = value.partition(":")[2]
    ends = _ENDS.search(password) or re.match(r"\d{0,5}['\"<>]", password)
    return not ends and is_real_login(value) and looks_chosen(re.sub("[<>]", "-", password), literal=True)


def _encoded_login(value: str) -> bool:
    """Return whether a login with a percent-encoded colon is real."""
    return is_real_login(re.sub("%(?:25){0,9}3[Aa]", ":", value, count=1))


def _argument(value: str) -> bool:
    """Return whether an argument of a program may be a password, without a shell that replaces its parts."""
    return _quoted(value, "'", password=True)


def _names_inside(value: str, name: str, before: str = "") -> bool:
    """Return whether a secret name within a line has a value that is generated, or short and mixed."""
    value = decode_percent(value)
    if len(value) < 12:
        drawn = _has_mixed_characters(value)
    else:  # a password is shorter than a token, and so are its kinds of letters fewer
        drawn = looks_generated(value) or (
            name.endswith(("password", "passwd", "pwd")) and entropy(value) >= 3
        )
    return drawn and _names_secret(value, name, before)


def _setting_login(value: str, before: str = "") -> bool:
    """Return whether a value of a settings file is a password, without a shell that replaces its parts."""
    return looks_chosen(value, literal=True, password=True)


def _drawn_key(value: str) -> bool:
    return is_plausible_token(value) and entropy(value) >= 4


def _header(value: str) -> bool:
    return is_login(value) or (len(value) >= 16 and looks_generated(value))


def has_marks(rule: SecretRule, lowered: str) -> bool:
    """Return whether a text in lower case has a mark of a rule, or the rule has no marks."""
    return not rule.marks or any(mark in lowered for mark in rule.marks)


def secrets_of(rule: SecretRule, text: str) -> list[tuple[int, int]]:
    """Return start and end of each secret of a rule in a text with one of its marks."""
    return [
        span for match in re.finditer(rule.pattern, text) if (span := locate_secret(rule, match)) is not None
    ]


def locate_secret(rule: SecretRule, match: re.Match[str] | re.Match[bytes]) -> tuple[int, int] | None:
    """Return start and end of the secret of a match, or None for a sample or a placeholder."""
    group: str | int = "secret" if "secret" in match.re.groupindex else 1
    words = [match[group], *(match[extra] for extra in ("name", "before") if extra in match.re.groupindex)]
    plain = [word.decode("utf-8", "replace") if isinstance(word, bytes) else word or "" for word in words]
    if rule.inner is not None:
        part = rule.inner(plain[0])
        return part and (match.start(group) + part[0], match.start(group) + part[1])
    return match.span(group) if rule.real(*plain) else None
