"""Variables of an activated conda environment, as they are in the image."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from reprobuild import secrets
from reprobuild.lock import PREFIX, Ruling, Setting
from reprobuild.resolve.triage import Triage
from reprobuild.snapshot.model import Snapshot, Variable

# What else `conda activate` sets (the name and the depth of shells) is the session's.
_OWN = "CONDA_PREFIX"


def in_prefix(triage: Triage, snapshot: Snapshot, activated: Mapping[str, str]) -> Triage:
    """Return a triage with what was set when conda's environment was activated.

    CONDA_PREFIX, which libraries look at, becomes the image's. A variable that a package's own script sets is taken
    with its captured value, the captured prefix replaced in it; one that was not captured was not set.

    Args:
        triage: what was decided without knowing of conda.
        snapshot: its variables.
        activated: {variable: the package whose script sets it}.
    """
    captured = {one.name: one for one in snapshot.variables}
    prefix = captured[_OWN].value if _OWN in captured else None
    if not prefix or not prefix.startswith("/"):
        return triage
    settings = {one.name: one for one in triage.settings}
    rulings = {(one.file, one.line, one.subject): one for one in triage.rulings}
    for name in (_OWN, *sorted(activated)):
        if name in captured and name not in settings and _is_plain(captured[name]):
            value = (captured[name].value or "").replace(prefix.rstrip("/"), PREFIX)
            settings[name] = Setting(name=name, value=value)
            why = (
                f"set by {activated[name]} when it is activated"
                if name in activated
                else "the prefix of the image"
            )
            ruling = _ruling(captured[name], why)
            rulings[ruling.file, ruling.line, ruling.subject] = ruling
    return msgspec.structs.replace(triage, settings=tuple(settings.values()), rulings=tuple(rulings.values()))


def _is_plain(variable: Variable) -> bool:
    value = variable.value
    return bool(value) and not variable.suspect and not secrets.secret_variable(variable.name, value or "")


def _ruling(variable: Variable, why: str) -> Ruling:
    return Ruling(
        file=variable.place.file, line=variable.place.line, subject=variable.name, outcome="pinned",
        reason=f"{why}; folders of the captured environment are the image's", kind="path",
    )  # fmt: skip
