"""The interpreter, its distributions, and the projects to build."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlsplit

from packaging.utils import canonicalize_name

from reprobuild.errors import BuildError
from reprobuild.lock.model import SealedLock
from reprobuild.lock.python import Building, Sdist, Source, Wheel
from reprobuild.lock.system import EPOCH, Artefact
from reprobuild.recipe.online.apt import OFFLINE, quote_address
from reprobuild.recipe.online.embedded import embed
from reprobuild.recipe.online.model import (
    WORK,
    BuildArgument,
    EmbeddedFile,
    Gap,
    ProjectBuild,
    PythonInterpreter,
    RemoteFile,
)
from reprobuild.recipe.render import check_value, template_folder
from reprobuild_portable import secrets

MICROMAMBA = BuildArgument(
    name="MICROMAMBA_URL",
    value="https://github.com/mamba-org/micromamba-releases/releases/latest/download/micromamba-linux-64",
    note="the program that installs the packages of conda, which have their own hashes; no file of it is in the image",
)
# The downloaded files: a directory for each requirements file.
FILES = f"{WORK}/files"
_ENVIRONMENT = "requirements"
# The layout of PyPI's files and of its mirrors, whose index has them, by the hash of their content
_INDEX_FILE = re.compile(r"/packages/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{60}/[^/]+")
# pip and what `python -m venv` puts beside it.
_BUNDLED = ("pip", "setuptools")


def plan_interpreter(lock: SealedLock) -> PythonInterpreter:
    """Return the origin of the interpreter.

    Raises:
        BuildError: only the store has it.
    """
    python = lock.interpreter
    archive = None
    if python.file:
        if not _is_remote(python.file):
            raise BuildError(
                f"Python {python.version} of the lock was packed by `capture`, so only the store has it",
                hint=OFFLINE,
            )
        archive = RemoteFile(
            name=python.file.filename, url=quote_address(python.file.url), sha256=python.file.sha256
        )
    return PythonInterpreter(
        kind=python.kind, executable=python.executable, version=python.version, shared=python.shared,
        archive=archive, packages=_list_conda(lock) if lock.conda else None,
    )  # fmt: skip


def _list_conda(lock: SealedLock) -> EmbeddedFile:
    """Return the list of conda's packages: directory, file name, sha256 and address."""
    lines = []
    for package in lock.conda:
        if not _is_remote(package.file):
            raise BuildError(
                f"only the store has conda's package {package.name} {package.version}", hint=OFFLINE
            )
        words = (package.subdir, quote_address(package.file.filename), package.file.sha256)
        lines.append(" ".join([*words, quote_address(package.file.url)]))
    return _text_file("conda.txt", lines)


def _text_file(name: str, lines: Iterable[str]) -> EmbeddedFile:
    return embed(f"{WORK}/{name}", "".join(f"{line}\n" for line in lines).encode())


def venv_packages(lock: SealedLock) -> tuple[str, ...]:
    """Return the package with `ensurepip`, which Debian splits from its Python.

    Its version is that of the interpreter's own package.
    """
    python = f"python{lock.interpreter.minor}"
    if lock.interpreter.kind != "system" or lock.interpreter.executable != f"/usr/bin/{python}":
        return ()
    version = lock.base.installed.get(python)
    return (f"{python}-venv={version}",) if version else (f"{python}-venv",)


def plan_indexes(lock: SealedLock) -> tuple[BuildArgument, ...]:
    """Return the addresses of indexes that a build can replace.

    An address has no login: `download.py` reads `~/.netrc`, which its step of the build receives as a secret.
    """
    extra = sorted({secrets.strip_credentials(url)[0] for url in lock.decisions.indexes.values()})
    note = "the index of the lock's files, or a mirror of it; empty for that of pip itself"
    note_extra = "further indexes, separated by blanks" + (
        ": those that the lock's overrides name" if extra else ""
    )
    return (
        BuildArgument(name="PIP_INDEX_URL", value="", note=note),
        BuildArgument(name="PIP_EXTRA_INDEX_URL", value=" ".join(map(quote_address, extra)), note=note_extra),
    )


def plan_wheels(lock: SealedLock) -> tuple[EmbeddedFile, tuple[Gap, ...]]:
    """Return the requirements of the environment, and all wheels without an address."""
    return _requirements(_ENVIRONMENT, _environment(lock)), missing_files(lock.wheels)


def _environment(lock: SealedLock) -> list[Wheel]:
    return [wheel for wheel in lock.wheels if wheel.role == "environment"]


def missing_files(distributions: Iterable[Wheel | Sdist]) -> tuple[Gap, ...]:
    """Return the distributions whose files have no public address in the lock."""
    return tuple(
        Gap(
            f"{item.name} {item.version}".rstrip(),
            f"the lock has no address of {item.file.filename} beyond the machine that made it; "
            "the build fails unless PIP_INDEX_URL or PIP_EXTRA_INDEX_URL has this file",
        )
        for item in distributions
        if not _is_remote(item.file)
    )


def plan_build_tools(
    lock: SealedLock,
) -> tuple[dict[tuple[str, ...], str], tuple[tuple[str, EmbeddedFile], ...]]:
    """Return the directory of each set of build requirements, and its requirements file.

    A set is a tuple of sha256.
    """
    sets = _build_sets(lock)
    files = [(f"{WORK}/{name}", _requirements(name, wheels)) for name, wheels in sets.values()]
    return {requires: f"{WORK}/{name}" for requires, (name, _) in sets.items()}, tuple(files)


