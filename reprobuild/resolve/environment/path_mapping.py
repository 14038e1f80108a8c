"""Mapping of captured paths to paths in the image."""

from __future__ import annotations

import itertools
import posixpath
import re
from collections.abc import Collection, Iterable

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import is_named
from reprobuild.lock.system import PREFIX, STANDALONE
from reprobuild.snapshot.capture_model import CapturedRepository, CaptureFacts
from reprobuild.snapshot.model import Requirement, Variable
from reprobuild.snapshot.parsers.capture_json import unquote_path

# Variables for the environment's directory if no capture.json has it; the first one that is set.
_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX")
_SITE = re.compile(r"/lib(64)?/python3\.\d+/site-packages(/|\Z)")


class MappedRepository(Struct, frozen=True, kw_only=True):
    """A captured repository that becomes the source `name`.

    It is for a line of the freeze, or is the job's own directory.
    """

    repository: CapturedRepository
    line: Requirement | None
    name: str

    @property
    def path(self) -> str:
        """Its path in the image."""
        return source_path(self.name)


class PathMap(Struct, frozen=True, kw_only=True):
    """Captured directories with their image directories, the longest first.

    `environment` is the directory of the captured environment, of which only the distributions are in the image.
    `interpreter` is the prefix of the captured Python if the image has it; its `lib` has its own libraries.
    """

    moved: tuple[tuple[str, str], ...] = ()
    environment: str = ""
    interpreter: str = ""

    def move(self, path: str) -> str | None:
        """Return the image's path for a captured one, or None."""
        clean = posixpath.normpath(path)
        for old, new in self.moved:
            if clean == old or clean.startswith(old + "/"):
                return new + clean[len(old) :]
        rest = clean[len(self.environment) :]
        if self.environment and clean.startswith(self.environment + "/") and _SITE.match(rest):
            return PREFIX + rest
        return f"{STANDALONE}/lib" if self.interpreter and clean == f"{self.interpreter}/lib" else None


def source_path(name: str) -> str:
    """Return the image's path for a source of a canonical name."""
    return f"/src/{name}"


def place_repositories(
    captured: CaptureFacts | None, lines: Iterable[Requirement], drop: Collection[str]
) -> tuple[MappedRepository, ...]:
    """Return the captured repositories that become sources.

    They are one for each editable line, then the job's own directory.
    """
    if captured is None:
        return ()
    sources: list[MappedRepository] = []
    names: set[str] = set()
    for line in lines:
        if line.kind in ("editable", "vcs") and not is_named(line.name, drop):
            name = str(canonicalize_name(line.name))
            names.add(name)
            repository = captured.find_installed_repository(name) if line.kind == "editable" else None
            if repository is not None:
                sources.append(MappedRepository(repository=repository, line=line, name=name))
    for repository in captured.repositories:
        if repository.parent is None and not repository.distributions and not is_named(repository.name, drop):
            name = _free_name(str(canonicalize_name(repository.name)), names)
            names.add(name)
            sources.append(MappedRepository(repository=repository, line=None, name=name))
    return tuple(sources)


def _free_name(name: str, taken: Collection[str]) -> str:
    """Return a name, altered if another source has it."""
    others = (f"{name}-job{number or ''}" for number in itertools.count())
    return next(
        candidate for candidate in (name, *itertools.islice(others, len(taken) + 1)) if candidate not in taken
    )


def make_path_map(
    captured: CaptureFacts | None, placed: Iterable[MappedRepository], variables: Iterable[Variable] = (), *,
    captured_python: bool = True,
) -> PathMap:  # fmt: skip
    """Return the known path mapping of an environment.

    `captured_python` is set if the captured Python itself will be used.
    """
    folders = [(unquote_directory(source.repository.folder), source.path) for source in placed]
    paths = {posixpath.normpath(folder): path for folder, path in reversed(folders) if _is_own(folder)}
    values = {variable.name: variable.value or "" for variable in variables}
    known = (
        [unquote_directory(captured.python.prefix)]
        if captured and captured.python
        else [values.get(n, "") for n in _PREFIXES]
    )
    prefix = next((posixpath.normpath(folder) for folder in known if _is_own(folder)), "")
    moved = tuple(sorted(paths.items(), key=lambda pair: -len(pair[0])))
    packed = captured.interpreter.prefix if captured_python and captured and captured.interpreter else ""
    return PathMap(moved=moved, environment=prefix, interpreter=packed)


def unquote_directory(folder: str) -> str:
    """Return a captured directory as variables write it.

    capture.json has unusual ones in git's quotes.
    """
    return unquote_path(folder).decode("utf-8", "surrogateescape")


def _is_own(folder: str) -> bool:
    """Return whether a directory belongs to the environment alone.

    The prefix of a system's Python does not.
    """
    return folder.startswith("/") and folder.rstrip("/") not in ("", "/usr", "/usr/local")
