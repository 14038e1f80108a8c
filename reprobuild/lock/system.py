"""The parts of a lock that are below Python: files, system packages, images, variables."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from reprobuild.infra.untrusted.strings import (
    Architecture,
    ArtefactName,
    BlobName,
    Digest,
    FileUrl,
    Label,
    LibraryPath,
    Line,
    PackageName,
    Reference,
    Sha256,
    Size,
    Value,
    VariableName,
    Version,
)

PREFIX = "/opt/env"
FILES = "/opt/reprobuild"
STANDALONE = "/opt/python"
# 1980-01-01, the first time stamp that a zip archive can hold; used where no source tells a date.
EPOCH = 315532800


class Artefact(Struct, frozen=True, kw_only=True):
    """A file known by its bytes.

    `url` says where it was found and carries no credentials; empty for what was made here, which only
    the store has. `size` is in bytes.
    """

    filename: ArtefactName
    sha256: Sha256
    size: Size
    url: FileUrl = ""


class ImageBlob(Artefact, frozen=True, kw_only=True):
    """A part of an image of a registry. `filename` is what messages call it, and no name of a file."""

    filename: BlobName
    sha256: Sha256
    size: Size
    url: FileUrl = ""


class Deb(Struct, frozen=True, kw_only=True):
    """One system package of the base. `essential` ones are unpacked before any maintainer script runs."""

    name: PackageName
    version: Version
    architecture: Architecture
    essential: bool
    file: Artefact


class ImageLayer(Struct, frozen=True, kw_only=True):
    """One layer of an image: the packed blob, its media type, and the sha256 (hex) of the unpacked tar."""

    file: ImageBlob
    media_type: Label
    diff_id: Sha256


class ImagePackage(Struct, frozen=True, kw_only=True):
    """A package that an image brings, as the list of its dpkg has it."""

    name: PackageName
    version: Version
    architecture: Architecture


class EnvVar(Struct, frozen=True, kw_only=True):
    """One environment variable of the image. `needs` are paths in the image without which it is wrong."""

    name: VariableName
    value: Value
    needs: tuple[LibraryPath, ...] = ()


class InheritedSetting(EnvVar, frozen=True, kw_only=True):
    """One environment variable that an image brings. Its value is printable: others are left out of a lock."""

    name: VariableName
    value: Line
    needs: tuple[LibraryPath, ...] = ()


class BaseImage(Struct, frozen=True, kw_only=True):
    """An image of a registry that the base begins with.

    `reference` is what was decided, `digest` (`sha256:...`) the manifest of the platform that it meant when the lock
    was made. `layers` are lowest first; `packages` and `environment` are what the image has of its own.
    """

    reference: Reference
    digest: Digest
    config: ImageBlob
    layers: tuple[ImageLayer, ...]
    packages: tuple[ImagePackage, ...] = ()
    environment: tuple[InheritedSetting, ...] = ()


def dpkg_name(name: str, architecture: str, native: str) -> str:
    """Return the name by which dpkg knows a package: `zlib1g`, of a foreign architecture `zlib1g:i386`.

    What is for all architectures counts as native.
    """
    return name if architecture in (native, "all") else f"{name}:{architecture}"


class Base(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The system under the environment: a distribution's release and its packages, sorted by name.

    `tools` are only used while realising the base, and are no part of it. Where there is an `image`, the packages are
    put over it.
    """

    distribution: Label
    release: Label
    packages: tuple[Deb, ...]
    tools: tuple[Deb, ...] = ()
    image: BaseImage | None = None

    @property
    def native(self) -> str:
        """The architecture of the system, which is that of most of its packages."""
        every = [deb.architecture for deb in self.packages]
        every += [package.architecture for package in self.image.packages] if self.image else []
        counts = Counter(one for one in every if one != "all")
        return max(counts, key=lambda name: (counts[name], name), default="")

    @property
    def installed(self) -> dict[str, str]:
        """The version of each package of the finished tree, by dpkg's name."""
        native = self.native
        below = {
            dpkg_name(one.name, one.architecture, native): one.version
            for one in (self.image.packages if self.image else ())
        }
        return below | {dpkg_name(deb.name, deb.architecture, native): deb.version for deb in self.packages}
