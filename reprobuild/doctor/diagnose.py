"""The diagnosis of a machine.

It is about the ability to make images, or to run an image that is still elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from reprobuild.config.services import Service
from reprobuild.doctor.engines import judge_engines, judge_gpus
from reprobuild.doctor.indexes import judge_indexes
from reprobuild.doctor.machine import (
    judge_disks,
    judge_fabric,
    judge_programs,
    judge_resources,
    judge_sandbox,
    judge_system,
)
from reprobuild.doctor.model import Diagnosis, DoctorFinding, Host
from reprobuild.doctor.services import probe, report_unprobed
from reprobuild.errors import UsageError
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.netrc import Netrc
from reprobuild.infra.suggest import suggest_path
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK, VERDICT
from reprobuild.verify.certificate.read import read_certificate
from reprobuild.verify.verdict import Verdict

__all__ = ["diagnose", "probe_network", "read_subject"]


def diagnose(host: Host, answers: Iterable[DoctorFinding] = ()) -> Diagnosis:
    """Judge a machine for every command.

    Args:
        host: its facts.
        answers: the findings on what it asked, as `probe_network` gives them.
    """
    findings = [
        *judge_system(host), *judge_sandbox(host), *judge_engines(host), *judge_gpus(host), *judge_programs(host),
        *judge_disks(host), *judge_resources(host), *judge_fabric(host), *answers,
    ]  # fmt: skip
    return Diagnosis(findings=tuple(findings))


def probe_network(
    services: Mapping[str, Service], env: Mapping[str, str], *, offline: bool = False, netrc: Netrc | None = None,
    authorities: Authorities | None = None,
) -> Iterator[DoctorFinding]:  # fmt: skip
    """Yield the findings on the indexes of this machine, and on services.

    Args:
        services: those to probe, by name.
        env: the user's environment, for the configuration of pip and uv.
        offline: probe none.
        netrc: the user's logins for them.
        authorities: the site's.
    """
    yield from judge_indexes(env, offline=offline, netrc=netrc, authorities=authorities)
    if offline:
        yield report_unprobed(services)
    else:
        yield from probe(services, netrc=netrc, authorities=authorities)


def read_subject(place: Path) -> tuple[Lock, Verdict | None]:
    """Return an image's lock, and the verdict beside it.

    The verdict is None if it is not there.

    Args:
        place: an output directory, of which reprobuild.lock and verdict.json are read, or the lock itself.

    Raises:
        LockError: the lock is missing or damaged.
        UsageError: there is no such path, or the verdict file is damaged, or of another lock.
    """
    if not place.exists():
        raise UsageError(
            f"there is no file or directory {place}",
            hint=suggest_path(place)
            or "name an output directory of `reprobuild from-snapshot`, or a reprobuild.lock",
        )
    path = place / LOCK if place.is_dir() else place
    lock = read_lock(path)
    certificate = path.parent / VERDICT
    verdict = read_certificate(certificate).verdict if certificate.exists() else None
    if verdict and verdict.lock.removeprefix("sha256:") != lock.digest:
        raise UsageError(
            f"{certificate} is the verdict on another lock than {path}",
            hint="copy reprobuild.lock and verdict.json out of one output directory",
        )
    return lock, verdict
