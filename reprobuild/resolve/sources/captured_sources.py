"""Source trees from repositories in a capture.

The files are those on the captured disk.

Their ids are in capture.json, and git computes them again from the bundle and the remote.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.repository import GitRepository as Git
from reprobuild.ecosystems.git.restore.bundle import damage_error, read_pack
from reprobuild.ecosystems.git.restore.paths import check_path, check_paths
from reprobuild.ecosystems.git.restore.remote_bounds import MOST_FETCHES, RemoteAllowance, describe_unasked
from reprobuild.ecosystems.git.tree_listing import Blob, Room
from reprobuild.errors import ReproError
from reprobuild.infra import proc
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.addresses import RepositoryAddress, without_login
from reprobuild.infra.git.command import is_local
from reprobuild.lock.model import Resolution
from reprobuild.resolve.environment.path_mapping import unquote_directory
from reprobuild.resolve.sources.fetch_commit import NotFetchedError
from reprobuild.snapshot.capture_model import CapturedRepository, CaptureFacts
from reprobuild.snapshot.parsers.capture_json import FILE, unquote_path
from reprobuild_portable import secrets


class Tree(Struct, frozen=True, kw_only=True):
    """The files of a captured repository, with its submodules.

    `commit` is the one that was checked out, `tree` the git tree id of the files, `changed` whether they differ from
    the commit's, and `address` that of the remote, empty without one.
    """

    commit: str
    tree: str
    changed: bool
    address: str


def captured_tree(
    repository: CapturedRepository,
    captured: CaptureFacts,
    folder: Path,
    origins: Mapping[str, RepositoryAddress],
    git: Git,
    name: str = "",
    requests: RemoteAllowance | None = None,
) -> Tree:
    """Return a captured repository's tree, with its objects in `git`.

    Args:
        folder: the snapshot, with its bundles.
        origins: the user's overrides of repository addresses, by canonical name; else they are fetched from their
            remotes, and never from this machine.
        name: the repository's other name among them, that of its source.
        git: an empty scratch repository.
        requests: the allowance of all sources of a lock; None for one of its own.

    Raises:
        SnapshotError: the capture is damaged or incomplete.
        NotFetchedError: a commit that only a remote had is unavailable.
    """
    parts = _repository_parts(repository, captured)
    works, requests = [], requests or RemoteAllowance()
    for part in parts:
        origin = origins.get(canonicalize_name(part.one.name))
        works.append(
            _fetch_objects(
                part.one,
                folder,
                origin or (origins.get(name) if part.one is repository else None),
                git,
                requests,
            )
        )
    commit = repository.head or works[0]
    *trees, before = _read_trees(repository, [*works, commit], git)
    for part, tree in zip(parts, trees, strict=True):
        if tree != part.one.worktree:
            raise damage_error(part.one, f"its files are another tree than {FILE} says")
    return Tree(
        commit=commit,
        tree=_join_trees(parts, git),
        changed=repository.head is None or before != trees[0],
        address=next((secrets.strip_credentials(remote.url)[0] for remote in repository.remotes), ""),
    )


class _Part(Struct, frozen=True):
    """A captured repository, and its directory in the source tree.

    The directory ends with `/`; the outermost repository has none.
    """

    one: CapturedRepository
    above: str = ""


def _repository_parts(repository: CapturedRepository, captured: CaptureFacts) -> list[_Part]:
    """Return a repository and all nested ones, outer before inner."""
    parts = [_Part(repository)]
    for part in parts:
        for child in captured.inside(part.one.name):
            check_path(unquote_path(child.path), part.one.name)
            path = part.above + unquote_path(child.path).decode("utf-8", "surrogateescape")
            check_path(_path_bytes(path), part.one.name)
            parts.append(_Part(child, f"{path}/"))
    return parts


def _path_bytes(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")


def _fetch_objects(
    repository: CapturedRepository, folder: Path, origin: RepositoryAddress | None, git: Git,
    requests: RemoteAllowance,
) -> str:  # fmt: skip
    """Fetch a repository's objects; return the commit of its files."""
    pack = read_pack(repository, folder)
    needed = repository.prerequisites if pack else tuple(oid for oid in (repository.head,) if oid)
    _fetch_commits(repository, needed, origin, git, requests)
    git.mark_shallow(git.lacking(repository.shallow))
    work = repository.head
    if pack and repository.bundle:
        try:
            git.unpack(pack)
        except proc.ProcessFailedError:
            raise damage_error(repository, "its bundle is damaged or lacks objects") from None
        work = repository.bundle.refs.get("worktree")
    if work is None:
        raise damage_error(repository, "it has neither a commit nor a bundle with its files")
    return work


def _read_trees(repository: CapturedRepository, commits: Sequence[str], git: Git) -> list[str]:
    try:
        return git.trees_of(commits)
    except proc.ProcessFailedError:
        reason = "its bundle, or that of a repository inside of it, is damaged or lacks objects"
        raise damage_error(repository, reason) from None


def _join_trees(parts: Sequence[_Part], git: Git) -> str:
    """Return the joint tree of nested repositories.

    It is written once: inserting one tree into the next would read the innermost files once for each level.
    """
    room, lists = Room(), []
    for part in parts:
        lists.append(git.blobs(part.one.worktree, room, part.above))
    for part, blobs in zip(parts, lists, strict=True):
        check_paths([_path_bytes(blob.path) for blob in blobs], set(), part.one.name)
    mounts = {part.above[:-1] for part in parts[1:]}
    files = [
        blob
        for part, blobs in zip(parts, lists, strict=True)
        for blob in blobs
        if _is_source_file(blob, part.above) and blob.path not in mounts
    ]
    if len(parts) == 1 and len(files) == len(lists[0]):
        return parts[0].one.worktree
    check_paths([_path_bytes(blob.path) for blob in files], set(), parts[0].one.name)
    return git.write_tree(files)


