"""A pass over an image's layers: members and merged tree.

A second pass reads contents.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from decimal import Decimal, InvalidOperation
from pathlib import Path
from tarfile import TarInfo
from typing import IO, cast

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.layers.blobs import SerialExecutor
from reprobuild.image.oci.members import CUT_SHORT, DAMAGED, decompress_stream, open_scratch_file
from reprobuild.image.oci.open import OciImage, PackedLayer
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.tar.entries import CHUNK, TarEntry, entry_of, with_hash
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members

# Seconds since 1970, some 3000 years in either direction.
LATEST = 1 << 37
_ODD = re.compile(r"(^|/)(\.{0,2})(/|$)")


class _Hashed:
    """A stream reader that counts bytes and hashes them.

    The hash is computed in a thread of its own, in large pieces.
    """

    def __init__(self, stream: IO[bytes], count: Callable[[int], None] | None = None) -> None:
        self._stream = stream
        self._count = count
        self._digest = hashlib.sha256()
        self._lane = SerialExecutor(self._digest.update)
        self._pieces: list[bytes] = []
        self._gathered = 0
        self.size = 0

    def __enter__(self) -> _Hashed:
        return self

    def __exit__(self, *_: object) -> None:
        self._lane.close()

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self._pieces.append(chunk)
        self._gathered += len(chunk)
        self.size += len(chunk)
        if self._count is not None:
            self._count(len(chunk))
        if self._gathered >= CHUNK:
            self._emit()
        return chunk

    def _emit(self) -> None:
        self._lane.put(b"".join(self._pieces))
        self._pieces, self._gathered = [], 0

    def finish(self) -> str:
        """Read the rest, and return the sha256 in hex."""
        while self.read(CHUNK):
            pass
        self._emit()
        self._lane.finish()
        return self._digest.hexdigest()


class LayerPacking(Struct):
    """The compression of a layer, known after its reading.

    The method is gzip, zstd or none, and the size is in bytes.
    """

    method: str = ""
    size: int = 0


@contextlib.contextmanager
def open_layer(image: OciImage, index: int, allowance: Allowance) -> Iterator[tuple[IO[bytes], LayerPacking]]:
    """Yield the tar of a layer, then check its hashes.

    The rest of it is read at the end.

    Raises:
        BuildError: it is damaged, differs from manifest and configuration, or unpacks to more than the image
            may; the message names it.
    """
    layer = image.layers[index]
    named = f"layer {index + 1} of {image.name} ({layer.digest or layer.diff_id})"
    packing = LayerPacking()
    try:
        with image.files.open(layer.file) as stream:
            start = stream.read(4)
        with image.files.open(layer.file) as stream, _Hashed(stream) as packed:
            content, packing.method = decompress_stream(cast("IO[bytes]", packed), start)
            with _Hashed(content, lambda size: allowance.take_bytes(size, named)) as unpacked:
                yield cast("IO[bytes]", unpacked), packing
                digests = unpacked.finish(), packed.finish()
            packing.size = packed.size
    except DAMAGED as err:
        raise BuildError(f"{named} cannot be read: {err}", hint=CUT_SHORT) from None
    if digests[0] != layer.diff_id or layer.digest not in ("", digests[1]):
        raise BuildError(f"{named} is not what the image states", hint=CUT_SHORT)


def verify_layer(image: OciImage, index: int, allowance: Allowance) -> LayerPacking:
    """Read a layer only for its hashes; return its packing.

    Raises:
        BuildError: see `open_layer`.
    """
    with open_layer(image, index, allowance) as (_, packing):
        pass
    return packing


class LayerMember(Struct, frozen=True):
    """A member of a layer: its entry, time and owner.

    The time is in ns since 1970; the owner's names are "user:group".
    """

    entry: TarEntry
    time: int
    owner: str


class Scanned(Struct, frozen=True, kw_only=True):
    """A scanned image: the layers' members, packing, and merged tree.

    The members are in their order. `times` has the time of each path of the tree that a layer writes, and
    `digest` is the tree digest.
    """

    image: OciImage
    layers: list[list[LayerMember]]
    packing: list[LayerPacking]
    tree: Tree
    times: dict[str, int]
    digest: str


Known = dict[str, list[LayerMember]]


def packed_size(image: OciImage) -> int:
    """Return the compressed size of an image's layers, in bytes.

    A file counts once.

    Raises:
        BuildError: a layer is gone.
    """
    try:
        return sum(image.files.size(file) for file in {layer.file for layer in image.layers})
    except OSError as err:
        raise BuildError(f"{image.name} cannot be read: {err}", hint=CUT_SHORT) from None


def scan_image(image: OciImage, known: Known) -> Scanned:
    """Read every layer of an image once.

    Args:
        image: the result of `opened`.
        known: members of layers read before, by diff_id. A layer in it is only read for its hashes; others
            are added.

    Raises:
        BuildError: a layer is damaged, differs from the image's statements, or leads out of the image.
    """
    layers, packing = [], []
    allowance, by_layer = Allowance(packed_size(image)), dict[PackedLayer, LayerPacking]()
    for index, layer in enumerate(image.layers):
        origin = f"layer {index + 1} of {image.name}"
        members = known.get(layer.diff_id)
        if members is None:
            with open_layer(image, index, allowance) as (stream, packed):
                members = [
                    _layer_member(info, content) for info, content in layer_members(stream, origin, allowance)
                ]
            known[layer.diff_id] = members
        else:
            packed = by_layer.get(layer) or verify_layer(image, index, allowance)
            for member in members:
                allowance.take_member(len(member.entry.path) + len(member.entry.target), origin)
        by_layer[layer] = packed
        packing.append(packed)
        layers.append(members)
    tree = merge((member.entry for member in layer) for layer in layers)
    return Scanned(
        image=image, layers=layers, packing=packing, tree=tree, times=_times_by_path(layers, tree),
        digest=tree_digest(tree, image.runtime),
    )  # fmt: skip


def _layer_member(info: TarInfo, content: IO[bytes] | None) -> LayerMember:
    entry = with_hash(entry_of(info), content)
    for name in (entry.path, entry.target if entry.type == "hardlink" else ""):
        if ".." in name.split("/") or "\0" in name:
            raise ValueError(f"the member {name!r} leads out of the image")
    path = entry.path if not _ODD.search(entry.path) else _shorten_path(entry.path)
    entry = msgspec.structs.replace(entry, path=sys.intern(path), sha256=sys.intern(entry.sha256))
    return LayerMember(entry, _member_time(info), sys.intern(f"{info.uname}:{info.gname}"))


def _shorten_path(path: str) -> str:
    return "/".join(step for step in path.split("/") if step not in ("", "."))


def _member_time(info: TarInfo) -> int:
    """Return the member's time, in ns since 1970.

    A pax header has parts of a second, and a float would round them.
    """
    text = info.pax_headers.get("mtime", "")
    if not abs(info.mtime) < LATEST:  # also refuses a value that is not a number
        raise ValueError(f"the member {info.name!r} has no time that a file can have")
    try:
        return int(Decimal(text) * 1_000_000_000) if text else int(info.mtime) * 1_000_000_000
    except InvalidOperation:  # float() accepts it and Decimal does not
        return int(info.mtime) * 1_000_000_000


def _times_by_path(layers: list[list[LayerMember]], tree: Tree) -> dict[str, int]:
    times: dict[str, int] = {}
    for layer in layers:
        for member in layer:
            entry = member.entry
            if entry.type == "hardlink":
                times[entry.path] = times.get(entry.target, member.time)
            else:
                times[entry.path] = member.time
    return {path: times[path] for path in tree if path in times}


def fetch_contents(scanned: Scanned, digests: Set[str], folder: Path) -> None:
    """Write the contents with a wanted sha256 into a directory.

    Each is named by its sha256, and existing files are kept. Layers without any of them are not read, and
    others no further than needed; `scan_image` has checked them.

    Raises:
        BuildError: a layer has been damaged since, or a file cannot be written.
    """
    for index, layer in enumerate(scanned.layers):
        missing = {member.entry.sha256 for member in layer} & digests
        missing = {digest for digest in missing if not (folder / digest).exists()}
        if not missing:
            continue
        packed = scanned.image.layers[index]
        try:
            with scanned.image.files.open(packed.file) as stream:
                start = stream.read(4)
            with scanned.image.files.open(packed.file) as stream:
                content, _ = decompress_stream(stream, start)
                _fetch(content, layer, missing, folder)
        except DAMAGED as err:
            raise BuildError(
                f"layer {index + 1} of {scanned.image.name} cannot be read again: {err}", hint=CUT_SHORT
            ) from None


def _fetch(stream: IO[bytes], layer: list[LayerMember], missing: set[str], folder: Path) -> None:
    for (_, content), member in zip(layer_members(stream, "the layer"), layer, strict=False):
        digest = member.entry.sha256
        if digest in missing and content is not None:
            missing.discard(digest)
            with open_scratch_file(folder / digest) as write:
                while chunk := content.read(CHUNK):
                    write(chunk)
        if not missing:
            return


def choose_pairs(
    pairs: Mapping[str, tuple[TarEntry, TarEntry]], largest: int, most: int
) -> tuple[dict[str, tuple[TarEntry, TarEntry]], dict[str, str]]:
    """Return the pairs to examine, and reasons for the others.

    Small files come first, so that as many as possible are examined.

    Args:
        pairs: of files whose contents differ, by path.
        largest: of one content, in bytes.
        most: of all contents together, in bytes.
    """
    selection: dict[str, tuple[TarEntry, TarEntry]] = {}
    left_out: dict[str, str] = {}
    total, digests = 0, set[str]()
    for path, (first, second) in sorted(pairs.items(), key=lambda item: max(e.size for e in item[1])):
        size = sum(entry.size for entry in (first, second) if entry.sha256 not in digests)
        if max(first.size, second.size) > largest:
            left_out[path] = f"too large to be looked into: {first.size} and {second.size} bytes"
        elif total + size > most:
            left_out[path] = f"not looked into: {most} bytes of other files were"
        else:
            total += size
            digests |= {first.sha256, second.sha256}
            selection[path] = (first, second)
    return selection, left_out
