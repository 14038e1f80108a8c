"""Forms of the lines of a freeze, of the text around it, and of a table of `pip list`."""

from __future__ import annotations

import re
from typing import NamedTuple

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Pep508

from reprobuild.snapshot.parsers.pip_freeze_hashes import split_hashes
from reprobuild.snapshot.parsers.pip_freeze_url import NAME, VERSION

ONLY_NAME = re.compile(NAME)  # `env` and `printenv` are projects, too
PIN = re.compile(
    rf"(?P<name>{NAME})(?:\[(?P<extras>[\w,. -]*)\])?\s*={{2,3}}\s*(?P<version>{VERSION})(?:\s*;(?P<marker>.*))?"
)
LEFTOVER = re.compile(rf"(?P<name>[-~][A-Za-z0-9._-]*)={{2,3}}(?P<version>{VERSION})")
DIRECT = re.compile(
    rf"(?P<name>{NAME})(?:\[(?P<extras>[\w,. -]*)\])?\s*@\s*(?P<url>[A-Za-z][A-Za-z0-9+.-]*:\S+)"
    r"(?:\s+;(?P<marker>.*))?"
)
EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)(?P<target>\S.*)")
EDITABLE_COMMENT = re.compile(rf"#\s*Editable\b.*?\((?P<name>{NAME})={{2,3}}(?P<version>{VERSION})\).*")
TABLE_HEAD = re.compile(r"Package\s+Version(\s+.*)?")
TABLE_ROW = re.compile(rf"(?P<name>{NAME})\s+(?P<version>{VERSION})(?:\s+(?P<path>[/~]\S.*|[A-Za-z]:\\.*))?")
COMMENTED = re.compile(
    rf"#+\s*(?:#\s*Editable .*|-e\s+\S+.*|{NAME}\s*={{2,3}}\s*{VERSION}|{NAME} @ \S+:\S+)\s*"
)
INLINE = re.compile(r"(?<!\s)\s+#.*$")  # a run of blanks is read once
LOUD = re.compile(r"(\[notice\]|notice:|WARNING:|DEPRECATION:|warning:)(\s.*)?")
# pip 9 to 21, for a distribution without a valid line: `-rpcio` is left of an interrupted uninstall.
UNWRITTEN = re.compile(
    rf"WARNING: Could not generate requirement for distribution (?P<name>[-~]?{NAME}) (?P<version>{VERSION})\b.*"
)
FAILED = re.compile(r"(ERROR|error|Traceback|fatal)\b.*")


class Pin(NamedTuple):
    """The parts of a line of an index; `version` is None for a name without a pin."""

    name: str
    version: str | None
    marker: str | None
    extras: str | None


def split_comment(line: str) -> tuple[str, tuple[str | None, ...]]:
    """Return a line without its comment and its hashes, and the hashes."""
    bare = INLINE.sub("", line).removesuffix("\\").strip()
    return split_hashes(bare) if "--hash" in bare else (bare, ())


def find_address(row: str) -> str | None:
    """Return the whole address in a line of a freeze, or None.

    It may hold a login: it may be compared, and neither shown nor kept.
    """
    bare = split_comment(row.strip())[0]
    match = DIRECT.fullmatch(bare)
    if match:
        return match["url"]
    match = EDITABLE.fullmatch(bare)
    return match["target"] if match and "://" in match["target"] else None


def parse_pin(line: str) -> Pin | None:
    """Return the parts of a `name==version` line, or of a line without a version."""
    if (match := PIN.fullmatch(line)) and "*" not in match["version"]:
        return Pin(match["name"], match["version"], match["marker"], match["extras"])
    try:
        requirement = Pep508(line)
    except (InvalidRequirement, RecursionError):  # nested brackets in a marker
        return None
    if requirement.url:
        return None
    marker = str(requirement.marker) if requirement.marker else None
    return Pin(requirement.name, None, marker, ",".join(requirement.extras))


def describe_rejection(line: str) -> str:
    """Return why a line is no requirement."""
    if re.fullmatch(r"[\w.-]+=[^=\s]+(=[^=\s]+)?", line):
        return "a line of `conda list --export`: not a requirement of pip"
    if re.fullmatch(rf"_[\w.-]+={{2,3}}{VERSION}", line):
        return "not a name that pip can install: a package of conda?"
    return "not a form that `pip freeze` prints"
