"""The default release without a captured package list.

It is chosen by the needs of the environment, with evidence.

An rpm host, a conda environment or a freeze alone shows no supported release. Its wheels show their minimum glibc (PEP
600: the platform in a file's name), reports and rpm's own list show that of the host, and the distribution's Python
must be the captured one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
from msgspec import Struct
from packaging.tags import Tag

from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.ecosystems.pypi.versions import same_version
from reprobuild.errors import LockError
from reprobuild.lock.python import Interpreter
from reprobuild.resolve.python.resolve import WORKERS
from reprobuild.resolve.system.release import DistributionRelease, Known, known_releases
from reprobuild.snapshot.model import Requirement, Snapshot

_ANY = (2, 99)  # a glibc that every wheel fits
# The names of PEP 513, 571 and 599, from before the tag had the glibc itself.
_LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_TAG = re.compile(
    r"(?P<legacy>manylinux(?:1|2010|2014))_.*|manylinux_(?P<major>\d{1,3})_(?P<minor>\d{1,3})_.*"
)
_GLIBC = re.compile(r"(?i)g(?:nu )?libc\D{0,3}(\d{1,2})\.(\d{1,3})(?!\d)")
_RPM_GLIBC = re.compile(r"(?:\d+:)?(\d{1,2})\.(\d{1,3})(?:\.\d+)*-")

Glibc = tuple[int, int]
_NONE: tuple[Glibc, str] = ((0, 0), "nothing tells one")


class ReleaseNeed(Struct, frozen=True, kw_only=True):
    """The requirements on a release: a Python and a glibc.

    The Python is `3.11`, or any if empty. The glibc is a minimum, with its evidence.

    `family` is the captured distribution if a report names a supported one, and `number` its release (`debian`, `12`);
    both may be empty.
    """

    python: str
    python_from: str
    glibc: Glibc = _NONE[0]
    glibc_from: str = _NONE[1]
    family: str = ""
    number: str = ""

    def with_conda(self, glibc: Glibc, glibc_from: str) -> ReleaseNeed:
        """Return the requirements with conda's Python and glibc.

        The packages of conda need the glibc.
        """
        newer = max((self.glibc, self.glibc_from), (glibc, glibc_from))
        return msgspec.structs.replace(self, python="", glibc=newer[0], glibc_from=newer[1])


def derive_release_need(
    snapshot: Snapshot,
    interpreter: Interpreter,
    lines: Iterable[Requirement],
    lists: FileLists,
    machine: str,
) -> ReleaseNeed:
    """Derive the requirements on a system without a package list.

    Args:
        snapshot: its reports and rpm packages describe the host.
        interpreter: the Python that was decided or seen.
        lines: the lines of the freeze with files on an index.
        lists: the file lists of the machine's indexes.
        machine: in the spelling of wheels, `x86_64`.
    """
    python = ".".join(interpreter.version.split(".")[:2])
    target = WheelTarget(python=python, glibc=_ANY, machine=machine, free_threaded=interpreter.free_threaded)
    tags = frozenset(target.tags())
    with ThreadPoolExecutor(WORKERS) as pool:
        of_wheels = [
            minimum for minimum in pool.map(lambda line: _line_glibc(line, lists, tags), lines) if minimum
        ]
    glibc, glibc_from = max(
        (*of_wheels, *_host_glibc(snapshot)), key=lambda minimum: minimum[0], default=_NONE
    )
    family, number = _report_family(snapshot)
    return ReleaseNeed(
        python=python if interpreter.kind == "system" else "", python_from=interpreter.evidence, glibc=glibc,
        glibc_from=glibc_from, family=family, number=number,
    )  # fmt: skip


def choose_default_release(
    need: ReleaseNeed, available: Collection[str], archived: Collection[str] = ()
) -> DistributionRelease:
    """Choose the default release.

    It is the captured one, one of its family, or that of the nearest glibc.

    Args:
        need: its requirements.
        available: code names that this machine's apt has, in order of preference if all else is equal.
        archived: code names that dated archives have; used if the others do not fit.

    Raises:
        LockError: no release fits.
    """
    table = {release.codename: release for release in known_releases()}
    tiers = [
        [table[name] for name in dict.fromkeys(names) if name in table] for names in (available, archived)
    ]
    offered = list(dict.fromkeys(release.codename for tier in tiers for release in tier))
    fitting = next(
        (releases for tier in tiers if (releases := [release for release in tier if _fits(release, need)])),
        [],
    )
    wants = (
        (f"Python {need.python} ({need.python_from}) and glibc " if need.python else "glibc ")
        + (f"{_format_glibc(need.glibc)} or later" if any(need.glibc) else "of any version")
        + f" ({need.glibc_from})"
    )
    if not fitting:
        has = "; ".join(_describe_release(table[name]) for name in offered)
        raise LockError(
            "no package list was captured, and no release that can be had fits; "
            f"needed: {wants}; {has or 'there is none'}",
            hint=_remedy(need),
        )
    best = min(fitting, key=lambda release: _distance(release, need))
    evidence = (
        f"{_describe_release(best)}, and support until {best.standard} (LTS: {best.lts})"
        + ("" if best in tiers[0] else ", and is not in this machine's apt sources")
        + f"; needed: {wants}"
    )
    return DistributionRelease(distribution=best.distribution, codename=best.codename, evidence=evidence)


def glibc_of(tags: Iterable[Tag]) -> Glibc:
    """Return the oldest glibc for a wheel of these tags.

    It is (0, 0) if any will do (`any`, `linux`).
    """
    versions = []
    for tag in tags:
        match = _TAG.fullmatch(tag.platform)
        if not match:
            versions.append((0, 0))
        elif match["legacy"]:
            versions.append(_LEGACY[match["legacy"]])
        else:
            versions.append((int(match["major"]), int(match["minor"])))
    return min(versions, default=(0, 0))


def _describe_release(release: Known) -> str:
    return f"{release.label} has Python {release.python} and glibc {_format_glibc(release.glibc)}"


def _fits(release: Known, need: ReleaseNeed) -> bool:
    return need.python in ("", release.python) and release.glibc >= need.glibc


def _distance(release: Known, need: ReleaseNeed) -> tuple[bool, bool, Glibc]:
    """Return a sort key for fitting releases, the best first.

    Of equal ones, the first one offered stays.
    """
    family = release.distribution == need.family
    return (not (family and release.number == need.number), not family, release.glibc)


def _remedy(need: ReleaseNeed) -> str:
    others = [release.label for release in known_releases() if _fits(release, need)]
    known = f" ({', '.join(others)} would fit)" if others else ""
    return (
        f"give this machine's apt a source for a release that fits{known}, or decide: `--base debian/bookworm`, or "
        "another Python, `--python X.Y`"
    )


def _line_glibc(line: Requirement, lists: FileLists, tags: frozenset[Tag]) -> tuple[Glibc, str] | None:
    """Return the oldest glibc for a captured line's wheels.

    Return None if there is no such wheel.
    """
    if line.version is None:
        return None
    least: tuple[Glibc, str] | None = None
    for item in lists.list_files(line.name, line.version):
        if same_version(item.version, line.version) and (fitting := item.tags & tags):
            candidate = (glibc_of(fitting), f"{item.filename}, {line.place}")
            least = candidate if least is None or candidate[0] < least[0] else least
    return least


def _host_glibc(snapshot: Snapshot) -> Iterator[tuple[Glibc, str]]:
    for report in snapshot.reports:
        if match := _GLIBC.search(report.libc):
            place = next((fact.place for fact in report.facts if fact.value == report.libc), report.place(""))
            yield (int(match[1]), int(match[2])), f"the captured host had {report.libc}, {place}"
    for rpm in snapshot.rpms:
        if rpm.name == "glibc" and (match := _RPM_GLIBC.match(rpm.version)):
            yield (int(match[1]), int(match[2])), f"the captured host had glibc {rpm.version}, {rpm.place}"


def _report_family(snapshot: Snapshot) -> tuple[str, str]:
    """Return a report's distribution and number.

    The report has, for example, `Ubuntu 22.04.3 LTS`. Both are empty for an unsupported system.
    """
    for report in snapshot.reports:
        for known in reversed(known_releases()):
            if match := re.match(rf"(?i){known.distribution}\D{{0,20}}(\d+(?:\.\d+)?)?", report.os):
                return known.distribution, match[1] or ""
    return "", ""


def _format_glibc(glibc: Glibc) -> str:
    return f"{glibc[0]}.{glibc[1]}"
