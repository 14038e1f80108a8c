"""Limits for large source trees.

Sizes are known before a file is read, and only a part is in memory at a time.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import IO

from reprobuild.ecosystems.git.repository import AT_ONCE, GitRepository
from reprobuild.ecosystems.git.tree_listing import Blob
from reprobuild.errors import LockError
from reprobuild.infra.untrusted.names import HOSTILE, LONGEST_PATH, MOST_MEMBERS, most_bytes
from reprobuild_portable import secrets

_MOST = 8 << 30  # bytes of the files of a tree together
_PORTION = 32 << 20
_OVERLAP = 64 << 10  # of two portions, so that a secret is complete in one of them


def read_epoch(repository: GitRepository, commit: str, name: str) -> int:
    """Return the date of a source's commit, in seconds since 1970.

    Raises:
        LockError: it has none that a lock can hold.
    """
    epoch = repository.commit_time(commit)
    if epoch is None:
        raise LockError(
            f"commit {commit[:12]} of {name} has no date from 1970 to 9999",
            hint=f"take another commit, or leave it out with --drop {shlex.quote(name)}",
        )
    return epoch


def list_tree_blobs(repository: GitRepository, tree: str, name: str, packed: int | None = None) -> list[Blob]:
    """Return the paths of a commit or tree with sizes, sorted.

    Args:
        repository: has the objects of this source alone.
        tree: a commit or a tree.
        name: of the source.
        packed: compressed size of the tree in bytes; else that of the current objects.

    Raises:
        LockError: it is a decompression bomb, or too large for an image.
    """
    blobs = repository.with_sizes(repository.blobs(tree))
    total = sum(blob.size for blob in blobs)
    packed = repository.packed() if packed is None else packed
    if total > most_bytes(packed) or len(blobs) > MOST_MEMBERS:
        raise LockError(
            f"the repository of {name} has {packed} bytes, and its tree {tree[:12]} unpacks to {len(blobs)} files of "
            f"{total} bytes",
            hint=HOSTILE,
        )
    if total > _MOST:
        raise LockError(
            f"the tree {tree[:12]} of {name} has {total} bytes; a source may have {_MOST}",
            hint=f"keep data out of the repository and mount it, or leave the source out "
            f"with --drop {shlex.quote(name)}",
        )
    links = [blob for blob in blobs if blob.mode == "120000" and blob.size > LONGEST_PATH]
    if links:
        raise LockError(f"{name} holds {links[0].path!r}, a link of {links[0].size} bytes", hint=HOSTILE)
    return blobs


def find_secret_paths(blobs: Sequence[Blob]) -> dict[str, str]:
    """Return the paths that hold a secret themselves, with the rule."""
    paths = [blob.path.encode("utf-8", "surrogateescape") for blob in blobs]
    if not secrets.find(b"\n".join(paths), most=1):  # one search is many times as fast as one for each path
        return {}
    matches = ((blob.path, secrets.find(path, most=1)) for blob, path in zip(blobs, paths, strict=True))
    return {path: f": its path looks like a secret ({rules[0][1]})" for path, rules in matches if rules}


def find_secret(blob: Blob, stream: IO[bytes]) -> str:
    """Return the place and rule of a secret in a file.

    The text is empty if the file does not look like a secret.
    """
    named = False
    for line, text in _read_portions(blob, stream):
        if matches := secrets.find(text, most=1):
            return f":{line + matches[0][0]}: this looks like a secret ({matches[0][1]})"
        named = named or (blob.mode != "120000" and secrets.secret_file(blob.path, text))
    return ": files of this name hold secrets" if named else ""


def _read_portions(blob: Blob, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield a file in portions, each with its preceding line count.

    Portions end at line ends, unless lines are long.
    """
    if blob.size <= AT_ONCE:
        yield 0, stream.read(blob.size)
        return
    line, text = 0, b""
    while portion := stream.read(_PORTION):
        text += portion
        end = text.rfind(b"\n", max(0, len(text) - _OVERLAP)) + 1 or len(text)
        yield line, text[:end]
        begin = max(0, end - _OVERLAP)
        begin = text.find(b"\n", begin, end - 1) + 1 or begin
        line += text.count(b"\n", 0, begin)
        text = text[begin:]
    yield line, text
