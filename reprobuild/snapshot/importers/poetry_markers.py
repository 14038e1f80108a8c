"""Markers of packages in a `poetry.lock` before version 2.1, which has only those of dependencies.

Format: https://github.com/python-poetry/poetry, `src/poetry/packages/locker.py`. A lock does not name the packages that
the project itself asks for: its `pyproject.toml` does. Without one, each package is for all environments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.utils import canonicalize_name

from reprobuild.snapshot.importers.clean_lines import LONGEST_ROW
from reprobuild.snapshot.importers.project_requirements import parse_requirement
from reprobuild.snapshot.importers.toml_documents import string, table


def infer_markers(packages: list[dict[str, Any]], project: dict[str, Any]) -> dict[str, str]:
    """Return the markers of indirect packages, by canonical name.

    A marker that is too long for a line is cut short, so that no line has it: packages can repeat a name.

    Args:
        packages: of the lock.
        project: the `pyproject.toml` beside the lock; empty without one.
    """
    poetry = table(table(project, "tool"), "poetry")
    if not poetry and "project" not in project:
        return {}
    direct = {name for name, _ in _direct(project, poetry)}
    with_extras = {name for name, has_extras in _direct(project, poetry) if has_extras}
    edges = [(string(package, "name"), *edge) for package in packages for edge in _edges(package)]
    with_extras |= {name for _, name, entry in edges if isinstance(entry, dict) and entry.get("extras")}
    markers: dict[str, list[str]] = {}
    for dependent, name, entry in edges:
        is_optional = isinstance(entry, dict) and entry.get("optional") is True
        if not is_optional:
            markers.setdefault(name, []).append(string(entry, "markers"))
        elif canonicalize_name(dependent) in with_extras:  # the lock does not say which extra needs it
            marker = string(entry, "markers")
            markers.setdefault(name, []).append(marker if "extra" not in marker else "")
    return {
        name: " or ".join(f"({marker})" for marker in dict.fromkeys(stated))[: LONGEST_ROW + 1]
        for name, stated in markers.items()
        if all(stated) and name not in direct
    }


def _edges(package: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the canonical name and the entry of each dependency of a package."""
    for name, constraint in table(package, "dependencies").items():
        for entry in constraint if isinstance(constraint, list) else [constraint]:
            yield str(canonicalize_name(name)), entry


def _direct(project: dict[str, Any], poetry: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the canonical name of each direct package, and whether its extras are requested."""
    groups = [table(poetry, "dependencies"), table(poetry, "dev-dependencies")]
    groups += [table(group, "dependencies") for group in table(poetry, "group").values()]
    for group in groups:
        for name, constraint in group.items():
            entries = constraint if isinstance(constraint, list) else [constraint]
            has_extras = any(isinstance(entry, dict) and entry.get("extras") for entry in entries)
            yield str(canonicalize_name(name)), has_extras
    stated = table(project, "project")
    lists = [stated.get("dependencies"), *table(stated, "optional-dependencies").values()]
    lists += table(project, "dependency-groups").values()
    for rows in lists:
        for row in rows if isinstance(rows, list) else ():
            if requirement := parse_requirement(row) if isinstance(row, str) else None:
                yield str(canonicalize_name(requirement.name)), bool(requirement.extras)
