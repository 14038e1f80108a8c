"""Requirements of an `environment.yml` without a freeze beside it.

Beside a freeze, such lines add no information. Alone, they may have a repository with its commit, and lines that pin no
version must not be lost silently. If no list has a package of conda, pip installed everything but Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace
from packaging.utils import canonicalize_name

from reprobuild.snapshot import text
from reprobuild.snapshot.model import CapturedCondaPackage, CondaRequest, ParseNote, Requirement
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.snapshot.parsers.conda_list import ASKED, PYPI
from reprobuild.snapshot.parsers.conda_names import INTERPRETER, TORCH, find_pypi_name
from reprobuild.snapshot.parsers.environment_yml import OF_CONDA, read_requests
from reprobuild.snapshot.parsers.environment_yml_lines import CONDITIONAL, OF_PIP, PipLine

_FILE = "it names another file, which was not captured"
# conda's packages of these are PyPI's, and an image has pip.
_INSTALLERS = frozenset({"pip", "setuptools", "wheel"})
_INSTALLER = "an installer, which the image has"


class PipSection(NamedTuple):
    """The packages of conda, the lines for pip, all remarks, and the requests for conda that no list answers."""

    packages: tuple[CapturedCondaPackage, ...]
    lines: tuple[Requirement, ...]
    remarks: tuple[ParseNote, ...]
    requests: tuple[CondaRequest, ...]


def read_pip_section(
    data: bytes, file: str, packages: Iterable[CapturedCondaPackage], remarks: Sequence[ParseNote]
) -> PipSection:
    """Return an environment.yml's pip lines, its requests for conda, and the packages and remarks of the snapshot.

    The lines are those of a freeze, and the remarks of the snapshot are updated. Without a package of conda itself, the
    pinned lines for pip and the requested Python are lines, too.

    Args:
        data: the bytes of the file.
        file: its name.
        packages: the packages of all lists of conda's, which are not requested again.
        remarks: the remarks so far.

    Raises:
        SnapshotError: one distribution is requested twice, and differently.
    """
    packages, requests = tuple(packages), read_requests(data, file)
    lists = any(package.place.file != file for package in packages)
    is_alone = not lists and all(package.channel == PYPI for package in packages)
    # A version with a marker and another one without it are of one distribution, so all are read as a freeze.
    as_freeze = is_alone or (not lists and any(line.conditional for line in requests.pip))
    rows = [line for line in requests.pip if as_freeze or not line.pinned]
    if as_freeze:
        packages = tuple(package for package in packages if package.channel != PYPI)
    if is_alone:
        rows += [
            PipLine(request.place.line, f"{request.name}=={request.version}", pinned=True)
            for request in requests.conda
            if request.version and request.name in (INTERPRETER, *_INSTALLERS)
        ]
    conda_names = {canonicalize_name(package.name) for package in packages}
    lines, unclear = _parse_pip_lines(rows, file)
    lines = tuple(
        line
        for line in lines
        if line.kind != "index" or (line.version and not lists) or _canonical_name(line) not in conda_names
    )
    known = {line.place.line for line in lines} | {remark.place.line for remark in unclear}
    conda_requests = [
        replace(request, is_open=not (is_alone and _is_closed(request))) for request in requests.conda
    ]
    installers = {
        request.place.line for request in conda_requests if is_alone and request.name in _INSTALLERS
    }
    notes = _update_remarks(remarks, file, known, installers, lists=lists)
    return PipSection(packages, lines, (*notes, *unclear), () if lists else tuple(conda_requests))


def list_requests_beside(
    data: bytes, file: str, packages: Iterable[CapturedCondaPackage], freeze: Iterable[Requirement]
) -> tuple[CondaRequest, ...]:
    """Return the requests for conda that a freeze beside the file does not answer.

    A freeze lists Python distributions only. A list of conda's answers all requests.

    Args:
        data: the bytes of the file.
        file: its name.
        packages: those of all lists of conda's.
        freeze: the lines of the freeze.

    Raises:
        SnapshotError: as `read_requests`.
    """
    if any(package.place.file != file for package in packages):
        return ()
    known = {INTERPRETER, "pip", *map(_canonical_name, freeze)}
    return tuple(
        request for request in read_requests(data, file).conda if known.isdisjoint(_pypi_names(request.name))
    )


def _pypi_names(name: str) -> set[str]:
    """Return the possible names on PyPI of a conda package."""
    return {canonicalize_name(name), find_pypi_name(name), *({"torch"} if name in TORCH else ())}


def _is_closed(request: CondaRequest) -> bool:
    return request.name in _INSTALLERS or bool(request.name == INTERPRETER and request.version)


def _update_remarks(
    remarks: Sequence[ParseNote],
    file: str,
    known: Collection[int],
    installers: Collection[int],
    *,
    lists: bool,
) -> list[ParseNote]:
    """Return the remarks without those on lines of the freeze; a package of conda alone is not understood."""
    notes: list[ParseNote] = []
    for remark in remarks:
        if remark.place.file != file or remark.reason not in (OF_CONDA, OF_PIP, CONDITIONAL):
            notes.append(remark)
        elif remark.place.line in known:
            continue
        elif remark.place.line in installers:
            notes.append(replace(remark, reason=_INSTALLER))
        elif remark.reason == OF_CONDA and not lists:
            notes.append(replace(remark, reason=ASKED, understood=False))
        else:
            notes.append(remark)
    return notes


def _canonical_name(line: Requirement) -> str:
    return canonicalize_name(line.name)


def _parse_pip_lines(
    pip_lines: Sequence[PipLine], file: str
) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Read the lines for pip as a freeze, each at its own number."""
    rows: dict[int, str] = {}
    unclear: list[ParseNote] = []
    for pip_line in pip_lines:
        if pip_line.line in rows:
            reason = "several lines for pip on one line: write each on its own"
            unclear.append(text.remark(file, pip_line.line, pip_line.text, reason, understood=False))
        elif pip_line.text.startswith(("-r", "--requirement", "-c", "--constraint")):
            unclear.append(text.remark(file, pip_line.line, pip_line.text, _FILE, understood=False))
        else:
            rows[pip_line.line] = pip_line.text
    whole = "\n".join(rows.get(number, "") for number in range(1, max(rows, default=0) + 1))
    lines, remarks = pip_freeze.parse(whole.encode(), file) if rows else ((), ())
    return lines, (*unclear, *remarks)
