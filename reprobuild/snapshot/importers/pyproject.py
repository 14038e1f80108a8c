"""Importer of `pyproject.toml`: the requirements of a project that has no lock.

Formats: https://packaging.python.org/en/latest/specifications/pyproject-toml/ (PEP 621),
https://packaging.python.org/en/latest/specifications/dependency-groups/ (PEP 735), poetry's own table, and
https://docs.astral.sh/uv/concepts/projects/dependencies/ (`tool.uv.sources`).
"""

from __future__ import annotations

from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.snapshot.importers import setup_cfg
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.local_sources import add_directory
from reprobuild.snapshot.importers.poetry_project import add_poetry
from reprobuild.snapshot.importers.project_requirements import (
    DESCRIPTION,
    EXTRA,
    GROUP,
    NOT_HERE,
    PROJECT,
    RANGE,
    add_project_python,
    add_requirement,
    check_count,
    find_project_file,
    has_captured_list,
    is_alone,
    leave_requirement,
    parse_requirement,
    read_project_file,
)
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml, string, table

NAME = "pyproject.toml"
_PROJECT = {
    "name": PROJECT, "requires-python": RANGE, "dynamic": "fields that the build back end of the project computes",
}  # fmt: skip
_LIMIT = "a limit of uv: write the requirement into a requirements.txt"
_UV = {
    "dev-dependencies": GROUP, "constraint-dependencies": _LIMIT, "override-dependencies": _LIMIT,
    "index": "an index of uv: `--index NAME=URL` names it for a distribution",
}  # fmt: skip
_PLACES = ("git", "url", "path", "workspace")


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `pyproject.toml`, or has one of a project and no list that says more."""
    file = find_project_file(source, NAME)
    if file is None or is_alone(source):
        return file is not None
    if has_captured_list(source):
        return False
    try:
        document = load_toml(read_project_file(source, file), file)
    except SnapshotError:
        return True  # `read` says why
    is_project = bool(table(document, "project") or table(table(document, "tool"), "poetry"))
    return is_project and (_has_requirements(document) or not setup_cfg.has_requirements(source))


def read(source: ImportSource) -> Draft:
    """Import the requirements of a project: those that its installation needs.

    Raises:
        SnapshotError: it is damaged, or states no requirement.
    """
    file = find_project_file(source, NAME)
    assert file is not None
    document = load_toml(read_project_file(source, file), file)
    if not _has_requirements(document):
        raise _empty_error(document, file)
    project, tool = table(document, "project"), table(document, "tool")
    draft = Draft("pyproject.toml", file)
    uv, poetry = table(tool, "uv"), table(tool, "poetry")
    _add_project(draft, source, project, _placed(poetry) | table(uv, "sources"))
    add_poetry(draft, source, poetry, is_list=not _states_dependencies(project))
    _leave_uv(draft, project, uv)
    for name in tool:
        if name not in ("poetry", "uv"):
            draft.leave(f"tool.{name}", "settings of a tool")
    for name in table(document, "dependency-groups"):
        draft.leave(f"dependency-groups.{name}", GROUP)
    reasons = {"build-system": "requirements of a build of the project itself"}
    draft.leave_rest(document, ("project", "tool", "dependency-groups"), reasons)
    add_project_python(draft, source)
    return draft


def _states_dependencies(project: dict[str, Any]) -> bool:
    """Return whether `project.dependencies` is the list; poetry's own table has it if it is dynamic."""
    dynamic = project.get("dynamic")
    return bool(project) and not (isinstance(dynamic, list) and "dependencies" in dynamic)


def _has_requirements(document: dict[str, Any]) -> bool:
    project, poetry = table(document, "project"), table(table(document, "tool"), "poetry")
    if _states_dependencies(project):
        return bool(project.get("dependencies"))
    groups = [table(poetry, "dev-dependencies"), *table(poetry, "group").values()]
    return any(name.lower() != "python" for name in table(poetry, "dependencies")) or any(groups)