def _build_sets(lock: SealedLock) -> dict[tuple[str, ...], tuple[str, list[Wheel]]]:
    """Return the name and the wheels of each set of build requirements."""
    projects: list[Sdist | Source] = [*lock.sdists, *lock.sources]
    sets = sorted({project.building.requires for project in projects} - {()})
    return {
        requires: (f"build-{number}", [wheel for wheel in lock.wheels if wheel.file.sha256 in requires])
        for number, requires in enumerate(sets, 1)
    }


def plan_downloads(lock: SealedLock) -> tuple[EmbeddedFile, EmbeddedFile]:
    """Return the program that downloads distributions, and its list.

    A directory has the files of one requirements file.
    """
    sets: list[tuple[str, Sequence[Wheel | Sdist]]] = [(_ENVIRONMENT, _environment(lock))]
    sets += _build_sets(lock).values()
    sets += [(_sdist_set(sdist), [sdist]) for sdist in lock.sdists]
    rows = {
        f"{item.file.sha256} {name}/{quote(item.file.filename)} {canonicalize_name(item.name)} "
        f"{quote_address(item.file.url) if _is_remote(item.file) else '-'}"
        for name, items in sets
        for item in items
    }
    program = (template_folder() / "online" / "download.py").read_bytes()
    return embed(f"{WORK}/download.py", program), _text_file("distributions.txt", sorted(rows))


def plan_sdists(lock: SealedLock) -> tuple[EmbeddedFile, ...]:
    """Return a requirements file for each source archive."""
    return tuple(_sdist_requirements(sdist) for sdist in lock.sdists)


def plan_projects(lock: SealedLock, tools: dict[tuple[str, ...], str]) -> tuple[ProjectBuild, ...]:
    """Return the projects to build, those without the environment first."""
    projects = [_plan_sdist(sdist, tools) for sdist in lock.sdists]
    projects += [_plan_source(source, tools) for source in lock.sources if source.installed]
    return tuple(sorted(projects, key=lambda project: (not project.early, project.name)))


def removed_distributions(lock: SealedLock) -> tuple[str, ...]:
    """Return the distributions of a new environment that the lock does not have."""
    locked = {str(canonicalize_name(wheel.name)) for wheel in lock.wheels if wheel.role == "environment"}
    locked |= {str(canonicalize_name(sdist.name)) for sdist in lock.sdists}
    locked |= {source.name for source in lock.sources}
    locked |= {str(name) for package in lock.conda for name in (package.name, *package.distributions)}
    return tuple(name for name in _BUNDLED if name not in locked)


def _is_index_file(file: Artefact) -> bool:
    return _INDEX_FILE.fullmatch(urlsplit(file.url).path) is not None


def _is_remote(file: Artefact) -> bool:
    return file.url.lower().startswith(("http://", "https://"))


def _requirements(name: str, wheels: Sequence[Wheel]) -> EmbeddedFile:
    """Return a requirements file."""
    pins = {
        f"{check_value('project', wheel.name)}=={check_value('version', wheel.version)} {_hash_option(wheel.file)}"
        for wheel in wheels
    }
    return _text_file(
        f"{name}.txt", ["--only-binary :all:", "--find-links " + f"{FILES}/{name}", *sorted(pins)]
    )


def _sdist_requirements(sdist: Sdist) -> EmbeddedFile:
    known = sdist.version and (not _is_remote(sdist.file) or _is_index_file(sdist.file))
    name, place = check_value("project", sdist.name), f"{FILES}/{_sdist_set(sdist)}"
    part = f"#subdirectory={quote_address(sdist.subdirectory)}" if sdist.subdirectory else ""
    origin = (
        f"=={check_value('version', sdist.version)}"
        if known
        else f" @ file://{place}/{quote(sdist.file.filename)}{part}"
    )
    lines = ["--no-binary :all:", "--find-links " + place, f"{name}{origin} {_hash_option(sdist.file)}"]
    return _text_file(f"{_sdist_set(sdist)}.txt", lines)


def _hash_option(file: Artefact) -> str:
    return "--hash=sha256:" + str(check_value("digest", file.sha256))


def _sdist_set(sdist: Sdist) -> str:
    return f"sdist-{canonicalize_name(sdist.name)}"


def _plan_sdist(sdist: Sdist, tools: dict[tuple[str, ...], str]) -> ProjectBuild:
    return _plan_project(sdist.name, f"{WORK}/{_sdist_set(sdist)}.txt", sdist.building, tools, sdist=True)


def _plan_source(source: Source, tools: dict[tuple[str, ...], str]) -> ProjectBuild:
    place = "/".join(part for part in (source.path, source.subdirectory) if part)
    return _plan_project(
        source.name, place, source.building, tools, editable=source.editable, epoch=source.epoch
    )


def _plan_project(
    name: str, target: str, building: Building, tools: dict[tuple[str, ...], str], *, sdist: bool = False,
    editable: bool = False, epoch: int = EPOCH,
) -> ProjectBuild:  # fmt: skip
    return ProjectBuild(
        name=name, target=target, sdist=sdist, editable=editable, early=not building.environment,
        epoch=max(epoch, EPOCH), variables=building.variables, tools=tools.get(building.requires, ""),
    )  # fmt: skip
