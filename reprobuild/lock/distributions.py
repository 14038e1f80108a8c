"""Distributions of the image's Python, from all sources.

They come from wheels, from builds and from packages of conda.
"""

from __future__ import annotations

from packaging.utils import canonicalize_name

from reprobuild.lock.model import Lock
from reprobuild.lock.python import Wheel


def environment_wheels(lock: Lock) -> tuple[Wheel, ...]:
    """Return the wheels to install into the image, locked or built."""
    return tuple(wheel for wheel in (*lock.wheels, *lock.built_wheels) if wheel.role == "environment")


def distributions(lock: Lock) -> dict[str, frozenset[str]]:
    """Return the locked versions of each distribution in the image.

    The keys are names in the form of PEP 503.

    The set is empty if the lock does not have the version: conda has its own version numbers for its packages, and a
    source gets one when it is built. What pip installed over a package of conda is pip's alone. Distributions of the
    base's packages are for the system's own Python, so they are left out.
    """
    by_name: dict[str, set[str]] = {
        str(canonicalize_name(name)): set() for package in lock.conda for name in package.distributions
    }
    for source in lock.sources:
        if source.installed:
            by_name.setdefault(str(canonicalize_name(source.name)), set())
    releases = [(sdist.name, sdist.version) for sdist in lock.sdists]
    releases += [(wheel.name, wheel.version) for wheel in environment_wheels(lock)]
    for name, version in releases:
        by_name.setdefault(str(canonicalize_name(name)), set()).update({version} - {""})
    return {name: frozenset(versions) for name, versions in by_name.items()}


def find_replaced_projects(lock: Lock) -> set[str]:
    """Return the conda-provided Python projects that wheels replace."""
    conda_names = {name for package in lock.conda for name in package.distributions}
    over = [wheel.name for wheel in lock.wheels if wheel.role == "environment"]
    over += [sdist.name for sdist in lock.sdists] + [
        source.name for source in lock.sources if source.installed
    ]
    return conda_names & {str(canonicalize_name(name)) for name in over}