def _empty_error(document: dict[str, Any], file: str) -> SnapshotError:
    """Return the error for a project without requirements in this file."""
    dynamic = table(table(table(table(document, "tool"), "setuptools"), "dynamic"), "dependencies")
    value = dynamic.get("file")
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    if names and isinstance(names[0], str):
        return SnapshotError(
            f"{display_text(file)} leaves its requirements to {display_text(names[0])}",
            hint=f"import that list: `reprobuild import {quote_path(display_text(names[0]))} -o DIR`",
        )
    return SnapshotError(f"{display_text(file)} states no requirement", hint=NOT_HERE)


def _placed(poetry: dict[str, Any]) -> dict[str, Any]:
    """Return the dependencies of poetry's table that name a place: it adds to `project.dependencies`."""
    entries = table(poetry, "dependencies").items()
    return {name: entry for name, entry in entries if isinstance(entry, dict) and set(_PLACES) & entry.keys()}


def _add_project(draft: Draft, source: ImportSource, project: dict[str, Any], places: dict[str, Any]) -> None:
    known = {str(canonicalize_name(name)): place for name, place in places.items()}
    check_count(len(_rows(project)), draft.source)
    for number, row in enumerate(_rows(project)):
        field = f"project.dependencies[{number}]"
        requirement = parse_requirement(row) if isinstance(row, str) else None
        name = str(canonicalize_name(requirement.name)) if requirement else ""
        if requirement and not requirement.url and name in known:
            _add_placed(draft, source, requirement, row, known[name], field)
        else:
            add_requirement(draft, row, field)
    draft.limit_python(string(project, "requires-python"))
    for name, value in project.items():
        if name == "optional-dependencies":
            for extra in value if isinstance(value, dict) else ():
                draft.leave(f"project.{name}.{extra}", EXTRA)
        elif name != "dependencies":
            draft.leave(f"project.{name}", _PROJECT.get(name, DESCRIPTION))


def _rows(project: dict[str, Any]) -> list[Any]:
    rows = project.get("dependencies")
    return rows if isinstance(rows, list) else []


def _leave_uv(draft: Draft, project: dict[str, Any], uv: dict[str, Any]) -> None:
    """Name the settings of uv, and each source without a requirement."""
    stated = [parse_requirement(row) for row in _rows(project) if isinstance(row, str)]
    names = {canonicalize_name(requirement.name) for requirement in stated if requirement}
    for name in table(uv, "sources"):
        if canonicalize_name(name) not in names:
            draft.leave(f"tool.uv.sources.{name}", "no requirement of the project has this name")
    for name in uv:
        if name != "sources":
            draft.leave(f"tool.uv.{name}", _UV.get(name, "settings of a tool"))


def _add_placed(
    draft: Draft, source: ImportSource, requirement: Requirement, row: str, place: object, field: str
) -> None:
    """Add a requirement from the place that its tool takes it from: on an index, another one may have its name."""
    origin = place if isinstance(place, dict) else {}
    target = requirement.name + f"[{','.join(sorted(requirement.extras))}]" * bool(requirement.extras)
    condition = f" ; {requirement.marker}" * (requirement.marker is not None)
    if (
        len([key for key in _PLACES if key in origin]) > 1
        or not isinstance(place, dict)
        or "marker" in origin
    ):
        leave_requirement(draft, field, "several places are named for it")
    elif string(origin, "git"):
        revision = string(origin, "rev") or string(origin, "tag") or string(origin, "branch")
        url = f"git+{string(origin, 'git')}" + f"@{revision}" * bool(revision)
        subdirectory = string(origin, "subdirectory")
        url += f"#subdirectory={subdirectory}" * bool(subdirectory)
        add_requirement(draft, f"{target} @ {url}{condition}", field)
    elif string(origin, "url"):
        subdirectory = string(origin, "subdirectory")
        url = string(origin, "url") + f"#subdirectory={subdirectory}" * bool(subdirectory)
        add_requirement(draft, f"{target} @ {url}{condition}", field)
    elif "path" in origin or "workspace" in origin:
        editable = "workspace" in origin or True in (origin.get("editable"), origin.get("develop"))
        add_directory(
            draft, source, requirement.name, "0", string(origin, "path"), field, editable=editable,
            marker=str(requirement.marker or ""),
        )  # fmt: skip
    else:
        add_requirement(draft, row, field)
        if "index" in origin:
            draft.leave(f"tool.uv.sources.{requirement.name}", _UV["index"])
