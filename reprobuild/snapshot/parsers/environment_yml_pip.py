"""Requirements of an `environment.yml` without a freeze beside it.

Beside a freeze, such lines add no information. Alone, they may have a repository with its commit, and lines that pin no
version must not be lost silently.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace
from packaging.utils import canonicalize_name

from reprobuild.snapshot import text
from reprobuild.snapshot.model import CapturedCondaPackage, ParseNote, Requirement
from reprobuild.snapshot.parsers import pip_freeze
from reprobuild.snapshot.parsers.environment_yml import OF_CONDA, OF_PIP, UnpinnedLine, read_unpinned_lines

_ALONE = "it says what was asked for, and no file beside it what was installed"
_FILE = "it names another file, which was not captured"


def read_pip_section(
    data: bytes, file: str, packages: Iterable[CapturedCondaPackage], remarks: Sequence[ParseNote]
) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Return an environment.yml's pip lines, and all remarks.

    The lines are those of a freeze, and the remarks of the snapshot are updated.

    Args:
        data: the bytes of the file.
        file: its name.
        packages: the packages of all lists of conda's, which are not requested again.
        remarks: the remarks so far.

    Raises:
        SnapshotError: one distribution is requested twice, and differently.
    """
    packages = tuple(packages)
    conda_names = {canonicalize_name(package.name) for package in packages}
    lists = any(package.place.file != file for package in packages)
    lines, unclear = _parse_pip_lines(read_unpinned_lines(data, file), file)
    lines = tuple(
        line
        for line in lines
        if line.version or line.kind != "index" or _canonical_name(line) not in conda_names
    )
    known = {line.place.line for line in lines} | {remark.place.line for remark in unclear}
    notes: list[ParseNote] = []
    for remark in remarks:
        if remark.place.file != file or remark.reason not in (OF_CONDA, OF_PIP):
            notes.append(remark)
        elif remark.reason == OF_CONDA and not lists:
            notes.append(replace(remark, reason=_ALONE, understood=False))
        elif remark.reason == OF_CONDA or remark.place.line not in known:
            notes.append(remark)
    return lines, (*notes, *unclear)


def _canonical_name(line: Requirement) -> str:
    return canonicalize_name(line.name)


def _parse_pip_lines(
    unpinned_lines: Sequence[UnpinnedLine], file: str
) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Read the lines for pip as a freeze, each at its own number."""
    rows: dict[int, str] = {}
    unclear: list[ParseNote] = []
    for unpinned in unpinned_lines:
        if unpinned.line in rows:
            reason = "several lines for pip on one line: write each on its own"
            unclear.append(text.remark(file, unpinned.line, unpinned.text, reason, understood=False))
        elif unpinned.text.startswith(("-r", "--requirement", "-c", "--constraint")):
            unclear.append(text.remark(file, unpinned.line, unpinned.text, _FILE, understood=False))
        else:
            rows[unpinned.line] = unpinned.text
    whole = "\n".join(rows.get(number, "") for number in range(1, max(rows, default=0) + 1))
    lines, remarks = pip_freeze.parse(whole.encode(), file) if rows else ((), ())
    return lines, (*unclear, *remarks)
