"""The lock's data model and its canonical form."""

from __future__ import annotations

import hashlib
from typing import Literal, TypeVar

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.strings import (
    Epoch,
    Kind,
    MemberPath,
    OptionalSha256,
    Platform,
    Profile,
    ProjectName,
    Seed,
    Sha256,
    Size,
    Text,
    Value,
    WorkingFolder,
)
from reprobuild.lock.python import CondaPackage, Interpreter, Sdist, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import Base, BaseImage, EnvVar

Outcome = Literal["pinned", "solved", "in base", "excluded", "replaced", "unresolved"]

# Kinds of resolutions without a captured line: each sums up several lines.
OF_NO_LINE = ("cuda", "release")


class Resolution(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The resolution of one captured line.

    `subject` is the name in it; `kind` is the class by which `accept` may name it (`withdrawn`, ...);
    `captured` is the line of a freeze, without credentials, for the comparison with the image's own.
    """

    file: Text
    line: Size
    subject: Text
    outcome: Outcome
    reason: Text
    kind: Kind = ""
    accepted: bool = False
    captured: Text = ""

    @property
    def place(self) -> str:
        """The file, and the number of the line if it is known."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Workload(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The user's own command, and the output files to compare.

    The files are below `{out}`; each run must repeat them.
    """

    command: tuple[Value, ...]
    outputs: tuple[Value, ...]


class Bytecode(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The compiled modules of one artefact (wheel or source tar).

    `tar` is the sha256 of a tar of them.
    """

    artefact: Sha256
    tar: Sha256


class BuildRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A record of one project's build into a wheel.

    Only `parts` is used when the image is made.

    `wheel` is the sha256 of the output, `tools` the version lines of the compilers, `variables` the variables that were
    set. An editable project may be run from files that only its build makes (compiled modules): `parts` is the sha256
    of a tar of these, which is laid over its source; `files` are their paths below the source.
    """

    name: ProjectName
    wheel: Sha256
    tools: tuple[Text, ...] = ()
    variables: tuple[EnvVar, ...] = ()
    parts: OptionalSha256 = ""
    files: tuple[MemberPath, ...] = ()


class RealisedOutputs(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The outputs of realising a lock, each by sha256.

    They are the base tree as a tar, wheels of sources, and bytecode.

    `runtime` is the tar of the runtime package that goes into the image: with the package of another version of
    reprobuild, the same lock would give another image. `interpreter` is the tar of a standalone interpreter or of
    conda's packages, at their path in the image; empty if the interpreter is the base's own. `builds` has one entry for
    each wheel.
    """

    base: Sha256
    runtime: Sha256
    wheels: tuple[Wheel, ...]
    bytecode: tuple[Bytecode, ...]
    interpreter: OptionalSha256 = ""
    builds: tuple[BuildRecord, ...] = ()


class Lock(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All decisions and inputs of an image.

    `canonical` sorts every sequence. `SealedLock` adds the outputs of the programs that must run.

    `build_base` is the base for compiling projects; no file of it is in the image.
    """

    version: int
    snapshot: Sha256
    platform: Platform
    epoch: Epoch
    seed: Seed | None
    profile: Profile
    interpreter: Interpreter
    base: Base
    wheels: tuple[Wheel, ...]
    sources: tuple[Source, ...]
    environment: tuple[EnvVar, ...]
    workdir: WorkingFolder
    workload: Workload | None
    decisions: RecordedDecisions
    rulings: tuple[Resolution, ...]
    sdists: tuple[Sdist, ...] = ()
    conda: tuple[CondaPackage, ...] = ()
    build_base: Base | None = None

    def __str__(self) -> str:
        """Return a line for `print`: all values, as `repr` has them, take pages."""
        return (
            f"<{type(self).__name__} of snapshot {self.snapshot[:12]} for {self.platform}: {len(self.wheels)} wheels, "
            f"{len(self.sdists)} sdists, {len(self.base.packages)} system packages, {len(self.conda)} conda packages, "
            f"{len(self.sources)} sources, {len(self.environment)} variables>"
        )

    @property
    def digest(self) -> str:
        """The sha256 (hex) of the canonical form."""
        return hashlib.sha256(encode(self)).hexdigest()

    @property
    def machine(self) -> str:
        """The platform's machine in the kernel's spelling: `x86_64`."""
        architecture = self.platform.rpartition("/")[2]
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(architecture, architecture)

    @property
    def built_wheels(self) -> tuple[Wheel, ...]:
        """The wheels that were built from sources, which only a sealed lock has."""
        return ()

    @property
    def deviations(self) -> tuple[Resolution, ...]:
        """The resolutions that make the image differ from the snapshot."""
        return tuple(r for r in self.rulings if r.outcome in ("replaced", "unresolved"))

    @property
    def solved(self) -> tuple[Resolution, ...]:
        """The resolutions with a version that was chosen, and not captured."""
        return tuple(ruling for ruling in self.rulings if ruling.outcome == "solved")


class SealedLock(Lock, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lock with its realised outputs, from which an image is made without running any program."""

    realised: RealisedOutputs

    @property
    def built_wheels(self) -> tuple[Wheel, ...]:
        """The wheels that were built from sources."""
        return self.realised.wheels

    def parts(self, source: Source) -> BuildRecord | None:
        """Return the files built into a source tree, or None."""
        builds = self.realised.builds
        return next((build for build in builds if build.parts and build.name == source.name), None)


AnyLock = TypeVar("AnyLock", bound=Lock)


def seal(lock: Lock, outputs: RealisedOutputs) -> SealedLock:
    """Return a lock with these outputs in place of any it had."""
    return SealedLock(**{name: getattr(lock, name) for name in Lock.__struct_fields__}, realised=outputs)


def unseal(lock: Lock) -> Lock:
    """Return a lock without its realised outputs."""
    return Lock(**{name: getattr(lock, name) for name in Lock.__struct_fields__})


def canonical(lock: AnyLock) -> AnyLock:
    """Return the lock with each sequence in canonical order.

    Equal content then has equal bytes.
    """
    if isinstance(lock, SealedLock):
        outputs = msgspec.structs.replace(
            lock.realised,
            wheels=tuple(sorted(lock.realised.wheels, key=lambda w: w.name)),
            bytecode=tuple(sorted(lock.realised.bytecode, key=lambda b: b.artefact)),
            builds=tuple(sorted(lock.realised.builds, key=lambda b: b.name)),
        )
        lock = msgspec.structs.replace(lock, realised=outputs)
    return msgspec.structs.replace(
        lock,
        base=_canonical_base(lock.base),
        build_base=lock.build_base and _canonical_base(lock.build_base),
        wheels=tuple(sorted(lock.wheels, key=lambda w: (w.role, w.name, w.version, w.file.sha256))),
        sdists=tuple(sorted(lock.sdists, key=lambda s: (s.name, s.version))),
        conda=tuple(sorted(lock.conda, key=lambda p: (p.name, p.version, p.build))),
        sources=tuple(sorted(lock.sources, key=lambda s: s.name)),
        environment=tuple(sorted(lock.environment, key=lambda s: s.name)),
        rulings=tuple(sorted(lock.rulings, key=lambda r: (r.file, r.line, r.subject, r.reason))),
    )


def _canonical_base(base: Base) -> Base:
    return msgspec.structs.replace(
        base,
        packages=tuple(sorted(base.packages, key=lambda d: (d.name, d.architecture))),
        tools=tuple(sorted(base.tools, key=lambda d: (d.name, d.architecture))),
        image=base.image and _canonical_image(base.image),
    )


def _canonical_image(image: BaseImage) -> BaseImage:
    return msgspec.structs.replace(
        image,
        packages=tuple(sorted(image.packages, key=lambda p: (p.name, p.architecture))),
        environment=tuple(sorted(image.environment, key=lambda setting: setting.name)),
    )


def encode(lock: Lock) -> bytes:
    """Return the canonical file of a lock.

    It is JSON with an indent of two spaces, keys in the order of the fields, and one final newline.
    """
    # The decisions are a map, and the keys of maps are sorted by name.
    sorted_lock = msgspec.structs.replace(canonical(lock), decisions=msgspec.to_builtins(lock.decisions))
    return msgspec.json.format(msgspec.json.encode(sorted_lock, order="deterministic"), indent=2) + b"\n"
