"""The sections on deviations, variables and decisions."""

from __future__ import annotations

import json
from collections.abc import Sequence

from msgspec import Struct

from reprobuild.lock.model import Lock, Resolution
from reprobuild.report.html.components import Section
from reprobuild.snapshot.file_kinds import field_of

MANY = 12  # deviations in one table


class DeviationsView(Struct, frozen=True, kw_only=True):
    """The accepted deviations; many of them are folded by kind."""

    deviations: Sequence[Resolution]
    groups: Sequence[tuple[str, Sequence[Resolution]]]
    folded: bool
    many: int = MANY


def view_deviations(lock: Lock) -> Section:
    """Return the accepted deviations."""
    groups: dict[str, list[Resolution]] = {}
    for ruling in lock.deviations:
        groups.setdefault(f"{ruling.outcome}: {ruling.kind}", []).append(ruling)
    view = DeviationsView(
        deviations=lock.deviations, groups=list(groups.items()), folded=len(lock.deviations) > MANY
    )
    note = "None: nothing was replaced, and nothing is missing."
    return Section(id="deviations", title="Deviations", note=note, view=view)


class EnvironmentView(Struct, frozen=True, kw_only=True):
    """The image's variables (name, value, reason), and the user's decisions (name, value)."""

    variables: Sequence[tuple[str, str, str]]
    decisions: Sequence[tuple[str, str]]


def view_environment(lock: Lock) -> Section:
    """Return the image's variables, and the decisions."""
    why = {
        ruling.subject: ruling.reason
        for ruling in lock.rulings
        if field_of(ruling.file) == "variables" and ruling.outcome == "pinned"
    }
    view = EnvironmentView(
        variables=[(setting.name, setting.value, why.get(setting.name, "")) for setting in lock.environment],
        decisions=[(name, _format_value(value)) for name, value in sorted(lock.decisions.as_dict().items())],
    )
    lead = "Variables that change what is computed are in the image; those of a session, a site or a scheduler are not."
    note = "The image sets no variable of the captured environment."
    return Section(id="environment", title="Environment", lead=lead, note=note, view=view)


def _format_value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
