"""The variables that an override sets for one build."""

from __future__ import annotations

from reprobuild.config.overrides import BuildDecision
from reprobuild.errors import UsageError
from reprobuild.lock.system import EnvVar
from reprobuild.resolve.environment.environment import NAME
from reprobuild_portable import secrets


def build_variables(project: str, choice: BuildDecision) -> tuple[EnvVar, ...]:
    """Return the variables of a build, sorted by name.

    Raises:
        UsageError: one is not a valid variable, or looks like a secret, which would stay in the lock for ever.
    """
    for name, value in choice.variables.items():
        if not NAME.fullmatch(name) or "\0" in value:
            raise UsageError(
                f"build: {project}: {name!r} cannot be set as a variable",
                hint="a name has letters, digits and `_`; no value holds a NUL",
            )
        if secrets.holds_secret(name, value):
            raise UsageError(
                f"build: {project}: {name} looks like a secret, and would be readable in the lock for ever",
                hint="build that wheel by hand, and put it into a directory of pip's find-links",
            )
    return tuple(EnvVar(name=name, value=value) for name, value in sorted(choice.variables.items()))
