"""The deviation of a snapshot without a list of apt's packages, such as that of an rpm host."""

from __future__ import annotations

from collections.abc import Sequence

from reprobuild.lock.model import Resolution
from reprobuild.snapshot.model import RpmPackage

APT_LIST = "apt-packages.txt"
NO_LIST = "no-apt-list"


def rule_missing_list(rpms: Sequence[RpmPackage], base: str) -> Resolution:
    """Return the deviation of a base without captured packages of apt.

    Args:
        rpms: the captured packages of rpm, which no base can have.
        base: the packages of the base, for the reason.
    """
    file = rpms[0].place.file if rpms else APT_LIST
    return Resolution(
        file=file, line=0, subject=file, outcome="replaced",
        reason=f"{_describe_host(rpms)}; the base is {base}", kind=NO_LIST,
    )  # fmt: skip


def _describe_host(rpms: Sequence[RpmPackage]) -> str:
    if not rpms:
        return "no package list was captured"
    return f"the host had {count_rpms(rpms)}, and the image, of Debian or Ubuntu, will have none of them"


def count_rpms(rpms: Sequence[RpmPackage]) -> str:
    """Return the number of the packages of rpm, in words for a person."""
    return f"{len(rpms)} package{'s' * (len(rpms) != 1)} of rpm"