def _is_source_file(blob: Blob, above: str) -> bool:
    """Return whether a repository's path is a file of the source.

    A submodule that was not checked out was an empty directory, which git trees cannot hold; bytecode is Python's own
    cache, which the image's Python writes again, and which does not count when the tree is computed there.
    """
    return blob.mode != "160000" and "__pycache__" not in blob.path[len(above) :].split("/")


def _fetch_commits(
    repository: CapturedRepository, needed: tuple[str, ...], origin: RepositoryAddress | None, git: Git,
    requests: RemoteAllowance,
) -> None:  # fmt: skip
    """Fetch commits outside the bundle from the first complete place."""
    failures = []
    places = list(_remote_addresses(repository, origin))
    for number, place in enumerate(places):
        if requests.is_over and origin is None:
            failures.append(f"  {describe_unasked(len(places) - number)}")
            break
        try:
            if place.local is not None:
                git.fetch_local(place.local)
            else:
                _fetch_remote(place.place, needed, origin, git, requests)
        except ReproError as err:
            why = without_login(secrets.redact(str(err)).splitlines()[0])
            failures.append(f"  {_display_address(place)}: {why}")
            continue
        if not git.lacking(needed):
            return
        failures.append(f"  {_display_address(place)}: it does not have the commit")
    missing = git.lacking(needed)
    if missing:
        here = None if origin else _find_local_repository(repository)
        if here:
            failures.append(f"  {escape_text(here)}: a snapshot opens no repository of this machine")
        raise NotFetchedError(
            f"commit {missing[0][:12]} of {repository.name} is not in the snapshot (a remote had it), "
            "and cannot be had:\n" + "\n".join(failures or ["  no remote is known"]),
            hint=f"name a clone, a bundle or an address that has it: --source {_source_option(repository, here)}",
        )


def _fetch_remote(
    url: str, needed: Sequence[str], origin: RepositoryAddress | None, git: Git, requests: RemoteAllowance
) -> None:
    """Fetch commits one by one, and all refs for more commits than are fetched so."""
    lacking = git.lacking(needed)
    for oid in [*lacking[:MOST_FETCHES], *([""] if len(lacking) > MOST_FETCHES else [])]:
        if oid and git.has(oid):
            continue
        if requests.is_over and origin is None:
            break
        began = monotonic()
        try:
            git.fetch_remote(url, oid, configured=origin is not None and origin.confirmed)
        finally:
            if git.lacking([oid] if oid else needed):
                requests.spend(monotonic() - began)


def _source_option(repository: CapturedRepository, here: str | None) -> str:
    return shlex.quote(f"{repository.name}={escape_text(here)}") if here else f"{repository.name}=PATH|URL"


def _display_address(place: RepositoryAddress) -> str:
    return escape_text(secrets.redact(without_login(place.place)))


def _remote_addresses(
    repository: CapturedRepository, origin: RepositoryAddress | None
) -> Iterator[RepositoryAddress]:
    """Yield the addresses to fetch from.

    A user's override is the only one; else they are the remotes that are not paths of this machine.
    """
    if origin is not None:
        yield origin
        return
    for remote in repository.remotes:
        if remote.url and not remote.url.startswith("-") and not is_local(remote.url):
            yield RepositoryAddress(place=remote.url, local=None, revision=None)


def _find_local_repository(repository: CapturedRepository) -> str | None:
    """Return this machine's repository that a capture names, if any.

    It may belong to another user, so the user must name it.
    """
    folder = unquote_directory(repository.folder)
    with contextlib.suppress(OSError, ValueError):  # another user's, or not the name of a directory here
        if folder.startswith("/") and (Path(folder) / ".git").exists():
            return folder
    return next((remote.url for remote in repository.remotes if remote.url and is_local(remote.url)), None)


# For some reasons, the tree has other bytes than the disk had.
_IN_TREE = {
    "filtered": "the source tree has git's own form of it, or is without it where git does not track it",
    "changed-meanwhile": "the source tree has the bytes that were read",
}


def rule_losses(repository: CapturedRepository, captured: CaptureFacts) -> Iterator[Resolution]:
    """Yield a resolution for each file without captured content.

    Nested repositories are included.
    """
    for file in repository.left_out:
        tree = _IN_TREE.get(file.reason, "the source tree is without it")
        reason = f"not captured ({escape_text(file.reason)}); {tree}"
        yield _rule_loss(repository, file.path, reason, "file-left-out")
    if repository.left_out_count > len(repository.left_out):
        rest = repository.left_out_count - len(repository.left_out)
        yield _rule_loss(
            repository, "...", f"{rest} more files were not captured, and are not named", "file-left-out"
        )
    for large in repository.lfs:
        reason = f"a large file of git LFS ({large.size} bytes): its pointer stands in for its content"
        yield _rule_loss(repository, large.path, reason, "lfs-pointer")
    for child in captured.inside(repository.name):
        yield from rule_losses(child, captured)


def _rule_loss(repository: CapturedRepository, path: str, reason: str, kind: str) -> Resolution:
    return Resolution(
        file=FILE,
        line=0,
        subject=f"{repository.name}/{escape_text(path)}",
        outcome="unresolved",
        reason=reason,
        kind=kind,
    )
