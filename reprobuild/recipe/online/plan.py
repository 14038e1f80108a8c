"""The plan of an online recipe: all values, computed once for both formats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reprobuild.lock.model import SealedLock
from reprobuild.lock.python import Sdist, Source
from reprobuild.recipe.online import apt, python
from reprobuild.recipe.online.model import BuildArgument, Checkout, Gap, OnlinePlan, ProjectBuild
from reprobuild.recipe.online.runtime import pack_seeding
from reprobuild.recipe.online.sources import plan_checkouts
from reprobuild.store.store import Store


def make_plan(
    lock: SealedLock, store: Store, moments: Mapping[str, str], changes: Mapping[str, bytes]
) -> OnlinePlan:
    """Return the plan of a lock's online recipe.

    Args:
        lock: the lock of the image.
        store: has the runtime package, and the tree of each source.
        moments: addresses of dated archives by name (`debian`, `debian-security`, `ubuntu`), with `{time}`.
        changes: the captured changes of sources by sha256.

    Raises:
        BuildError: the recipe would be useless: the interpreter is only in the store, or the system has no apt.
        FetchError: the store lacks a file that the recipe embeds.
    """
    interpreter = python.plan_interpreter(lock)
    system, gaps = apt.plan_packages(lock.base, moments, argument="BASE_IMAGE")
    build_system = None
    projects: list[Sdist | Source] = [*lock.sdists, *lock.sources]
    if lock.build_base and any(project.building.compiles for project in projects):
        build_system, build_gaps = apt.plan_packages(lock.build_base, moments, argument="BUILD_IMAGE")
        gaps += build_gaps
    wheels, wheel_gaps = python.plan_wheels(lock)
    places, build_tools = python.plan_build_tools(lock)
    checkouts, source_gaps = plan_checkouts(lock.sources, store, changes)
    files = [
        wheels,
        *(file for _, file in build_tools),
        *python.plan_sdists(lock),
        *python.plan_downloads(lock),
    ]
    files += [interpreter.packages] if interpreter.packages else []
    files += [file for checkout in checkouts for file in (checkout.changes, checkout.archive) if file]
    login = any(_is_ssh(checkout.argument.value) for checkout in checkouts if checkout.argument)
    return OnlinePlan(
        system=system, build_system=build_system, interpreter=interpreter, wheels=wheels, build_tools=build_tools,
        arguments=_arguments(lock, checkouts), files=tuple(files), checkouts=checkouts, login=login,
        tools=_tools(lock, git=any(checkout.argument for checkout in checkouts), ssh=login),
        projects=_placed_projects(python.plan_projects(lock, places), checkouts),
        removed=python.removed_distributions(lock), runtime=pack_seeding(lock, store),
        gaps=(*gaps, *wheel_gaps, *python.missing_files(lock.sdists), *source_gaps, *_deviations(lock)),
    )  # fmt: skip


def _arguments(lock: SealedLock, checkouts: Sequence[Checkout]) -> tuple[BuildArgument, ...]:
    """Return the addresses of the build stage that a build can replace."""
    conda = (python.MICROMAMBA,) if lock.conda else ()
    return (*python.plan_indexes(lock), *conda, *(c.argument for c in checkouts if c.argument))


def _placed_projects(
    projects: Sequence[ProjectBuild], checkouts: Sequence[Checkout]
) -> tuple[ProjectBuild, ...]:
    """Return the projects whose files the recipe has."""
    places = tuple(f"{checkout.path}/" for checkout in checkouts)
    return tuple(project for project in projects if project.sdist or f"{project.target}/".startswith(places))


def _is_ssh(url: str) -> bool:
    """Return whether git reads an address as one of ssh: `ssh://...`, or `git@host:path`."""
    return url.startswith(("ssh://", "git+ssh://")) if "://" in url else ":" in url


def _tools(lock: SealedLock, *, ssh: bool, git: bool) -> tuple[str, ...]:
    """Return the packages of the build stage alone."""
    return (
        "ca-certificates",
        *(["git"] if git else []),
        *(["openssh-client"] if ssh else []),
        *python.venv_packages(lock),
    )


def _deviations(lock: SealedLock) -> tuple[Gap, ...]:
    """Return the deviations of the lock itself, which every recipe has."""
    return tuple(Gap(ruling.subject, f"{ruling.outcome}: {ruling.reason}") for ruling in lock.deviations)
