"""The processor architecture of an environment.

Each captured file may show it, and they must agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from reprobuild.errors import LockError
from reprobuild.snapshot.model import MachineReport, Snapshot

# {platform: (Debian's name, the kernel's name)}
MACHINES = {"linux/amd64": ("amd64", "x86_64"), "linux/arm64": ("arm64", "aarch64")}
_WORDS = {word: platform for platform, words in MACHINES.items() for word in words}
_CONDA = {"linux-64": "linux/amd64", "linux-aarch64": "linux/arm64"}
_NONE = ("all", "noarch", "")  # of packages for every machine


def check_platform(platform: str) -> str:
    """Return a platform if images can be made for it.

    Raises:
        LockError: they cannot.
    """
    if platform not in MACHINES:
        raise LockError(f"the platform {platform} is not known", hint=f"use one of {', '.join(MACHINES)}")
    return platform


def captured_platform(snapshot: Snapshot) -> str:
    """Return the platform that the captured files show.

    The default is linux/amd64.

    A list with packages of several architectures is ignored, unless it is the only evidence.

    Raises:
        LockError: two files show different ones, or one shows a machine that images cannot be made for.
    """
    shown = dict(_platform_evidence(snapshot))
    if len(shown) > 1:
        platforms = " and ".join(f"{platform} ({evidence})" for platform, evidence in shown.items())
        raise LockError(
            f"the snapshot shows two architectures: {platforms}",
            hint=f"say which one the job ran on: --platform {' or --platform '.join(MACHINES)}",
        )
    return check_platform(next(iter(shown), "linux/amd64"))


def tells_platform(snapshot: Snapshot) -> bool:
    """Return whether a captured file shows the machine."""
    return any(True for _ in _platform_evidence(snapshot))


def _platform_evidence(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    debian = {package.architecture: str(package.place) for package in snapshot.packages}
    rpm = {package.architecture: str(package.place) for package in snapshot.rpms}
    yield from _package_list_platform(debian)
    yield from _package_list_platform(rpm)
    urls = [(package.url, package.place) for package in snapshot.conda if package.url]
    subdirs = {url.rpartition("/")[0].rpartition("/")[2]: str(place) for url, place in urls}
    known = {_CONDA[subdir]: evidence for subdir, evidence in subdirs.items() if subdir in _CONDA}
    if len(known) == 1:
        yield from known.items()
    for report in snapshot.reports:
        if machine := _report_machine(report):
            yield _platform(machine), report.file


def _package_list_platform(architectures: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the platform of a package list.

    A system may hold packages of a second architecture.
    """
    machines = {name: evidence for name, evidence in architectures.items() if name not in _NONE}
    known = {_WORDS[name]: evidence for name, evidence in machines.items() if name in _WORDS}
    if len(known) == 1:
        yield from known.items()
    elif machines and not known:
        name, evidence = next(iter(machines.items()))
        yield _platform(name), evidence


def _report_machine(report: MachineReport) -> str:
    if isinstance(report.machine, str):
        return report.machine
    facts = {fact.name: fact.value or "" for fact in report.facts}
    # Linux-5.15.0-78-generic-x86_64-with-glibc2.35
    match = re.fullmatch(r"Linux-.*-(\w+)-with-\S+", facts.get("Python platform", ""))
    return match[1] if match else ""


def _platform(machine: str) -> str:
    return _WORDS.get(machine, f"linux/{machine}")
