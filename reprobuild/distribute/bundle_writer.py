"""The bytes of a bundle: one tar, whole or split.

The first member lists all others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from reprobuild.distribute.bundle_contents import BundleFile
from reprobuild.errors import DistributionError
from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_file, is_huge_hole
from reprobuild_portable.unbundle.bundle import bundle_size
from reprobuild_portable.unbundle.format import (
    CHUNK,
    FORM,
    MANIFEST,
    RECORD,
    SIGNATURE,
    Member,
    header,
    padding_size,
)
from reprobuild_portable.unbundle.manifest import encode, members_of

MOST_PARTS = 999  # from .1000 on, `cat FILE.*` would put them together in another order
_MEGA = 1 << 20
_BUILD_AGAIN = "build it again: `reprobuild build OUT/reprobuild.lock -o OUT`"


class WrittenBundle(Struct, frozen=True, kw_only=True):
    """The written files in order, their hash and size.

    `sha256` is in hex.
    """

    paths: tuple[Path, ...]
    sha256: str
    size: int


class _Target:
    """A writer into one file, or into equal parts."""

    def __init__(self, path: Path, split: int) -> None:
        self._path, self._split = path, split
        self._stream: IO[bytes] | None = None
        self._room = 0
        self.paths: list[Path] = []
        self.digest, self.size = hashlib.sha256(), 0

    def write(self, data: bytes) -> None:
        self.digest.update(data)
        self.size += len(data)
        view = memoryview(data)
        while view:
            if not self._room:
                self._next()
            assert self._stream is not None
            piece = view[: self._room]
            self._stream.write(piece)
            self._room -= len(piece)
            view = view[len(piece) :]

    def _next(self) -> None:
        self.close()
        name = f"{self._path}.{len(self.paths) + 1:03d}" if self._split else str(self._path)
        self.paths.append(Path(name))
        self._stream = self.paths[-1].open("wb")
        self._room = self._split or 1 << 62

    def close(self) -> None:
        if self._stream:
            self._stream.close()


def manifest_of(files: Sequence[BundleFile], more: Mapping[str, Any]) -> bytes:
    """Return the manifest of the files, after `more`.

    Raises:
        DistributionError: a bundle cannot hold them: a name is not valid.
    """
    members = []
    for file in files:
        content = file.content
        if isinstance(content, bytes):
            size, sha256 = len(content), hashlib.sha256(content).hexdigest()
        else:
            facts = content.stat()
            if is_huge_hole(facts, LARGEST_OWN_HOLE):
                raise DistributionError(f"{content} is damaged: it is a hole", hint=_BUILD_AGAIN)
            size, sha256 = facts.st_size, file.sha256 or hash_file(content)
        members.append({"path": file.path, "sha256": sha256, "size": size})
    raw = encode({**more, "form": FORM, "members": members})
    members_of(raw)
    return raw


def write_bundle(
    path: Path, files: Sequence[BundleFile], manifest: bytes, signature: bytes, epoch: int, *, split: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> WrittenBundle:  # fmt: skip
    """Write a bundle; the same arguments give the same bytes.

    Args:
        path: of the file; parts have `.001`, `.002`, ... after it.
        manifest: of `manifest_of`, for these files.
        signature: of the manifest; empty for none.
        epoch: the time of every member.
        split: bytes of a part, 0 for one file.
        progress: called with (bytes so far, bytes in all).

    Raises:
        DistributionError: a file differs from the manifest, or there would be too many parts; then no bundle is
            written.
        OSError: there is no room.
    """
    members = members_of(manifest)
    start = b"".join(
        header(name, len(content), epoch) + content + bytes(padding_size(len(content)))
        for name, content in ((MANIFEST, manifest), (SIGNATURE, signature)) if content
    )  # fmt: skip
    total = bundle_size(len(start), members, epoch)
    _refuse_too_many_parts(total, split)
    target = _Target(path, split)
    try:
        target.write(start)
        for file, member in zip(files, members, strict=True):
            target.write(header(member.path, 0 if member.link else member.size, epoch, member.link))
            if not member.link:
                for piece in _read_pieces(file, member):
                    target.write(piece)
                    progress(target.size, total)
                target.write(bytes(padding_size(member.size)))
        target.write(bytes(total - target.size))
        assert target.size % RECORD == 0
    finally:
        target.close()
    return WrittenBundle(paths=tuple(target.paths), sha256=target.digest.hexdigest(), size=target.size)


def _refuse_too_many_parts(total: int, split: int) -> None:
    if split and total > MOST_PARTS * split:
        least = -(-total // (MOST_PARTS * _MEGA))
        raise DistributionError(
            f"the bundle has {total} bytes: more than {MOST_PARTS} parts of {split}",
            hint=f"make larger parts: --split {least}M, or more",
        )


def _read_pieces(file: BundleFile, member: Member) -> Iterator[bytes]:
    if isinstance(file.content, bytes):
        yield file.content
        return
    digest, rest = hashlib.sha256(), member.size
    with file.content.open("rb") as stream:
        while rest and (piece := stream.read(min(CHUNK, rest))):
            digest.update(piece)
            rest -= len(piece)
            yield piece
    if rest or digest.hexdigest() != member.sha256:
        raise DistributionError(
            f"{file.content} is damaged: sha256 {digest.hexdigest()}, and it must be {member.sha256}",
            hint=_BUILD_AGAIN,
        )
