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
from reprobuild.snapshot.parsers.environment_yml import OF_CONDA, OF_PIP, UnpinnedLine, asked_of

_ALONE = "it says what was asked for, and no file beside it what was installed"
_FILE = "it names another file, which was not captured"


def without_freeze(
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
    told = {canonicalize_name(one.name) for one in packages}
    lists = any(one.place.file != file for one in packages)
    lines, unclear = _for_pip(asked_of(data, file), file)
    lines = tuple(line for line in lines if line.version or line.kind != "index" or _name(line) not in told)
    known = {line.place.line for line in lines} | {one.place.line for one in unclear}
    kept: list[ParseNote] = []
    for one in remarks:
        if one.place.file != file or one.reason not in (OF_CONDA, OF_PIP):
            kept.append(one)
        elif one.reason == OF_CONDA and not lists:
            kept.append(replace(one, reason=_ALONE, understood=False))
        elif one.reason == OF_CONDA or one.place.line not in known:
            kept.append(one)
    return lines, (*kept, *unclear)


def _name(line: Requirement) -> str:
    return canonicalize_name(line.name)


def _for_pip(
    asked: Sequence[UnpinnedLine], file: str
) -> tuple[tuple[Requirement, ...], tuple[ParseNote, ...]]:
    """Read the lines for pip as a freeze, each at its own number."""
    rows: dict[int, str] = {}
    unclear: list[ParseNote] = []
    for one in asked:
        if one.line in rows:
            reason = "several lines for pip on one line: write each on its own"
            unclear.append(text.remark(file, one.line, one.text, reason, understood=False))
        elif one.text.startswith(("-r", "--requirement", "-c", "--constraint")):
            unclear.append(text.remark(file, one.line, one.text, _FILE, understood=False))
        else:
            rows[one.line] = one.text
    whole = "\n".join(rows.get(number, "") for number in range(1, max(rows, default=0) + 1))
    lines, remarks = pip_freeze.parse(whole.encode(), file) if rows else ((), ())
    return lines, (*unclear, *remarks)
