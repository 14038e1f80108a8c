"""The data model of `capture.json`: whole repositories, and original paths."""

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

_MOST_REMOTES = 1000  # the capture writes that many
Id = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})\Z")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,100}\Z")]
Mode = Annotated[str, Meta(pattern=r"\A[0-7]{6}\Z")]
Stage = Annotated[str, Meta(pattern=r"\A[0-3]\Z")]


class GitBundle(Struct, frozen=True, kw_only=True):
    """A bundle of git beside capture.json.

    If it could not be written, `file` is None, and `reason` states the cause.
    """

    file: Name | None
    sha256: OptionalSha256 = ""
    refs: dict[Literal["head", "index", "worktree", "unmerged"], Id] = {}
    reason: Text = ""


class Diff(Struct, frozen=True, kw_only=True):
    """The diff for people, from a commit or tree to the disk.

    `start` is the commit or tree; `size` is in bytes.
    """

    file: Name | None
    size: int = msgspec.field(name="bytes", default=0)
    start: Id = msgspec.field(name="from")
    reason: Text = ""


class Remote(Struct, frozen=True, kw_only=True):
    """A remote of the captured repository.

    Its address carries no credential.
    """

    name: RemoteAddress
    url: RemoteAddress


class LeftOut(Struct, frozen=True, kw_only=True):
    """A file without content in the snapshot, and the reason."""

    path: QuotedRelativePath
    reason: Text


class LargeFile(Struct, frozen=True, kw_only=True):
    """A file of git LFS.

    Its pointer is in the snapshot, its content (`size` bytes) is not.
    """

    path: QuotedRelativePath
    sha256: Sha256
    size: int = msgspec.field(name="bytes", default=0)


class CapturedRepository(Struct, frozen=True, kw_only=True):
    """One captured work tree.

    `index` and `worktree` are ids of trees: the staged files, and the files on the disk, untracked ones included.
    `prerequisites` are commits that a remote had. `parent` and `path` are the outer repository of a submodule or
    embedded repository, and its path in it; `distributions` are those that are installed from it, empty for the job's
    own directory. Paths are in git's C-style quotes if they are not plain: `unquoted`.
    """

    name: Name
    folder: QuotedPath
    object_format: Literal["sha1", "sha256"]
    head: Id | None
    branch: QuotedPath | None
    remotes: Annotated[tuple[Remote, ...], Meta(max_length=_MOST_REMOTES)]
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
    """The environment of the captured interpreter.

    `prefix` is its directory.
    """

    prefix: QuotedPath = ""


class Command(Struct, frozen=True, kw_only=True):
    """The job's command; `folder` is its working directory."""

    folder: QuotedPath = ""


class PackedInterpreter(Struct, frozen=True, kw_only=True):
    """The captured interpreter itself, in an archive beside capture.json.

    `build` is the output of `python -VV` after the name; `prefix` is the installation directory.
    """

    file: Literal["interpreter.tar.gz"]
    sha256: Sha256
    size: Size = msgspec.field(name="bytes")
    version: Annotated[str, Meta(pattern=r"\A3\.\d{1,3}\.\d{1,3}[0-9a-z+]{0,10}\Z")]
    build: Line
    prefix: PlainPath
    left_out: tuple[LeftOut, ...] = ()


class CaptureFacts(Struct, frozen=True, kw_only=True):
    """The contents of `capture.json`.

    They are whole repositories, and original paths.
    """

    repositories: tuple[CapturedRepository, ...]
    python: CapturedPython | None = None
    command: Command | None = None
    notes: tuple[Text, ...] | UnsetType = UNSET  # notes for people; older captures have none
    interpreter: PackedInterpreter | UnsetType | None = UNSET  # UNSET if it was not asked for

    def find_installed_repository(self, name: str) -> CapturedRepository | None:
        """Return the repository of an installed distribution.

        The distribution is given by its canonical name.
        """
        return next((r for r in self.repositories if name in _canonical_names(r.distributions)), None)

    def inside(self, name: str) -> tuple[CapturedRepository, ...]:
        """Return the submodules and embedded repositories of a repository."""
        return tuple(repository for repository in self.repositories if repository.parent == name)


def _canonical_names(names: Iterable[str]) -> set[str]:
    return {str(canonicalize_name(name)) for name in names}
