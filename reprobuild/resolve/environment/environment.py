"""Decisions on captured variables: bake, drop or refuse, with reasons."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.config.overrides import is_named, is_pattern
from reprobuild.errors import UsageError
from reprobuild.infra.suggest import did_you_mean
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.lock.model import Outcome, Resolution
from reprobuild.lock.system import EnvVar
from reprobuild.resolve.environment.modules import LoadedModules
from reprobuild.resolve.environment.path_mapping import PathMap
from reprobuild.resolve.environment.paths import RewrittenPath, rewrite_libraries, rewrite_sources
from reprobuild.snapshot.model import Variable
from reprobuild_portable import secrets

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SYSTEM_LIBRARIES = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
# Libraries that people preload, and their Debian packages.
PRELOAD_PACKAGES = {
    "libjemalloc.so": "libjemalloc2",
    "libtcmalloc.so": "libgoogle-perftools4",
    "libtcmalloc_minimal.so": "libtcmalloc-minimal4",
    "libmimalloc.so": "libmimalloc2.0",
    "libgomp.so": "libgomp1",
}


class EnvironmentRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of the table: name patterns, treatment and reason.

    `values` restricts the values that may be baked.
    """

    kind: str = msgspec.field(name="class")
    names: tuple[str, ...]
    treatment: Literal["bake", "drop", "preload", "libraries", "sources", "record"]
    reason: str
    values: tuple[str, ...] = ()
    otherwise: str = ""


@cache
def read_environment_rules() -> tuple[tuple[re.Pattern[str], EnvironmentRule], ...]:
    """Return the table, each rule with one compiled pattern."""
    raw = files("reprobuild.resolve.environment").joinpath("environment.toml").read_bytes()
    table = decode_toml(raw, dict[str, tuple[EnvironmentRule, ...]])["rule"]
    return tuple((re.compile("|".join(f"(?:{name})" for name in rule.names)), rule) for rule in table)


class PathContext(Struct, frozen=True, kw_only=True):
    """The context for judging paths in variables.

    It has the image's directories, and the modules of the job.

    `in_base` is set if the base is an image, and the snapshot was taken inside such an image.
    """

    places: PathMap = PathMap()
    loaded: LoadedModules = LoadedModules()
    in_base: bool = False


NOWHERE = PathContext()


def resolve_environment(
    variables: Iterable[Variable], *, bake: Mapping[str, str | None], drop: Collection[str],
    context: PathContext = NOWHERE,
) -> tuple[tuple[EnvVar, ...], tuple[Resolution, ...]]:  # fmt: skip
    """Decide every captured variable.

    Args:
        variables: the captured ones.
        bake: the user's override: name to value, or name or pattern (`MY_*`) to None for the captured value.
        drop: names and patterns that the user leaves out.

    Returns:
        The settings of the image, and one resolution for each captured variable.

    Raises:
        UsageError: `bake` names a secret, an unknown variable, or an invalid name.
    """
    variables = tuple(variables)
    chosen = _bake_settings(bake, {variable.name: variable for variable in variables})
    settings = {setting.name: setting for setting in chosen if not is_named(setting.name, drop)}
    rulings = []
    for variable in variables:
        if is_named(variable.name, drop):
            rulings.append(_make_resolution(variable, "excluded", "dropped by decision", "decision"))
        elif variable.name in settings:
            rulings.append(_make_resolution(variable, "pinned", "baked by decision", "decision"))
        else:
            setting, ruling = _decide_variable(variable, context)
            rulings.append(ruling)
            if setting:
                settings[setting.name] = setting
    return tuple(settings.values()), tuple(rulings)


def preload_packages(settings: Iterable[EnvVar]) -> list[str]:
    """Return the known system packages of the libraries in `needs`."""
    return sorted(
        {
            package
            for setting in settings
            for path in setting.needs
            for library, package in PRELOAD_PACKAGES.items()
            if path.rpartition("/")[2].startswith(library)
        }
    )


def _make_resolution(variable: Variable, outcome: Outcome, reason: str, kind: str = "") -> Resolution:
    return Resolution(
        file=variable.place.file, line=variable.place.line, subject=variable.name, outcome=outcome,
        reason=reason, kind=kind,
    )  # fmt: skip


def _bake_settings(bake: Mapping[str, str | None], captured: Mapping[str, Variable]) -> list[EnvVar]:
    """Return the user's own settings.

    A pattern matches captured variables, but no secrets.
    """
    settings = []
    for name, value in bake.items():
        if not is_pattern(name):
            settings.append(_bake_setting(name, value, captured))
            continue
        if value is not None:
            raise UsageError(
                f"bake gives one value to the pattern {name}", hint="leave the value out, or name one"
            )
        plain = [
            v for v in captured.values()
            if v.value is not None and not v.suspect and NAME.fullmatch(v.name)
            and not secrets.holds_secret(v.name, v.value)
        ]  # fmt: skip
        matching = [v for v in plain if is_named(v.name, (name,))]
        if not matching:
            raise UsageError(
                f"bake names {name}, which fits no captured variable",
                hint="`reprobuild show DIR` lists them; secrets cannot be baked",
            )
        settings += [EnvVar(name=v.name, value=v.value or "") for v in matching]
    return settings


