"""Forms of what a program states in Python: decisions, words and sequences. Python does not check them by itself."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import msgspec

from reprobuild.config.overrides import Decisions
from reprobuild.errors import UsageError
from reprobuild.infra.display import display_error, display_text
from reprobuild.infra.untrusted.decode import decode_value


def check_decisions(decisions: Decisions) -> Decisions:
    """Return decisions with the types of their fields.

    Raises:
        UsageError: a field has another form; the hint has the right one.
    """
    try:
        return decode_value(msgspec.to_builtins(decisions), Decisions)
    except msgspec.ValidationError as err:
        match = re.search(r"at `\$\.(\w+)", str(err))
        field = match[1] if match else ""
        raise UsageError(f"Decisions: {display_error(err)}", hint=_decision_form(decisions, field)) from None
    except TypeError as err:  # a value of a type that no decision has
        raise UsageError(
            f"Decisions: {display_text(str(err))}",
            hint="write text, numbers, tuples and dictionaries of text",
        ) from None


def _decision_form(decisions: Decisions, field: str) -> str:
    """Return the right form of a decision, of the value that was given if it shows what is meant."""
    value, default = getattr(decisions, field, None), getattr(Decisions(), field, None)
    if isinstance(value, str) and isinstance(default, tuple):
        return f"write a sequence: {field}={(value,)!r}"
    if isinstance(value, (int, float)) and not isinstance(value, bool) and default is None:
        return f'write text: {field}="{value}"'
    return f"docs/decisions.md has the form of {field}" if field else "docs/decisions.md has each form"


def check_command(command: Sequence[object]) -> None:
    """Refuse a command that is one text, or that has other words than text.

    Raises:
        UsageError: it is.
    """
    if isinstance(command, str):
        raise UsageError("run: command is one text", hint=f"write its words: {_split(command)!r}")
    if other := [word for word in command if not isinstance(word, str)]:
        raise UsageError(f"run: command: {other[0]!r} is no text", hint="write each word as text")


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # an open quotation
        return ["sh", "-c", command]


def refuse_text(name: str, values: Sequence[str]) -> None:
    """Refuse one text in the place of a sequence, whose letters would be its items.

    Raises:
        UsageError: it is one.
    """
    if isinstance(values, str):
        raise UsageError(
            f"{name} is one text", hint=f"write a sequence: {name.rpartition(' ')[2]}={(values,)!r}"
        )
