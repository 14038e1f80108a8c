"""Layer blobs: items to a tar, hashed and compressed while it is written, kept in the store with a listing."""

from __future__ import annotations

import hashlib
import json
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec
import zstandard
from msgspec import Struct

from reprobuild.archive import CHUNK, Entry, TarWriter, list_tar
from reprobuild.errors import BuildError
from reprobuild.image.content import HOSTILE, Item
from reprobuild.store import Store

LEVEL = 3
# Chunks that may wait for a thread: bounds the memory of a layer to some 10 MiB whatever its size.
DEPTH = 4
DAMAGED = (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError)


class Layer(Struct, frozen=True, kw_only=True):
    """A layer in the store.

    `diff_id` is the sha256 of the tar, `blob` that of the compressed tar and `size` its length in bytes;
    `listing` is the sha256 of the blob that lists the entries. `title` says what is in it.
    """

    title: str
    diff_id: str
    blob: str
    size: int
    listing: str


def compressor(level: int = LEVEL) -> zstandard.ZstdCompressionObj:
    """Return a zstd stream whose bytes depend on its input, the level and the library's version alone."""
    return zstandard.ZstdCompressor(
        level=level, threads=0, write_checksum=False, write_content_size=False, write_dict_id=False
    ).compressobj()


class Lane:
    """Calls of one function, in order, in a thread of their own."""

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


class LayerSink:
    """A stream that takes a tar: one thread hashes it, another compresses it into `target`.

    `finish` returns diff_id, digest and size of the blob. Hashing, inflating and zstd release the
    interpreter's lock, so that the threads do run at once.
    """

    def __init__(self, target: IO[bytes], level: int = LEVEL) -> None:
        self._target = target
        self._zstd = compressor(level)
        self._diff_id, self._digest, self._size = hashlib.sha256(), hashlib.sha256(), 0
        self._pieces: list[bytes] = []  # small writes are gathered; how bytes arrive does not change the blob
        self._gathered = 0
        self._lanes = (Lane(self._diff_id.update), Lane(self._compress))

    def __enter__(self) -> LayerSink:
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
        return self._diff_id.hexdigest(), self._digest.hexdigest(), self._size

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


class _Tee:
    """Reads a stream, and hands on all that is read."""

    def __init__(self, stream: IO[bytes], sink: LayerSink) -> None:
        self._stream = stream
        self._sink = sink

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self._sink.write(chunk)
        return chunk


def write_layer(items: Iterable[Item], title: str, epoch: int, store: Store, level: int = LEVEL) -> Layer:
    """Write the items, in their order, as a layer with one time for all, and keep it in the store.

    Raises:
        BuildError: an item cannot be read, or its content is not what its source states.
    """

    def write(sink: LayerSink) -> list[Entry]:
        writer = TarWriter(sink, epoch)  # type: ignore[arg-type]  # only write() is called
        for item in items:
            _add(writer, item)
        writer.close()
        return writer.listing

    return _keep_layer(write, title, store, level)


def copy_layer(tar: Path, title: str, store: Store, level: int = LEVEL) -> Layer:
    """Keep a tar as it is as a layer.

    Raises:
        BuildError: it is not a tar, or holds what no layer can hold.
    """

    def write(sink: LayerSink) -> list[Entry]:
        with tar.open("rb") as stream:
            tee = _Tee(stream, sink)
            try:
                listing = list(list_tar(tee))  # type: ignore[arg-type]  # only read() is called
            except (tarfile.TarError, ValueError) as err:
                raise BuildError(f"{title} is not a tar of a system: {err}", hint=HOSTILE) from None
            while tee.read(CHUNK):
                pass
        return listing

    return _keep_layer(write, title, store, level)


def _keep_layer(write: Callable[[LayerSink], list[Entry]], title: str, store: Store, level: int) -> Layer:
    with store.scratch() as folder:
        path = folder / "layer"
        with path.open("wb") as target, LayerSink(target, level) as sink:
            listing = write(sink)
            diff_id, blob, size = sink.finish()
        store.adopt(path, blob)
    return Layer(
        title=title, diff_id=diff_id, blob=blob, size=size, listing=store.add(encode_listing(listing))
    )


def _add(writer: TarWriter, item: Item) -> None:
    entry = item.entry
    if item.open is None:
        writer.add(entry)
        return
    try:
        with item.open() as stream:
            writer.add(entry, stream)
    except DAMAGED as err:
        raise BuildError(f"{item.origin}: {entry.path} cannot be read: {err}", hint=HOSTILE) from None
    found = writer.listing[-1].sha256
    if entry.sha256 and found != entry.sha256:
        raise BuildError(
            f"{item.origin}: {entry.path} has sha256 {found}, stated as {entry.sha256}", hint=HOSTILE
        )


def encode_listing(listing: Iterable[Entry]) -> bytes:
    """Return a listing as JSON lines, compressed; names that are not UTF-8 keep their bytes."""
    lines = []
    for entry in listing:
        try:
            lines.append(msgspec.json.encode(entry))
        except UnicodeEncodeError:  # msgspec takes no surrogates; they stand for bytes that are not UTF-8
            lines.append(json.dumps(msgspec.structs.asdict(entry)).encode())
    return zstandard.ZstdCompressor(level=LEVEL).compress(b"".join(line + b"\n" for line in lines))


def decode_listing(content: bytes) -> Iterator[Entry]:
    """Yield the entries of an encoded listing."""
    decoder = msgspec.json.Decoder(Entry)
    for line in zstandard.ZstdDecompressor().decompress(content).splitlines():
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError:
            yield msgspec.convert(json.loads(line), Entry)


def read_listing(layer: Layer, store: Store) -> list[Entry]:
    """Return the entries of a layer in the store."""
    path = store.verified(layer.listing, f"the listing of the layer `{layer.title}`")
    return list(decode_listing(path.read_bytes()))
