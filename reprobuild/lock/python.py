"""The Python parts of a lock.

They are the interpreter, wheels, projects to build, and packages of conda.
"""

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

PACKED_END = "-captured.tar.gz"  # ends the name of the archive of a packed Python
OF_MACHINE = "on this machine: "  # begins the evidence of a Python that `lock` packed


class Interpreter(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The Python of the image.

    `executable` is a path in the image; `evidence` says how it was found.

    `system`: a package of the base; `standalone`: a published build, whose archive is `file`; `captured`: one that
    `capture` packed, with its archive as `file`; `conda`: a package of conda. `shared`: the environment also sees the
    distributions of the base's own Python.
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
        """Whether it is CPython's free-threaded build (PEP 703).

        The program's name shows it.
        """
        return self.executable.endswith("t")

    @property
    def of_machine(self) -> bool:
        """Whether `lock` packed it from its own machine, so that no snapshot and no server has it."""
        return self.kind == "captured" and self.evidence.startswith(OF_MACHINE)

    @property
    def home(self) -> str:
        """The root directory of its own tree in the image.

        It is empty for the base's Python, which has no such directory.
        """
        return {"system": "", "conda": PREFIX}.get(self.kind, STANDALONE)


class Wheel(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One wheel of the image or of a build.

    Role `environment`: installed into the image; `build`: only used while realising.

    `requires` are the requirements of its metadata that hold in this environment, without their markers and sorted.
    """

    name: ProjectName
    version: Version
    role: Literal["environment", "build"]
    file: Artefact
    yanked: Text = ""
    requires: tuple[Line, ...] = ()


class Building(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The inputs of a project's build into a wheel.

    `requires` are the sha256 of the wheels of role `build` that its build imports; with `environment` it also imports
    the distributions of the image. `compiles`: it is built in the `build_base`. `variables` are set for the build.
    """

    requires: tuple[Sha256, ...] = ()
    environment: bool = False
    compiles: bool = False
    variables: tuple[EnvVar, ...] = ()


class Sdist(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A distribution without a wheel, built once from a source archive.

    `version` is empty if a direct address does not contain it: the built wheel has one. `subdirectory` holds the
    project if the archive is of a whole repository and not an sdist.
    """

    name: ProjectName
    version: OptionalVersion
    file: Artefact
    subdirectory: OptionalRelativePath = ""
    yanked: Text = ""
    building: Building = Building()


class CondaPackage(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A package of a conda channel.

    `channel` and the address of `file` carry no credentials.

    `distributions` are the names of the Python projects in it.
    """

    name: PackageName
    version: Version
    build: CondaBuild
    subdir: Architecture
    channel: Channel
    file: Artefact
    distributions: tuple[ProjectName, ...] = ()


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One source tree: a commit plus its captured changes.

    `tree` is the git tree id (sha1) with the changes; `file` is a tar of exactly that tree; `patch` is the sha256 of
    the file with the changes (a diff, or a bundle of `capture`), None without changes; `path` is its path in the image;
    `subdirectory` holds the project. The directory that a job ran in is not `installed`.
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
        """Whether the program runs from the tree's path in the image.

        If so, the image states the origin of the tree.
        """
        return self.editable or not self.installed
