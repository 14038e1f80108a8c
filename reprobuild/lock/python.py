"""The parts of a lock that are Python's: interpreter, wheels, what becomes wheels, conda's packages."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from reprobuild.infra.untrusted.strings import (
    Architecture,
    Channel,
    CondaBuild,
    Epoch,
    GitObject,
    Line,
    OptionalRelativePath,
    OptionalVersion,
    PackageName,
    PlainPath,
    ProjectName,
    RepositoryUrl,
    Sha256,
    SourceName,
    SourcePath,
    Text,
    Version,
)
from reprobuild.lock.system import PREFIX, STANDALONE, Artefact, EnvVar


class Interpreter(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The Python of the image. `executable` is a path in the image; `evidence` says how it was found.

    `system`: a package of the base; `standalone`: a published build, whose archive is `file`; `captured`: one that
    `capture` packed, with its archive as `file`; `conda`: one of conda's packages.
    `shared` tells that the environment sees the distributions of the base's own Python, too.
    """

    version: Version
    executable: PlainPath
    evidence: Text
    kind: Literal["system", "standalone", "captured", "conda"] = "system"
    file: Artefact | None = None
    shared: bool = False

    @property
    def minor(self) -> str:
        """The version as `X.Y`."""
        return ".".join(self.version.split(".")[:2])

    @property
    def free_threaded(self) -> bool:
        """Whether it is CPython's build without the global lock (PEP 703), whose program's name says so."""
        return self.executable.endswith("t")

    @property
    def home(self) -> str:
        """The folder of its own tree in the image; empty for the base's Python, which has none."""
        return {"system": "", "conda": PREFIX}.get(self.kind, STANDALONE)


class Wheel(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One wheel. Role `environment`: installed into the image; `build`: only used while realising.

    `requires` are the requirements of its metadata that hold in this environment, without their markers and sorted.
    """

    name: ProjectName
    version: Version
    role: Literal["environment", "build"]
    file: Artefact
    yanked: Text = ""
    requires: tuple[Line, ...] = ()


class Building(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a project becomes a wheel.

    `requires` are the sha256 of the wheels of role `build` that its build imports; with `environment` it imports the
    distributions of the image, too. `compiles`: it is built in the `devel` base. `variables` are set for the build.
    """

    requires: tuple[Sha256, ...] = ()
    environment: bool = False
    compiles: bool = False
    variables: tuple[EnvVar, ...] = ()


class Sdist(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A distribution without a wheel: an archive of its source, which is built once.

    `version` is empty where a direct address does not tell it: the wheel that is built has one.
    `subdirectory` holds the project where the archive is no sdist but one of a whole repository.
    """

    name: ProjectName
    version: OptionalVersion
    file: Artefact
    subdirectory: OptionalRelativePath = ""
    yanked: Text = ""
    building: Building = Building()


class CondaPackage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A package of a conda channel. `channel` and the address of `file` carry no credentials.

    `distributions` are the names of the projects of Python that it brings.
    """

    name: PackageName
    version: Version
    build: CondaBuild
    subdir: Architecture
    channel: Channel
    file: Artefact
    distributions: tuple[ProjectName, ...] = ()


class Source(Struct, frozen=True, kw_only=True):
    """One source tree: a commit plus its captured changes.

    `tree` is the git tree id (sha1) with the changes; `file` is a tar of exactly that tree; `patch` is the
    sha256 of what held the changes (a diff, or a bundle of `capture`), None where there were none; `path` is where
    it stands in the image; `subdirectory` holds the project. The folder that a job ran in is not `installed`.
    """

    name: SourceName
    url: RepositoryUrl
    commit: GitObject
    tree: GitObject
    patch: Sha256 | None
    path: SourcePath
    editable: bool
    epoch: Epoch
    file: Artefact
    subdirectory: OptionalRelativePath = ""
    installed: bool = True
    building: Building = Building()

    @property
    def watched(self) -> bool:
        """Whether its place in the image is what runs, so that the image says where it comes from."""
        return self.editable or not self.installed
