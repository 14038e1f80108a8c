"""Python versions with files for the pinned releases.

They are evidence of the Python that ran them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from reprobuild.ecosystems.pypi.choose import choose_sdist, choose_wheel
from reprobuild.ecosystems.pypi.files import FileLists, IndexDistribution
from reprobuild.ecosystems.pypi.simple_api import NoListError
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.errors import FetchError
from reprobuild.snapshot.model import Requirement

# CPython 3.5 to 3.16: releases in tags of wheels on an index.
_MINORS = range(5, 17)
_ANY_GLIBC = (2, 99)  # newer than every tag of a wheel
_WORKERS = 16  # most of the time is that of the remote index


def pythons_of(
    files: Sequence[IndexDistribution], target: WheelTarget, *, wheels_only: bool
) -> tuple[str, ...]:
    """Return each `X.Y` for which one of the files fits.

    The machine and C library are those of a target.

    Args:
        files: the files of one version on indexes.
        target: the target, with its Python replaced.
        wheels_only: whether to ignore a source, which fits each Python that its metadata allows.
    """
    pythons = []
    for minor in _MINORS:
        other = msgspec.structs.replace(target, python=f"3.{minor}.99")
        if choose_wheel(files, other) or (not wheels_only and choose_sdist(files, other)):
            pythons.append(f"3.{minor}")
    return tuple(pythons)


def common_pythons(
    lines: Iterable[Requirement], files: FileLists, target: WheelTarget, *, wheels_only: bool = False
) -> tuple[str, ...]:
    """Return each `X.Y` with a file for every pinned release.

    Args:
        lines: of the freeze.
        files: the file lists of the machine's indexes.
        target: whose Python is replaced.
        wheels_only: whether a release counts by its wheels alone; a release without a wheel then does not count.
    """
    common = {f"3.{minor}" for minor in _MINORS}
    for line in lines:
        if line.kind == "index" and line.version:
            try:
                offered = [item for offer in files.offers(line.name, line.version) for item in offer.files]
            except NoListError:
                continue
            fitting = set(pythons_of(offered, target, wheels_only=wheels_only))
            common &= fitting if fitting or (offered and not wheels_only) else common
    return tuple(f"3.{minor}" for minor in _MINORS if f"3.{minor}" in common)


def pinned_pythons(lines: Sequence[Requirement], files: FileLists, machine: str) -> tuple[str, ...] | None:
    """Return each `X.Y` with a file for every pinned release, before a Python or a base is chosen.

    Lines with a marker are left out: they may be for another environment.

    Returns:
        The versions; None if no line has a version, the network is forbidden, or the files exclude none.
    """
    pins = [line for line in lines if line.kind == "index" and line.version and not line.marker]
    if not pins:
        return None
    try:
        with ThreadPoolExecutor(_WORKERS) as pool:
            list(pool.map(lambda line: files.list_files(line.name, line.version or ""), pins))
        pythons = common_pythons(pins, files, WheelTarget(python="3.99.0", glibc=_ANY_GLIBC, machine=machine))
    except FetchError:
        return None
    return pythons if len(pythons) < len(_MINORS) else None


def format_python_ranges(pythons: Sequence[str]) -> str:
    """Return ascending versions as ranges: `3.5 to 3.7, 3.9`."""
    ranges: list[list[str]] = []
    for version in pythons:
        if ranges and int(version[2:]) == int(ranges[-1][-1][2:]) + 1:
            ranges[-1].append(version)
        else:
            ranges.append([version])
    return ", ".join(span[0] if len(span) == 1 else f"{span[0]} to {span[-1]}" for span in ranges)
