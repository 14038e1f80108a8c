"""The base from a registry's image: fetching, reading, and completing it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

import msgspec
from debian.debian_support import Version
from msgspec import Struct

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.ecosystems.oci_registry.manifest import find_image
from reprobuild.ecosystems.oci_registry.reference import parse_reference
from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Base, EnvVar, dpkg_name
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.system.base import (
    find_missing_packages,
    make_search,
    resolve_with_search,
    with_version_source,
)
from reprobuild.resolve.system.base_image import OverlayRequest, resolve_image_base
from reprobuild.resolve.system.fallback_sources import StoreSource, list_further_archives
from reprobuild.resolve.system.image_environment import inherit_environment
from reprobuild.resolve.system.image_packages import ImageSystem, read_system
from reprobuild.resolve.system.packages import foreign_architectures
from reprobuild.snapshot.model import Snapshot, SystemPackage
from reprobuild.store.fetch import fetch


class ImageDecision(Struct, frozen=True, kw_only=True):
    """The input of an image base: platform, architecture, required packages.

    The architecture is in Debian's spelling; the packages are those that the rest of the lock needs.
    """

    platform: str
    architecture: str
    roots: tuple[str, ...]


class ImageBase:
    """An image in the store, with a search for packages over it.

    It is like `resolve.base.System`, for images.

    Raises:
        UsageError: the decision is not a reference. FetchError: the image is unavailable. LockError: it is not for this
            platform, or packages cannot be installed over it.
        platform, or no system that packages can be put over.
    """

    def __init__(
        self, snapshot: Snapshot, request: ImageDecision, settings: Iterable[EnvVar], decisions: Decisions,
        context: ResolveContext,
    ) -> None:  # fmt: skip
        reference = parse_reference(decisions.base or "")
        context.say(f"system: the image {reference}, from its registry")
        hub = context.services["docker-hub"].url
        remote = find_image(reference, request.platform, context.net, context.store, hub)
        fetch([layer.file for layer in remote.image.layers], context.store, context.net)
        self._system = read_system(remote.image, context.store, request.architecture)
        environment, self._variables = inherit_environment(remote.variables, settings, decisions.drop)
        self._image = msgspec.structs.replace(remote.image, environment=environment)
        foreign = foreign_architectures(snapshot.packages, request.architecture, decisions.drop)
        self.index = _index(self._system, request.architecture, foreign, context)
        self._packages, self.roots, self._drop = snapshot.packages, request.roots, decisions.drop
        self._rpms = snapshot.rpms
        self._only_needed = decisions.system != "all"
        archives = list_further_archives(snapshot, decisions, context)
        self._own = StoreSource(context.store, self.index.distribution, self.index.release, archives)
        self._search = make_search(snapshot, self.index, self._own, decisions, context)

    def has(self, name: str) -> bool:
        """Return whether the image or its release has a package."""
        return name in self._system.packages or bool(self.index.versions(name))

    def distributions(self, minor: str) -> Mapping[str, str]:
        """Return {name: version} of pip's packages for the image's Python.

        The Python is `X.Y`.
        """
        return self._system.distributions.get(minor, {})

    def pin(
        self,
        libraries: Mapping[str, str] = MappingProxyType({}),
        called: Mapping[str, str] = MappingProxyType({}),
    ) -> tuple[Base, tuple[Resolution, ...]]:
        """Choose the packages over the image; find captured versions.

        Args:
            libraries: packages that wheels need, each with the asking package.
            called: captured packages with called programs, each with its caller; `system: all` ignores it.

        Raises:
            LockError: a required package is unavailable.
        """
        request = OverlayRequest(
            packages=self._packages, roots=self.roots, drop=self._drop, libraries=libraries,
            called=called if self._only_needed else None, rpms=self._rpms,
        )  # fmt: skip
        base, rulings, self.index = resolve_with_search(
            lambda index: resolve_image_base(self._image, self._system, index, request),
            self._missing, self._packages, self.index, self._search,
        )  # fmt: skip
        debs, index = (*base.packages, *base.tools), self.index
        keys = [(dpkg_name(deb.name, deb.architecture, index.architecture), deb.version) for deb in debs]
        self._own.keep(
            [c for key, version in keys for c in index.versions(key) if c.version == version],
            index,
            self._search.found,
        )
        return base, (*(with_version_source(ruling, self._search) for ruling in rulings), *self._variables)

    def _missing(self, rulings: Sequence[Resolution]) -> list[SystemPackage]:
        """Return packages to search for, also those newer than the image's."""
        stuck = {ruling.subject for ruling in rulings if ruling.kind == "base-version"}
        present, native = self._system.packages, self.index.architecture
        newer = []
        for package in self._packages:
            key = dpkg_name(package.name, package.architecture, native)
            if key in stuck and Version(package.version) > Version(present[key].version):
                newer.append(package)
        return [*find_missing_packages(self._packages, rulings), *newer]


def _index(
    system: ImageSystem, architecture: str, foreign: tuple[str, ...], context: ResolveContext
) -> SystemIndex:
    """Return the packages of an image's release.

    It is empty if this machine has no source of them.
    """
    try:
        with context.store.private_directory("apt", "lists") as lists:
            return configured_index(
                system.distribution, system.release, env=context.env, folder=lists, architecture=architecture,
                foreign=foreign, offline=context.net.offline,
            )  # fmt: skip
    except LockError as err:
        context.say(f"{err}: only what the image has, and what is found elsewhere, can be used")
        return SystemIndex(system.distribution, system.release, (), architecture)
