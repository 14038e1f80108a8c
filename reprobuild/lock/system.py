"""The system parts of a lock, below Python.

They are files, system packages, images, and variables.
"""

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
# 1980-01-01, the first time stamp that a zip archive can hold; used if no source has a date.
EPOCH = 315532800


class Artefact(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file identified by its sha256.

    `url` is the address at which it was found, without credentials; empty for a file made here, which only the store
    has. `size` is in bytes.
    """

    filename: ArtefactName
    sha256: Sha256
    size: Size
    url: FileUrl = ""


class ImageBlob(Artefact, frozen=True, kw_only=True):
    """A part of an image of a registry.

    `filename` is its name in messages, and not the name of a file.
    """

    filename: BlobName
    sha256: Sha256
    size: Size
    url: FileUrl = ""


class Deb(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One system package of the base.

    `essential` ones are unpacked before any maintainer script runs.
    """

    name: PackageName
    version: Version
    architecture: Architecture
    essential: bool
    file: Artefact


class ImageLayer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One layer of an image.

    It has the packed blob, its media type, and the sha256 (hex) of the unpacked tar.
    """

    file: ImageBlob
    media_type: Label
    diff_id: Sha256


class ImagePackage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A package in a base image, from its dpkg list."""

    name: PackageName
    version: Version
    architecture: Architecture


class EnvVar(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One environment variable of the image.

    `needs` are paths in the image; the variable is wrong without them.
    """

    name: VariableName
    value: Value
    needs: tuple[LibraryPath, ...] = ()


class InheritedSetting(EnvVar, frozen=True, kw_only=True):
    """One environment variable of a base image.

    Its value is printable: others are left out of a lock.
    """

    name: VariableName
    value: Line
    needs: tuple[LibraryPath, ...] = ()


class BaseImage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An image of a registry, the start of the base.

    `reference` is the name in the decision, `digest` (`sha256:...`) the manifest of the platform at the time of
    locking. `layers` are lowest first; `packages` and `environment` are the image's own.
    """

    reference: Reference
    digest: Digest
    config: ImageBlob
    layers: tuple[ImageLayer, ...]
    packages: tuple[ImagePackage, ...] = ()
    environment: tuple[InheritedSetting, ...] = ()


def dpkg_name(name: str, architecture: str, native: str) -> str:
    """Return dpkg's name of a package, qualified if foreign.

    Examples are `zlib1g` and, of a foreign architecture, `zlib1g:i386`.

    A package for all architectures counts as native.
    """
    return name if architecture in (native, "all") else f"{name}:{architecture}"


class Base(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The system below the environment.

    It has a distribution's release and its packages, sorted by name.

    `tools` are only used while realising the base, and are not part of it. If there is an `image`, the packages are put
    over it.
    """

    distribution: Label
    release: Label
    packages: tuple[Deb, ...]
    tools: tuple[Deb, ...] = ()
    image: BaseImage | None = None

    @property
    def native(self) -> str:
        """The system's architecture, which is that of most packages."""
        every = [deb.architecture for deb in self.packages]
        every += [package.architecture for package in self.image.packages] if self.image else []
        counts = Counter(architecture for architecture in every if architecture != "all")
        return max(counts, key=lambda name: (counts[name], name), default="")

    @property
    def installed(self) -> dict[str, str]:
        """The version of each package in the finished tree.

        The keys are dpkg's names.
        """
        native = self.native
        below = {
            dpkg_name(package.name, package.architecture, native): package.version
            for package in (self.image.packages if self.image else ())
        }
        return below | {dpkg_name(deb.name, deb.architecture, native): deb.version for deb in self.packages}
