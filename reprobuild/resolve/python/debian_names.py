"""System packages of distributions in a freeze.

The freeze was taken outside of a virtual environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.decode import decode_toml
from reprobuild.snapshot.model import Requirement, SystemPackage

# Marks that only Debian and Ubuntu write into a version: 2.4.0+ubuntu3, 0.23ubuntu1, 1.1build1, 20.13.0+ds.
_MARK = re.compile(r"\d(?:ubuntu|build)\d|[+~](?:ubuntu|dfsg|deb|ds)(?:\d|$)")
_RELEASE = re.compile(r"\d+(?:\.\d+)*")


class _Names(Struct, frozen=True):
    only: dict[str, str]
    bindings: dict[str, str]


class Brought(Struct, frozen=True, kw_only=True):
    """The relation of a system package to a distribution.

    `package` is its name, `version` the captured one, empty without a list. `certain` means that indexes are not
    searched for the distribution, because it or its version is Debian's alone.
    """

    package: str
    version: str
    certain: bool


@cache
def _read_names() -> _Names:
    raw = files("reprobuild.resolve.python").joinpath("debian_names.toml").read_bytes()
    return decode_toml(raw, _Names)


def versions_of(packages: Iterable[SystemPackage]) -> dict[str, str]:
    """Return {name: version} of the captured installed packages."""
    return {package.name: package.version for package in packages if package.mark != "residual"}


def is_debian_only(name: str, version: str | None) -> bool:
    """Return whether only Debian and Ubuntu have a distribution or version."""
    return canonicalize_name(name) in _read_names().only or bool(version and _MARK.search(version))


def packages_of(name: str) -> tuple[str, ...]:
    """Return likely system package names for a distribution.

    The likeliest comes first.
    """
    project = canonicalize_name(name)
    known = _read_names().only.get(project) or _read_names().bindings.get(project)
    # The third with dots unchanged: python3-lazr.uri. The last is a program's package: gyp, meson.
    return (
        known or f"python3-{project.removeprefix('python-')}", f"python3-{project}", f"python3-{name.lower()}", project,
    )  # fmt: skip


def find_freeze_packages(lines: Iterable[Requirement]) -> dict[str, str]:
    """Return {package: "the freeze"} of likely system packages for the lines of a freeze."""
    return {package: "the freeze" for line in lines for package in packages_of(line.name)}


def find_system_package(name: str, version: str, packages: Mapping[str, str]) -> Brought | None:
    """Return the system package of a distribution, or None.

    Args:
        name: the distribution, as captured.
        version: its captured version.
        packages: the captured packages and their versions; empty without a list.
    """
    candidates = packages_of(name)
    package = next((candidate for candidate in candidates if candidate in packages), candidates[0])
    debian_version = packages.get(package, "")
    if is_debian_only(name, version):
        return Brought(package=package, version=debian_version, certain=True)
    if debian_version and same_release(debian_version, version):
        return Brought(
            package=package, version=debian_version, certain=canonicalize_name(name) in _read_names().bindings
        )
    return None


def same_release(first: str, second: str) -> bool:
    """Return whether two versions are of one upstream release.

    They may be of Debian or of Python: 1:3.42.1-0ubuntu1 and 3.42.1.
    """
    return _release_numbers(first.rpartition(":")[2]) == _release_numbers(second.rpartition(":")[2])


def _release_numbers(version: str) -> list[str]:
    match = _RELEASE.match(version)
    parts = match[0].split(".") if match else []
    while parts and parts[-1] == "0":
        parts.pop()
    return parts
