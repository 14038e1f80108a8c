"""A base from an image: its packages, and those over it.

The image's version of a captured package decides: the same version is in the base; a newer captured one is installed
over it if the archive has it; an older one, or an unavailable one, is the deviation `base-version`, and the image's
stays, because dpkg does not downgrade. Packages outside of the image are installed as for every base. No package is
removed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec
from debian.debian_support import Version
from msgspec import Struct

from reprobuild.config.overrides import is_named
from reprobuild.ecosystems.apt.index import Candidate, SystemIndex
from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Base, BaseImage, Deb, ImagePackage, dpkg_name
from reprobuild.resolve.system.image_overlay import find_outdated, make_image_candidate
from reprobuild.resolve.system.image_packages import ImageSystem, PresentPackage
from reprobuild.resolve.system.missing_list import APT_LIST, NO_LIST, rule_missing_list
from reprobuild.resolve.system.packages import TOOLS, resolve_base
from reprobuild.resolve.system.system_rules import find_exclusion
from reprobuild.snapshot.model import RpmPackage, SystemPackage

_ROUNDS = 30


class ImageIndex(SystemIndex):
    """An index that prefers an image's packages to other versions.

    Args:
        index: of the image's release.
        present: the packages of the image.
        outdated: names with a version in the image that does not satisfy the packages over it.
    """

    def __init__(
        self, index: SystemIndex, present: Mapping[str, PresentPackage], outdated: Collection[str]
    ) -> None:
        super().__init__(index.distribution, index.release, (), index.architecture)
        self._index, self._present, self._outdated = index, present, outdated
        self._offered: dict[str, list[str]] = {}
        for name, package in present.items():
            for relation in package.provides:
                self._offered.setdefault(relation.name, []).append(name)

    @property
    def essential(self) -> tuple[str, ...]:
        """An empty tuple: the image has its own."""
        return ()

    @property
    def foreign(self) -> tuple[str, ...]:
        """The architectures with packages beside the machine's own, sorted."""
        return self._index.foreign

    def _versions(self, key: str) -> tuple[Candidate, ...]:
        """Return the image's version and newer ones of the archive.

        The archive's come newest first, before the image's.
        """
        known, package = self._index.versions(key), self._present.get(key)
        if key in TOOLS:  # an archive without packages has none that they would be needed for
            nothing = PresentPackage(
                name=key, version="0", architecture=self.architecture, needs=(), provides=()
            )
            return known or (make_image_candidate(key, nothing),)
        if package is None:
            return known
        newer = [c for c in known if Version(c.version) > Version(package.version)]
        if key in self._outdated:
            return tuple(newer)
        # Packages of the image are not replaced automatically.
        return (
            *(msgspec.structs.replace(c, automatic=False) for c in newer),
            make_image_candidate(key, package),
        )

    def providers(self, name: str) -> tuple[str, ...]:
        """Return the providers of a name, those of the image first."""
        image_providers = sorted(self._offered.get(name, ()))
        return tuple(dict.fromkeys((*image_providers, *self._index.providers(name))))


class OverlayRequest(Struct, frozen=True, kw_only=True):
    """The required packages of a base: captured, needed, and dropped.

    They are the captured list, the names that the rest needs, and the names to leave out.

    `libraries` are packages of shared libraries, each with the asking package. `called` are captured packages with
    called programs, each with its caller; None: every requested package. `rpms` are the packages of an rpm host.
    """

    packages: tuple[SystemPackage, ...]
    roots: tuple[str, ...]
    drop: Collection[str] = ()
    libraries: Mapping[str, str] = {}
    called: Mapping[str, str] | None = None
    rpms: tuple[RpmPackage, ...] = ()


