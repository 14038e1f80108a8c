"""The values of an online recipe, for both formats."""

from __future__ import annotations

import re

from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.display import escape_text
from reprobuild.lock.system import EnvVar

# A directory of builds, which the image does not have. /tmp is that of the machine when Apptainer builds.
WORK = "/build"
_ACTIVE = re.compile(r"""["$`\\]""")


class Gap(Struct, frozen=True):
    """A fact of the lock that the recipe cannot promise, and what happens instead."""

    subject: str
    reason: str


class BuildArgument(Struct, frozen=True, kw_only=True):
    """An address that a build can replace: `--build-arg NAME=VALUE`.

    Apptainer puts it between double quotes of a script before a shell reads that.

    Raises:
        BuildError: a character of the address acts in double quotes.
    """

    name: str
    value: str
    note: str

    def __post_init__(self) -> None:
        if _ACTIVE.search(self.value):
            raise BuildError(
                f"the address {escape_text(self.value[:80])} of {self.name} cannot stand in a recipe",
                hint="make the lock again, with an address without quotes, `$` and backslashes",
            )


class PackageArchive(Struct, frozen=True, kw_only=True):
    """An archive of system packages.

    `dated` is the address of the archive as it was at a moment, in two parts around it; it is empty if the archive
    itself is of one moment. `suites` and `components` are the words after the address in `sources.list`.
    """

    argument: BuildArgument
    suites: tuple[str, ...]
    components: tuple[str, ...]
    dated: tuple[str, ...]


class RemoteFile(Struct, frozen=True, kw_only=True):
    """A file that the build downloads and compares with its sha256."""

    name: str
    url: str
    sha256: str


class SystemPackages(Struct, frozen=True, kw_only=True):
    """The packages of one stage.

    `pins` are words `name=version` for apt, sorted; `files` are packages that no known archive has.
    """

    image: BuildArgument
    inherited: bool
    archives: tuple[PackageArchive, ...]
    pins: tuple[str, ...]
    files: tuple[RemoteFile, ...]
    foreign: tuple[str, ...]


class EmbeddedFile(Struct, frozen=True, kw_only=True):
    """A file in the text of the recipe.

    `text` is the file itself, or its base64 form if `encoded`.
    """

    path: str
    text: str
    encoded: bool

    @property
    def written(self) -> str:
        """The path of the text in the build stage."""
        return f"{self.path}.base64" if self.encoded else self.path


class Checkout(Struct, frozen=True, kw_only=True):
    """A source tree: a commit of a repository and its changes, or an archive in the recipe.

    Without an `argument`, `archive` has the whole tree. `changes` is a diff.
    """

    name: str
    path: str
    commit: str
    tree: str
    argument: BuildArgument | None
    changes: EmbeddedFile | None = None
    archive: EmbeddedFile | None = None


class ProjectBuild(Struct, frozen=True, kw_only=True):
    """The installation of a project from its source.

    `target` is a directory, or the requirements file of an sdist. `tools` is the directory of the locked build
    requirements, or empty. `early`: it is built before the environment has other distributions.
    """

    name: str
    target: str
    sdist: bool
    editable: bool
    early: bool
    epoch: int
    variables: tuple[EnvVar, ...]
    tools: str


class PythonInterpreter(Struct, frozen=True, kw_only=True):
    """The origin of the interpreter.

    `archive` is the file of a standalone build, `packages` is conda's list of packages with their sha256.
    """

    kind: str
    executable: str
    version: str
    shared: bool
    archive: RemoteFile | None
    packages: EmbeddedFile | None


class OnlinePlan(Struct, frozen=True, kw_only=True):
    """All values of the recipe that are not in the configuration of the image.

    `tools` are packages of the build stage alone. `files` are its text files; of these, `wheels` has the requirements
    of the environment, and `build_tools` those of builds, by the directory they are installed to. `removed` are the
    distributions that a new environment has and the lock has not. `login`: git needs the user's key.
    """

    system: SystemPackages
    build_system: SystemPackages | None
    tools: tuple[str, ...]
    interpreter: PythonInterpreter
    arguments: tuple[BuildArgument, ...]
    files: tuple[EmbeddedFile, ...]
    wheels: EmbeddedFile
    build_tools: tuple[tuple[str, EmbeddedFile], ...]
    checkouts: tuple[Checkout, ...]
    projects: tuple[ProjectBuild, ...]
    removed: tuple[str, ...]
    runtime: EmbeddedFile
    login: bool
    gaps: tuple[Gap, ...]
