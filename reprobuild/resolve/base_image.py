"""The system under the environment from an image: what it has already, and the packages to put over it.

What a captured package finds in the image decides: the same version is in the base; a newer captured one is installed
over it where the archive has it; an older one, or one that cannot be had, is the deviation `base-version`, and the
image's stays, because dpkg knows no way back. What is not in the image comes as for every base. Nothing is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from debian.debian_support import Version
from msgspec import Struct

from reprobuild.apt.index import Candidate, SystemIndex
from reprobuild.apt.relations import Group, Relation
from reprobuild.decisions import is_named
from reprobuild.errors import LockError
from reprobuild.lock import Artefact, Base, BaseImage, Deb, Installed, Ruling
from reprobuild.resolve.image_system import ImageSystem, Present
from reprobuild.resolve.system import APT_LIST, TOOLS, resolve_base
from reprobuild.resolve.system_rules import exclusion
from reprobuild.snapshot.model import Package

_ROUNDS = 30
_NOT_THERE = Artefact(filename="", sha256="", size=0)  # of what the image has: nothing is fetched


class ImageIndex(SystemIndex):
    """An index in which each package of an image stands, too, and is preferred to other versions.

    Args:
        index: of the image's release.
        present: the packages of the image.
        outdated: names whose version in the image will not do, because of what comes over it.
    """

    def __init__(self, index: SystemIndex, present: Mapping[str, Present], outdated: Collection[str]) -> None:
        super().__init__(index.distribution, index.release, (), index.architecture)
        self._index, self._present, self._outdated = index, present, outdated
        self._offered: dict[str, list[str]] = {}
        for name, package in present.items():
            for given in package.provides:
                self._offered.setdefault(given.name, []).append(name)

    @property
    def essential(self) -> tuple[str, ...]:
        """None: the image has its own."""
        return ()

    @property
    def foreign(self) -> tuple[str, ...]:
        """The architectures beside the machine's own of which there are packages, sorted."""
        return self._index.foreign

    def _versions(self, name: str) -> tuple[Candidate, ...]:
        """Return the image's version, and after no other than newer ones of the archive, newest first."""
        known = self._index.versions(name)
        own = self._present.get(name)
        if name in TOOLS:  # an archive that has nothing has nothing that they would be needed for
            return known or (_kept(name, "0", self.architecture),)
        if own is None:
            return known
        newer = [c for c in known if Version(c.version) > Version(own.version)]
        if name in self._outdated:
            return tuple(newer)
        kept = _kept(name, own.version, own.architecture, own.provides, own.multi_arch)
        # Of its own accord, nothing of the image is replaced.
        return (*(msgspec.structs.replace(c, automatic=False) for c in newer), kept)

    def providers(self, name: str) -> tuple[str, ...]:
        """Return the names of the packages that provide a name, those of the image first."""
        own = sorted(self._offered.get(name, ()))
        return tuple(dict.fromkeys((*own, *self._index.providers(name))))


def _kept(
    name: str, version: str, architecture: str, provides: tuple[Relation, ...] = (), multi_arch: str = ""
) -> Candidate:
    """Return a package that nothing is fetched for; what it needs is there."""
    return Candidate(
        key=name, name=name, version=version, architecture=architecture, essential=False, needs=(), provides=provides,
        file=_NOT_THERE, multi_arch=multi_arch,
    )  # fmt: skip


class WantedOver(Struct, frozen=True, kw_only=True):
    """What is to be in the base: the captured list, the names that the rest needs, and those to leave out.

    `libraries` are packages of shared libraries, each with who asks for it.
    """

    packages: tuple[Package, ...]
    roots: tuple[str, ...]
    drop: Collection[str] = ()
    libraries: Mapping[str, str] = {}