def resolve_image_base(
    image: BaseImage, system: ImageSystem, index: SystemIndex, request: OverlayRequest
) -> tuple[Base, tuple[Resolution, ...]]:
    """Choose the packages over an image, and resolve captured packages.

    Args:
        image: the chosen image, with its layers.
        system: the contents of its layers.
        index: the packages of its release.
        request: the packages of the base.

    Returns:
        The base, and the resolutions, as `resolve.system.resolve_base` returns them; of kind `base-version` if the
        image's version replaces the captured one.

    Raises:
        LockError: a required package is not in the image or the index, or conflicts with one of the image.
    """
    present, outdated, native = system.packages, set[str](), index.architecture
    captured = {dpkg_name(p.name, p.architecture, native): p for p in request.packages}
    both = [
        key for key, package in captured.items() if key in present and _is_requested(package, request.drop)
    ]
    for _ in range(_ROUNDS):
        base, rulings = resolve_base(
            request.packages, index=ImageIndex(index, present, outdated), drop=request.drop,
            roots=[*request.roots, *both, *sorted(outdated)], libraries=request.libraries,
            called=request.called, rpms=request.rpms,
        )  # fmt: skip
        broken = find_outdated(_overlay_candidates(base.packages, index), present, index)
        if broken <= outdated:
            break
        outdated |= broken
    else:
        raise LockError(
            f"the packages of {image.reference} and the captured ones need each other in ever more versions",
            hint="choose an image whose packages are closer to the captured ones with `--base`",
        )
    stays = {dpkg_name(d.name, d.architecture, native) for d in base.packages if not d.file.sha256}
    whole = msgspec.structs.replace(
        image,
        packages=tuple(
            ImagePackage(name=p.name, version=p.version, architecture=p.architecture)
            for p in present.values()
        ),
    )
    ruled = [
        rule_missing_list(request.rpms, f"{image.reference} with what is needed")
        if ruling.kind == NO_LIST
        else _with_image_facts(ruling, captured, present, stays, image)
        for ruling in rulings
    ]
    return (
        msgspec.structs.replace(
            base, packages=_added_debs(base.packages), tools=_added_debs(base.tools), image=whole
        ),
        (*ruled, _rule_base_image(image, present, captured)),
    )


def _is_requested(package: SystemPackage, drop: Collection[str]) -> bool:
    """Return whether a captured package's version is wanted.

    The image has the package.
    """
    return (
        package.mark != "residual" and not find_exclusion(package.name) and not is_named(package.name, drop)
    )


def _added_debs(debs: Sequence[Deb]) -> tuple[Deb, ...]:
    """Return the packages that are not part of the image."""
    return tuple(deb for deb in debs if deb.file.sha256)


def _overlay_candidates(debs: Sequence[Deb], index: SystemIndex) -> dict[str, Candidate]:
    """Return the packages over the image, with all index data."""
    by_key = {dpkg_name(deb.name, deb.architecture, index.architecture): deb for deb in _added_debs(debs)}
    return {
        key: candidate
        for key, deb in by_key.items()
        for candidate in index.versions(key)
        if candidate.version == deb.version
    }


def _with_image_facts(
    ruling: Resolution,
    packages: Mapping[str, SystemPackage],
    present: Mapping[str, PresentPackage],
    stays: Collection[str],
    image: BaseImage,
) -> Resolution:
    """Return a resolution with the facts of an image."""
    name, package = ruling.subject, present.get(ruling.subject)
    if package is None:
        return ruling
    captured = packages.get(name)
    if name not in stays or captured is None or ruling.outcome == "excluded":
        where = f"{image.reference} has {package.version}"
        return msgspec.structs.replace(ruling, reason=f"{ruling.reason}; {where}")
    if captured.version == package.version:
        reason = f"{name} {package.version} is in {image.reference}"
        return msgspec.structs.replace(ruling, outcome="in base", kind="", reason=reason)
    older = Version(captured.version) < Version(package.version)
    why = "dpkg does not go back" if older else "the archive does not have the captured one"
    reason = f"{name} {captured.version} was captured, and {image.reference} has {package.version}, which stays: {why}"
    return msgspec.structs.replace(ruling, outcome="replaced", kind="base-version", reason=reason)


def _rule_base_image(
    image: BaseImage, present: Mapping[str, PresentPackage], captured: Mapping[str, SystemPackage]
) -> Resolution:
    more = len(present.keys() - captured.keys())
    reason = f"{image.reference} is {image.digest}; {more} of its {len(present)} packages were not captured"
    return Resolution(
        file=APT_LIST, line=0, subject=image.reference, outcome="in base", kind="added", reason=reason
    )
