"""Application of a captured diff to its commit, with checks.

They show whether it belongs to that commit, the reason if not, and whether the result is the captured one.

A diff names the ids of the blobs before and after it (`index PRE..POST`), so both questions have exact answers:
https://git-scm.com/docs/diff-format. Hunks are not applied with fuzz.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.repository import GitRepository
from reprobuild.ecosystems.git.tree_listing import Blob
from reprobuild.errors import LockError
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.addresses import RepositoryAddress
from reprobuild.snapshot.model import Patch, Requirement

AGAIN = "capture it again with `git diff HEAD --binary --full-index`"


class Misfit(Struct, frozen=True):
    """A file of a diff with another blob than the diff says.

    It has the line in the diff, the path, and the diff's id.
    """

    line: int
    path: str
    blob: str


def names_of(line: Requirement) -> set[str]:
    """Return possible diff names of a source: project and directory."""
    names = {str(canonicalize_name(line.name))}
    for place in (line.url, line.path):
        if place:
            names.add(str(canonicalize_name(place.rstrip("/").rpartition("/")[2].removesuffix(".git"))))
    return names


def patch_of(
    line: Requirement, patches: tuple[Patch, ...], repository: GitRepository, commit: str
) -> Patch | None:
    """Return the diff captured for a source.

    It is found by name, or else by blobs that are all in the commit.
    """
    names = names_of(line)
    for patch in patches:
        if canonicalize_name(patch.name) in names:
            return patch
    tree = _blobs_by_path(repository, commit)
    for patch in patches:
        if any(file.old_blob for file in patch.files) and not _find_misfits(patch, tree, before=True):
            return patch
    return None


def fitting_commits(patch: Patch, origin: RepositoryAddress, repository: GitRepository) -> list[str]:
    """Return the commits that a diff may be made on, newest first.

    They are of a repository of this machine.

    A diff of new files alone fits each commit, and is no evidence.
    """
    blobs = {file.old_path: file.old_blob for file in patch.files if file.old_path and file.old_blob}
    known = {path: blob for path, blob in blobs.items() if blob.strip("0")}
    if origin.local is None or not origin.local.exists() or not known:
        return []
    repository.fetch_local(origin.local)
    return repository.find_commits(known)


def apply_patch(repository: GitRepository, commit: str, patch: Patch | None) -> str:
    """Return the tree id of a commit with a diff applied.

    Every blob is compared with the diff's ids.

    Raises:
        LockError: the diff is not of this commit, or does not apply, or gives other blobs; the message states the
            reason.
    """
    if patch is None:
        return repository.apply(commit, b"", "")
    tree = _blobs_by_path(repository, commit)
    wrong = _find_misfits(patch, tree, before=True)
    if wrong:
        raise _misfit_error(patch, wrong, tree, repository, commit)
    lost = next((file for file in patch.files if file.missing), None)
    if lost:
        raise LockError(
            f"{patch.file}:{lost.line}: the content of {escape_text(lost.new_path or lost.old_path or '')} was not "
            "captured: it is binary, and the diff only says that it differs",
            hint=AGAIN,
        )
    try:
        result = repository.apply(commit, patch.content, patch.file, patch.strip)
    except LockError:
        # The first ignores white space at line ends, the second all other differences.
        lenient = ("--ignore-whitespace", "--whitespace=fix")
        if any(repository.applies(commit, patch.content, patch.strip, option) for option in lenient):
            raise LockError(
                f"{patch.file} was made on commit {commit[:12]}, but its white space was changed afterwards",
                hint="mail, an editor or a conversion of line ends did that: copy the file as it was written",
            ) from None
        raise
    wrong = _find_misfits(patch, _blobs_by_path(repository, result), before=False)
    if wrong:
        raise LockError(
            f"{patch.file}:{wrong[0].line}: applied, but {escape_text(wrong[0].path)} is not blob "
            f"{wrong[0].blob[:12]} as captured",
            hint="the diff was edited after the capture, or lost its last newline",
        )
    return result


def _blobs_by_path(repository: GitRepository, tree: str) -> dict[str, Blob]:
    return {blob.path: blob for blob in repository.blobs(tree)}


def _find_misfits(patch: Patch, tree: Mapping[str, Blob], *, before: bool) -> list[Misfit]:
    """Return each file with a different id in the tree and the diff."""
    wrong = []
    for file in patch.files:
        path, blob_id = (file.old_path, file.old_blob) if before else (file.new_path, file.new_blob)
        if not path or not blob_id or not blob_id.strip("0"):
            continue
        if path not in tree or not tree[path].id.startswith(blob_id):
            wrong.append(Misfit(file.line, path, blob_id))
    return wrong


def _misfit_error(
    patch: Patch, wrong: Sequence[Misfit], tree: Mapping[str, Blob], repository: GitRepository, commit: str
) -> LockError:
    """Return an error with the likeliest cause.

    The order is from the surest evidence to the weakest.
    """
    first, path = wrong[0], escape_text(wrong[0].path)  # names of git may have line breaks
    start = (
        f"{patch.file}:{first.line}: does not apply: it was made on blob {first.blob[:12]} of {path}, which "
    )
    place = escape_text(_find_subdirectory(wrong, tree))
    if place:
        return LockError(
            f"{start}commit {commit[:12]} has at {place}{path}: its paths start in the directory {place}",
            hint="diff.relative is set there; capture it again with "
            "`git -c diff.relative=false diff HEAD --binary --full-index`",
        )
    if not any(file.old_path in tree for file in patch.files if file.old_path):
        return LockError(
            f"{start}is not in commit {commit[:12]}, nor is any other file of it: it is the diff of another directory",
            hint="the chapter's recipe writes the job directory's diff where it cannot enter a package's directory; "
            f"capture it again with `git -C FOLDER diff HEAD --binary --full-index > {shlex.quote(patch.file)}`",
        )
    other = repository.find_commit(first.blob, first.path)
    if other:
        return LockError(
            f"{start}is in commit {other[:12]}, and the freeze names {commit[:12]}",
            hint="something was committed or checked out between `pip freeze` and `git diff`: capture both again",
        )
    if len(wrong) < len([file for file in patch.files if file.old_blob and file.old_blob.strip("0")]):
        return LockError(
            f"{start}is in no commit here, while other files of the diff fit commit {commit[:12]}: the change of "
            f"{path} was staged, and is not in the diff",
            hint=f"a plain `git diff` leaves staged changes out: {AGAIN}",
        )
    return LockError(
        f"{start}is not the one in commit {commit[:12]}, nor in any other here",
        hint="the change was staged, which a plain `git diff` leaves out, or the diff was made on a commit that was "
        f"never pushed: push it, or name its repository with --source; else {AGAIN}",
    )


def _find_subdirectory(wrong: Sequence[Misfit], tree: Mapping[str, Blob]) -> str:
    """Return the directory (with `/`) of all misfit files.

    It is empty if there is no such directory.
    """
    first = wrong[0]
    for path, blob in tree.items():
        folder = path.removesuffix(first.path)
        if folder != path and folder.endswith("/") and blob.id.startswith(first.blob):
            rest = [tree.get(folder + misfit.path) for misfit in wrong]
            if all(
                candidate and candidate.id.startswith(misfit.blob)
                for candidate, misfit in zip(rest, wrong, strict=True)
            ):
                return folder
    return ""
