"""Merging of captured files on one subject.

They are `env.nul` and `env.txt`, and a freeze and conda's lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace
from packaging.utils import canonicalize_name

from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.model import CapturedCondaPackage, ParseNote, Requirement, Variable
from reprobuild.snapshot.parsers.conda_list import PYPI
from reprobuild.snapshot.parsers.pip_freeze_unique import same_version

_MOST = 10  # names in one remark
# Distributions with a conda package of another name than `python-NAME` and the like.
_CALLED = {"torch": "pytorch", "tables": "pytables"}


def merge_exact_variables(
    exact: Sequence[Variable], text_variables: Sequence[Variable], file: str, lines: int
) -> tuple[tuple[Variable, ...], tuple[ParseNote, ...]]:
    """Return the variables of `env.nul`, and remarks on `env.txt`.

    Values in `env.nul` are not torn apart.

    Secrets that only `env.txt` names stay: `reprobuild capture` redacts them from `env.nul`.

    Args:
        exact: of `env.nul`.
        text_variables: of `env.txt`.
        file: the name of the latter.
        lines: its number of lines.
    """
    known = {variable.name: variable for variable in exact}
    remarks = [text.remark(file, 1, "", "read from env.nul, which tears no value apart", lines=lines)]
    withheld = []
    for variable in text_variables:
        match = known.get(variable.name)
        if match is None and variable.secret:
            withheld.append(variable)
        elif variable.suspect or variable.name == "_":  # the shell sets `_` for each command
            continue
        elif match is None:
            remarks.append(_difference_remark(variable, "env.nul does not have it: not read"))
        elif match.value != variable.value and match.value is not None and variable.value is not None:
            remarks.append(
                _difference_remark(variable, f"it has another value at {match.place}, which is taken")
            )
    names = {variable.name for variable in text_variables}
    lost = [
        variable.name
        for variable in exact
        if variable.name not in names and re.fullmatch(r"[A-Za-z]\w*", variable.name)
    ]
    if lost:
        some = ", ".join(lost[:_MOST]) + (", ..." if len(lost) > _MOST else "")
        reason = f"it lacks {len(lost)} variables of env.nul: {some}"
        remarks.append(text.remark(file, 1, "", reason, understood=False))
    return (*exact, *withheld), tuple(remarks)


def _difference_remark(variable: Variable, reason: str) -> ParseNote:
    return text.remark(
        variable.place.file,
        variable.place.line,
        variable.name,
        reason,
        understood=False,
        lines=variable.lines,
    )


def apply_conda_versions(
    requirements: Sequence[Requirement], packages: Sequence[CapturedCondaPackage]
) -> tuple[Requirement, ...]:
    """Return the lines of a freeze, with versions from conda's lists.

    Raises:
        SnapshotError: the line itself has another version.
    """
    by_name: dict[str, list[CapturedCondaPackage]] = {}
    for package in packages:
        if package.channel != PYPI and (package.build is None or "py" in package.build):
            by_name.setdefault(canonicalize_name(package.name), []).append(package)
    return tuple(_add_conda_version(line, by_name) if line.kind == "conda" else line for line in requirements)


def _add_conda_version(line: Requirement, by_name: dict[str, list[CapturedCondaPackage]]) -> Requirement:
    name = canonicalize_name(line.name)
    # `graphviz` is the C program and `python-graphviz` the distribution, so the plain name comes last.
    names = (_CALLED.get(name, ""), f"python-{name}", f"{name}-python", f"{name}-py", f"py-{name}", name)
    packages = next((by_name[conda_name] for conda_name in names if conda_name in by_name), [])
    if not packages or any(not same_version(packages[0].version, other.version) for other in packages):
        return line
    first = packages[0]
    if line.version is None:
        return replace(line, version=first.version, version_from=first.place)
    if not same_version(line.version, first.version):
        raise text.parse_error(
            line.place,
            f"`{display_text(line.name)}` is {line.version} here and {first.version} at {first.place}",
            "these are of two environments: keep the files of the one that ran",
        )
    return line


def last_line_number(data: bytes) -> int:
    """Return the number of the last line of a file."""
    return max(1, data.count(b"\n") + (not data.endswith(b"\n")))
