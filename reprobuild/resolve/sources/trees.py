"""Verified source trees: a commit plus captured changes.

The ids of git are the proof: the blobs before a patch must be those of the commit, and the blobs after it must be those
that the patch names.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.ecosystems.git.restore.remote_bounds import RemoteAllowance
from reprobuild.ecosystems.git.tree_listing import Blob
from reprobuild.errors import LockError, SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.addresses import HEAD, RepositoryAddress
from reprobuild.infra.git.command import is_local
from reprobuild.infra.tar.entries import TarEntry, list_parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.lock.system import EPOCH, Artefact
from reprobuild.resolve.environment.path_mapping import (
    MappedRepository,
    place_repositories,
    source_path,
    unquote_directory,
)
from reprobuild.resolve.python.unreachable import check_availability
from reprobuild.resolve.sources import missing
from reprobuild.resolve.sources.captured_checks import check_repository
from reprobuild.resolve.sources.captured_sources import Tree, captured_tree, rule_losses
from reprobuild.resolve.sources.fetch_commit import NotFetchedError, fetch_commit
from reprobuild.resolve.sources.large_trees import find_secret, find_secret_paths, list_tree_blobs, read_epoch
from reprobuild.resolve.sources.patch_sizes import check_patch
from reprobuild.resolve.sources.patching import apply_patch, patch_of
from reprobuild.resolve.sources.resolutions import (
    pin_line,
    pin_subject,
    rule_diff_without_commit,
    rule_line_without_commit,
    rule_secret_files,
    rule_stray_diff,
)
from reprobuild.snapshot.capture_model import CapturedRepository as CapturedRepository
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.model import Patch, Requirement, SourceLocation
from reprobuild.snapshot.parsers.capture_json import FILE
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file

_Subject = TypeVar("_Subject")


class SourceInputs(Struct, frozen=True, kw_only=True):
    """The inputs of sources, beside the lines of the freeze.

    `origins` are the user's overrides of repository addresses, by canonical name; `captured` is the document of
    `reprobuild capture`, with its bundles in `folder`, if that took the snapshot; `env` is the user's environment, for
    git's credentials; `store` receives a tar of each tree; `accept` names accepted files that look like secrets.
    `requests` bounds those to remotes that a capture names.
    """

    patches: tuple[Patch, ...]
    origins: Mapping[str, RepositoryAddress]
    store: Store
    env: Mapping[str, str]
    captured: CaptureFacts | None = None
    folder: Path = Path()
    drop: Collection[str] = ()
    accept: Collection[str] = ()
    requests: RemoteAllowance = field(default_factory=RemoteAllowance)


class _Made(Struct, frozen=True):
    """One source, its resolutions, and the snapshot files used for it."""

    source: Source | None
    rulings: tuple[Resolution, ...]
    used: frozenset[str] = frozenset()
    failure: LockError | SnapshotError | None = None


def resolve_sources(
    requirements: tuple[Requirement, ...], inputs: SourceInputs
) -> tuple[tuple[Source, ...], tuple[Resolution, ...]]:
    """Lock editable and version-control lines as source trees.

    The job's own code is locked, too.

    The job's own code is its captured directory, and each diff that fits no line and has a repository named by the
    user.

    Args:
        requirements: lines of kind `editable` and `vcs`.

    Returns:
        The sources, and a resolution for each line, each diff, and each lost file. An unavailable repository or commit
        also has a resolution.

    Raises:
        LockError: a patch does not fit its commit, or a repository is too large. One error has those of all sources.
        SnapshotError: a source holds text that looks like a secret, or the capture is damaged.
    """
    placed = place_repositories(inputs.captured, requirements, inputs.drop)
    taken = {repository.line: repository for repository in placed}
    results = [
        _try(_make_captured_source, taken[line], inputs)
        if line in taken
        else _try(_make_line_source, line, inputs)
        for line in requirements
    ]
    results += [
        _try(_make_captured_source, repository, inputs) for repository in placed if repository.line is None
    ]
    used = frozenset[str]().union(*(result.used for result in results))
    names = {result.source.name for result in results if result.source} | {
        canonicalize_name(line.name) for line in requirements
    }
    for patch in inputs.patches:
        name = canonicalize_name(patch.name)
        if patch.file not in used and name in inputs.origins and name not in names:
            results.append(_try(_make_diff_source, patch, inputs))
            used |= {patch.file}
            names.add(name)
    rulings = [ruling for result in results for ruling in result.rulings]
    check_availability([result.failure for result in results if result.failure], rulings, inputs.accept)
    rulings += [rule_stray_diff(patch) for patch in inputs.patches if patch.file not in used]
    return tuple(result.source for result in results if result.source), tuple(rulings)


def _try(make: Callable[[_Subject, SourceInputs], _Made], subject: _Subject, inputs: SourceInputs) -> _Made:
    """Make one source; its error waits until the others are made."""
    try:
        return make(subject, inputs)
    except (LockError, SnapshotError) as err:
        return _Made(None, (), failure=err)


def _make_line_source(line: Requirement, inputs: SourceInputs) -> _Made:
    try:
        return _fetch_line_source(line, inputs)
    except NotFetchedError as err:
        return _missing_source(missing.rule_line(line, err, inputs.patches))


def _missing_source(rulings: tuple[Resolution, ...]) -> _Made:
    """Return the resolutions of an unavailable source."""
    return _Made(None, rulings, frozenset(ruling.file for ruling in rulings))


def _fetch_line_source(line: Requirement, inputs: SourceInputs) -> _Made:
    name = canonicalize_name(line.name)
    origin = inputs.origins.get(name)
    commit = line.commit or (origin.chosen_revision if origin else None)
    unnamed = origin is None and (line.url is None or is_local(line.url.removeprefix("git+")))
    if commit is None or unnamed:
        return _Made(None, (rule_line_without_commit(line, origin),))
    with inputs.store.scratch() as folder:
        repository = GitRepository(folder, inputs.env)
        full = fetch_commit(repository, line, origin, commit)
        blobs = list_tree_blobs(repository, full, name)
        patch = patch_of(line, inputs.patches, repository, full)
        tree, packed = _patch_tree(repository, full, patch, blobs, name)
        blank = _blank_source(line, name)
        source = replace(blank, commit=full, tree=tree, patch=_hash_of(patch), url=line.url or "")
        source, secret_rulings = _store_source(repository, source, inputs, folder, packed=packed)
    at = ", HEAD of the named repository" * (commit == HEAD)
    rulings = [pin_line(line, f"commit {full[:12]}{at}, tree {tree[:12]}"), *secret_rulings]
    if patch is None:
        return _Made(source, tuple(rulings))
    rulings.append(pin_subject(patch.file, 0, patch.name, f"applied to {line.name}; every blob id fits"))
    return _Made(source, tuple(rulings), frozenset({patch.file}))


def _patch_tree(
    repository: GitRepository, commit: str, patch: Patch | None, blobs: Sequence[Blob], name: str
) -> tuple[str, int]:
    """Return the tree id of a commit with a diff, and its packed size.

    The size is that of both in bytes, before git unpacked the diff.
    """
    packed = repository.packed()
    if patch:
        check_patch(patch, blobs, packed, name)
        packed += len(patch.content)
    return apply_patch(repository, commit, patch), packed


def _make_diff_source(patch: Patch, inputs: SourceInputs) -> _Made:
    """Make the source of a diff with a repository named by the user.

    No line of the freeze names the repository.
    """
    name = canonicalize_name(patch.name)
    origin = inputs.origins[name]
    line = Requirement(place=SourceLocation(patch.file, 0), text="", kind="vcs", name=name)
    with inputs.store.scratch() as folder:
        repository = GitRepository(folder, inputs.env)
        if origin.revision is None:
            return _Made(
                None, (rule_diff_without_commit(patch, origin, repository),), frozenset({patch.file})
            )
        try:
            full = fetch_commit(repository, line, origin, origin.revision)
        except NotFetchedError as err:
            return _missing_source(missing.rule_diff(patch, err))
        tree, packed = _patch_tree(repository, full, patch, list_tree_blobs(repository, full, name), name)
        blank = replace(
            _blank_source(None, name), commit=full, tree=tree, patch=_hash_of(patch), url=origin.address
        )
        source, secret_rulings = _store_source(repository, blank, inputs, folder, packed=packed)
    reason = f"applied to commit {full[:12]} of {name}, tree {tree[:12]}; every blob id fits"
    return _Made(
        source, (pin_subject(patch.file, 0, patch.name, reason), *secret_rulings), frozenset({patch.file})
    )


def _make_captured_source(placed: MappedRepository, inputs: SourceInputs) -> _Made:
    """Make the source of a captured repository.

    It is for a line of the freeze, or is the job's own directory.
    """
    assert inputs.captured is not None
    repository, name, line = placed.repository, placed.name, placed.line
    patch = next((patch for patch in inputs.patches if patch.file == repository.diff.file), None)
    check_repository(placed, inputs.patches, inputs.captured, inputs.folder)
    known = {repository.diff.start, repository.base, repository.head}
    with inputs.store.scratch() as folder:
        git = GitRepository(folder, inputs.env)
        try:
            tree = captured_tree(
                repository, inputs.captured, inputs.folder, inputs.origins, git, name, inputs.requests
            )
        except NotFetchedError as err:
            return _missing_source(missing.rule_captured(placed, err, inputs.patches))
        changes = repository.bundle.sha256 if repository.bundle and tree.changed else None
        commit = _full_commit(line.commit if line else None, known) or tree.commit
        blank = replace(_blank_source(line, name), subdirectory=_subdirectory(line, repository))
        source = replace(blank, commit=commit, tree=tree.tree, patch=changes, url=_source_address(line, tree))
        source, secret_rulings = _store_source(git, source, inputs, folder, dated=tree.commit)
    place = repository.bundle.file if repository.bundle else repository.folder
    how = f"the files of {escape_text(repository.folder)}, tree {tree.tree[:12]}"
    rulings = [pin_line(line, how) if line else pin_subject(FILE, 0, name, how)]
    if patch:
        rulings.append(
            pin_subject(
                patch.file, 0, patch.name, f"its changes are in {place}, whose tree was computed again"
            )
        )
    used = frozenset({patch.file}) if patch else frozenset[str]()
    return _Made(source, (*rulings, *secret_rulings, *rule_losses(repository, inputs.captured)), used)


def _full_commit(commit: str | None, known: Collection[str | None]) -> str | None:
    """Return the full id of a commit that a line may abbreviate."""
    return next((oid for oid in sorted(filter(None, known)) if commit and oid.startswith(commit)), None)


def _subdirectory(line: Requirement | None, repository: CapturedRepository) -> str:
    """Return the project's directory inside its repository.

    A line with a path alone does not name it.
    """
    if line is None or line.subdirectory or not line.path:
        return (line.subdirectory if line else None) or ""
    inside = posixpath.relpath(line.path.removeprefix("file://"), unquote_directory(repository.folder))
    return "" if inside == "." or inside.startswith("../") or inside == ".." else inside


def _source_address(line: Requirement | None, tree: Tree) -> str:
    """Return the address of a source.

    A line without an address keeps none, so that the image's own line is equal.
    """
    return (line.url or "") if line else tree.address


def _blank_source(line: Requirement | None, name: str) -> Source:
    """Return a source with its path, still without its content."""
    return Source(
        name=name, url="", commit="", tree="", patch=None, path=source_path(name),
        editable=line is not None and line.kind == "editable", installed=line is not None, epoch=EPOCH,
        file=Artefact(filename="", sha256="", size=0), subdirectory=(line.subdirectory if line else None) or "",
    )  # fmt: skip


def _store_source(
    repository: GitRepository, source: Source, inputs: SourceInputs, folder: Path, *, dated: str = "",
    packed: int | None = None,
) -> tuple[Source, tuple[Resolution, ...]]:  # fmt: skip
    """Store the tar of a source's tree.

    Args:
        repository: has the tree.
        source: complete except for its content.
        inputs: the inputs and overrides.
        folder: for temporary files.
        dated: the commit with the date, else the source's.
        packed: bytes of the repository and the diff, before git unpacked that.

    Returns:
        The source, and a resolution for each accepted file that looks like a secret.
    """
    blobs = list_tree_blobs(repository, source.tree, source.name, packed)
    submodules = [blob.path for blob in blobs if blob.mode == "160000"]
    if submodules:
        raise LockError(
            f"{source.name} has a submodule at {escape_text(submodules[0])}, which a commit alone does not hold",
            hint="install the submodule's project as an editable of its own, or add its files to the repository",
        )
    path = folder / "tree.tar"
    doubtful = find_secret_paths(blobs)
    with path.open("wb") as stream:
        writer = TarWriter(stream, EPOCH)
        for directory in list_parents(blob.path for blob in blobs):
            writer.directory(directory)
        for blob, content in repository.contents(blobs):
            if why := find_secret(blob, content):
                doubtful[blob.path] = why
            content.seek(0)
            if blob.mode == "120000":
                writer.symlink(blob.path, content.read(blob.size).decode("utf-8", "surrogateescape"))
            else:
                mode = 0o755 if blob.mode == "100755" else 0o644
                writer.add(TarEntry(path=blob.path, type="file", mode=mode, size=blob.size), content)
        writer.close()
    secret_rulings = rule_secret_files(source.name, doubtful, inputs.accept)
    size, sha256 = path.stat().st_size, hash_file(path)
    inputs.store.adopt(path, sha256)
    file = Artefact(filename=f"{source.name}-{source.tree[:12]}.tar", sha256=sha256, size=size)
    epoch = read_epoch(repository, dated or source.commit, source.name)
    return replace(source, file=file, epoch=epoch), secret_rulings


def _hash_of(patch: Patch | None) -> str | None:
    return hashlib.sha256(patch.content).hexdigest() if patch else None
