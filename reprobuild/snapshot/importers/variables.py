"""Environment variables of a job, without secrets and without names of people and machines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from reprobuild.snapshot.importers.clean_lines import hides_secret
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.people import find_people, is_personal, names_people, without_home
from reprobuild_portable import secrets

ENVIRONMENT = "env.txt"
_LARGEST = 1 << 17  # bytes of a variable that Linux passes to a process: MAX_ARG_STRLEN, linux/binfmts.h
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")


def add_variables(draft: Draft, variables: Mapping[str, Any], field: str) -> None:
    """Add environment variables as lines of `env.txt`.

    Args:
        draft: the snapshot.
        variables: values by name, as the tracker recorded them.
        field: their place in the imported file.

    Raises:
        SnapshotError: they are larger than the variables of a job can be.
    """
    draft.count_variables(sum(len(str(name)) + len(str(value)) for name, value in variables.items()))
    people = find_people(variables)
    for key, value in variables.items():
        name = str(key)  # a key of YAML can be a number
        place = f"{field}.{name}"
        if reason := _refusal(name, str(value), people):
            draft.leave(place, reason)
        else:
            draft.add_exact(ENVIRONMENT, f"{name}={without_home(str(value))}", place)


def _refusal(name: str, value: str, people: frozenset[str]) -> str:
    """Return why a variable stays out; empty if it may be imported."""
    if not _NAME.fullmatch(name):
        return "it has no name of a variable"
    if len(value) > _LARGEST:
        return f"it has more than {_LARGEST} characters"
    if secrets.holds_secret(name, value) or secrets.secret_value(name) is not None:
        return "a secret"
    if "%" in value and hides_secret(value):
        return "a secret"
    if is_personal(name):
        return "it names a person or a machine"
    if not value.isprintable():
        return "its value has line breaks or control characters"
    if names_people(value, people):
        return "its value names a person or a machine"
    return ""
