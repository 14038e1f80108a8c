"""Lock: every input by sha256, every decision with its reason; its one canonical form and its digest.

A lock is *sealed* when `realised` is there: what must be run once was run, and its outputs are inputs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from reprobuild.errors import LockError
from reprobuild.whole import write_file

VERSION = 1
PREFIX = "/opt/env"
FILES = "/opt/reprobuild"
# 1980-01-01, the first time stamp that a zip archive can hold; used where no source tells a date.
EPOCH = 315532800

Outcome = Literal["pinned", "in base", "excluded", "replaced", "unresolved"]


class Artefact(Struct, frozen=True, kw_only=True):
    """A file known by its bytes.

    `url` says where it was found and carries no credentials; empty for what was made here, which only
    the store has. `size` is in bytes.
    """

    filename: str
    sha256: str
    size: int
    url: str = ""


class Deb(Struct, frozen=True, kw_only=True):
    """One system package of the base. `essential` ones are unpacked before any maintainer script runs."""

    name: str
    version: str
    architecture: str
    essential: bool
    file: Artefact


class ImageLayer(Struct, frozen=True, kw_only=True):
    """One layer of an image: the packed blob, its media type, and the sha256 (hex) of the unpacked tar."""

    file: Artefact
    media_type: str
    diff_id: str


class Installed(Struct, frozen=True, kw_only=True):
    """A package that an image brings, as the list of its dpkg has it."""

    name: str
    version: str
    architecture: str


class BaseImage(Struct, frozen=True, kw_only=True):
    """An image of a registry that the base begins with.

    `reference` is what was decided, `digest` (`sha256:...`) the manifest of the platform that it meant when the lock
    was made. `layers` are lowest first; `packages` and `environment` are what the image has of its own.
    """

    reference: str
    digest: str
    config: Artefact
    layers: tuple[ImageLayer, ...]
    packages: tuple[Installed, ...] = ()
    environment: tuple[Setting, ...] = ()


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

    distribution: str
    release: str
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


class Interpreter(Struct, frozen=True, kw_only=True):
    """The Python of the image. `executable` is a path in the base; `evidence` says how it was found."""

    version: str
    executable: str
    evidence: str


class Wheel(Struct, frozen=True, kw_only=True):
    """One wheel. Role `environment`: installed into the image; `build`: only used while realising."""

    name: str
    version: str
    role: Literal["environment", "build"]
    file: Artefact
    yanked: str = ""


class Source(Struct, frozen=True, kw_only=True):
    """One source tree: a commit plus its captured changes.

    `tree` is the git tree id (sha1) with the changes; `file` is a tar of exactly that tree; `patch` is the
    sha256 of what held the changes (a diff, or a bundle of `capture`), None where there were none; `path` is where
    it stands in the image; `subdirectory` holds the project. The folder that a job ran in is not `installed`.
    """

    name: str
    url: str
    commit: str
    tree: str
    patch: str | None
    path: str
    editable: bool
    epoch: int
    file: Artefact
    subdirectory: str = ""
    installed: bool = True

    @property
    def watched(self) -> bool:
        """Whether its place in the image is what runs, so that the image says where it comes from."""
        return self.editable or not self.installed


class Setting(Struct, frozen=True, kw_only=True):
    """One environment variable of the image. `needs` are paths in the image without which it is wrong."""

    name: str
    value: str
    needs: tuple[str, ...] = ()


class Ruling(Struct, frozen=True, kw_only=True):
    """What became of one captured line.

    `subject` is the name in it; `kind` is the class by which `accept` may name it (`withdrawn`, ...);
    `captured` is the line of a freeze, without credentials, for the comparison with the image's own.
    """

    file: str
    line: int
    subject: str
    outcome: Outcome
    reason: str
    kind: str = ""
    accepted: bool = False
    captured: str = ""


class Workload(Struct, frozen=True, kw_only=True):
    """The user's own check: a command to run in the image, and the files below `{out}` it must repeat."""

    command: tuple[str, ...]
    outputs: tuple[str, ...]


class Bytecode(Struct, frozen=True, kw_only=True):
    """The compiled modules of one artefact (wheel or source tar), as a tar with the sha256 `tar`."""

    artefact: str
    tar: str