def _bake_setting(name: str, value: str | None, captured: Mapping[str, Variable]) -> EnvVar:
    if not NAME.fullmatch(name):
        raise UsageError(f"{name!r} is not the name of a variable", hint="bake takes NAME or NAME=VALUE")
    if value is None:
        if name not in captured:
            raise UsageError(
                f"bake names {name}, which was not captured",
                hint=f"{did_you_mean(name, captured)}\ngive its value: --bake {shlex.quote(name)}=VALUE".lstrip(),
            )
        value = captured[name].value
    if value is None or secrets.holds_secret(name, value):
        raise UsageError(
            f"{name} looks like a secret, and would be readable in the image for ever",
            hint=f"pass it when the image runs: `reprobuild run --secret {shlex.quote(name)}`, or docker run "
            f"-e {shlex.quote(name)} ...",
        )
    if "\0" in value:
        raise UsageError(f"the value of {name} holds a NUL, which no environment can carry", hint="remove it")
    return EnvVar(name=name, value=value)


def _decide_variable(variable: Variable, context: PathContext) -> tuple[EnvVar | None, Resolution]:
    if variable.value is None:
        return None, _make_resolution(
            variable, "excluded", "a secret: supply it when the image runs", "secret"
        )
    if not NAME.fullmatch(variable.name):
        return None, _make_resolution(variable, "excluded", "not a name that an image can carry", "session")
    if secrets.holds_secret(variable.name, variable.value):
        return None, _make_resolution(
            variable, "excluded", "it looks as if a login were in it: supply it when the image runs", "secret"
        )
    rule = next(rule for pattern, rule in read_environment_rules() if pattern.fullmatch(variable.name))
    if rule.treatment in ("drop", "record"):
        return None, _make_resolution(variable, "excluded", rule.reason, rule.kind)
    if variable.suspect:
        return None, _make_resolution(
            variable, "unresolved", f"its value cannot be trusted: {variable.suspect}", "suspect-value"
        )
    if rule.treatment == "preload":
        return _decide_preload(variable, variable.value, context.places)
    if rule.treatment == "libraries":
        path = rewrite_libraries(variable.value, context.places, context.loaded, in_base=context.in_base)
        return _decide_path_variable(variable, path, rule)
    if rule.treatment == "sources":
        return _decide_path_variable(variable, rewrite_sources(variable.value, context.places), rule)
    if rule.values and not any(re.fullmatch(pattern, variable.value) for pattern in rule.values):
        return None, _make_resolution(variable, "excluded", rule.otherwise, rule.kind)
    return EnvVar(name=variable.name, value=variable.value), _make_resolution(
        variable, "pinned", rule.reason, rule.kind
    )


def _decide_path_variable(
    variable: Variable, path: RewrittenPath, rule: EnvironmentRule
) -> tuple[EnvVar | None, Resolution]:
    if path.missing:
        return None, _make_resolution(
            variable, "unresolved",
            f"{', '.join(path.missing)}: directories of the captured site, and the image has nothing in their place",
            "site-library-path",
        )  # fmt: skip
    left_out = f"left out: {', '.join(path.left_out)}" if path.left_out else ""
    if not path.value:
        return None, _make_resolution(variable, "excluded", left_out or "the image needs none", rule.kind)
    reason = "; ".join(part for part in (rule.reason, left_out) if part)
    return EnvVar(name=variable.name, value=path.value), _make_resolution(
        variable, "pinned", reason, rule.kind
    )


def _decide_preload(variable: Variable, value: str, places: PathMap) -> tuple[EnvVar | None, Resolution]:
    paths = [path for path in re.split(r"[: ]+", value) if path]
    if not paths:
        return None, _make_resolution(variable, "excluded", "empty", "preload")
    moved = {path: places.move(path) for path in paths if path.startswith("/")}
    foreign = [p for p, new in moved.items() if not new and not p.startswith(SYSTEM_LIBRARIES)]
    if foreign:
        return None, _make_resolution(
            variable, "unresolved",
            f"{foreign[0]} is a library of the captured site, and no package brings it", "site-library",
        )  # fmt: skip
    needs = tuple(new or path for path, new in moved.items())
    if any(moved.values()):
        value = ":".join(moved.get(path) or path for path in paths)
    return (
        EnvVar(name=variable.name, value=value, needs=needs),
        _make_resolution(
            variable,
            "pinned",
            "changes what is computed, or how fast; the libraries must be in the base",
            "preload",
        ),
    )
