"""Where what lay on the captured machine stands in the image."""

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
from reprobuild.snapshot.parsers.capture_json import unquoted

# The environment's folder, where no capture.json says it; the first that is there.
_PREFIXES = ("VIRTUAL_ENV", "CONDA_PREFIX")
_SITE = re.compile(r"/lib(64)?/python3\.\d+/site-packages(/|\Z)")


class MappedRepository(Struct, frozen=True, kw_only=True):
    """A captured repository that becomes the source `name`: for a line of the freeze, or as the job's own folder."""

    repository: CapturedRepository
    line: Requirement | None
    name: str

    @property
    def path(self) -> str:
        """Where it stands in the image."""
        return source_path(self.name)


class PathMap(Struct, frozen=True, kw_only=True):
    """Folders of the captured machine with their folders in the image, the longest first.

    `environment` is the folder of the captured environment, of which only the distributions are in the image.
    `interpreter` is the prefix of the captured Python where the image has it, of which `lib` has its own libraries.
    """

    moved: tuple[tuple[str, str], ...] = ()
    environment: str = ""
    interpreter: str = ""

    def move(self, path: str) -> str | None:
        """Return the path in the image of a captured one, or None where it is below no known folder."""
        clean = posixpath.normpath(path)
        for old, new in self.moved:
            if clean == old or clean.startswith(old + "/"):
                return new + clean[len(old) :]
        rest = clean[len(self.environment) :]
        if self.environment and clean.startswith(self.environment + "/") and _SITE.match(rest):
            return PREFIX + rest
        return f"{STANDALONE}/lib" if self.interpreter and clean == f"{self.interpreter}/lib" else None


def source_path(name: str) -> str:
    """Return where the source of a canonical name stands in the image."""
    return f"/src/{name}"


def place_repositories(
    captured: CaptureFacts | None, lines: Iterable[Requirement], drop: Collection[str]
) -> tuple[MappedRepository, ...]:
    """Return the captured repositories that become sources: one for each editable line, then the job's own folder."""
    if captured is None:
        return ()
    found: list[MappedRepository] = []
    names: set[str] = set()
    for line in lines:
        if line.kind in ("editable", "vcs") and not is_named(line.name, drop):
            name = str(canonicalize_name(line.name))
            names.add(name)
            one = captured.installs(name) if line.kind == "editable" else None
            if one is not None:
                found.append(MappedRepository(repository=one, line=line, name=name))
    for one in captured.repositories:
        if one.parent is None and not one.distributions and not is_named(one.name, drop):
            name = _free(str(canonicalize_name(one.name)), names)
            names.add(name)
            found.append(MappedRepository(repository=one, line=None, name=name))
    return tuple(found)


def _free(name: str, taken: Collection[str]) -> str:
    """Return the name, or one like it that no other source has."""
    others = (f"{name}-job{number or ''}" for number in itertools.count())
    return next(one for one in (name, *itertools.islice(others, len(taken) + 1)) if one not in taken)


def find_places(
    captured: CaptureFacts | None, placed: Iterable[MappedRepository], variables: Iterable[Variable] = (), *,
    own: bool = True,
) -> PathMap:  # fmt: skip
    """Return what is known of the places of an environment; `own` where the captured Python itself will be used."""
    folders = [(text_of(one.repository.folder), one.path) for one in placed]
    found = {posixpath.normpath(folder): path for folder, path in reversed(folders) if _is_own(folder)}
    values = {variable.name: variable.value or "" for variable in variables}
    known = (
        [text_of(captured.python.prefix)]
        if captured and captured.python
        else [values.get(n, "") for n in _PREFIXES]
    )
    prefix = next((posixpath.normpath(folder) for folder in known if _is_own(folder)), "")
    moved = tuple(sorted(found.items(), key=lambda pair: -len(pair[0])))
    packed = captured.interpreter.prefix if own and captured and captured.interpreter else ""
    return PathMap(moved=moved, environment=prefix, interpreter=packed)


def text_of(folder: str) -> str:
    """Return a captured folder as variables write it; capture.json has odd ones in git's quotes."""
    return unquoted(folder).decode("utf-8", "surrogateescape")


def _is_own(folder: str) -> bool:
    """Tell whether a folder belongs to the environment alone; the prefix of a system's Python does not."""
    return folder.startswith("/") and folder.rstrip("/") not in ("", "/usr", "/usr/local")
