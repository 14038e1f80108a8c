"""Names beside their values, as data: rule, marks, pattern, and the pattern that a line must match."""

from __future__ import annotations

_NAMED = ("key", "token", "secret", "pass", "pwd")
_KEYED = r"\\?[\"'](?P<name>[A-Za-z][A-Za-z0-9_-]{1,60})\\?[\"']"
_VALUE = r"[bru]{0,2}\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']"

# The name must be one of a secret, and the value may be one.
PAIRS: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    (  # with its type, or made by a call: `api_key: str = "..."`, `api_key=SecretStr("...")`
        "assigned-typed",
        _NAMED,
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60})[ \t]{0,4}"
        r"(?:(?P<type>:[ \t]{0,4}[A-Za-z][\w.\[\], |]{0,60}[ \t]{0,4})?=)"
        r"[ \t]{0,4}(?P<call>(?:[A-Za-z][\w.]{0,40}\([ \t]{0,4}[a-z_]{1,20}[ \t]{0,2}=|Secret(?:Str)?\()[ \t]{0,2})?"
        r"(?(type)|(?(call)|(?!)))"  # what has neither is `assigned`
        r"[bfru]{0,2}\\?[\"'](?P<secret>[^\s\"'\\]{12,200})\\?[\"']",
        r"=[ \t]{0,4}(?:(?:[A-Za-z][\w.]{0,40}\([ \t]{0,4}[a-z_]{1,20}[ \t]{0,2}=|Secret(?:Str)?\()[ \t]{0,2})?"
        r"[bfru]{0,2}\\?[\"'](?=[^\s\"'\\]{0,199}\d)[^\s\"'\\]{12}",
    ),
    (  # an upper-case name of a password, which may have a word with a number
        "assigned-password",
        ("password", "passwd", "passwort", "pwd"),
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Z][A-Z0-9_]{1,60})\\?[\"'\]]{0,2}[ \t]{0,4}(?:<{1,2}-|[=:])[ \t]{0,4}"
        r"[bru]{0,2}\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        r"[=:-][ \t]{0,4}[bru]{0,2}\\?[\"'](?=[^\s\"'\\]{0,199}\d)[^\s\"'\\]{8}",
    ),
    (  # in three quotes
        "assigned-block",
        _NAMED,
        r"(?<![A-Za-z0-9_.-])(?P<name>[A-Za-z_][A-Za-z0-9_]{0,60})[\"'\]]{0,2}[ \t]{0,4}[=:][ \t]{0,4}"
        r"[bfru]{0,2}(?:(?:\\?\"){3}|'{3})(?P<secret>[^\s\"'\\]{8,200})(?:\\?\"|'){3}",
        r"\"\\?\"\\?\"|'{3}|\\\"\\\"",
    ),
    (  # words of a command in a list, and the default of an option
        "option-word",
        _NAMED,
        r"\\?[\"']--?(?P<name>[A-Za-z][A-Za-z0-9_-]{1,60})\\?[\"'][ \t]{0,4},\s{0,40}"
        r"(?:[^\n\"']{0,80}?default[ \t]{0,4}=[ \t]{0,4})?\\?[\"'](?P<secret>[^\s\"'\\]{8,200})\\?[\"']",
        r"[\"']--?[A-Za-z]",
    ),
    (  # what is taken where a variable is not set
        "or-value",
        (" or ",),
        rf"{_KEYED}[)\]][ \t]{{1,4}}or[ \t]{{1,4}}\\?[\"'](?P<secret>[^\s\"'\\]{{8,200}})\\?[\"']",
        r"[)\]][ \t]{1,4}or[ \t]{1,4}\\?[\"']",
    ),
    (  # the same as an argument: `getenv("NAME", "value")`, `env("NAME", default="value")`
        "default-value",
        _NAMED,
        r"(?:getenv|setenv|putenv|get|setdefault|pop|env|environ|config)\([ \t]{0,4}"
        rf"{_KEYED}[ \t]{{0,4}},[ \t]{{0,4}}(?:(?:default|fallback)[ \t]{{0,4}}=[ \t]{{0,4}})?{_VALUE}[ \t]{{0,4}}[,)]",
        r"[\"'][ \t]{0,4},[ \t]{0,4}(?:(?:default|fallback)[ \t]{0,4}=[ \t]{0,4})?[bru]{0,2}\\?[\"']",
    ),
    (  # the same in JavaScript
        "or-variable",
        _NAMED,
        r"process\.env(?:\.|\[\\?[\"'])(?P<name>[A-Za-z][A-Za-z0-9_]{1,60})(?:\\?[\"']\])?"
        rf"[ \t]{{0,4}}(?:\|\||\?\?)[ \t]{{0,4}}{_VALUE}",
        r"process\.env",
    ),
    (
        "element",
        ("key>", "token>", "secret>", "password>", "passphrase>", "passwd>", "pwd>"),
        r"<(?:[A-Za-z][\w-]{0,30}:)?(?P<name>[A-Za-z][A-Za-z0-9_.-]{1,60})(?:[ \t][^<>\n]{0,200})?>"
        r"(?P<secret>[^\s<>\"']{8,200})</",
        r">[^\s<>]{8,200}</",
    ),
    (  # `<add key="password" value="..."/>`, `<property name="password">...</property>`
        "element-named",
        _NAMED,
        r"[ \t](?:name|key|id)=[\"'](?P<name>[A-Za-z][\w.:-]{1,60})[\"'](?:[ \t]{1,9}value=[\"']|[^<>\n]{0,60}>)"
        r"(?P<secret>[^\s<>\"']{8,200})(?:[\"']|</)",
        r"[ \t](?:name|key|id)=[\"'][A-Za-z]",
    ),
)
