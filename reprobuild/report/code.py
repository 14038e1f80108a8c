"""Report on the job's own code in a snapshot.

It lists the repositories. If the job's directory is in no repository, it has the remedy.
"""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted.strings import ProjectName, is_valid
from reprobuild.report.difference import safe_text
from reprobuild.resolve.environment.path_mapping import place_repositories, unquote_directory
from reprobuild.snapshot.capture_model import CapturedRepository
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers.capture_json import unquote_path

_MANY = 20
_SHORT = 12  # characters of a commit
_LEFT_OUT = " was left out: "  # in the note of a capture on a repository


class Code(Struct, frozen=True, kw_only=True):
    """A repository of a snapshot.

    `place` is its path in the image, None if it is inside of another repository or left out. `job` is the job's
    directory inside of it, `.` for the repository's own directory, None if the job ran elsewhere. `changes` describes
    the captured changes, empty without any.
    """

    name: str
    folder: str
    commit: str | None = None
    branch: str | None = None
    place: str | None = None
    job: str | None = None
    changes: str = ""


class JobCode(Struct, frozen=True, kw_only=True):
    """The repositories of a snapshot, and the job's directory if known.

    `diffs` are files without a repository of the same name here: `lock` looks for one that they fit. `left_out` states
    whether the capture left out a repository, which may be someone else's; a note names it.
    """

    repositories: tuple[Code, ...]
    folder: str | None
    diffs: tuple[str, ...]
    left_out: bool

    @property
    def captured(self) -> bool:
        """Whether the job's directory is in a repository.

        If the directory is unknown, the value states whether there is a repository.
        """
        if self.folder is None:
            return bool(self.repositories or self.diffs)
        return any(repository.job is not None for repository in self.repositories)


def find_code(snapshot: Snapshot, drop: Collection[str] = ()) -> JobCode:
    """Find the job's own code in a snapshot.

    Args:
        snapshot: of a capture or a recipe.
        drop: the user's override.
    """
    captured = snapshot.captured
    placed = place_repositories(captured, snapshot.requirements, drop)
    places = {placement.repository.name: placement.path for placement in placed}
    lines = {placement.line for placement in placed}
    folder = unquote_directory(captured.command.folder) if captured and captured.command else ""
    inner = _find_innermost(captured.repositories, folder) if captured and folder else None
    repositories = [
        _repository_code(repository, places.get(repository.name), folder if repository is inner else "")
        for repository in (captured.repositories if captured else ())
    ]
    repositories += [
        Code(name=line.name, folder=line.path or line.url or "", commit=line.commit)
        for line in snapshot.requirements
        if line.kind in ("editable", "vcs") and line not in lines
    ]
    notes = (captured.notes or ()) if captured else ()
    return JobCode(
        repositories=tuple(repositories), folder=folder or None, diffs=_unmatched_diffs(snapshot),
        left_out=any(_LEFT_OUT in note for note in notes),
    )  # fmt: skip


def _unmatched_diffs(snapshot: Snapshot) -> tuple[str, ...]:
    """Return the diffs without a line or repository of their name."""
    known = {canonicalize_name(line.name) for line in snapshot.requirements}
    for line in snapshot.requirements:
        last = (line.path or line.url or "").rstrip("/").rpartition("/")[2]
        known.add(canonicalize_name(last.removesuffix(".git")))
    taken = (
        {repository.diff.file for repository in snapshot.captured.repositories}
        if snapshot.captured
        else set()
    )
    return tuple(
        patch.file for patch in snapshot.patches
        if patch.file not in taken and canonicalize_name(patch.name) not in known
    )  # fmt: skip


def _find_innermost(repositories: Collection[CapturedRepository], folder: str) -> CapturedRepository | None:
    """Return the innermost repository that contains a directory."""
    holders = [
        repository for repository in repositories if _is_inside(folder, unquote_directory(repository.folder))
    ]
    return max(holders, key=lambda repository: len(unquote_directory(repository.folder)), default=None)


def _is_inside(folder: str, top: str) -> bool:
    return folder == top or folder.startswith(top.rstrip("/") + "/")


