"""The base from an image.

Its layers become one tar. Owners and modes that unpacking cannot set are listed separately.

Whiteouts, hard links and later layers follow the OCI image specification. Extended attributes other than capabilities
belong to the machine that made the image, and are left out, as are entries below mount points.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import IO, cast

from msgspec import structs

from reprobuild.errors import BuildError
from reprobuild.image.layering.base_layers import base_allowance
from reprobuild.image.layering.merge import Located, Tree, merge
from reprobuild.image.layering.packed import open_packed
from reprobuild.infra.atomic import add_path_to_errors
from reprobuild.infra.tar.entries import CHUNK, entry_of
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.infra.untrusted.names import HOSTILE, check_name, check_target
from reprobuild.lock.system import BaseImage, ImageLayer
from reprobuild.store.store import Store

CAPABILITY = "security.capability"
_AGAIN = "take the layer out of the store and run `reprobuild fetch LOCK` again"


def flatten(
    image: BaseImage, store: Store, scratch: Path, target: Path, epoch: int, empty: Collection[str]
) -> Tree:
    """Write the tree of an image as one tar; return its entries.

    They are in the order of a sorted walk.

    Args:
        image: its layers, in the store.
        store: has the layers.
        scratch: a directory with space for the unpacked layers.
        target: the tar.
        epoch: the time of every entry.
        empty: top-level directories to leave empty.

    Raises:
        FetchError: a layer is not in the store, or damaged.
        BuildError: a layer does not match the image, or is malicious.
    """
    with contextlib.ExitStack() as stack:
        spools = [stack.enter_context(tempfile.TemporaryFile(dir=scratch)) for _ in image.layers]
        listings, allowance = [], base_allowance(image, store)
        for number, layer in enumerate(image.layers):
            _unpack_layer(layer, store, spools[number], scratch, allowance)
            listings.append(_list_layer(layer, number, spools[number], allowance))
        try:
            merged = merge(listings)
        except BuildError as err:
            raise BuildError(f"{image.reference}: {err}", hint=err.hint) from None
        ordered = sorted(merged.items(), key=lambda item: item[0].split("/"))
        tree = {
            path: structs.replace(entry, xattrs=tuple(x for x in entry.xattrs if x[0] == CAPABILITY))
            for path, entry in ordered
            if path and (path in empty or path.partition("/")[0] not in empty)
        }
        with add_path_to_errors(target), target.open("wb") as stream:
            _write_entries(tree, spools, TarWriter(stream, epoch))
    return tree


def _unpack_layer(
    layer: ImageLayer, store: Store, spool: IO[bytes], scratch: Path, allowance: Allowance
) -> None:
    """Unpack a layer into a file, and check it."""
    name = layer.file.filename
    path = store.verified(layer.file.sha256, name)
    with open_packed(
        path.open, layer.media_type, layer.diff_id, name, allowance=allowance, again=_AGAIN
    ) as stream:
        while chunk := stream.read(CHUNK):
            with add_path_to_errors(scratch):
                spool.write(chunk)
    with add_path_to_errors(scratch):
        spool.flush()


def _list_layer(layer: ImageLayer, number: int, spool: IO[bytes], allowance: Allowance) -> list[Located]:
    name = layer.file.filename
    entries: list[Located] = []
    try:
        for info, _ in layer_members(spool, name, allowance):
            entry = entry_of(info)
            if entry.path:
                check_name(entry.path, name)
            if entry.type == "symlink":
                check_target(entry.target, entry.path, name)
            entries.append(Located(layer=number, offset=info.offset_data, **structs.asdict(entry)))
    except tars.UNREADABLE as err:
        raise BuildError(f"{name} cannot be read: {err}", hint=HOSTILE) from None
    # The bytes behind the last file are not used, and a layer of some kilobytes can have very many.
    spool.truncate(max((e.offset + e.size for e in entries if e.type == "file"), default=0))
    return entries


def _write_entries(tree: Tree, spools: Sequence[IO[bytes]], writer: TarWriter) -> None:
    """Write the entries, with hard links for names of one file.

    Merging had made separate files of these names.
    """
    first: dict[tuple[int, int], str] = {}
    for path, entry in tree.items():
        if entry.type != "file":
            writer.add(entry)
            continue
        located = cast("Located", entry)
        place = (located.layer, located.offset)
        if place in first:
            writer.add(structs.replace(entry, type="hardlink", target=first[place], size=0, xattrs=()))
        else:
            first[place] = path
            writer.add(entry, cast("IO[bytes]", _Piece(spools[located.layer], located.offset, entry.size)))
    writer.close()


class _Piece:
    """A part of a file, readable once."""

    def __init__(self, spool: IO[bytes], offset: int, size: int) -> None:
        self._spool, self._offset, self._left = spool, offset, size

    def read(self, size: int) -> bytes:
        piece = os.pread(self._spool.fileno(), min(size, self._left), self._offset)
        self._offset += len(piece)
        self._left -= len(piece)
        return piece


def write_owners(tree: Tree, flat: Path, folder: Path, empty: Collection[str]) -> None:
    """Write the owners and modes of a tree for a fakeroot session.

    `owner-UID:GID` and `mode-OCTAL` are lists of paths, each ended by a NUL, and `capabilities.tar` has the files with
    capabilities. A hard link is listed once for each name.

    Args:
        tree: the entries of the tar `flat`, which `realise.unpack.unpack_root` unpacks.
        flat: the tar.
        folder: an empty directory.
        empty: directories at the top whose modes do not count.
    """
    lists: dict[str, list[str]] = defaultdict(list)
    for path, entry in tree.items():
        if path.partition("/")[0] in empty:  # the sandbox mounts there; `finish.rewrite` sets their modes
            continue
        # fakeroot 1.31 loses the type of a file if its attributes are set before it knows the file.
        if (entry.uid, entry.gid) != (0, 0) or entry.xattrs:
            lists[f"owner-{entry.uid}:{entry.gid}"].append(path)
        least = 0o700 if entry.type == "directory" else 0o600
        if entry.type in ("file", "directory") and entry.mode != (entry.mode & 0o1777 | least):
            lists[f"mode-{entry.mode:04o}"].append(path)
    for name, paths in lists.items():
        (folder / name).write_bytes(b"".join(b"/" + os.fsencode(path) + b"\0" for path in paths))
    capable = {path for path, entry in tree.items() if entry.xattrs}
    if not capable:
        return
    with (
        flat.open("rb") as source,
        (folder / "capabilities.tar").open("wb") as target,
        tars.open_stream(source) as tar,
    ):
        writer = TarWriter(target, 0)
        for info in tars.members(tar, "the tree of the image"):
            entry = entry_of(info)
            if entry.path in capable and entry.type == "file":
                writer.add(entry, tar.extractfile(info))
        writer.close()
