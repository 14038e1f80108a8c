"""Kinds of captured files by their names.

The names are those that captures write, and those that people use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.model import ParseNote, Snapshot
from reprobuild.snapshot.parsers import (  # fmt: skip
    apt,
    capture_json_report,
    collect_env,
    conda_list,
    env,
    git_diff,
    modules,
    nvidia_smi,
    pip_freeze,
    python_version,
    rpm,
)

Parser = Callable[[bytes, str], tuple[tuple[Any, ...], tuple[ParseNote, ...]]]


class FileKind(NamedTuple):
    """One kind of captured file.

    `field` is its field of Snapshot. `others` are further accepted names; in all names, case and `_` for `-` do not
    matter.
    """

    name: str
    field: str
    parse: Parser
    others: tuple[str, ...] = ()


def _parse_conda_yaml(data: bytes, file: str) -> tuple[tuple[Any, ...], tuple[ParseNote, ...]]:
    from reprobuild.snapshot.parsers import (
        environment_yml,  # with the parser of YAML, 20 ms, and few snapshots have such a file
    )

    return environment_yml.parse(data, file)


KINDS: tuple[FileKind, ...] = (
    FileKind("requirements.txt", "requirements", pip_freeze.parse,
         ("pip-freeze.txt", "freeze.txt", "pip-list.txt", "uv-pip-freeze.txt", "uv-freeze.txt",
          "requirements-frozen.txt", "requirements-freeze.txt")),
    FileKind("apt-packages.txt", "packages", apt.parse,
         ("apt.txt", "apt-list.txt", "dpkg.txt", "dpkg-l.txt", "dpkg-list.txt", "dpkg-packages.txt")),
    FileKind("env.txt", "variables", env.parse,
         ("printenv.txt", "environment.txt", "environ.txt", "env-dump.txt", "export.txt")),
    FileKind("modules.txt", "modules", modules.parse, ("module-list.txt", "modulelist.txt", "module.txt")),
    FileKind("*.diff", "patches", git_diff.parse),
    FileKind("env.nul", "variables", env.parse_exact),
    FileKind("conda-explicit.txt", "conda", conda_list.parse, ("explicit.txt", "conda-list-explicit.txt")),
    FileKind("conda-list.txt", "conda", conda_list.parse),
    FileKind("conda.txt", "conda", conda_list.parse, ("conda-export.txt", "conda-list-export.txt")),
    FileKind("environment.yml", "conda", _parse_conda_yaml,
         ("environment.yaml", "conda.yml", "conda.yaml", "conda-env.yml", "conda-env.yaml")),
    FileKind("rpm-packages.txt", "rpms", rpm.parse, ("rpm.txt", "rpm-qa.txt")),
    FileKind("capture.json", "reports", capture_json_report.parse),
    FileKind("python.txt", "reports", python_version.parse, ("python-version.txt",)),
    FileKind("collect-env.txt", "reports", collect_env.parse),
    FileKind("nvidia-smi.txt", "reports", nvidia_smi.parse),
    FileKind("nvidia-smi-q.txt", "reports", nvidia_smi.parse),
)  # fmt: skip
# The files of the chapter's recipe; a snapshot lists those that it lacks.
RECIPE = tuple(kind.name for kind in KINDS[:5])
_BY_NAME = {name: kind for kind in KINDS for name in (kind.name, *kind.others)}


def kind_of(name: str) -> FileKind | None:
    """Return the kind of a file by its name, or None."""
    if name.endswith(".diff"):
        return _BY_NAME["*.diff"]
    return _BY_NAME.get(name.lower().replace("_", "-"))


def field_of(name: str) -> str:
    """Return the field of Snapshot for a captured file.

    It is empty for a file of no known kind.
    """
    kind = kind_of(name)
    return kind.field if kind else ""


def is_environment(name: str) -> bool:
    """Return whether a captured file is an environment.yml."""
    kind = kind_of(name)
    return kind is not None and kind.name == "environment.yml"


def has_freeze(snapshot: Snapshot) -> bool:
    """Return whether a freeze was captured.

    Lines for pip of an environment.yml do not count.
    """
    return any(field_of(line.place.file) == "requirements" for line in snapshot.requirements)


def repeated_kind_error(other: str, shown: str, kind: str) -> SnapshotError:
    """Return the error for two different files of one kind, by their names for display."""
    return SnapshotError(
        f"`{other}` and `{shown}` are two different files of one kind ({kind})",
        hint="keep the one of the environment that ran",
    )


def explicit_lock_kind(name: str, head: bytes) -> FileKind | None:
    """Return the kind of a `*.lock` that is an explicit list, or None."""
    return _BY_NAME["conda-explicit.txt"] if name.endswith(".lock") and conda_list.is_explicit(head) else None
