"""What `reprobuild capture` wrote beside the text files: whole repositories, and where things lay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from packaging.utils import canonicalize_name

from reprobuild.infra.untrusted.strings import (
    Line,
    OptionalSha256,
    PlainPath,
    QuotedPath,
    QuotedRelativePath,
    RemoteAddress,
    Sha256,
    ShortLine,
    Size,
    Text,
    Value,
    Word,
)

Id = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})\Z")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,100}\Z")]
Mode = Annotated[str, Meta(pattern=r"\A[0-7]{6}\Z")]
Stage = Annotated[str, Meta(pattern=r"\A[0-3]\Z")]


class GitBundle(Struct, frozen=True, kw_only=True):
    """A bundle of git beside capture.json. `file` is None, and `reason` says why, where none could be written."""

    file: Name | None
    sha256: OptionalSha256 = ""
    refs: dict[Literal["head", "index", "worktree", "unmerged"], Id] = {}
    reason: Text = ""


class Diff(Struct, frozen=True, kw_only=True):
    """The diff for people, from a commit or tree (`start`) to the files on the disk; `size` in bytes."""

    file: Name | None
    size: int = msgspec.field(name="bytes", default=0)
    start: Id = msgspec.field(name="from")
    reason: Text = ""


class Remote(Struct, frozen=True, kw_only=True):
    """A remote of the captured repository; its address carries no credential."""

    name: RemoteAddress
    url: RemoteAddress


class LeftOut(Struct, frozen=True, kw_only=True):
    """A file whose content is not in the snapshot, and why."""

    path: QuotedRelativePath
    reason: Text


class LargeFile(Struct, frozen=True, kw_only=True):
    """A file of git LFS: its pointer is in the snapshot, its content (`size` bytes) is not."""

    path: QuotedRelativePath
    sha256: Sha256
    size: int = msgspec.field(name="bytes", default=0)


class CapturedRepository(Struct, frozen=True, kw_only=True):
    """One captured work tree.

    `index` and `worktree` are ids of trees: what was staged, and the files as they lay on the disk, untracked ones
    included. `prerequisites` are commits that a remote had. `parent` and `path` say in which repository, and where,
    a submodule or embedded repository lay; `distributions` are those that are installed from it, none for the job's
    own folder. Paths are in git's C-style quotes where they are not plain: `unquoted`.
    """

    name: Name
    folder: QuotedPath
    object_format: Literal["sha1", "sha256"]
    head: Id | None
    branch: QuotedPath | None
    remotes: tuple[Remote, ...]
    base: Id | None
    prerequisites: tuple[Id, ...]
    index: Id
    worktree: Id
    bundle: GitBundle | None
    diff: Diff
    unmerged: tuple[tuple[Mode, Id, Stage, QuotedRelativePath], ...]
    flags: dict[Literal["intent-to-add", "skip-worktree", "assume-unchanged"], tuple[QuotedRelativePath, ...]]
    settings: dict[Word, ShortLine]
    attributes: Value
    shallow: tuple[Id, ...]
    left_out: tuple[LeftOut, ...]
    parent: Name | None
    path: QuotedRelativePath
    distributions: tuple[Line, ...] = ()
    lfs: tuple[LargeFile, ...] = ()
    left_out_count: int = 0


class CapturedPython(Struct, frozen=True, kw_only=True):
    """The captured interpreter's environment: `prefix` is its folder."""

    prefix: QuotedPath = ""


class Command(Struct, frozen=True, kw_only=True):
    """Where the job ran."""

    folder: QuotedPath = ""


class PackedInterpreter(Struct, frozen=True, kw_only=True):
    """The captured interpreter itself, in an archive beside capture.json.

    `build` is what `python -VV` prints behind its name; `prefix` is where it was installed.
    """

    file: Literal["interpreter.tar.gz"]
    sha256: Sha256
    size: Size = msgspec.field(name="bytes")
    version: Annotated[str, Meta(pattern=r"\A3\.\d{1,3}\.\d{1,3}[0-9a-z+]{0,10}\Z")]
    build: Line
    prefix: PlainPath
    left_out: tuple[LeftOut, ...] = ()


class CaptureFacts(Struct, frozen=True, kw_only=True):
    """What `capture.json` says beside the text files: whole repositories, and where things lay."""

    repositories: tuple[CapturedRepository, ...]
    python: CapturedPython | None = None
    command: Command | None = None
    notes: tuple[Text, ...] | UnsetType = UNSET  # what people should know; older captures have none
    interpreter: PackedInterpreter | UnsetType | None = UNSET  # UNSET where it was not asked for

    def installs(self, name: str) -> CapturedRepository | None:
        """Return the repository that a distribution is installed from, by its canonical name."""
        return next((r for r in self.repositories if name in _canonical(r.distributions)), None)

    def inside(self, name: str) -> tuple[CapturedRepository, ...]:
        """Return the submodules and embedded repositories of a repository."""
        return tuple(one for one in self.repositories if one.parent == name)


def _canonical(names: Iterable[str]) -> set[str]:
    return {str(canonicalize_name(name)) for name in names}
