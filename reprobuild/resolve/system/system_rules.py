"""System packages that belong to the host.

One table (`system.toml`) lists them.
"""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_toml


class SystemRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table, which documents the fields."""

    class_: str = msgspec.field(name="class")
    reason: str
    packages: tuple[str, ...]
    but: tuple[str, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    never: tuple[str, ...]
    rule: tuple[SystemRule, ...]


@cache
def read_system_rules() -> tuple[tuple[re.Pattern[str], SystemRule], ...]:
    """Return the rules in order, each with its name pattern."""
    text = (files("reprobuild.resolve.system") / "system.toml").read_text(encoding="utf-8")
    table = decode_toml(text, _Table)
    return tuple((_name_pattern(rule.packages, (*rule.but, *table.never)), rule) for rule in table.rule)


def _name_pattern(names: tuple[str, ...], but: tuple[str, ...]) -> re.Pattern[str]:
    def either(patterns: tuple[str, ...]) -> str:
        return "|".join(translate(pattern) for pattern in patterns)

    return re.compile(f"(?!{either(but)})(?:{either(names)})")


@cache
def find_exclusion(name: str) -> SystemRule | None:
    """Return the rule that leaves out a requested package, or None."""
    return next((rule for pattern, rule in read_system_rules() if pattern.match(name)), None)
