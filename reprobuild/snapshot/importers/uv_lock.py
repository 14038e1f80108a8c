"""Importer of `uv.lock`: uv itself writes it as requirements with markers and hashes.

Format: https://docs.astral.sh/uv/concepts/resolution/#lockfile
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import tomli_w

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.proc.own_python import own_limited_module
from reprobuild.infra.proc.run import run
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.local_sources import add_directory, add_file
from reprobuild.snapshot.importers.project_requirements import add_project_python
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild.snapshot.importers.toml_documents import load_toml, string, table, tables

NAME = "uv.lock"
_LOCAL = ("editable", "virtual", "directory")
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*/?|\.")
_WRITTEN = {NAME, "pyproject.toml"}  # files: no directory of a project has their name
_LONGEST_PLACE = 1000  # characters of the directory of a project
_MOST_PROJECTS = 1000
# uv needs memory and time beyond any bound for some markers of a thousand characters; 22 MB for most locks.
_MOST_MEMORY, _MOST_SECONDS = 512 << 20, 30
_ASIDE = re.compile(r"#.*|\s+#.*|\s*")
_EXPORT = (
    "export", "--frozen", "--offline", "--no-config", "--no-cache", "--no-header", "--no-annotate", "--all-packages",
    "--no-emit-workspace", "--no-emit-local", "--no-python-downloads", "--format", "requirements-txt",
)  # fmt: skip
_TABLE = {
    "version": "the format", "revision": "the format", "package": "used",
    "requires-python": "a range of Python; `--python` gives the one that ran",
    "resolution-markers": "uv computes the markers of each line from it", "manifest": "uv reads it",
    "options": "options of the resolution, which the lock already holds", "supported-markers": "uv reads it",
    "required-markers": "uv reads it", "conflicts": "uv reads it",
}  # fmt: skip


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a `uv.lock`, or has one at its top."""
    return _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import a `uv.lock`.

    Raises:
        SnapshotError: it is damaged, or of a format that uv does not read.
    """
    file = _file(source)
    assert file is not None
    data = source.read(file)
    document = load_toml(data, file)
    draft = Draft("uv.lock", file)
    is_added = False  # the package above: its hashes must not become those of another
    for row in _export(data, document, file).splitlines():
        if row.startswith((" ", "\t")):
            if is_added:
                draft.extend(REQUIREMENTS, row)
        elif not _ASIDE.fullmatch(row):
            name = row.partition("==")[0].split(" ")[0]
            is_added = draft.add(REQUIREMENTS, row, f"package {name}")
    for package in tables(document, "package"):
        _add_local(draft, source, package)
    draft.limit_python(string(document, "requires-python"))
    add_project_python(draft, source)
    draft.leave_rest(document, ("package",), _TABLE)
    return draft


def _file(source: ImportSource) -> str | None:
    if source.has(NAME):
        return NAME
    return next((name for name in source.names if "/" not in name and name.endswith(f"-{NAME}")), None)


def _add_local(draft: Draft, source: ImportSource, package: dict[str, object]) -> None:
    """Add a package of the project itself, or name it if it is only a list of requirements."""
    origin = table(package, "source")
    kind = next((kind for kind in (*_LOCAL, "path") if kind in origin), "")
    name = string(package, "name")
    if kind == "virtual":
        draft.leave(f"package {name}", "a project without a package: uv does not install it")
    elif kind == "path":
        files = [*tables(package, "wheels"), table(package, "sdist")]
        hashes = [string(file, "hash") for file in files if string(file, "hash")]
        add_file(draft, source, name, string(origin, kind), f"package {name}", hashes=hashes)
    elif kind:
        add_directory(
            draft, source, name, string(package, "version") or "0", string(origin, kind), f"package {name}",
            editable=kind == "editable",
        )  # fmt: skip


def _export(data: bytes, document: dict[str, object], file: str) -> str:
    """Return the lock as requirements, by uv.

    uv reads a project beside its lock. Here stand projects with the names of the lock and nothing else.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-uv-") as name:
        top = Path(name)
        write_below(top, NAME, data)
        places = {}
        for package in tables(document, "package"):
            origin = table(package, "source")
            place = next((string(origin, kind) for kind in _LOCAL if string(origin, kind)), "")
            is_plain = 0 < len(place) <= _LONGEST_PLACE and _PLAIN.fullmatch(place) and ".." not in place
            if is_plain and _WRITTEN.isdisjoint(place.split("/")):
                places[place.rstrip("/")] = string(package, "name")
        if len(places) > _MOST_PROJECTS:
            raise SnapshotError(
                f"{display_text(file)} has more than {_MOST_PROJECTS} projects in directories",
                hint="import the lock of a smaller workspace, or a requirements.txt that `uv export` writes",
            )
        requires = string(document, "requires-python")
        members = [place for place in places if place != "."]
        for place, project in places.items():
            content: dict[str, object] = {
                "project": {"name": project, "version": "0", "requires-python": requires}
            }
            if place == ".":
                content["tool"] = {"uv": {"workspace": {"members": members}}}
            write_below(
                top,
                "pyproject.toml" if place == "." else f"{place}/pyproject.toml",
                tomli_w.dumps(content).encode(),
            )
        if "." not in places:
            workspace = {"tool": {"uv": {"workspace": {"members": members}}}}
            write_below(top, "pyproject.toml", tomli_w.dumps(workspace).encode())
        try:
            output = run(
                own_limited_module("uv", *_EXPORT, memory=_MOST_MEMORY, seconds=_MOST_SECONDS),
                env={"HOME": name, "UV_NO_PROGRESS": "1"}, cwd=top, timeout=60,
                purpose="read a uv.lock", command=("uv", "export"),
            )  # fmt: skip
        except ProcessFailedError as err:
            raise SnapshotError(
                f"{display_text(file)}: uv cannot read it: {display_text(str(err))}",
                hint="in the project, `uv lock` writes it again",
            ) from None
    return output.decode(errors="replace")
