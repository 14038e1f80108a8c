"""Variables of an activated conda environment in the image."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping

import msgspec

from reprobuild.ecosystems.conda.package import activated_variables
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import PREFIX, EnvVar
from reprobuild.resolve.conda.freeze_lines import LocatedPackage
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.environment.environment import read_environment_rules
from reprobuild.resolve.environment.triage import EnvDecision
from reprobuild.snapshot.model import Snapshot, Variable
from reprobuild_portable import secrets

# The other variables of `conda activate` (the name and the depth of shells) belong to the session.
_OWN = "CONDA_PREFIX"
# Of the table's paths, single directories: the others are lists, and the image has lists of its own.
_FOLDERS = ("_HOME", "_ROOT")


def add_activation_variables(
    triage: EnvDecision, snapshot: Snapshot, activated: Mapping[str, str]
) -> EnvDecision:
    """Return a triage with the variables of conda's activation.

    CONDA_PREFIX, which libraries read, becomes the image's. A variable that a package's own script sets is used with
    its captured value, with the captured prefix replaced in it; one that was not captured was not set. The user's
    overrides stay, and so do variables with a rule in the table (PATH and other lists of directories): such a script
    adds to the host's list. A value with a path outside of the prefix belongs to the captured machine, and is left out.

    Args:
        triage: the decisions without knowledge of conda.
        snapshot: its variables.
        activated: {variable: the package whose script sets it}.
    """
    captured = {variable.name: variable for variable in snapshot.variables}
    prefix = posixpath.normpath((captured[_OWN].value if _OWN in captured else None) or ".")
    if not prefix.startswith("/"):
        return triage
    decided = {ruling.subject for ruling in triage.rulings if ruling.kind == "decision"}
    settings = {setting.name: setting for setting in triage.settings}
    rulings = {(ruling.file, ruling.line, ruling.subject): ruling for ruling in triage.rulings}
    for name in (_OWN, *sorted(name for name in activated if name in captured and _is_settable(name))):
        value = _rewrite_prefix(captured[name].value or "", prefix) if _is_plain(captured[name]) else None
        if value and name not in settings and name not in decided:
            settings[name] = EnvVar(name=name, value=value)
            why = (
                f"set by {activated[name]} when it is activated"
                if name in activated
                else "the prefix of the image"
            )
            ruling = _make_resolution(captured[name], why)
            rulings[ruling.file, ruling.line, ruling.subject] = ruling
    return msgspec.structs.replace(triage, settings=tuple(settings.values()), rulings=tuple(rulings.values()))


def _is_settable(name: str) -> bool:
    """Return whether a package's script may set a variable.

    It may if no other rule decides the image's value.
    """
    rule = next(rule for pattern, rule in read_environment_rules() if pattern.fullmatch(name))
    return rule.kind == "unknown" or (rule.kind == "path" and name.endswith(_FOLDERS))


def _rewrite_prefix(value: str, prefix: str) -> str | None:
    """Return a value with the image's prefix.

    Return None if it names a path outside of the captured one.
    """
    parts = re.split(r"([:;,\s]+)", value)
    moved = [PREFIX + part[len(prefix) :] if _is_below(part, prefix) else part for part in parts]
    return (
        None
        if any(re.search("[/~]", part) for part in moved if not _is_below(part, PREFIX))
        else "".join(moved)
    )


def _is_below(path: str, prefix: str) -> bool:
    return f"{posixpath.normpath(path)}/".startswith(f"{prefix}/") and path.startswith(prefix)


def _is_plain(variable: Variable) -> bool:
    value = variable.value
    return bool(value) and not variable.suspect and not secrets.holds_secret(variable.name, value or "")


def _make_resolution(variable: Variable, why: str) -> Resolution:
    return Resolution(
        file=variable.place.file, line=variable.place.line, subject=variable.name, outcome="pinned",
        reason=f"{why}; directories of the captured environment are the image's", kind="path",
    )  # fmt: skip


def find_activation_variables(packages: Iterable[LocatedPackage], context: ResolveContext) -> dict[str, str]:
    """Return {variable: package} of scripts that run at activation."""
    variables: dict[str, str] = {}
    for package in packages:
        file = package.choice.file
        path = context.store.verified(file.sha256, file.filename)
        variables |= dict.fromkeys(activated_variables(path, file.filename, package.facts), file.filename)
    return variables
