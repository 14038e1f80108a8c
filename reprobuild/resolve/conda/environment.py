"""Variables of an activated conda environment, as they are in the image."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

import msgspec

from reprobuild.lock.lock import PREFIX, Ruling, Setting
from reprobuild.resolve.environment.environment import rules
from reprobuild.resolve.environment.triage import Triage
from reprobuild.snapshot.model import Snapshot, Variable
from reprobuild_portable import secrets

# What else `conda activate` sets (the name and the depth of shells) is the session's.
_OWN = "CONDA_PREFIX"
# Of the table's paths, single folders: what else is there are lists, which the image has its own of.
_FOLDERS = ("_HOME", "_ROOT")


def in_prefix(triage: Triage, snapshot: Snapshot, activated: Mapping[str, str]) -> Triage:
    """Return a triage with what was set when conda's environment was activated.

    CONDA_PREFIX, which libraries look at, becomes the image's. A variable that a package's own script sets is taken
    with its captured value, the captured prefix replaced in it; one that was not captured was not set. What the user
    decided stays, and what the table of variables has a rule for (PATH and other lists of folders): such a script adds
    to what the host has there. A value with a path outside of the prefix is of the captured machine, and is left out.

    Args:
        triage: what was decided without knowing of conda.
        snapshot: its variables.
        activated: {variable: the package whose script sets it}.
    """
    captured = {one.name: one for one in snapshot.variables}
    prefix = posixpath.normpath((captured[_OWN].value if _OWN in captured else None) or ".")
    if not prefix.startswith("/"):
        return triage
    decided = {one.subject for one in triage.rulings if one.kind == "decision"}
    settings = {one.name: one for one in triage.settings}
    rulings = {(one.file, one.line, one.subject): one for one in triage.rulings}
    for name in (_OWN, *sorted(one for one in activated if one in captured and _is_free(one))):
        value = _moved(captured[name].value or "", prefix) if _is_plain(captured[name]) else None
        if value and name not in settings and name not in decided:
            settings[name] = Setting(name=name, value=value)
            why = (
                f"set by {activated[name]} when it is activated"
                if name in activated
                else "the prefix of the image"
            )
            ruling = _ruling(captured[name], why)
            rulings[ruling.file, ruling.line, ruling.subject] = ruling
    return msgspec.structs.replace(triage, settings=tuple(settings.values()), rulings=tuple(rulings.values()))


def _is_free(name: str) -> bool:
    """Tell whether a script of a package may set a variable, because nothing else decides what the image has there."""
    rule = next(rule for pattern, rule in rules() if pattern.fullmatch(name))
    return rule.kind == "unknown" or (rule.kind == "path" and name.endswith(_FOLDERS))


def _moved(value: str, prefix: str) -> str | None:
    """Return a value with the image's prefix; None where it names a path outside of the captured one."""
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


def _ruling(variable: Variable, why: str) -> Ruling:
    return Ruling(
        file=variable.place.file, line=variable.place.line, subject=variable.name, outcome="pinned",
        reason=f"{why}; folders of the captured environment are the image's", kind="path",
    )  # fmt: skip
