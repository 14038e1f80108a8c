"""The rules of secrets as data: one table, to find secrets and to cut them out."""

from __future__ import annotations

from reprobuild_portable.secrets.command_rules import COMMAND_RULES
from reprobuild_portable.secrets.judges import (
    START,
    SecretRule,
    has_marks,
    secrets_of,
)
from reprobuild_portable.secrets.login_rules import LOGIN_RULES
from reprobuild_portable.secrets.named_rules import NAMED_RULES
from reprobuild_portable.secrets.placed_rules import PLACED_RULES
from reprobuild_portable.secrets.tokens import TOKENS
from reprobuild_portable.secrets.words import (
    decode_base64,
    is_plausible_token,
    is_private_key,
    looks_random,
)


def _assignment(value: str) -> bool:
    """Return whether a text in base64 has a secret, such as `PASSWORD=...`."""
    text = decode_base64(value)
    return text is not None and any(
        rule.real is not _assignment and has_marks(rule, text.lower()) and secrets_of(rule, text)
        for rule in VALUES
    )


# Every repeat is bounded, so that no input makes the search slow.
VALUES: tuple[SecretRule, ...] = (
    *(
        SecretRule(name, marks, f"{START}({pattern})", is_plausible_token, run=True)
        for name, marks, pattern in TOKENS
    ),
    SecretRule(
        "aws-secret-key",
        ("secret",),
        r"(?i:aws)[\w.-]{0,20}(?i:secret)[\w.-]{0,20}[\"'\]]{0,2}[ \t]{0,5}[=:][ \t]{0,5}[\"']?"
        r"([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
        is_plausible_token,
    ),
    SecretRule(  # a key of AWS under any name: 40 characters, which no digest has in base64
        "aws-secret-value",
        (),
        r"(?<![A-Za-z0-9/+_.~-])([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+_.=-])",
        looks_random,
        run=True,
    ),
    SecretRule(
        "private-key",
        ("private key",),
        r"(-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\s\S]){0,9000}-----END [A-Z0-9 ]{0,40}-----|[A-Za-z0-9+/=\s\\]{0,9000}))",
    ),
    SecretRule(  # of PuTTY, OpenVPN and SSH2
        "key-block",
        ("private-lines:", "static key v1", "begin ssh2 "),
        r"((?:Private-Lines: \d{1,3}|-----BEGIN OpenVPN Static [k]ey V1-----"  # which does not match itself
        r"|---- BEGIN SSH2 (?:ENCRYPTED )?PRIVATE KEY ----"
        r"(?:\s{1,4}[A-Za-z-]{1,30}: [^\n]{0,80}){0,5})[A-Za-z0-9+/=\s\\]{0,9000})",
    ),
    SecretRule(  # https://developer.paypal.com/braintree/docs/guides/extend/oauth/access-tokens
        "braintree",
        ("access_token$",),
        r"(access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32})(?![0-9a-f])",
        is_plausible_token,
    ),
    SecretRule(  # of `/etc/shadow`: crypt(5)
        "crypt-hash",
        ("$6$", "$5$", "$y$"),
        r"(?<![A-Za-z0-9])(\$(?:6\$(?:rounds=\d{1,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{86}"
        r"|5\$(?:rounds=\d{1,9}\$)?[A-Za-z0-9./]{1,16}\$[A-Za-z0-9./]{43}"
        r"|y\$[A-Za-z0-9./]{1,8}\$[A-Za-z0-9./]{1,86}\$[A-Za-z0-9./]{43}))(?![A-Za-z0-9./])",
        is_plausible_token,
    ),
    SecretRule(  # the body of a key of OpenSSH, with or without its header
        "openssh-key",
        ("b3blbnnzac1rzxktdje",),
        r"(b3BlbnNzaC1rZXktdjE[A-Za-z0-9+/]{20,20000}(?:(?:\s|\\n){1,20}[A-Za-z0-9+/]{20,80}={0,2}){0,999})",
        is_plausible_token,
        run=True,
    ),
    SecretRule(
        "encoded-key",
        ("ls0tls1crudjti",),
        r"(LS0tLS1CRUdJTi[A-Za-z0-9+/]{60,20000}={0,2})",
        is_private_key,
        run=True,
    ),
    # `passw`, `secret`, `token`, `private`, these in capitals, `_KEY=`, `PASS=`, `"auth` and `-data:` in base64, at
    # each place of three
    SecretRule(
        "encoded",
        (
            "0b2tlb",
            "1kyxrho",
            "9lrvk9",
            "bbu1m9",
            "bbu1nx",
            "bhc3n3",
            "bssvzbve",
            "byaxzhdg",
            "c2vjcmv0",
            "cgfzc3",
            "chjpdmf0z",
            "dg9rzw",
            "fs0vzp",
            "imf1dg",
            "iyxv0a",
            "jhdxro",
            "lwrhdge6",
            "nfq1jfv",
            "nly3jld",
            "qqvntp",
            "qqvntv",
            "quklwqvrf",
            "rps0vo",
            "rva2vu",
            "trunsrv",
            "tzgf0yt",
            "u0vdukvu",
            "ueftu1",
            "ueftuz",
            "ufjjvkfur",
            "ut0tft",
            "ve9lru",
            "wcml2yxrl",
            "wyxnzd",
            "x0tfwt",
            "zzwnyzx",
        ),
        r"(?:(?<![A-Za-z0-9+/_\\-])|(?<=\\[nrt]))([A-Za-z0-9+/_-]{20,24000}={0,2})(?![A-Za-z0-9+/_-])",
        _assignment,
        run=True,
    ),
    *LOGIN_RULES,
    *COMMAND_RULES,
    *PLACED_RULES,
    *NAMED_RULES,
)


def _index_marks() -> dict[str, list[tuple[str, list[int]]]]:
    """Return each mark with the numbers of its rules, by its first two characters."""
    numbers: dict[str, list[int]] = {}
    for number, rule in enumerate(VALUES):
        for mark in rule.marks:
            numbers.setdefault(mark, []).append(number)
    index: dict[str, list[tuple[str, list[int]]]] = {}
    for mark, rules in numbers.items():
        index.setdefault(mark[:2], []).append((mark, rules))
    return index


_MARKS_BY_START = _index_marks()
_ALWAYS = frozenset(number for number, rule in enumerate(VALUES) if not rule.marks)


def select_rules(text: str) -> list[SecretRule]:
    """Return the rules with a mark in a text, in their order. An address has few of the marks."""
    lowered = text.lower()
    starts = {lowered[place : place + 2] for place in range(len(lowered))}.union(lowered)
    numbers = set(_ALWAYS)
    for start in starts & _MARKS_BY_START.keys():
        for mark, rules in _MARKS_BY_START[start]:
            if mark in lowered:
                numbers.update(rules)
    return [VALUES[number] for number in sorted(numbers)]
