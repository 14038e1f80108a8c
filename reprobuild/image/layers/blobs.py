"""Layer blobs: tars hashed, compressed, and kept in the store.

Items are written to a tar, with a listing.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

import zstandard
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.layers.content import LayerItem
from reprobuild.infra.tar.entries import CHUNK, TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import tars, zips
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Line, Sha256
from reprobuild.store.store import LARGEST_MEMORY, Store
from reprobuild.store.tar_listing import decode_listing, encode_listing, keep_listing, recall_listing

LEVEL = 3
# Chunks that may wait for a thread: bounds the memory of a layer to some 10 MiB for any size.
DEPTH = 4
DAMAGED = (*zips.UNREADABLE, *tars.UNREADABLE)


class Layer(Struct, frozen=True, kw_only=True):
    """A layer in the store.

    `diff_id` is the sha256 of the tar, `blob` that of the compressed tar and `size` its length in bytes;
    `listing` is the sha256 of the blob that lists the entries. `title` describes its contents.
    """

    title: Line
    diff_id: Sha256
    blob: Sha256
    size: int
    listing: Sha256


def compressor(level: int = LEVEL) -> zstandard.ZstdCompressionObj:
    """Return a reproducible zstd stream.

    Its bytes depend only on its input, the level and the library's version.
    """
    return zstandard.ZstdCompressor(
        level=level, threads=0, write_checksum=False, write_content_size=False, write_dict_id=False
    ).compressobj()


class SerialExecutor:
    """Calls of one function, in order, in their own thread."""

    def __init__(self, function: Callable[[bytes], object]) -> None:
        self._function = function
        self._pool = ThreadPoolExecutor(1)
        self._waiting: deque[Future[object]] = deque()

    def put(self, chunk: bytes) -> None:
        self._waiting.append(self._pool.submit(self._function, chunk))
        while len(self._waiting) > DEPTH:
            self._waiting.popleft().result()

    def finish(self) -> None:
        while self._waiting:
            self._waiting.popleft().result()

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


class LayerWriter:
    """A stream for a tar, hashed and compressed in threads.

    One thread hashes it, another compresses it into `target`. `known` is the tar's sha256 if the caller has
    it already. `finish` returns diff_id, digest and size of the blob. Hashing, decompression and zstd release
    the interpreter's lock, so the threads do run in parallel.
    """

    def __init__(self, target: IO[bytes], level: int = LEVEL, known: str = "") -> None:
        self._target = target
        self._known = known
        self._zstd = compressor(level)
        self._diff_id, self._digest, self._size = hashlib.sha256(), hashlib.sha256(), 0
        self._pieces: list[bytes] = []  # small writes are combined; write sizes do not change the blob
        self._gathered = 0
        hashing = () if known else (SerialExecutor(self._diff_id.update),)
        self._lanes = (*hashing, SerialExecutor(self._compress))

    def __enter__(self) -> LayerWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for lane in self._lanes:
            lane.close()

    def write(self, data: bytes) -> int:
        self._pieces.append(data)
        self._gathered += len(data)
        if self._gathered >= CHUNK:
            self._emit()
        return len(data)

    def finish(self) -> tuple[str, str, int]:
        self._emit()
        for lane in self._lanes:
            lane.finish()
        self._keep(self._zstd.flush())
        return self._known or self._diff_id.hexdigest(), self._digest.hexdigest(), self._size

    def _emit(self) -> None:
        chunk = b"".join(self._pieces)
        self._pieces, self._gathered = [], 0
        for lane in self._lanes:
            lane.put(chunk)

    def _compress(self, chunk: bytes) -> None:
        self._keep(self._zstd.compress(chunk))

    def _keep(self, packed: bytes) -> None:
        self._target.write(packed)
        self._digest.update(packed)
        self._size += len(packed)


def write_layer(
    items: Iterable[LayerItem], title: str, epoch: int, store: Store, level: int = LEVEL
) -> Layer:
    """Write items in order as a layer of the store.

    All have one time.

    Raises:
        BuildError: an item cannot be read, or its content differs from its source's statement.
    """

    def write(sink: LayerWriter) -> list[TarEntry]:
        writer = TarWriter(sink, epoch)
        for item in items:
            _add_item(writer, item)
        writer.close()
        return writer.listing

    return keep_layer(write, title, store, level)


def keep_layer(write: Callable[[LayerWriter], list[TarEntry]], title: str, store: Store, level: int) -> Layer:
    """Keep a written tar as a layer.

    `write` writes the tar, and returns its listing.
    """
    with store.open_scratch() as scratch, scratch.open_new("layer") as target:
        with LayerWriter(target, level) as sink:
            listing = write(sink)
            diff_id, blob, size = sink.finish()
        store.adopt_new(scratch, "layer", target, blob)
    digest = store.add(encode_listing(listing))
    return Layer(title=title, diff_id=diff_id, blob=blob, size=size, listing=digest)


def copy_layer(tar: str, title: str, store: Store, level: int = LEVEL, *, afresh: bool = False) -> Layer:
    """Keep a tar of the store unchanged as a layer.

    `tar` is its sha256; `afresh` lists it again, even if a listing is remembered.

    Raises:
        BuildError: it is not a tar, or has entries that no layer can hold.
        FetchError: it is not in the store, or damaged.
    """
    path = store.verified(tar, title)
    known = None if afresh else recall_listing(tar, store)
    listing = known or keep_listing(tar, _list_entries(path, title), store)
    with (
        store.open_scratch() as scratch,
        path.open("rb") as stream,
        scratch.open_new("layer") as target,
    ):
        with LayerWriter(target, level, known=tar) as sink:
            while chunk := stream.read(CHUNK):
                sink.write(chunk)
            diff_id, blob, size = sink.finish()
        store.adopt_new(scratch, "layer", target, blob)
    return Layer(title=title, diff_id=diff_id, blob=blob, size=size, listing=listing)


def _list_entries(tar: Path, title: str) -> list[TarEntry]:
    with tar.open("rb") as stream:
        try:
            return list(list_tar(stream, title))
        except tars.UNREADABLE as err:
            raise BuildError(f"{title} is not a tar of a system: {err}", hint=HOSTILE) from None


def _add_item(writer: TarWriter, item: LayerItem) -> None:
    entry = item.entry
    if item.open is None:
        writer.add(entry)
        return
    try:
        with item.open() as stream:
            writer.add(entry, stream)
    except DAMAGED as err:
        raise BuildError(f"{item.origin}: {entry.path} cannot be read: {err}", hint=HOSTILE) from None
    digest = writer.listing[-1].sha256
    if entry.sha256 and digest != entry.sha256:
        raise BuildError(
            f"{item.origin}: {entry.path} has sha256 {digest}, stated as {entry.sha256}", hint=HOSTILE
        )


def read_listing(layer: Layer, store: Store) -> list[TarEntry]:
    """Return the entries of a layer in the store."""
    path = store.verified(layer.listing, f"the listing of the layer `{layer.title}`")
    return list(decode_listing(read_plain(path, LARGEST_MEMORY)))
