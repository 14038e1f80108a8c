"""`capture.json`: the repositories that `reprobuild capture` took, as values that have been checked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct
from packaging.utils import canonicalize_name

from reprobuild.errors import SnapshotError
from reprobuild.snapshot.text import escaped

FILE = "capture.json"
NEWEST = 1  # version of capture.json that is understood
DAMAGED = "the snapshot is damaged or made to harm: take it again, or get it from where it was taken"

_LIMIT = 64 << 20
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}

Id = Annotated[str, Meta(pattern=r"^([0-9a-f]{40}|[0-9a-f]{64})\Z")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,100}\Z")]


class Bundle(Struct, frozen=True, kw_only=True):
    """A bundle of git beside capture.json. `file` is None, and `reason` says why, where none could be written."""

    file: Name | None
    sha256: str = ""
    refs: dict[Literal["head", "index", "worktree", "unmerged"], Id] = {}
    reason: str = ""


class Diff(Struct, frozen=True, kw_only=True):
    """The diff for people, from a commit or tree (`start`) to the files on the disk; `size` in bytes."""

    file: Name | None
    size: int = msgspec.field(name="bytes", default=0)
    start: Id = msgspec.field(name="from")
    reason: str = ""


class Remote(Struct, frozen=True, kw_only=True):
    """A remote of the captured repository; its address carries no credential."""

    name: str
    url: str


class LeftOut(Struct, frozen=True, kw_only=True):
    """A file whose content is not in the snapshot, and why."""

    path: str
    reason: str


class LargeFile(Struct, frozen=True, kw_only=True):
    """A file of git LFS: its pointer is in the snapshot, its content (`size` bytes) is not."""

    path: str
    sha256: str
    size: int = msgspec.field(name="bytes", default=0)


class Repository(Struct, frozen=True, kw_only=True):
    """One captured work tree.

    `index` and `worktree` are ids of trees: what was staged, and the files as they lay on the disk, untracked ones
    included. `prerequisites` are commits that a remote had. `parent` and `path` say in which repository, and where,
    a submodule or embedded repository lay; `distributions` are those that are installed from it, none for the job's
    own folder. Paths are in git's C-style quotes where they are not plain: `unquoted`.
    """

    name: Name
    folder: str
    object_format: Literal["sha1", "sha256"]
    head: Id | None
    branch: str | None
    remotes: tuple[Remote, ...]
    base: Id | None
    prerequisites: tuple[Id, ...]
    index: Id
    worktree: Id
    bundle: Bundle | None
    diff: Diff
    unmerged: tuple[tuple[str, Id, str, str], ...]
    flags: dict[Literal["intent-to-add", "skip-worktree", "assume-unchanged"], tuple[str, ...]]
    settings: dict[str, str]
    attributes: str
    shallow: tuple[Id, ...]
    left_out: tuple[LeftOut, ...]
    parent: Name | None
    path: str
    distributions: tuple[str, ...] = ()
    lfs: tuple[LargeFile, ...] = ()
    left_out_count: int = 0


class Python(Struct, frozen=True, kw_only=True):
    """The captured interpreter's environment: `prefix` is its folder."""

    prefix: str = ""


class Command(Struct, frozen=True, kw_only=True):
    """Where the job ran."""

    folder: str = ""


class Captured(Struct, frozen=True, kw_only=True):
    """What `capture.json` says beside the text files: whole repositories, and where things lay."""

    repositories: tuple[Repository, ...]
    python: Python | None = None
    command: Command | None = None

    def installs(self, name: str) -> Repository | None:
        """Return the repository that a distribution is installed from, by its canonical name."""
        return next((r for r in self.repositories if name in map(canonicalize_name, r.distributions)), None)

    def inside(self, name: str) -> tuple[Repository, ...]:
        """Return the submodules and embedded repositories of a repository."""
        return tuple(one for one in self.repositories if one.parent == name)


class _Version(Struct, frozen=True):
    capture: int


def read_captured(folder: Path) -> Captured:
    """Return what a capture wrote beside the text files.

    Raises:
        SnapshotError: there is no capture.json (the snapshot was taken by a recipe), it is of a newer version, or
            it is damaged.
    """
    shown = escaped(str(folder / FILE))
    try:
        with (folder / FILE).open("rb") as stream:
            data = stream.read(_LIMIT + 1)
    except OSError as err:
        raise SnapshotError(
            f"{shown} cannot be read: {err.strerror}",
            hint="only snapshots of `reprobuild capture` hold whole repositories",
        ) from None
    try:
        if len(data) > _LIMIT:
            raise msgspec.DecodeError(f"it has more than {_LIMIT} bytes")
        version = msgspec.json.decode(data, type=_Version).capture
        if version > NEWEST:
            raise SnapshotError(
                f"{shown} is of version {version}, and this reprobuild reads {NEWEST}",
                hint="read it with the reprobuild that took it, or a newer one",
            )
        return msgspec.json.decode(data, type=Captured)
    except (msgspec.DecodeError, RecursionError) as err:  # nested brackets
        raise SnapshotError(f"{shown}: {escaped(str(err))}", hint=DAMAGED) from None


def unquoted(written: str) -> bytes:
    """Return the path that `quote` of the capture wrote, as the bytes that git knows."""
    if not (len(written) > 1 and written[0] == written[-1] == '"'):
        return written.encode("utf-8", "surrogateescape")

    def one(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code, 8) & 0xFF) if code[0].isdigit() else chr(_ESCAPES.get(code, ord(code)))

    return re.sub(r"\\([0-7]{3}|.)", one, written[1:-1], flags=re.DOTALL).encode("latin-1", "replace")
