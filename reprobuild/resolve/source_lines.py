"""The source trees of a snapshot: its editable and version-control lines, and the job's own code."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from reprobuild.config.overrides import Decisions, is_named
from reprobuild.errors import LockError, SnapshotError
from reprobuild.infra.git.addresses import HEAD, RepositoryAddress, local_origin_lines, read_origin
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.sources.trees import SourceInputs, resolve_sources
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.model import Requirement, Snapshot


class TriedSources(Struct, frozen=True, kw_only=True):
    """The sources of a snapshot with their resolutions; or the one error of all refused ones."""

    sources: tuple[Source, ...] = ()
    rulings: tuple[Resolution, ...] = ()
    refused: tuple[LockError | SnapshotError, ...] = ()


def name_repositories(snapshot: Snapshot, decisions: Decisions, context: ResolveContext) -> Snapshot:
    """Return the snapshot whose installs from a directory are of the repositories that `--source` names.

    Such a line has no repository of its own, so the user's word gives it one; the install was not editable.
    """
    origins = _read_origins(decisions, context)
    lines = tuple(
        _of_repository(line, origins[canonicalize_name(line.name)])
        if line.kind == "directory" and canonicalize_name(line.name) in origins
        else line
        for line in snapshot.requirements
    )
    return snapshot if lines == snapshot.requirements else replace(snapshot, requirements=lines)


def _of_repository(line: Requirement, origin: RepositoryAddress) -> Requirement:
    """Return the line of a directory as one of a repository, with the project's directory inside of it if known."""
    inside = ""
    if line.path and origin.local is not None:
        top = posixpath.abspath(origin.local)
        if line.path == without_home(line.path):  # an import leaves out the name of a person
            top = without_home(top)
        inside = posixpath.relpath(posixpath.abspath(line.path), top)
    below = inside not in ("", ".") and not inside.startswith("..")
    return replace(line, kind="vcs", subdirectory=line.subdirectory or (inside if below else None))


def _read_origins(decisions: Decisions, context: ResolveContext) -> Mapping[str, RepositoryAddress]:
    return {
        canonicalize_name(name): read_origin(place, context.folder, confirmed=name not in context.doubted)
        for name, place in decisions.sources.items()
    }


def try_sources(snapshot: Snapshot, decisions: Decisions, context: ResolveContext) -> TriedSources:
    """Make the source trees of a snapshot; an error is returned, so that one run names all failures."""
    try:
        sources, rulings = lock_sources(snapshot, decisions, context)
    except (LockError, SnapshotError) as err:
        return TriedSources(refused=(err,))
    return TriedSources(sources=sources, rulings=rulings)


def lock_sources(
    snapshot: Snapshot, decisions: Decisions, context: ResolveContext
) -> tuple[tuple[Source, ...], tuple[Resolution, ...]]:
    """Make the source trees of a snapshot, and store them."""
    lines = tuple(
        line for line in snapshot.requirements
        if line.kind in ("editable", "vcs") and not is_named(line.name, decisions.drop)
    )  # fmt: skip
    if lines:
        context.say("sources: " + ", ".join(line.name for line in lines))
    origins = _read_origins(decisions, context)
    for place in local_origin_lines(origins):
        context.say(f"sources: {place}")
    inputs = SourceInputs(
        patches=snapshot.patches, origins=origins, store=context.store, env=context.env, captured=snapshot.captured,
        folder=context.captured, drop=decisions.drop, accept=decisions.accept,
    )  # fmt: skip
    sources, rulings = resolve_sources(lines, inputs)
    known = {canonicalize_name(line.name) for line in lines if line.commit}
    for source in sources:
        origin = origins.get(canonicalize_name(source.name))
        if (
            origin
            and origin.local is not None
            and origin.revision in (None, HEAD)
            and source.name not in known
        ):
            context.say(
                f"sources: {source.name} is HEAD of the named repository, {source.commit[:12]}: "
                "uncommitted changes stay out"
            )
    return sources, rulings
