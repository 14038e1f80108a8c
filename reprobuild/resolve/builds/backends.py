"""Build requirements of a project.

They are its own, its back end's, and the user's.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from msgspec import Struct
from packaging.requirements import InvalidRequirement, Requirement

from reprobuild.errors import LockError
from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.resolve.builds.projects import Project, setup_requires

DEFAULT = ("setuptools>=40.8.0", "wheel")  # https://peps.python.org/pep-0518/#build-system-table


class BackendRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `backends.toml`, which documents the fields."""

    backend: str
    source: str
    always: tuple[str, ...] = ()
    editable: tuple[str, ...] = ()
    where: str = ""


@cache
def read_backend_rules() -> tuple[BackendRule, ...]:
    """Return the table of the back ends' requirements."""
    text = (files("reprobuild.resolve.builds") / "backends.toml").read_bytes()
    return decode_toml(text, dict[str, tuple[BackendRule, ...]])["rule"]


def requirements_of(project: Project) -> list[Requirement]:
    """Return the build requirements in a project's own files.

    They are `build-system.requires` or PEP 518's default, those in the back end's own tables, and those of setup.py.

    Raises:
        LockError: one of them cannot be read.
    """
    table = project.table("build-system").get("requires", DEFAULT)
    requires = [*table] if isinstance(table, (list, tuple)) else [table]
    texts = [*requires, *_hatch_requirements(project)]
    if project.backend.startswith("setuptools"):
        texts += setup_requires(project)
    return [parse_requirement(text, project.name) for text in texts]


def find_backend_requirements(project: Project, chosen: dict[str, str]) -> list[Requirement]:
    """Return the back end's further requirements, by the table.

    Args:
        project: the project to build.
        chosen: the versions chosen so far, by project.
    """
    texts: list[str] = []
    for rule in read_backend_rules():
        where = Requirement(rule.where) if rule.where else None
        holds = where is None or (where.name in chosen and where.specifier.contains(chosen[where.name]))
        if rule.backend == project.backend.partition(".")[0] and holds:
            texts += [*rule.always, *(rule.editable if project.editable else ())]
    return [Requirement(text) for text in texts]


def parse_requirement(text: Any, asker: str) -> Requirement:
    """Parse a requirement that `asker` names.

    Raises:
        LockError: it is not valid.
    """
    try:
        return Requirement(text)
    except (InvalidRequirement, TypeError, RecursionError) as err:  # the last: nested brackets in a marker
        raise LockError(
            f"{asker} needs {text!r:.200} to be built: {err!s:.2000}", hint="mend its pyproject.toml"
        ) from None


def _hatch_requirements(project: Project) -> list[Any]:
    """Return the dependencies of hatchling's hooks.

    https://hatch.pypa.io/latest/config/build/#dependencies
    """
    build = project.table("tool", "hatch", "build")
    tables = [build, project.table("tool", "hatch", "build", "targets", "wheel")]
    tables += [hook for table in list(tables) for hook in _subtables(table.get("hooks"))]
    dependencies = [
        dependency for table in tables for dependency in _list_or_empty(table.get("dependencies"))
    ]
    if any(table.get("require-runtime-dependencies") is True for table in tables):
        dependencies += _list_or_empty(project.table("project").get("dependencies"))
    return dependencies


def _subtables(table: Any) -> list[dict[str, Any]]:
    return [value for value in table.values() if isinstance(value, dict)] if isinstance(table, dict) else []


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