def _repository_code(repository: CapturedRepository, place: str | None, folder: str) -> Code:
    top = unquote_directory(repository.folder)
    branch = unquote_path(repository.branch).decode("utf-8", "surrogateescape") if repository.branch else None
    job = posixpath.relpath(folder, top) if folder else None
    return Code(
        name=repository.name, folder=top, commit=repository.head, branch=branch, place=place, job=job,
        changes=describe_changes(repository),
    )  # fmt: skip


def describe_changes(repository: CapturedRepository) -> str:
    """Return the changes of a captured repository in words; empty if it is as in a commit of its remote.

    The diff begins at a commit that a remote has, so that it may have commits that were not pushed.
    """
    diff = repository.diff
    if repository.index != repository.worktree or repository.unmerged:
        return "uncommitted changes"
    if diff.file is None and not diff.size and diff.reason in ("", "done"):
        return ""
    if diff.start == repository.head:
        return "uncommitted changes"
    return f"changes since commit {diff.start[:_SHORT]}" if repository.head else "files without a commit"


def render_code(code: JobCode, *, imported: bool = False) -> list[str]:
    """Return the lines of `show` on the job's own code.

    What was imported is of another environment than this one: to capture here would not add its code.
    """
    lines = [
        f"code          {_describe_repository(repository)}"
        for repository in _select_repositories(code.repositories)
    ]
    if len(code.repositories) > len(lines):
        lines.append(
            f"code          {len(code.repositories) - len(lines)} more repositories; all with --json"
        )
    for file in code.diffs[:_MANY]:
        name = canonicalize_name(file.removesuffix(".diff"))
        option = f"--source {shlex.quote(name)}=PATH@COMMIT" if is_valid(name, ProjectName) else "--source"
        lines.append(
            f"code          {safe_text(file)}: nothing of this name is installed; name it by {option}"
        )
    if code.captured:
        return lines
    if imported:
        return [
            *lines,
            "code          none: the imported files have no repository; where your code is, run:",
            '  mount it    reprobuild run frozen -v "$PWD":/job --workdir /job -- COMMAND',
        ]
    return [*lines, *_missing_code_lines(code)]


def _select_repositories(repositories: Collection[Code]) -> list[Code]:
    """Return the repositories to show, the job's own first."""
    return sorted(repositories, key=lambda repository: repository.job is None)[:_MANY]


def _describe_repository(repository: Code) -> str:
    facts = [f"commit {repository.commit[:_SHORT]}" if repository.commit else "no commit"]
    if repository.branch:
        facts.append(f"branch {safe_text(repository.branch.removeprefix('refs/heads/'))}")
    if repository.changes and repository.commit:
        facts.append(repository.changes)
    if repository.place:
        facts.append(f"{repository.place} in the image")
    if repository.job is not None:
        facts.append(
            "the job ran in it"
            if repository.job == "."
            else f"the job ran in its {safe_text(repository.job)}"
        )
    return f"{safe_text(repository.name)}: {safe_text(repository.folder)} ({', '.join(facts)})"


def _missing_code_lines(code: JobCode) -> list[str]:
    """Return the lines for a snapshot without the job's own code.

    They have the commands to capture or mount it.
    """
    if code.folder is None:
        status = "none: the snapshot has no repository, and does not state the job's directory; there run:"
        start, mount = "", '"$PWD":/job'
    else:
        status = (
            f"none of the job's own: it ran in {escape_text(code.folder)}, which is in no captured repository"
        )
        start = f"cd {escape_text(shlex.quote(code.folder))} && "
        mount = escape_text(shlex.quote(f"{code.folder}:/job"))
    capture = f"{start}{{ git rev-parse --git-dir || git init; }} && reprobuild capture -o ~/with-code"
    if code.left_out:
        capture = "a repository was left out; the note on it says what admits it"
    return [
        f"code          {status}",
        f"  capture it  {capture}",
        f"  or mount it reprobuild run frozen -v {mount} --workdir /job -- COMMAND",
    ]
