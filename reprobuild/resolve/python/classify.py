"""Offline decision on the source of each freeze line.

No network is used, so that the plan for a freeze can be shown, reviewed and compared.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Literal

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.services import Service, fill_address
from reprobuild.ecosystems.pypi.indexes import PackageIndex
from reprobuild.resolve.python.debian_names import find_system_package
from reprobuild.snapshot.model import Requirement
from reprobuild.snapshot.parsers.conda_names import INTERPRETER

Where = Literal[
    "index",  # the machine's indexes, in their order
    "rule",  # these, and then the service for the version or the name, by a rule
    "address",  # the address in the line
    "local file",  # a file of the captured machine: the machine's indexes and directories, by its hash
    "folder",  # a directory of the captured machine
    "source",  # a repository
    "conda",  # conda's channels, or a wheel of the same version
    "system",  # a package of the system
    "vendor",  # the base image of a vendor
    "dropped",  # no source: it was never there
    "interpreter",  # no source: conda's list names Python as a package
    "nothing",  # the freeze has no version
]
# NVIDIA's builds: 2.6.0a0+ecf3bae40a.nv25.1 and 2.17.0+nv25.2 of its images, 2.0.0+nv23.5 of Jetson's wheels.
_NVIDIA = re.compile(
    r"[^+]+\+(?:(?P<commit>[0-9a-f]{7,40})\.)?nv(?P<year>\d{2})\.(?P<month>\d{1,2})(?:\..*)?"
)
# Builds of a developer's work tree: 2.9.0a0+git1234567, 0.12.0a0+9b5a3fe.
_BUILT = re.compile(r"[^+]+\+(?:git)?(?P<commit>[0-9a-f]{7,40})(?:\..*)?")
_WHEEL_OR_SOURCE = re.compile(r".*\.(whl|tar\.gz|tgz|tar\.bz2|tar\.xz|tar|zip)")
# pip of Debian and Ubuntu wrote it into virtual environments: https://bugs.launchpad.net/bugs/1635463
_PHANTOM = ("pkg-resources", "0.0.0")


class Lookup(Struct, frozen=True, kw_only=True):
    """The source of a line.

    `asked` is an address, a package, an image or a path; `why` is for people.

    `instead` is the system package that replaces a distribution on no index.
    """

    where: Where
    asked: str = ""
    why: str = ""
    instead: str = ""


def look_up_line(
    line: Requirement, packages: Mapping[str, str], services: Mapping[str, Service], *, apart: bool = False
) -> Lookup:
    """Decide the source of a freeze line.

    Args:
        line: the line.
        packages: the captured system packages and their versions.
        services: by name; their rules are applied in order.
        apart: whether the environment sees no distributions of the system, so that pip installed it, even if the system
            has the same version.
    """
    if line.kind == "leftover":
        return Lookup(where="dropped", why="an interrupted installation left this directory behind")
    if line.kind in ("editable", "vcs"):
        return Lookup(
            where="source", asked=(line.url or line.path or "") + (f"@{line.commit}" if line.commit else "")
        )
    if line.kind == "conda":
        return Lookup(where="conda", asked=line.version or "")
    if line.kind == "directory":
        return Lookup(where="folder", asked=line.path or "")
    if line.kind == "archive":
        return _look_up_archive(line)
    if canonicalize_name(line.name) == INTERPRETER:
        return Lookup(where="interpreter", why="it names the interpreter, as conda's lists do")
    if line.version is None:
        return Lookup(where="nothing", why="the freeze tells no version")
    return _look_up_version(line.name, line.version, packages, services, apart=apart)


def _look_up_archive(line: Requirement) -> Lookup:
    address = line.url or line.path or ""
    if not _WHEEL_OR_SOURCE.fullmatch(address.partition("?")[0]):
        return Lookup(where="nothing", asked=address, why="its name does not state what kind of file it is")
    hashed = "" if line.sha256 or line.digests else "the freeze tells no hash of it"
    return Lookup(where="address" if line.url else "local file", asked=address, why=hashed)


def _look_up_version(
    name: str, version: str, packages: Mapping[str, str], services: Mapping[str, Service], *, apart: bool
) -> Lookup:
    if (canonicalize_name(name), version) == _PHANTOM:
        why = "pip of Debian and Ubuntu lists it in virtual environments; there is no such distribution"
        return Lookup(where="dropped", why=why)
    system = find_system_package(name, version, packages)
    if system and system.certain and not apart:
        return Lookup(where="system", asked=system.package, why=system.version)
    if match := _NVIDIA.fullmatch(version):
        return _look_up_nvidia_build(name, match, services)
    if places := rule_indexes(name, version, services):
        return Lookup(where="rule", asked=" ".join(place.url for place in places))
    built = _BUILT.fullmatch(version)
    why = f"built from commit {built['commit']} of its source" if built else ""
    return Lookup(where="index", why=why, instead=system.package if system else "")


def _look_up_nvidia_build(name: str, match: re.Match[str], services: Mapping[str, Service]) -> Lookup:
    flow = canonicalize_name(name).startswith("tensorflow")
    service = services["nvidia-tensorflow" if flow else "nvidia-pytorch"]
    image = fill_address(service, year=match["year"], month=match["month"].zfill(2))
    if flow or match["commit"]:
        return Lookup(where="vendor", asked=image, why="NVIDIA's own build, which is in its image")
    return Lookup(
        where="vendor", why="NVIDIA's own build for Jetson, of which only its page of wheels has files"
    )


def make_silent_patterns(
    services: Mapping[str, Service], moved: Collection[str]
) -> tuple[re.Pattern[str], ...]:
    """Return the address patterns of services that answer HTTP 403.

    They have rules, and send 403 for missing files; users use them, too.

    Args:
        services: by name.
        moved: names of those with another address by an override: the answers of other servers are unknown.
    """
    public = (
        service
        for name, service in services.items()
        if name not in moved and (service.versions or service.names)
    )
    return tuple(_address_pattern(service.url.rstrip("/")) for service in public)


def _address_pattern(url: str) -> re.Pattern[str]:
    """Return the pattern of an address with any values filled in.

    torch's index also has all labels together above it.
    """
    folders = re.sub(r"/\\{\w+\\}", "(?:/[^/]+)?", re.escape(url))
    return re.compile(re.sub(r"\\{\w+\\}", "[^/]+", folders))


def rule_indexes(name: str, version: str, services: Mapping[str, Service]) -> tuple[PackageIndex, ...]:
    """Return further addresses of a distribution's wheels, by rule.

    The rules are those of the services; the addresses are in addition to the indexes.
    """
    indexes = []
    for key, service in services.items():
        label = re.fullmatch(service.versions, version) if service.versions else None
        if label or (service.names and re.fullmatch(service.names, canonicalize_name(name))):
            url = fill_address(service, **(label.groupdict() if label else {}))
            indexes.append(PackageIndex(url, links=service.links, ruled=True, service=key))
    return tuple(indexes)
