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
from reprobuild.snapshot.parsers.conda_names import INTERPRETER
from reprobuild.snapshot.parsers.environment_yml import OF_CONDA, OF_PIP, PipLine, read_requests

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
    rows = [line for line in requests.pip if is_alone or not line.pinned]
    if is_alone:
        packages = ()
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
        if line.version or line.kind != "index" or _canonical_name(line) not in conda_names
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
        if remark.place.file != file or remark.reason not in (OF_CONDA, OF_PIP):
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
