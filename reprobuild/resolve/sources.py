"""Commit plus captured changes become one verified source tree.

The ids of git are the proof: the blobs that a patch was made on must be those of the commit, and the
blobs that it gives must be those that the patch names.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild import secrets
from reprobuild.archive import Entry, TarWriter, parents
from reprobuild.errors import LockError, ReproError, SnapshotError
from reprobuild.lock import EPOCH, Artefact, Ruling, Source
from reprobuild.resolve.repository import Blob, Repository
from reprobuild.snapshot.model import Patch, Requirement
from reprobuild.store import Store, hash_file


class Origin(Struct, frozen=True, kw_only=True):
    """Where the user says a repository is: a path or an address, and a revision where one is given."""

    place: str
    local: Path | None
    revision: str | None


def read_origin(text: str, folder: Path) -> Origin:
    """Read `PATH`, `URL` or either with `@REV`. Relative paths start at `folder`."""
    place, at, revision = text.rpartition("@")
    if not at or "/" in revision or ":" in revision:
        place, revision = text, ""
    remote = "://" in place or place.startswith("git@")
    local = None if remote else (folder / Path(place).expanduser())
    return Origin(place=place, local=local, revision=revision or None)


def resolve_sources(
    requirements: tuple[Requirement, ...],
    patches: tuple[Patch, ...],
    origins: Mapping[str, Origin],
    store: Store,
    env: Mapping[str, str],
) -> tuple[tuple[Source, ...], tuple[Ruling, ...]]:
    """Lock every editable and version-control line of the freeze as a source tree in the store.

    Args:
        requirements: lines of kind `editable` and `vcs`.
        patches: the captured diffs.
        origins: the user's own word on where repositories are, by canonical name.
        store: receives a tar of each tree.
        env: the user's environment, for git's credentials.

    Returns:
        The sources, and a ruling for each line and each patch.

    Raises:
        LockError: a repository or commit cannot be had, or a patch does not fit its commit.
        SnapshotError: a source holds what looks like a secret.
    """
    sources: list[Source] = []
    rulings: list[Ruling] = []
    used: set[str] = set()
    for line in requirements:
        name = canonicalize_name(line.name)
        origin = origins.get(name)
        commit = line.commit or (origin.revision if origin else None)
        if commit is None or (line.url is None and origin is None):
            rulings.append(_unresolved(line, origin))
            continue
        with store.scratch() as folder:
            repository = Repository(folder, env)
            full = _bring(repository, line, origin, commit)
            patch = _patch_of(line, patches, repository, full)
            tree = _patched(repository, full, patch)
            source = _keep(repository, line, full, tree, patch, store, folder)
        sources.append(source)
        rulings.append(
            _pinned(
                line.place.file,
                line.place.line,
                line.name,
                f"commit {full[:12]}, tree {tree[:12]}",
                line.text,
            )
        )
        if patch:
            used.add(patch.file)
            rulings.append(_pinned(patch.file, 0, patch.name, f"applied to {line.name}; every blob id fits"))
    rulings += [_stray(patch) for patch in patches if patch.file not in used]
    return tuple(sources), tuple(rulings)


def _pinned(file: str, line: int, subject: str, reason: str, captured: str = "") -> Ruling:
    return Ruling(file=file, line=line, subject=subject, outcome="pinned", reason=reason, captured=captured)


def _unresolved(line: Requirement, origin: Origin | None) -> Ruling:
    reason = (
        f"no commit of {line.name} is known"
        if origin
        else f"the repository of {line.name} is in no file of the snapshot"
    )
    return Ruling(
        file=line.place.file, line=line.place.line, subject=line.name, outcome="unresolved",
        reason=f"{reason}; name it with --source {line.name}=PATH@REV", kind="no-source", captured=line.text,
    )  # fmt: skip


def _stray(patch: Patch) -> Ruling:
    return Ruling(
        file=patch.file, line=0, subject=patch.name, outcome="unresolved", kind="stray-diff",
        reason="it fits no source of this snapshot; the chapter's recipe writes the job directory's diff under "
        "the name of a package whose folder it cannot enter",
    )  # fmt: skip


def _bring(repository: Repository, line: Requirement, origin: Origin | None, commit: str) -> str:
    """Get the commit into the scratch repository, and return its full id."""
    place = origin.place if origin else line.url
    hint = f"name a bundle, a clone or another remote with --source {line.name}=PATH|URL"
    try:
        if origin and origin.local is not None:
            if not origin.local.exists():
                raise LockError(f"the source of {line.name}, {origin.local}, does not exist", hint=hint)
            repository.fetch_local(origin.local)
        else:
            assert place is not None
            repository.fetch_remote(_git_address(line, place), commit)
    except LockError:
        raise
    except ReproError as err:
        raise LockError(
            f"the repository of {line.name} cannot be had: {secrets.redact(str(err))}", hint=hint
        ) from None
    full = repository.commit(commit)
    if full is None:
        raise LockError(
            f"commit {commit[:12]} of {line.name} is not in {secrets.redact(place or '')}",
            hint=f"was it ever pushed? {hint}",
        )
    if origin and origin.revision and repository.commit(origin.revision) not in (full, None):
        raise LockError(
            f"the freeze names commit {full[:12]} of {line.name}, and --source names {origin.revision}",
            hint="leave the revision out: the captured commit is taken",
        )
    return full


def _git_address(line: Requirement, place: str) -> str:
    """Return the address as git takes it, without the `git+` of a freeze."""
    scheme, plus, _ = place.partition("://")[0].partition("+")
    if plus and scheme != "git":
        raise LockError(
            f"{line.place}: {line.name} comes from a {scheme} repository, and only git's can be read",
            hint=f"convert it to git, and name the copy with --source {line.name}=PATH@REV",
        )
    return place.removeprefix("git+")


def _patch_of(
    line: Requirement, patches: tuple[Patch, ...], repository: Repository, commit: str
) -> Patch | None:
    """Return the diff captured for this source: by name, else the one whose blobs are all in the commit."""
    names = {canonicalize_name(line.name)}
    for place in (line.url, line.path):
        if place:
            names.add(canonicalize_name(place.rstrip("/").rpartition("/")[2].removesuffix(".git")))
    for patch in patches:
        if canonicalize_name(patch.name) in names:
            return patch
    tree = {blob.path: blob for blob in repository.blobs(commit)}
    for patch in patches:
        if any(file.old_blob for file in patch.files) and not _misfits(patch, tree, before=True):
            return patch
    return None


def _misfits(patch: Patch, tree: Mapping[str, Blob], *, before: bool) -> list[tuple[int, str, str]]:
    """Return (line, path, blob id) of each file whose id in the tree is not the one in the patch."""
    wrong = []
    for file in patch.files:
        path, wanted = (file.old_path, file.old_blob) if before else (file.new_path, file.new_blob)
        if not path or not wanted or not wanted.strip("0"):
            continue
        if path not in tree or not tree[path].id.startswith(wanted):
            wrong.append((file.line, path, wanted))
    return wrong


def _patched(repository: Repository, commit: str, patch: Patch | None) -> str:
    if patch is None:
        return repository.apply(commit, b"", "")
    wrong = _misfits(patch, {blob.path: blob for blob in repository.blobs(commit)}, before=True)
    if wrong:
        line, path, blob = wrong[0]
        raise LockError(
            f"{patch.file}:{line}: does not apply: it was made on blob {blob[:12]} of {path}, which is not the one "
            f"in commit {commit[:12]}",
            hint="the change was staged, or the commit is another; a plain `git diff` leaves staged changes out: "
            "capture it again with `git diff HEAD --binary --full-index`",
        )
    tree = repository.apply(commit, patch.content, patch.file, patch.strip)
    wrong = _misfits(patch, {blob.path: blob for blob in repository.blobs(tree)}, before=False)
    if wrong:
        line, path, blob = wrong[0]
        raise LockError(
            f"{patch.file}:{line}: applied, but {path} is not blob {blob[:12]} as captured",
            hint="the diff was edited after the capture, or lost its last newline",
        )
    return tree


def _keep(
    repository: Repository, line: Requirement, commit: str, tree: str, patch: Patch | None, store: Store, folder: Path
) -> Source:  # fmt: skip
    blobs = repository.blobs(tree)
    submodules = [blob.path for blob in blobs if blob.mode == "160000"]
    if submodules:
        raise LockError(
            f"{line.name} has a submodule at {submodules[0]}, which a commit alone does not hold",
            hint="install the submodule's project as an editable of its own, or add its files to the repository",
        )
    path = folder / "tree.tar"
    with path.open("wb") as stream:
        writer = TarWriter(stream, EPOCH)
        for directory in parents(blob.path for blob in blobs):
            writer.directory(directory)
        for blob, content in repository.contents(blobs):
            _refuse_secrets(line.name, blob.path, content)
            if blob.mode == "120000":
                writer.symlink(blob.path, content.decode("utf-8", "surrogateescape"))
            else:
                mode = 0o755 if blob.mode == "100755" else 0o644
                writer.add(Entry(path=blob.path, type="file", mode=mode, size=len(content)), content)
        writer.close()
    size, sha256 = path.stat().st_size, hash_file(path)
    name = canonicalize_name(line.name)
    store.adopt(path, sha256)
    return Source(
        name=name, url=line.url or "", commit=commit, tree=tree, patch=_hash_of(patch), path=f"/src/{name}",
        editable=line.kind == "editable", epoch=repository.commit_time(commit),
        file=Artefact(filename=f"{name}-{tree[:12]}.tar", sha256=sha256, size=size),
        subdirectory=line.subdirectory or "",
    )  # fmt: skip


def _hash_of(patch: Patch | None) -> str | None:
    return hashlib.sha256(patch.content).hexdigest() if patch else None


def _refuse_secrets(name: str, path: str, content: bytes) -> None:
    found = secrets.find(content)
    if found:
        number, rule = found[0]
        raise SnapshotError(
            f"{name}: {path}:{number}: this looks like a secret ({rule}); it would stay in the image for ever",
            hint="remove it from the source and revoke it",
        )
