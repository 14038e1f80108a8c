"""The default release without a captured package list.

It is chosen by the needs of the environment, with evidence.

An rpm host, a conda environment or a freeze alone shows no supported release. Its wheels show their minimum glibc (PEP
600: the platform in a file's name), reports and rpm's own list show that of the host, and the distribution's Python
must be the captured one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.lock.python import Interpreter
from reprobuild.resolve.python.wheel_glibc import Glibc
from reprobuild.resolve.system.release import DistributionRelease, Known, known_releases
from reprobuild.snapshot.model import Snapshot

_GLIBC = re.compile(r"(?i)g(?:nu )?libc\D{0,3}(\d{1,2})\.(\d{1,3})(?!\d)")
_RPM_GLIBC = re.compile(r"(?:\d+:)?(\d{1,2})\.(\d{1,3})(?:\.\d+)*-")

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
    snapshot: Snapshot, interpreter: Interpreter, of_wheels: tuple[Glibc, str] | None
) -> ReleaseNeed:
    """Derive the requirements on a system without a package list.

    Args:
        snapshot: its reports and rpm packages describe the host.
        interpreter: the Python that was decided or seen.
        of_wheels: the oldest glibc for the wheels of the freeze, with the evidence.
    """
    minimums = [*([of_wheels] if of_wheels else []), *_host_glibc(snapshot)]
    glibc, glibc_from = max(minimums, key=lambda minimum: minimum[0], default=_NONE)
    family, number = _report_family(snapshot)
    return ReleaseNeed(
        python=interpreter.minor if interpreter.kind == "system" else "", python_from=interpreter.evidence,
        glibc=glibc, glibc_from=glibc_from, family=family, number=number,
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
            "no list of apt's packages was captured, and no release that can be had fits; "
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
