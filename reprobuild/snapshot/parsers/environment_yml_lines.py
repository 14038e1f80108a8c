"""Lines for pip of an `environment.yml`."""

from __future__ import annotations

import re
from typing import NamedTuple

_VERSION = r"(?P<version>[0-9A-Za-z][\w.+!~-]*)"
_PIN = re.compile(rf"(?P<name>[A-Za-z0-9][\w.-]*)\s*===?\s*{_VERSION}")
_CONDITIONAL = re.compile(rf"[A-Za-z0-9][\w.-]*\s*(\[[^\]]*\]\s*)?===?\s*{_VERSION}\s*(;.*)?", re.DOTALL)

# The reasons of remarks on lines that name no installed version alone.
OF_PIP = "a line for pip that pins no version: the freeze tells what was installed"
CONDITIONAL = "a line for pip with a marker or extras: the freeze tells what was installed"


class PipLine(NamedTuple):
    """A line for pip, its number, and whether it pins a version.

    `conditional` is true for a pinned version with a marker or extras: a marker can exclude it, and extras bring more.
    """

    line: int
    text: str
    pinned: bool
    conditional: bool = False


class PinnedVersion(NamedTuple):
    """The name and the version of a line for pip that says no more."""

    name: str
    version: str


def parse_pip_line(line: int, item: str) -> tuple[PipLine, PinnedVersion | None]:
    """Return a line for pip, and its version if it pins one without a marker and extras."""
    match = _PIN.fullmatch(item.strip())
    conditional = match is None and _CONDITIONAL.fullmatch(item.strip()) is not None
    pin = PinnedVersion(match["name"], match["version"]) if match else None
    return PipLine(line, " ".join(item.split()), pin is not None, conditional), pin
