"""Requirements of a project in poetry's own table: constraints that are no versions of PEP 440, and places.

Format: https://python-poetry.org/docs/dependency-specification/, and `constraints/version/parser.py` of poetry-core.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory
from reprobuild.snapshot.importers.project_requirements import (
    DESCRIPTION,
    EXTRA,
    PROJECT,
    RANGE,
    add_requirement,
    check_count,
    leave_requirement,
    parse_requirement,
)
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import string, table

_FIELD = "tool.poetry"
_LONGEST = 100  # characters of a constraint
_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}")
_CLAUSE = re.compile(
    r"(?P<sign>\^|~=|~|===?|!=|[<>]=?)?\s*v?(?P<version>\d[A-Za-z0-9.+!_-]{0,60}?)(?P<any>\.\*)?"
)
_USED = {
    "version", "extras", "markers", "python", "platform", "optional", "git", "rev", "tag", "branch", "subdirectory",
    "url", "path", "file", "develop",
}  # fmt: skip
_REASONS = {
    "source": "the index of poetry that has it: `--index NAME=URL` names it",
    "allow-prereleases": "`--as-of` chooses versions by the rules of uv",
}
_REST = {
    "source": "an index of poetry: `--index NAME=URL` names it for a distribution",
    "extras": EXTRA,
    "name": PROJECT,
}


def add_poetry(draft: Draft, source: ImportSource, poetry: dict[str, Any], *, is_list: bool) -> None:
    """Add what `poetry install` installs by default, and name the rest of the table.

    Args:
        draft: the snapshot.
        source: the imported path.
        poetry: the table `tool.poetry`.
        is_list: its dependencies are those of the project; without it, `project.dependencies` has them.
    """
    lists = [table(poetry, "dependencies"), *(group for group, _, _ in _groups(poetry))]
    check_count(sum(_count(entry) for entries in lists for entry in entries.values()), draft.source)
    for name, entry in table(poetry, "dependencies").items():
        field = f"{_FIELD}.dependencies.{name}"
        if not is_list:
            draft.leave(field, "`project.dependencies` has the requirement")
        elif name.lower() == "python":
            draft.limit_python(_python_range(entry))
            draft.leave(field, RANGE)
        else:
            _add_dependency(draft, source, name, entry, field)
    for group, field, is_optional in _groups(poetry):
        if is_optional:
            draft.leave(field, "an optional group, which poetry does not install by default")
            continue
        for name, entry in group.items():
            _add_dependency(draft, source, name, entry, f"{field}.{name}")
    for name in poetry:
        if name not in ("dependencies", "group", "dev-dependencies"):
            draft.leave(f"{_FIELD}.{name}", _REST.get(name, DESCRIPTION))


def _count(entry: object) -> int:
    return len(entry) if isinstance(entry, list) else 1


def _groups(poetry: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str, bool]]:
    """Yield the dependencies of each group, their field, and whether the group is optional."""
    yield table(poetry, "dev-dependencies"), f"{_FIELD}.dev-dependencies", False
    for name, group in table(poetry, "group").items():
        is_optional = isinstance(group, dict) and group.get("optional") is True
        yield table(group, "dependencies"), f"{_FIELD}.group.{name}.dependencies", is_optional


def _add_dependency(draft: Draft, source: ImportSource, name: str, entry: object, field: str) -> None:
    entries = entry if isinstance(entry, list) else [entry]
    for number, item in enumerate(entries):
        place = field if len(entries) == 1 else f"{field}[{number}]"
        stated = {"version": item} if isinstance(item, str) else item
        requirement = parse_requirement(name)
        if not isinstance(stated, dict) or not requirement or requirement.name != name:
            leave_requirement(draft, place, "it is no requirement")
        elif stated.get("optional") is True:
            draft.leave(place, EXTRA)
        else:
            _add_stated(draft, source, name, stated, place)


def _add_stated(draft: Draft, source: ImportSource, name: str, entry: dict[str, Any], field: str) -> None:
    """Add the requirement that one table states."""
    marker = _marker(entry)
    versions = _specifier(string(entry, "version"))
    if marker is None or versions is None:
        reason = "a constraint that no line of a requirements.txt can hold: write the version that ran"
        leave_requirement(draft, field, reason)
        return
    extras = entry.get("extras")
    names = [extra for extra in extras if isinstance(extra, str)] if isinstance(extras, list) else []
    target = name + f"[{','.join(names)}]" * bool(names)
    condition = f" ; {marker}" * bool(marker)
    if string(entry, "git"):
        revision = string(entry, "rev") or string(entry, "tag") or string(entry, "branch")
        subdirectory = string(entry, "subdirectory")
        url = f"git+{string(entry, 'git')}" + f"@{revision}" * bool(revision)
        fragment = f"subdirectory={subdirectory}" * bool(subdirectory)
        add_requirement(draft, f"{target} @ {url}" + f"#{fragment}" * bool(fragment) + condition, field)
    elif string(entry, "url"):
        add_requirement(draft, f"{target} @ {string(entry, 'url')}{condition}", field)
    elif place := string(entry, "path") or string(entry, "file"):
        add_directory(
            draft, source, name, "0", place, field, editable=entry.get("develop") is True, marker=marker
        )
    else:
        add_requirement(draft, f"{target}{versions}{condition}", field)
    for key in entry:
        if key not in _USED:
            draft.leave(f"{field}.{key}", _REASONS.get(key, "a setting of poetry"))


def _marker(entry: dict[str, Any]) -> str | None:
    """Return the marker of a requirement, empty without one; None if it cannot be written as one."""
    python = _specifier(_python_range(entry.get("python", "")))
    if python is None:
        return None
    parts = [f"({string(entry, 'markers')})"] if string(entry, "markers") else []
    if string(entry, "platform"):
        parts.append(f'sys_platform == "{string(entry, "platform")}"')
    for clause in filter(None, python.split(",")):
        match = re.fullmatch(r"([<>=!~]+)(.*)", clause)
        assert match is not None
        parts.append(f'python_full_version {match[1]} "{match[2]}"')
    return " and ".join(parts)


def _python_range(entry: object) -> str:
    return entry if isinstance(entry, str) else string(entry, "version")


def _specifier(constraint: str) -> str | None:
    """Return a constraint of poetry in the form of PEP 440: empty for any version, None if it has no such form."""
    stated = constraint.strip()
    if stated in ("", "*"):
        return ""
    if len(stated) > _LONGEST:
        return None
    clauses = []
    for clause in re.split(r"\s*,\s*|(?<=[\w*])\s+", stated):
        match = _CLAUSE.fullmatch(clause.strip())
        bounds = match and _bounds(match["sign"] or "==", match["version"], match["any"] or "")
        if not bounds:
            return None
        clauses.append(bounds)
    return ",".join(clauses)


def _bounds(sign: str, version: str, any_suffix: str) -> str:
    """Return one clause as clauses of PEP 440; empty if it cannot be one."""
    if sign not in ("^", "~"):
        return "" if any_suffix and sign not in ("==", "!=") else f"{sign}{version}{any_suffix}"
    numbers = _NUMBERS.match(version)
    if numbers is None or any_suffix:
        return ""
    parts = [int(part) for part in numbers[0].split(".")]
    if sign == "~":
        at = min(1, len(parts) - 1)
    else:
        at = next((place for place, part in enumerate(parts) if part), len(parts) - 1)
    upper = [*parts[:at], parts[at] + 1]
    return f">={version},<{'.'.join(map(str, upper))}"
