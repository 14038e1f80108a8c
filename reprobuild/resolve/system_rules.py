"""Which captured system packages are the host's and not the environment's, by one table (`system.toml`)."""

from __future__ import annotations

import re
from fnmatch import translate
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table; see there."""

    class_: str = msgspec.field(name="class")
    reason: str
    packages: tuple[str, ...]
    but: tuple[str, ...] = ()


class _Table(Struct, frozen=True, forbid_unknown_fields=True):
    rule: tuple[Rule, ...]


@cache
def rules() -> tuple[tuple[re.Pattern[str], Rule], ...]:
    """Return the rules in their order, each with the pattern of the names that it means."""
    text = (files("reprobuild.resolve") / "system.toml").read_text(encoding="utf-8")
    return tuple((_pattern(rule), rule) for rule in msgspec.toml.decode(text, type=_Table).rule)


def _pattern(rule: Rule) -> re.Pattern[str]:
    def either(names: tuple[str, ...]) -> str:
        return "|".join(translate(name) for name in names)

    but = f"(?!{either(rule.but)})" if rule.but else ""
    return re.compile(f"{but}(?:{either(rule.packages)})")


@cache
def exclusion(name: str) -> Rule | None:
    """Return the rule by which a package that was asked for is left out, or None for one that is not."""
    return next((rule for pattern, rule in rules() if pattern.match(name)), None)