def resolve_image_base(
    image: BaseImage, system: ImageSystem, index: SystemIndex, wanted: WantedOver
) -> tuple[Base, tuple[Ruling, ...]]:
    """Choose what is put over an image, and say what became of each captured package.

    Args:
        image: what was decided, with its layers.
        system: what its layers hold.
        index: the packages of its release.
        wanted: what is to be in the base.

    Returns:
        The base, and the rulings, as `resolve.system.resolve_base` gives them; of kind `base-version` where the
        image's version stands in.

    Raises:
        LockError: something that is needed is neither in the image nor in the index.
    """
    present, outdated = system.packages, set[str]()
    here = (index.architecture, "all")
    both = [
        p.name
        for p in wanted.packages
        if p.name in present and p.architecture in here and _asked(p, wanted.drop)
    ]
    for _ in range(_ROUNDS):
        base, rulings = resolve_base(
            wanted.packages, index=ImageIndex(index, present, outdated), drop=wanted.drop,
            roots=[*wanted.roots, *both, *sorted(outdated)], libraries=wanted.libraries,
        )  # fmt: skip
        broken = _broken(present, base.packages)
        if broken <= outdated:
            break
        outdated |= broken
    else:
        raise LockError(
            f"the packages of {image.reference} and the captured ones need each other in ever more versions",
            hint="choose an image whose packages are closer to the captured ones with `--base`",
        )
    kept = {deb.name for deb in base.packages if not deb.file.sha256}
    whole = msgspec.structs.replace(
        image,
        packages=tuple(
            Installed(name=p.name, version=p.version, architecture=p.architecture) for p in present.values()
        ),
    )
    ruled = [_ruled(ruling, wanted.packages, present, kept, image) for ruling in rulings]
    return (
        msgspec.structs.replace(base, packages=_files(base.packages), tools=_files(base.tools), image=whole),
        (*ruled, _brought(image, present, wanted.packages)),
    )


def _asked(package: Package, drop: Collection[str]) -> bool:
    """Tell whether the captured version of a package that the image has is wanted."""
    return package.mark != "residual" and not exclusion(package.name) and not is_named(package.name, drop)


def _files(debs: Sequence[Deb]) -> tuple[Deb, ...]:
    """Return those that are no part of the image."""
    return tuple(deb for deb in debs if deb.file.sha256)


def _broken(present: Mapping[str, Present], over: Sequence[Deb]) -> set[str]:
    """Return the packages of the image that need another version than the one that comes over it."""
    before = {name: package.version for name, package in present.items()}
    replaced = {deb.name: deb.version for deb in over if deb.file.sha256}
    now = before | replaced

    def met(group: Group, versions: Mapping[str, str]) -> bool:
        return any(r.name in versions and r.allows(versions[r.name]) for r in group)

    found = set[str]()
    for name in present.keys() - replaced.keys():
        if any(met(group, before) and not met(group, now) for group in present[name].needs):
            found.add(name)
    return found


def _ruled(
    ruling: Ruling,
    packages: Iterable[Package],
    present: Mapping[str, Present],
    kept: Collection[str],
    image: BaseImage,
) -> Ruling:
    """Return a ruling in the words of an image."""
    name, own = ruling.subject, present.get(ruling.subject)
    if ruling.kind == "no-apt-list":
        reason = f"no package list was captured; the base is {image.reference} with what is needed"
        return msgspec.structs.replace(ruling, reason=reason)
    if own is None:
        return ruling
    captured = {package.name: package for package in packages if package.place.line == ruling.line}.get(name)
    if name not in kept or captured is None or ruling.outcome == "excluded":
        where = f"{image.reference} has {own.version}"
        return msgspec.structs.replace(ruling, reason=f"{ruling.reason}; {where}")
    if captured.version == own.version:
        reason = f"{name} {own.version} is in {image.reference}"
        return msgspec.structs.replace(ruling, outcome="in base", kind="", reason=reason)
    older = Version(captured.version) < Version(own.version)
    why = "dpkg does not go back" if older else "the archive does not have the captured one"
    reason = (
        f"{name} {captured.version} was captured, and {image.reference} has {own.version}, which stays: {why}"
    )
    return msgspec.structs.replace(ruling, outcome="replaced", kind="base-version", reason=reason)


def _brought(image: BaseImage, present: Mapping[str, Present], packages: Iterable[Package]) -> Ruling:
    more = len(present.keys() - {package.name for package in packages})
    reason = f"{image.reference} is {image.digest}; {more} of its {len(present)} packages were not captured"
    return Ruling(
        file=APT_LIST, line=0, subject=image.reference, outcome="in base", kind="added", reason=reason
    )
