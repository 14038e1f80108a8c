"""The variables of an image that a base begins with: which of them the new image keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reprobuild.config.overrides import is_named
from reprobuild.lock.lock import InheritedSetting, Outcome, Ruling, Setting
from reprobuild.resolve.environment.environment import NAME, rules
from reprobuild_portable import secrets

# Variables of an image stand in no captured file.
WHERE = "base image"
_NUMERIC = ("numerics", "preload")


def inherit_environment(
    variables: Iterable[str], ours: Iterable[Setting], drop: Collection[str]
) -> tuple[tuple[InheritedSetting, ...], tuple[Ruling, ...]]:
    """Decide the variables of an image.

    Args:
        variables: `NAME=VALUE`, of its configuration.
        ours: what is baked of the captured environment, and wins.
        drop: names and patterns that the user does not want.

    Returns:
        What is kept, and a ruling for each: `base-variable`, which must be accepted, for one that changes what is
        computed and was not captured. Values of secrets are in neither.
    """
    baked = {setting.name: setting.value for setting in ours}
    kept: dict[str, InheritedSetting] = {}
    rulings: dict[str, Ruling] = {}
    for variable in variables:
        name, _, value = variable.partition("=")
        outcome, kind, reason = _decide(name, value, baked, drop)
        rulings[name] = Ruling(
            file=WHERE, line=0, subject=name if name.isprintable() else repr(name)[:80], outcome=outcome,
            reason=reason, kind=kind,
        )  # fmt: skip
        kept.pop(name, None)
        if outcome in ("in base", "replaced"):
            kept[name] = InheritedSetting(name=name, value=value)
    return tuple(kept.values()), tuple(rulings.values())


def _decide(name: str, value: str, baked: dict[str, str], drop: Collection[str]) -> tuple[Outcome, str, str]:
    """Return outcome, class and reason."""
    if not NAME.fullmatch(name) or not value.isprintable():
        return "excluded", "session", "not what every builder can carry"
    if secrets.holds_secret(name, value):
        return "excluded", "secret", "a secret of the image: supply it when the image runs"
    if is_named(name, drop):
        return "excluded", "decision", "dropped by decision"
    if name in baked:
        return "excluded", "decision", "the captured environment has its own"
    rule = next(rule for pattern, rule in rules() if pattern.fullmatch(name))
    if rule.kind in _NUMERIC:
        return "replaced", "base-variable", f"the image sets it, and it was not captured: {rule.reason}"
    return "in base", "", "the image sets it"
