"""Which captured variables go into the image: bake, drop or refuse, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild import secrets
from reprobuild.errors import UsageError
from reprobuild.lock import Outcome, Ruling, Setting
from reprobuild.snapshot.model import Variable

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SYSTEM_LIBRARIES = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
# Libraries that people preload, and the Debian packages that bring them.
PRELOAD_PACKAGES = {
    "libjemalloc.so": "libjemalloc2",
    "libtcmalloc.so": "libgoogle-perftools4",
    "libtcmalloc_minimal.so": "libtcmalloc-minimal4",
    "libmimalloc.so": "libmimalloc2.0",
    "libgomp.so": "libgomp1",
}


class Rule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table: name patterns, treatment and reason; `values` restricts what may be baked."""

    names: tuple[str, ...]
    treatment: Literal["bake", "drop", "preload", "record"]
    reason: str
    values: tuple[str, ...] = ()
    otherwise: str = ""


@cache
def rules() -> tuple[tuple[re.Pattern[str], Rule], ...]:
    """Return the table, each rule with one compiled pattern for its names."""
    raw = files("reprobuild.resolve").joinpath("environment.toml").read_bytes()
    table = msgspec.toml.decode(raw, type=dict[str, tuple[Rule, ...]])["rule"]
    return tuple((re.compile("|".join(f"(?:{name})" for name in rule.names)), rule) for rule in table)


def resolve_environment(
    variables: Iterable[Variable], *, bake: Mapping[str, str | None], drop: Iterable[str]
) -> tuple[tuple[Setting, ...], tuple[Ruling, ...]]:
    """Decide every captured variable.

    Args:
        variables: the captured ones.
        bake: the user's own: name to value, or to None for the captured value.
        drop: names that the user does not want.

    Returns:
        The settings of the image, and one ruling for each captured variable.

    Raises:
        UsageError: `bake` names a secret, an unknown variable, or what cannot be a name.
    """
    variables = tuple(variables)
    by_name = {variable.name: variable for variable in variables}
    dropped = set(drop)
    settings = {name: _chosen(name, value, by_name) for name, value in bake.items() if name not in dropped}
    rulings = []
    for variable in variables:
        if variable.name in dropped:
            rulings.append(_ruling(variable, "excluded", "dropped by decision"))
        elif variable.name in settings:
            rulings.append(_ruling(variable, "pinned", "baked by decision"))
        else:
            setting, ruling = _decide(variable)
            rulings.append(ruling)
            if setting:
                settings[setting.name] = setting
    return tuple(settings.values()), tuple(rulings)


def preload_packages(settings: Iterable[Setting]) -> list[str]:
    """Return the system packages that the libraries in `needs` come from, as far as the table knows them."""
    return sorted(
        {
            package
            for setting in settings
            for path in setting.needs
            for library, package in PRELOAD_PACKAGES.items()
            if path.rpartition("/")[2].startswith(library)
        }
    )


def _ruling(variable: Variable, outcome: Outcome, reason: str, kind: str = "") -> Ruling:
    return Ruling(
        file=variable.place.file, line=variable.place.line, subject=variable.name, outcome=outcome,
        reason=reason, kind=kind,
    )  # fmt: skip


def _chosen(name: str, value: str | None, captured: Mapping[str, Variable]) -> Setting:
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not the name of a variable", hint="bake takes NAME or NAME=VALUE")
    if value is None:
        if name not in captured:
            raise UsageError(
                f"bake names {name}, which was not captured", hint=f"give its value: --bake {name}=VALUE"
            )
        value = captured[name].value
    if value is None or secrets.secret_variable(name, value):
        raise UsageError(
            f"{name} looks like a secret, and would be readable in the image for ever",
            hint=f"pass it when the image runs: docker run -e {name} ...",
        )
    if "\0" in value:
        raise UsageError(f"the value of {name} holds a NUL, which no environment can carry", hint="remove it")
    return Setting(name=name, value=value)


def _decide(variable: Variable) -> tuple[Setting | None, Ruling]:
    if variable.value is None:
        return None, _ruling(variable, "excluded", "a secret: supply it when the image runs", "secret")
    if not NAME.fullmatch(variable.name):
        return None, _ruling(variable, "excluded", "not a name that an image can carry")
    rule = next(rule for pattern, rule in rules() if pattern.fullmatch(variable.name))
    if rule.treatment in ("drop", "record"):
        return None, _ruling(variable, "excluded", rule.reason)
    if variable.suspect:
        return None, _ruling(
            variable, "unresolved", f"its value cannot be trusted: {variable.suspect}", "suspect-value"
        )
    if rule.treatment == "preload":
        return _preload(variable, variable.value)
    if rule.values and not any(re.fullmatch(pattern, variable.value) for pattern in rule.values):
        return None, _ruling(variable, "excluded", rule.otherwise)
    return Setting(name=variable.name, value=variable.value), _ruling(variable, "pinned", rule.reason)


def _preload(variable: Variable, value: str) -> tuple[Setting | None, Ruling]:
    paths = [path for path in re.split(r"[: ]+", value) if path]
    if not paths:
        return None, _ruling(variable, "excluded", "empty")
    foreign = [path for path in paths if path.startswith("/") and not path.startswith(SYSTEM_LIBRARIES)]
    if foreign:
        return None, _ruling(
            variable, "unresolved",
            f"{foreign[0]} is a library of the captured site, and no package brings it", "site-library",
        )  # fmt: skip
    needs = tuple(path for path in paths if path.startswith("/"))
    return (
        Setting(name=variable.name, value=value, needs=needs),
        _ruling(
            variable, "pinned", "changes what is computed, or how fast; the libraries must be in the base"
        ),
    )
