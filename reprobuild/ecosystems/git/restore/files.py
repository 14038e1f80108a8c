"""Files of a captured tree: listed, bounded, and written safely.

They are written one by one, and links are not followed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Protocol

from msgspec import Struct

from reprobuild.ecosystems.git.restore.paths import check_paths
from reprobuild.ecosystems.git.restore.room import RestoreAllowance
from reprobuild.errors import BuildError, SnapshotError
from reprobuild.infra import proc
from reprobuild.infra.untrusted.names import LONGEST_PATH, MOST_MEMBERS, check_target, most_bytes
from reprobuild.infra.untrusted.write_below import make_below, open_below, symlink_below
from reprobuild.snapshot.capture_model import CapturedRepository

_LISTING = 256 << 20  # bytes of a list of `MOST_MEMBERS` files
_AT_ONCE = 64 << 20  # bytes of files in memory
_HEADER = 128  # git's line before each file, and the end of line after it
_REPOSITORIES = (
    {b"head", b"objects", b"refs"}, {b"head", b"commondir"}, {b"config", b"objects", b"refs"},
)  # fmt: skip
_OF_REPOSITORY = frozenset().union(*_REPOSITORIES)
_BLOCK = 4096  # bytes of a directory on a disk
_LINK, _SUBMODULE, _TREE = b"120000", b"160000", b"040000"


class TreeFile(Struct, frozen=True):
    """A path of a tree; git has only four modes."""

    mode: bytes
    oid: bytes
    size: int
    path: bytes


class WorkTree(Protocol):
    """A work tree in progress, with all git objects."""

    one: CapturedRepository
    target: Path

    def git(
        self,
        *words: str,
        purpose: str,
        stdin: bytes | None = None,
        most: int = ...,
        output: Path | None = None,
    ) -> bytes:
        """Return the output of git in the work tree."""

    def refused(self, reason: str) -> SnapshotError:
        """Return the error that names the repository."""


def list_files(
    work: WorkTree, tree: str, inner: set[bytes], room: RestoreAllowance | None = None
) -> list[TreeFile]:
    """Return the files of a tree, with checked paths.

    Args:
        work: has the objects.
        tree: its id.
        inner: paths of other repositories inside.
        room: for a tree whose files are to be written.

    Raises:
        SnapshotError: it is missing, malicious, or a decompression bomb.
        EngineError: the disk has no room for it.
    """
    words = ("ls-tree", "-r", "-t", "-l", "-z", "--full-tree", tree)  # empty trees, too: they count
    try:
        out = work.git(*words, purpose="list a tree", most=_LISTING)
    except proc.ProcessFailedError:
        raise work.refused(f"the tree {tree} is missing") from None
    rows = [_parse_row(row) for row in out.split(b"\0")[:-1]]
    files = [row for row in rows if row.mode != _TREE]
    _check_sizes(work, tree, files, len(rows) - len(files), room)
    among = inner - {file.path for file in files if file.mode == _SUBMODULE}
    check_paths([file.path for file in files], among, work.one.name)
    return files


def _parse_row(row: bytes) -> TreeFile:
    head, _, path = row.partition(b"\t")
    mode, _, oid, size = head.split()
    return TreeFile(mode, oid, 0 if size == b"-" else int(size), path)


def _check_sizes(
    work: WorkTree, tree: str, files: Sequence[TreeFile], directories: int, room: RestoreAllowance | None
) -> None:
    """Refuse a tree that unpacks to far more bytes, or to too many files and directories.

    The bytes of its files are compared with those of its objects, before a file is read.
    """
    objects = work.target / ".git" / "objects"
    packed = sum(path.stat().st_size for path in objects.rglob("*") if path.is_file())
    total = sum(file.size for file in files)
    whole, count = total + directories * _BLOCK, len(files) + directories
    if whole > most_bytes(packed) or count > MOST_MEMBERS:
        raise work.refused(
            f"{packed} bytes of objects, and its tree {tree[:12]} unpacks to {len(files)} files of {total} bytes, "
            f"in {directories} directories"
        )
    link = next((file for file in files if file.mode == _LINK and file.size > LONGEST_PATH), None)
    if link:
        raise work.refused(f"{link.path!r} is a link of {link.size} bytes")
    if room:
        room.take(work.one, work.target, packed, whole, count)


def write_files(work: WorkTree, files: Sequence[TreeFile]) -> None:
    """Write files, links, and empty submodule directories.

    Raises:
        SnapshotError: a file is missing, or cannot be written at its path.
    """
    content = [file for file in files if file.mode != _SUBMODULE]
    try:
        for file in content:
            if file.size > _AT_ONCE:
                _write_large(work, file)
        for file, data in _read_contents(work, [file for file in content if file.size <= _AT_ONCE]):
            _write_file(work, file, data)
        for file in files:
            if file.mode == _SUBMODULE:
                make_below(work.target, os.fsdecode(file.path))
    except BuildError as err:
        raise work.refused(str(err)) from None


def _write_file(work: WorkTree, file: TreeFile, data: bytes) -> None:
    name = file.path.decode("utf-8", "surrogateescape")
    if file.mode == _LINK:
        text = data.decode("utf-8", "surrogateescape")
        check_target(text, str(work.target / name), work.one.name)
        symlink_below(text, work.target, name)
        return
    with open_below(work.target, name) as stream:
        stream.write(data)
        _set_mode(file, stream)


def _write_large(work: WorkTree, file: TreeFile) -> None:
    """Write a file that is too large for memory."""
    part = work.target / ".git" / "large"
    words = ("-c", f"core.bigFileThreshold={_AT_ONCE}", "cat-file", "blob", file.oid.decode())
    work.git(*words, purpose="read a large file", output=part)
    with part.open("rb") as data, open_below(work.target, os.fsdecode(file.path)) as stream:
        shutil.copyfileobj(data, stream)
        _set_mode(file, stream)
    part.unlink()


def _set_mode(file: TreeFile, stream: IO[bytes]) -> None:
    if file.mode == b"100755":
        mode = os.fstat(stream.fileno()).st_mode
        os.fchmod(stream.fileno(), mode | (mode & 0o444) >> 2)


def _read_contents(work: WorkTree, files: Sequence[TreeFile]) -> Iterator[tuple[TreeFile, bytes]]:
    """Yield each file with its bytes, several at once."""
    start = 0
    while start < len(files):
        end, size = start + 1, files[start].size
        while end < len(files) and size + files[end].size <= _AT_ONCE:
            size += files[end].size
            end += 1
        request = b"".join(file.oid + b"\n" for file in files[start:end])
        most = size + _HEADER * (end - start)
        out = work.git("cat-file", "--batch", purpose="read the files of a tree", stdin=request, most=most)
        at = 0
        for file in files[start:end]:
            words = out[at : out.index(b"\n", at)].split(b" ")
            if words[1:2] != [b"blob"]:
                raise work.refused(f"{file.path!r} is missing")
            at += sum(map(len, words)) + len(words)
            yield file, out[at : at + int(words[2])]
            at += int(words[2]) + 1
        start = end


def bare_repositories(files: Sequence[TreeFile], inner: Collection[bytes] = ()) -> tuple[str, ...]:
    """Return the directories of a tree that are git repositories.

    A directory with the configuration of one counts, too. `inner` are the directories of captured
    repositories inside it: one of them can be the `objects` of a repository whose other parts are files of
    the tree. A repository has `HEAD`, `objects` and `refs`, or `HEAD` and `commondir`, which leads to the
    directory with the rest. git follows the configuration in such a directory if a command starts in it
    (`safe.bareRepository`).
    """
    tops: dict[bytes, set[bytes]] = {}
    for path in (*(file.path for file in files), *inner):
        steps = path.split(b"/")
        for number, step in enumerate(steps):
            if step.lower() in _OF_REPOSITORY:
                tops.setdefault(b"/".join(steps[:number]), set()).add(step.lower())
    return tuple(
        sorted(
            os.fsdecode(top) or "."
            for top, parts in tops.items()
            if any(kind <= parts for kind in _REPOSITORIES)
        )
    )
