"""Variables of a base's image, and those that the new image keeps."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from reprobuild.config.overrides import is_named
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.system import EnvVar, InheritedSetting
from reprobuild.resolve.environment.environment import NAME, read_environment_rules
from reprobuild_portable import secrets

# Variables of an image are in no captured file.
WHERE = "base image"
_NUMERIC = ("numerics", "preload")


def inherit_environment(
    variables: Iterable[str], settings: Iterable[EnvVar], drop: Collection[str]
) -> tuple[tuple[InheritedSetting, ...], tuple[Resolution, ...]]:
    """Decide the variables of an image.

    Args:
        variables: `NAME=VALUE`, of its configuration.
        settings: the baked variables of the captured environment, which win.
        drop: names and patterns that the user leaves out.

    Returns:
        The kept variables, and a resolution for each: `base-variable`, which must be accepted, for one that changes
        results and was not captured. Values of secrets are in neither.
    """
    baked = {setting.name: setting.value for setting in settings}
    environment: dict[str, InheritedSetting] = {}
    rulings: dict[str, Resolution] = {}
    for variable in variables:
        name, _, value = variable.partition("=")
        outcome, kind, reason = _decide_variable(name, value, baked, drop)
        rulings[name] = Resolution(
            file=WHERE, line=0, subject=name if name.isprintable() else repr(name)[:80], outcome=outcome,
            reason=reason, kind=kind,
        )  # fmt: skip
        environment.pop(name, None)
        if outcome in ("in base", "replaced"):
            environment[name] = InheritedSetting(name=name, value=value)
    return tuple(environment.values()), tuple(rulings.values())


def _decide_variable(
    name: str, value: str, baked: dict[str, str], drop: Collection[str]
) -> tuple[Outcome, str, str]:
    """Return outcome, class and reason."""
    if not NAME.fullmatch(name) or not value.isprintable():
        return "excluded", "session", "not what every builder can carry"
    if secrets.holds_secret(name, value):
        return "excluded", "secret", "a secret of the image: supply it when the image runs"
    if is_named(name, drop):
        return "excluded", "decision", "dropped by decision"
    if name in baked:
        return "excluded", "decision", "the captured environment has its own"
    rule = next(rule for pattern, rule in read_environment_rules() if pattern.fullmatch(name))
    if rule.kind in _NUMERIC:
        return "replaced", "base-variable", f"the image sets it, and it was not captured: {rule.reason}"
    return "in base", "", "the image sets it"
