"""Findings for the eyes: names of a program can hold secrets and control characters."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from reprobuild.trace.rounds import Findings
from reprobuild.verify.workload.conditions import hide_secrets
from reprobuild.verify.workload.judge import display_line

_EXACT = (
    "kind",
    "inputs",
    "outputs",
    "difference",
    "cure",
    "files",
)  # no text of a program, or redacted before
_Value = TypeVar("_Value")


def hide_in_findings(findings: Findings) -> Findings:
    """Return findings whose texts have no secret and no control character."""
    return _hide(findings)


def _hide(value: _Value) -> _Value:
    shown: Any = value
    if isinstance(value, str):
        shown = display_line(hide_secrets(value))
    elif isinstance(value, tuple):
        shown = tuple(map(_hide, value))
    elif isinstance(value, Struct):
        changes = {
            name: _hide(getattr(value, name)) for name in value.__struct_fields__ if name not in _EXACT
        }
        shown = msgspec.structs.replace(value, **changes)
    result: _Value = shown
    return result
