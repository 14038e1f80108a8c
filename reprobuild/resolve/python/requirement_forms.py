"""The requirement that a line with a common slip means: `flask=3.0`, `torch>2.0<3`, `numpy 1.26.4`.

A suggestion is a valid requirement (https://packaging.python.org/en/latest/specifications/dependency-specifiers/), and
only the user writes it into the file.
"""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement

_LONGEST = 200  # characters of a line with a suggestion
_NAME = r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9., _-]*\])?)"
_VERSION = r"(?P<version>[0-9][A-Za-z0-9.!+_-]*)"
# Of `conda list --export` only lines with a build, such as numpy=1.26.4=py311h64a7726_0, are of another kind.
_ONE_SIGN = re.compile(rf"{_NAME}\s*=\s*{_VERSION}")
_NO_SIGN = re.compile(rf"{_NAME}\s+v?{_VERSION}")
_CLAUSES = re.compile(rf"{_NAME}\s*(?P<clauses>(?:(?:[<>!=~]=|[<>])\s*[0-9][A-Za-z0-9.*!+_-]*[\s,;]*)+)")
_CLAUSE = re.compile(r"(?:[<>!=~]=|[<>])\s*[0-9][A-Za-z0-9.*!+_-]*")
_TURNED = re.compile(rf"{_NAME}\s*=(?P<sign>[<>])\s*{_VERSION}")


def suggest_requirement(text: str) -> str | None:
    """Return the requirement that a line probably means, or None; a comment is left out."""
    line = text.partition(" #")[0].strip().rstrip(",;").strip().strip("\"'").strip()
    if not line or len(line) > _LONGEST:
        return None
    suggestion = _rewrite(line)
    if suggestion is None or suggestion == text:
        return None
    try:
        Requirement(suggestion)
    except InvalidRequirement:
        return None
    return suggestion


def _rewrite(line: str) -> str | None:
    if match := _ONE_SIGN.fullmatch(line) or _NO_SIGN.fullmatch(line):
        return f"{match['name']}=={match['version']}"
    if match := _TURNED.fullmatch(line):
        return f"{match['name']}{match['sign']}={match['version']}"
    if match := _CLAUSES.fullmatch(line):
        clauses = ["".join(clause.split()) for clause in _CLAUSE.findall(match["clauses"])]
        return f"{match['name']}{','.join(clauses)}"
    return None
