"""How likely a difference changes numbers or speed: the table `rules.toml`, likeliest first."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.environments.facts import KINDS, Kind
from reprobuild.resolve import environment


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table; see its head."""

    group: str
    kinds: tuple[Kind, ...]
    reason: str
    names: tuple[str, ...] = ()
    like: tuple[str, ...] = ()
    noise: bool = False


@cache
def table() -> tuple[Rule, ...]:
    """Return the rules in their order."""
    raw = files("reprobuild.environments").joinpath("rules.toml").read_bytes()
    return msgspec.toml.decode(raw, type=dict[str, tuple[Rule, ...]])["rule"]


@cache
def _by_kind() -> dict[Kind, tuple[tuple[int, Rule, re.Pattern[str] | None], ...]]:
    """Return for each kind its rules with their ranks, each with one compiled pattern for its names."""
    found: dict[Kind, list[tuple[int, Rule, re.Pattern[str] | None]]] = {kind: [] for kind in KINDS}
    for rank, rule in enumerate(table(), 1):
        pattern = re.compile("|".join(f"(?:{name})" for name in rule.names)) if rule.names else None
        for kind in rule.kinds:
            found[kind].append((rank, rule, pattern))
    return {kind: tuple(rows) for kind, rows in found.items()}


def rank(kind: Kind, name: str) -> tuple[int, Rule]:
    """Return the rule of a thing, and its place in the table from 1; the last one that is about all is the last.

    Patterns are matched against at most 200 characters: no name that a rule knows is longer.
    """
    treated = ""
    for place, rule, pattern in _by_kind()[kind]:
        if pattern is not None and pattern.fullmatch(name[:200]):
            return place, rule
        if rule.like:
            treated = treated or _treatment(name[:200])
            if treated in rule.like:
                return place, rule
        elif pattern is None:
            return place, rule
    raise LookupError(f"no rule is about {kind}")  # a test tries every kind and every treatment


def _treatment(name: str) -> str:
    """Return the reason of the rule of resolve/environment.toml that is about a variable."""
    treatments = environment.rules()
    found = (rule.reason for pattern, rule in treatments if pattern.fullmatch(name))
    return next(found, treatments[-1][1].reason)  # no pattern matches a name with a newline in it
