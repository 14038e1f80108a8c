"""Templates and patterns: references of a shell, fields of a template, globs and regular expressions."""

from __future__ import annotations

import re

# The name of a variable as people write it, `DB_PASSWORD2`: a part has one number at most, and a random text has more.
VARIABLE = (
    r"(?-i:_{0,2}(?:[A-Za-z]{1,30}(?:\d{1,4}(?:[A-Z]{1,20}|[a-z]{1,20})?)?|\d{1,4})"
    r"(?:_{1,2}(?:[A-Za-z]{1,30}(?:\d{1,4}(?:[A-Z]{1,20}|[a-z]{1,20})?)?|\d{1,4})){0,8}(?![A-Za-z0-9_]))"
)
# `${NAME:-x}`, `$(command)`, `$NAME`, `$1`, `{{name}}`, `{name}`, `%(name)s`, `%NAME%`, `%s`, `<name>`, `***`, `...`.
_FORM = re.compile(
    rf"\$\{{[^{{}}]{{1,100}}\}}?|\$\([^()]{{0,100}}\)?|\$(?:{VARIABLE}|\d(?!\w))"
    rf"|\{{{{2}}[^{{}}]{{1,100}}\}}{{0,2}}|\{{(?:{VARIABLE}[^{{}}]{{0,100}}|\d{{0,2}})\}}"
    r"|%\([A-Za-z_]\w{0,60}\)[a-z]|%[A-Z][A-Z0-9_]{1,40}%|%(?:\d\$)?[sdvqrx](?![A-Za-z0-9])|<[^<>]{1,100}>|\*{3,}|\.{3}"
)
# Parts of a regular expression: `[^:]+`, `.*`, `\w+`, `(?:`.
_EXPRESSION = re.compile(
    r"\[\^?[^\]]{1,60}\](?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})?|\[\^|\\[a-zA-Z](?:[*+?]|\{\d{1,3},?\d{0,3}\})?|\\."
    r"|[.)][*+]\??|\(\?(?:P<\w{1,30}>|:)|[{]\d{1,3},\d{0,3}[}]"
)
# A shell replaces it wherever it stands, unless single quotes are around it.
_REFERENCE = re.compile(
    rf"[\\\"']{{0,3}}\$(?:{VARIABLE}(?:\Z|[\"'/.:@,;)\]}}$\\-])|\d(?!\w)|[({{\[]|[@*#?!-]?\Z)"
)
# The same without single quotes: any name.
_REPLACED = re.compile(r"[\\\"']{0,3}\$")
# `{token}`, `%(token)s`, `%TOKEN%`, `<token>`, `os.environ[`.
_STAND_IN = re.compile(
    rf"[\\\"']{{0,3}}(?:[{{\[](?:{VARIABLE}|[^A-Za-z_]|\Z)|<|%[({{]|%[A-Z_]{{2,40}}%|\*\*\*)"
    r"|[A-Za-z_][A-Za-z0-9_.]{0,100}[(\[]|.{0,200}(?:\$\{|\{\{)",
    re.DOTALL,
)
# A part of a pattern: `*`, `??`, `[0-9]`, `(a|b)`, `{a,b}`, `\d`, `^` at the start and `$` at the end.
_WILD = re.compile(r"[*?\[\](){}|]|\\[A-Za-z.]|\A\^|\$\Z")
_ESCAPED = re.compile(r"\\[A-Za-z]|\[[^\]]{1,60}\]")


def is_template(password: str) -> bool:
    """Return whether a password consists of templates and parts of regular expressions."""
    rest = _EXPRESSION.sub("", _FORM.sub("", password))
    return rest != password and not re.search("[A-Za-z0-9]", rest)


def is_stand_in(text: str, *, literal: bool = False) -> bool:
    """Return whether a text is a placeholder of a value, or a call in code.

    Args:
        text: the value of a name.
        literal: True if a shell leaves `$name` as it is; then only the name of a variable makes it a reference.
    """
    return bool((_REFERENCE if literal else _REPLACED).match(text) or _STAND_IN.match(text))


def is_single_quoted(before: str) -> bool:
    """Return whether a value is in single quotes, by the text before it."""
    return before.count("'") % 2 == 1


def pattern_words(text: str) -> list[str] | None:
    """Return the words of a glob or a regular expression, or None for another text."""
    return re.findall("[A-Za-z0-9]{4,}", _ESCAPED.sub(" ", text)) if _WILD.search(text) else None