class Realised(Struct, frozen=True, kw_only=True):
    """Outputs of what had to be run: the base tree as a tar, wheels of sources, bytecode, each by sha256.

    `runtime` is the tar of the runtime package that goes into the image: with another reprobuild's, the
    same lock would give another image.
    """

    base: str
    runtime: str
    wheels: tuple[Wheel, ...]
    bytecode: tuple[Bytecode, ...]


class Lock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides the image. Sequences are sorted at construction by `make_lock`."""

    version: int
    snapshot: str
    platform: str
    epoch: int
    seed: int | None
    profile: str
    interpreter: Interpreter
    base: Base
    wheels: tuple[Wheel, ...]
    sources: tuple[Source, ...]
    environment: tuple[Setting, ...]
    workdir: str
    workload: Workload | None
    decisions: dict[str, Any]
    rulings: tuple[Ruling, ...]
    realised: Realised | None = None

    @property
    def digest(self) -> str:
        """The sha256 (hex) of the canonical form."""
        return hashlib.sha256(encode(self)).hexdigest()

    @property
    def deviations(self) -> tuple[Ruling, ...]:
        """The rulings that make the image differ from what was captured."""
        return tuple(r for r in self.rulings if r.outcome in ("replaced", "unresolved"))


class _Header(Struct):
    """What a lock of any version begins with."""

    version: int


def canonical(lock: Lock) -> Lock:
    """Return the lock with every sequence in its one order, so that equal content has equal bytes."""
    return msgspec.structs.replace(
        lock,
        base=msgspec.structs.replace(
            lock.base,
            packages=tuple(sorted(lock.base.packages, key=lambda d: (d.name, d.architecture))),
            tools=tuple(sorted(lock.base.tools, key=lambda d: (d.name, d.architecture))),
            image=lock.base.image and _canonical_image(lock.base.image),
        ),
        wheels=tuple(sorted(lock.wheels, key=lambda w: (w.role, w.name, w.version))),
        sources=tuple(sorted(lock.sources, key=lambda s: s.name)),
        environment=tuple(sorted(lock.environment, key=lambda s: s.name)),
        rulings=tuple(sorted(lock.rulings, key=lambda r: (r.file, r.line, r.subject, r.reason))),
        realised=lock.realised
        and msgspec.structs.replace(
            lock.realised,
            wheels=tuple(sorted(lock.realised.wheels, key=lambda w: w.name)),
            bytecode=tuple(sorted(lock.realised.bytecode, key=lambda b: b.artefact)),
        ),
    )


def _canonical_image(image: BaseImage) -> BaseImage:
    return msgspec.structs.replace(
        image,
        packages=tuple(sorted(image.packages, key=lambda p: (p.name, p.architecture))),
        environment=tuple(sorted(image.environment, key=lambda setting: setting.name)),
    )


def encode(lock: Lock) -> bytes:
    """Return the canonical file: JSON, two spaces, keys in the order of the fields, one final newline."""
    return msgspec.json.format(msgspec.json.encode(canonical(lock), order="deterministic"), indent=2) + b"\n"


def read_lock(path: Path) -> Lock:
    """Read a lock file.

    Raises:
        LockError: it is absent, not a lock, or of a version that this program does not know.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise LockError(f"there is no lock at {path}", hint="make one with `reprobuild lock DIR`") from None
    except OSError as err:
        raise LockError(f"{path} cannot be read: {err.strerror}", hint="check its permissions") from None
    try:
        version = msgspec.json.decode(raw, type=_Header).version
        lock = msgspec.json.decode(raw, type=Lock) if version == VERSION else None
    except (msgspec.ValidationError, msgspec.DecodeError) as err:
        raise LockError(
            f"{path} is not a lock: {err}", hint="make it again with `reprobuild lock DIR`"
        ) from None
    if lock is None:
        raise LockError(
            f"{path} is a lock of version {version}; this program reads version {VERSION}",
            hint="use the reprobuild that wrote it, or make the lock again with `reprobuild lock DIR`",
        )
    return lock


def write_lock(lock: Lock, path: Path) -> None:
    """Write the canonical form, whole or not at all."""
    write_file(path, encode(lock))
