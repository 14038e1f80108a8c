"""The ranking of differences by their effect on results.

Results are numbers and speed. The table is `ranking.toml`, likeliest first.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from msgspec import Struct

from reprobuild.compare.environments.model import KINDS, Kind
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.resolve.environment import environment


class RankingRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A row of the table; see its head."""

    group: str
    kinds: tuple[Kind, ...]
    reason: str
    names: tuple[str, ...] = ()
    like: tuple[str, ...] = ()
    noise: bool = False


@cache
def ranking_rules() -> tuple[RankingRule, ...]:
    """Return the rules in their order."""
    raw = files("reprobuild.compare.environments").joinpath("ranking.toml").read_bytes()
    return decode_toml(raw, dict[str, tuple[RankingRule, ...]])["rule"]


@cache
def _rules_by_kind() -> dict[Kind, tuple[tuple[int, RankingRule, re.Pattern[str] | None], ...]]:
    """Return the ranked rules of each kind, with compiled patterns.

    Each rule has one pattern for its names.
    """
    rules: dict[Kind, list[tuple[int, RankingRule, re.Pattern[str] | None]]] = {kind: [] for kind in KINDS}
    for rank, rule in enumerate(ranking_rules(), 1):
        pattern = re.compile("|".join(f"(?:{name})" for name in rule.names)) if rule.names else None
        for kind in rule.kinds:
            rules[kind].append((rank, rule, pattern))
    return {kind: tuple(rows) for kind, rows in rules.items()}


def rank_difference(kind: Kind, name: str) -> tuple[int, RankingRule]:
    """Return a thing's place in the table, from 1, and rule.

    Patterns are matched against at most 200 characters: rules know no longer name.
    """
    treated = _variable_class(name[:200]) if kind == "environment" else ""
    last: tuple[int, RankingRule] | None = None
    for place, rule, pattern in _rules_by_kind()[kind]:
        if (pattern is not None and pattern.fullmatch(name[:200])) or treated in rule.like:
            return place, rule
        if pattern is None and not rule.like:
            last = place, rule
    assert last is not None, kind  # a test tries every kind
    return last


def rank_last() -> tuple[int, RankingRule]:
    """Return the last place, and the rule of what a lock leaves out as not needed."""
    group = "left out on purpose"
    return len(ranking_rules()), RankingRule(group=group, kinds=(), reason=group)


def _variable_class(name: str) -> str:
    """Return a variable's class in resolve/environment/environment.toml.

    Its patterns do not match a newline.
    """
    return next(
        (rule.kind for pattern, rule in environment.read_environment_rules() if pattern.fullmatch(name)), ""
    )
