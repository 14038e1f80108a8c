"""The oldest glibc for the wheels of a freeze.

The platform in a wheel's name has the oldest glibc for it (PEP 600). It is evidence for the release of the system, so
it is read before the wheels are chosen.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.infra.untrusted.wheels import list_wheel_tags
from reprobuild.lock.python import Interpreter
from reprobuild.resolve.python.resolve import WORKERS
from reprobuild.snapshot.model import Requirement

Glibc = tuple[int, int]
_ANY = (2, 99)  # a glibc that every wheel fits
# The names of PEP 513, 571 and 599, from before the tag had the glibc itself.
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_TAG = re.compile(
    r"(?P<legacy>manylinux(?:1|2010|2014))_.*|manylinux_(?P<major>\d{1,3})_(?P<minor>\d{1,3})_.*"
)


def find_wheel_glibc(
    lines: Iterable[Requirement], interpreter: Interpreter, lists: FileLists, machine: str
) -> tuple[Glibc, str] | None:
    """Return the oldest glibc that has a wheel for each line, with the wheel that needs it.

    Return None if no line has a wheel.

    Args:
        lines: the lines of the freeze with files on an index.
        interpreter: the Python that was decided or seen.
        lists: the file lists of the machine's indexes.
        machine: in the spelling of wheels, `x86_64`.
    """
    target = WheelTarget(
        python=interpreter.minor, glibc=_ANY, machine=machine, free_threaded=interpreter.free_threaded
    )
    with ThreadPoolExecutor(WORKERS) as pool:
        minimums = [
            minimum for minimum in pool.map(lambda line: _line_glibc(line, lists, target), lines) if minimum
        ]
    return max(minimums, key=lambda minimum: minimum[0], default=None)


def glibc_of(platforms: Iterable[str]) -> Glibc:
    """Return the oldest glibc for a wheel of these platforms.

    It is (0, 0) if any will do (`any`, `linux`).
    """
    versions = []
    for platform in platforms:
        match = _TAG.fullmatch(platform)
        if not match:
            versions.append((0, 0))
        elif match["legacy"]:
            versions.append(_LEGACY[match["legacy"]])
        else:
            versions.append((int(match["major"]), int(match["minor"])))
    return min(versions, default=(0, 0))


def _line_glibc(line: Requirement, lists: FileLists, target: WheelTarget) -> tuple[Glibc, str] | None:
    """Return the oldest glibc for a captured line's wheels.

    Return None if there is no such wheel.
    """
    if line.version is None:
        return None
    least: tuple[Glibc, str] | None = None
    ranks = target.ranks()
    for item in lists.list_files(line.name, line.version):
        if not (item.is_wheel and same_version(item.version, line.version)):
            continue
        tags = list_wheel_tags(item.filename)
        if fitting := {tag[2] for tag in tags if tag in ranks}:
            candidate = (glibc_of(fitting), f"{item.filename}, {line.place}")
            least = candidate if least is None or candidate[0] < least[0] else least
    return least
