"""A tar of an image's merged tree, as a stream.

It is a function of only tree and configuration. The division into layers, their compression and the order of
their members have no influence: members are sorted by path, a hard link is a file with its target's content,
as in the tree digest, and every time is the image's own.

The headers are GNU's for long paths and links, because `mksquashfs` 4.5 removes the leading slash of a link's
target in a pax header; extended attributes are in pax headers, as `SCHILY.xattr.NAME`.

https://www.gnu.org/software/tar/manual/html_node/Standard.html,
https://pubs.opengroup.org/onlinepubs/9699919799/utilities/pax.html#tag_20_92_13_03
"""

from __future__ import annotations

import contextlib
import os
import re
import struct
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.image.layering.merge import Located, Tree, merge
from reprobuild.image.layering.order import DAMAGED
from reprobuild.image.layering.packed import MAKE_AGAIN
from reprobuild.image.oci.read import Layout, open_layer
from reprobuild.infra.tar.entries import CHUNK, TarEntry
from reprobuild.infra.tar.index import index_tar
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.lock.system import EPOCH
from reprobuild.recipe.runtime_config import RuntimeConfig

WORKERS = 2
LATEST = 2**32 - 1  # squashfs keeps 32 bits of a time
CREATED = "org.opencontainers.image.created"
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(?:\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_TYPES = {
    "file": tarfile.REGTYPE, "directory": tarfile.DIRTYPE, "symlink": tarfile.SYMTYPE, "fifo": tarfile.FIFOTYPE,
}  # fmt: skip
_HEADER = struct.Struct("100s8s8s8s12s12s8sc100s8s247x")
_LONGEST = 100
_ENOUGH = 1 << 18


class Flat(Struct, frozen=True, kw_only=True):
    """An image taken out of its layers.

    `tree` has no device nodes; `devices` are the paths of the removed ones. `spools` are the tars of the
    layers, to which `Located` entries point.
    """

    tree: Tree
    devices: tuple[str, ...]
    epoch: int
    config: RuntimeConfig
    architecture: str
    spools: tuple[IO[bytes], ...]

    def stream(self, files: Sequence[tuple[TarEntry, bytes]] = ()) -> Iterator[bytes]:
        """Yield the tar in pieces of at most 1 MiB.

        It does not contain the root: see `tree[""]`.

        Args:
            files: more entries, and the content of files; each replaces the tree's own entry.

        Raises:
            BuildError: one of them is below a path that is not a directory.
        """
        tree = merge([[entry for entry, _ in files]], below=self.tree, follow=False)
        return _join_pieces(self._members(tree, {entry.path: content for entry, content in files}))

    def _members(self, tree: Tree, contents: Mapping[str, bytes]) -> Iterator[bytes]:
        for path, entry in tree.items():
            if not path:
                continue
            yield header(entry, self.epoch)
            if entry.type != "file":
                continue
            if isinstance(entry, Located):
                yield from _read_pieces(self.spools[entry.layer], entry.offset, entry.size)
            else:
                yield contents[path]
            yield bytes(-entry.size % tarfile.BLOCKSIZE)
        yield bytes(2 * tarfile.BLOCKSIZE)


@contextlib.contextmanager
def open_flat_image(layout: Layout, folder: Path) -> Iterator[Flat]:
    """Yield the image of a layout as one tree.

    The layers are unpacked into unnamed files of `folder` that always disappear at the end; they take as much
    space as the unpacked image. Device nodes are left out: Apptainer and enroot mount the host's /dev over
    them, and neither can unpack one without privileges.

    Raises:
        BuildError: a layer is damaged, or has entries that a squashfs cannot hold; there is no space.
    """
    with contextlib.ExitStack() as stack:
        spools = tuple(stack.enter_context(_open_spool(folder)) for _ in layout.layers)
        allowance = layout.allowance()
        with ThreadPoolExecutor(WORKERS) as pool:
            listings = list(
                pool.map(
                    lambda index: _unpack_layer(layout, index, spools[index], allowance), range(len(spools))
                )
            )
        merged = merge(listings)
        for path, entry in merged.items():
            _check_entry(path, entry, layout)
        devices = tuple(path for path, entry in merged.items() if entry.type in ("char", "block"))
        yield Flat(
            tree={path: entry for path, entry in merged.items() if entry.type not in ("char", "block")},
            devices=devices,
            epoch=epoch_of(layout.config),
            config=layout.runtime,
            architecture=str(layout.config.get("architecture", "")),
            spools=spools,
        )


def _open_spool(folder: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(dir=folder)
    except OSError as err:
        raise _no_space_error(folder, err) from None


def _unpack_layer(layout: Layout, index: int, spool: IO[bytes], allowance: Allowance) -> list[TarEntry]:
    """Unpack the tar of a layer; return its entries."""
    with open_layer(layout, index, packed=True, allowance=allowance) as stream:
        while chunk := stream.read(CHUNK):
            try:
                spool.write(chunk)
            except OSError as err:
                raise _no_space_error(layout.folder.parent, err) from None
    try:
        spool.flush()
    except OSError as err:
        raise _no_space_error(layout.folder.parent, err) from None
    return _index_layer(layout, index, spool, allowance)


def _no_space_error(folder: Path, err: OSError) -> BuildError:
    return BuildError(
        f"the layers cannot be unpacked in {folder}: {err.strerror}",
        hint="this needs as much space there as the image has when it is unpacked",
    )


def _index_layer(layout: Layout, index: int, spool: IO[bytes], allowance: Allowance) -> list[TarEntry]:
    digest = layout.layers[index][1]
    try:
        return [
            Located(layer=index, offset=offset, **msgspec.structs.asdict(entry))
            for entry, offset in index_tar(spool, f"layer {digest} of {layout.folder}", allowance)
        ]
    except (tarfile.TarError, ValueError) as err:
        raise BuildError(
            f"layer {digest} of {layout.folder} cannot be read: {err}", hint=MAKE_AGAIN
        ) from None


def _check_entry(path: str, entry: TarEntry, layout: Layout) -> None:
    """Refuse an entry that a squashfs would change."""
    if path and not {"", ".", ".."}.isdisjoint(path.split("/")):
        raise BuildError(f"{layout.folder} holds the unsafe path {path!r}", hint=DAMAGED)
    for name, _ in entry.xattrs:
        if not path or not name.startswith(("user.", "trusted.", "security.")):
            raise BuildError(
                f"/{path} has the extended attribute {name}, which no squashfs of ours can hold",
                hint="take the attribute off in the image: squashfs knows user., trusted. and security. alone, "
                "and mksquashfs takes none for the root from a tar",
            )


def epoch_of(image: Mapping[str, Any]) -> int:
    """Return the time of an OCI image configuration, in seconds.

    Our label comes first, because it is a function of the lock for all builders; then `created`. If neither
    has a time that squashfs can hold, it is that of a lock without sources.
    """
    labels = (image.get("config") or {}).get("Labels") or {}
    for text in (labels.get(CREATED), image.get("created")):
        match = _RFC3339.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            continue
        day, clock, zone = match.groups()
        with contextlib.suppress(ValueError):
            moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
            seconds = int(moment.astimezone(timezone.utc).timestamp())
            if 0 <= seconds <= LATEST:
                return seconds
    return EPOCH


def header(entry: TarEntry, epoch: int) -> bytes:
    """Return the header blocks of one member.

    The bytes are those of `tarfile` with GNU_FORMAT, in a tenth of its time. An image has tens of thousands
    of members, and the compressor waits for this.
    """
    name = entry.path.encode("utf-8", "surrogateescape")
    link = entry.target.encode("utf-8", "surrogateescape") if entry.type == "symlink" else b""
    before = _pax_header(entry.xattrs) if entry.xattrs else b""
    for mark, text in ((b"K", link), (b"L", name)):
        if len(text) > _LONGEST:
            block = _header_block(b"././@LongLink", mark, size=len(text) + 1)
            before += block + text + bytes(1 + -(len(text) + 1) % tarfile.BLOCKSIZE)
    return before + _header_block(
        name[:_LONGEST], _TYPES[entry.type], mode=entry.mode, uid=entry.uid, gid=entry.gid, time=epoch,
        size=entry.size if entry.type == "file" else 0, link=link[:_LONGEST],
    )  # fmt: skip


def _header_block(
    name: bytes, kind: bytes, *, mode: int = 0, uid: int = 0, gid: int = 0, size: int = 0, time: int = 0,
    link: bytes = b"",
) -> bytes:  # fmt: skip
    fields = (
        name, _encode_number(mode, 8), _encode_number(uid, 8), _encode_number(gid, 8), _encode_number(size, 12),
        _encode_number(time, 12),
        b" " * 8, kind, link, b"ustar  \0",
    )  # fmt: skip
    block = _HEADER.pack(*fields)
    return block[:148] + b"%06o\0 " % sum(block) + block[156:]


def _encode_number(value: int, width: int) -> bytes:
    """Return a number as octal digits, or in GNU's form.

    If the digits are too few, GNU writes 0x80 and big-endian bytes.
    """
    if value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    return b"\x80" + value.to_bytes(width - 1, "big")


def _pax_header(xattrs: Iterable[tuple[str, str]]) -> bytes:
    """Return a pax header with extended attributes.

    Its records are "LENGTH KEY=VALUE\\n", and the length includes itself.
    """
    body = b""
    for name, value in sorted(xattrs):
        record = b" SCHILY.xattr." + os.fsencode(name) + b"=" + bytes.fromhex(value) + b"\n"
        length = len(record) + len(str(len(record)))
        body += b"%d" % (len(record) + len(str(length))) + record
    return (
        _header_block(b"././@PaxHeader", b"x", size=len(body)) + body + bytes(-len(body) % tarfile.BLOCKSIZE)
    )


def _read_pieces(spool: IO[bytes], offset: int, size: int) -> Iterator[bytes]:
    end = offset + size
    while offset < end:
        piece = os.pread(spool.fileno(), min(CHUNK, end - offset), offset)
        if not piece:
            raise BuildError("a layer ends within a file", hint=MAKE_AGAIN)
        yield piece
        offset += len(piece)


def _join_pieces(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the same bytes in fewer pieces.

    Most members are smaller than a pipe. Large pieces are not copied.
    """
    waiting: list[bytes] = []
    size = 0
    for piece in pieces:
        if waiting and size + len(piece) > _ENOUGH:
            yield b"".join(waiting)
            waiting, size = [], 0
        if len(piece) > _ENOUGH:
            yield piece
        else:
            waiting.append(piece)
            size += len(piece)
    if waiting:
        yield b"".join(waiting)
