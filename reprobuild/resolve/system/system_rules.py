"""Which captured system packages are the host's and not the environment's, by one table (`system.toml`)."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct


class SystemRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table; see there."""

    class_: str = msgspec.field(name="class")
    reason: str
    packages: tuple[str, ...]
    but: tuple[str, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    never: tuple[str, ...]
    rule: tuple[SystemRule, ...]


@cache
def rules() -> tuple[tuple[re.Pattern[str], SystemRule], ...]:
    """Return the rules in their order, each with the pattern of the names that it means."""
    text = (files("reprobuild.resolve.system") / "system.toml").read_text(encoding="utf-8")
    table = msgspec.toml.decode(text, type=_Table)
    return tuple((_pattern(rule.packages, (*rule.but, *table.never)), rule) for rule in table.rule)


def _pattern(names: tuple[str, ...], but: tuple[str, ...]) -> re.Pattern[str]:
    def either(patterns: tuple[str, ...]) -> str:
        return "|".join(translate(pattern) for pattern in patterns)

    return re.compile(f"(?!{either(but)})(?:{either(names)})")


@cache
def exclusion(name: str) -> SystemRule | None:
    """Return the rule by which a package that was asked for is left out, or None for one that is not."""
    return next((rule for pattern, rule in rules() if pattern.match(name)), None)
