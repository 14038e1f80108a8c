"""The diagnosis of a machine.

It is about the ability to make images, or to run an image that is still elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from reprobuild.config.services import Service
from reprobuild.doctor.engines import judge_engines, judge_gpus
from reprobuild.doctor.machine import (
    judge_disks,
    judge_fabric,
    judge_programs,
    judge_resources,
    judge_sandbox,
    judge_system,
)
from reprobuild.doctor.model import Diagnosis, Host
from reprobuild.doctor.services import probe, report_unprobed
from reprobuild.errors import UsageError
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.netrc import Netrc
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock
from reprobuild.output.directory import LOCK, VERDICT
from reprobuild.verify.certificate.read import read_certificate
from reprobuild.verify.verdict import Verdict

__all__ = ["diagnose", "read_subject"]


def diagnose(
    host: Host, services: Mapping[str, Service], *, offline: bool = False, netrc: Netrc | None = None,
    authorities: Authorities | None = None,
) -> Diagnosis:  # fmt: skip
    """Judge a machine for every command.

    Args:
        host: its facts.
        services: those to probe, by name.
        offline: probe none.
        netrc: the user's logins for them.
        authorities: the site's.
    """
    findings = [
        *judge_system(host), *judge_sandbox(host), *judge_engines(host), *judge_gpus(host), *judge_programs(host),
        *judge_disks(host), *judge_resources(host), *judge_fabric(host),
    ]  # fmt: skip
    findings += (
        [report_unprobed(services)] if offline else probe(services, netrc=netrc, authorities=authorities)
    )
    return Diagnosis(findings=tuple(findings))


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
            hint="name an output directory of `reprobuild from-snapshot`, or a reprobuild.lock",
        )
    path = place / LOCK if place.is_dir() else place
    lock = read_lock(path)
    certificate = path.parent / VERDICT
    verdict = read_certificate(certificate).verdict if certificate.exists() else None
    if verdict and verdict.lock.removeprefix("sha256:") != lock.digest:
        raise UsageError(
            f"{certificate} is the certificate of another lock than {path}",
            hint="copy reprobuild.lock and verdict.json out of one output directory",
        )
    return lock, verdict
