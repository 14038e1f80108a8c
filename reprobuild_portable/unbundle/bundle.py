"""An open bundle, and the check of its length."""

from __future__ import annotations

import contextlib
import json
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from reprobuild_portable.unbundle.format import (
    AGAIN,
    BLOCK,
    LARGEST_MANIFEST,
    LARGEST_SIGNATURE,
    MANIFEST,
    NO_BUNDLE,
    RECORD,
    SIGNATURE,
    Member,
    RefusedError,
    header,
    padding_size,
)
from reprobuild_portable.unbundle.manifest import members_of
from reprobuild_portable.unbundle.signature import Keygen, check_signature, run_keygen
from reprobuild_portable.unbundle.volume import (
    _PART,
    BundleVolume,
    _describe_rest,
    _field,
    _parts_named,
    find_parts,
)


class Bundle(NamedTuple):
    """An open bundle.

    It has the bytes, the first member, the signature of that and the signer, and the members with the offset
    of the first.
    """

    volume: BundleVolume
    epoch: int
    manifest: bytes
    signature: bytes
    signer: str
    members: List[Member]
    start: int
    end: int

    @property
    def document(self) -> Dict[str, Any]:
        document: Dict[str, Any] = json.loads(self.manifest.decode())
        return document

    def placed(self) -> Iterator[Tuple[Member, int, bytes]]:
        """Yield each member with its offset and its header."""
        offset = self.start
        for member in self.members:
            head = _make_header(member, self.epoch)
            yield member, offset, head
            offset += len(head) + _stored_size(member)


def _make_header(member: Member, epoch: int) -> bytes:
    return header(member.path, 0 if member.link else member.size, epoch, member.link)


def _stored_size(member: Member) -> int:
    return 0 if member.link else member.size + padding_size(member.size)


def bundle_size(start: int, members: Sequence[Member], epoch: int) -> int:
    """Return the length of a bundle in bytes.

    Its members begin at `start`.
    """
    end = (
        start + sum(len(_make_header(member, epoch)) + _stored_size(member) for member in members) + 2 * BLOCK
    )
    return end + padding_size(end, RECORD)


@contextlib.contextmanager
def open_bundle(path: str, signers: str = "", keygen: Optional[Keygen] = None) -> Iterator[Bundle]:
    """Open a bundle, and check its signature and its length.

    The signature is checked before the manifest is parsed. The members themselves are not read.

    Args:
        path: the file, or the common beginning of the names of its parts.
        signers, keygen: see `check_signature`.

    Raises:
        RefusedError: a part is missing, the copy was cut, it is not a bundle, or no allowed signer signed it.
    """
    volume = BundleVolume(find_parts(path))
    try:
        first = volume.read(0, BLOCK)
        size, epoch = _field(first, 124, 136), _field(first, 136, 148)
        if first != header(MANIFEST, size, epoch) or size > LARGEST_MANIFEST:
            raise RefusedError("%s is no bundle, or damaged at its beginning" % volume.names[0], NO_BUNDLE)
        manifest = volume.read(BLOCK, size)
        start = BLOCK + size + padding_size(size)
        if volume.size < start:
            raise _cut(volume, "at least %d" % start, _list_end_parts(volume))
        _check_padding(volume, MANIFEST, BLOCK + size)
        signature, start = _signature(volume, start, epoch)
        signer = check_signature(manifest, signature, signers, keygen or run_keygen)
        try:
            members = members_of(manifest)
        except RefusedError as err:
            raise RefusedError("%s: %s" % (volume.names[0], err), err.hint) from None
        end = bundle_size(start, members, epoch)
        bundle = Bundle(volume, epoch, manifest, signature, signer, members, start, end)
        _check_length(bundle)
        yield bundle
    finally:
        volume.close()


def _signature(volume: BundleVolume, start: int, epoch: int) -> Tuple[bytes, int]:
    block = volume.read(start, BLOCK)
    size = _field(block, 124, 136)
    if block != header(SIGNATURE, size, epoch) or size > LARGEST_SIGNATURE:
        return b"", start
    end = start + BLOCK + size + padding_size(size)
    if volume.size < end:
        raise _cut(volume, "at least %d" % end, _list_end_parts(volume))
    _check_padding(volume, SIGNATURE, start + BLOCK + size)
    return volume.read(start + BLOCK, size), start + BLOCK + size + padding_size(size)


def _check_padding(volume: BundleVolume, name: str, end: int) -> None:
    if volume.read(end, padding_size(end)).strip(b"\0"):
        raise RefusedError(
            "what follows %s is not empty (%s)" % (name, volume.place(end, end + padding_size(end))), AGAIN
        )


def _cut(volume: BundleVolume, end: str, which: Sequence[int]) -> RefusedError:
    """Return the error for a copy that was cut.

    Args:
        volume: the bytes that are present.
        end: the number of bytes that must be present.
        which: the parts that may be short.
    """
    detail = "%d bytes are there of %s" % (volume.size, end)
    if len(which) == 1:
        name, size = volume.names[which[0]], volume.sizes[which[0]]
        rest = _describe_rest(volume.paths[which[0]], size)
        return RefusedError("%s: %s: its copy was cut" % (name, detail), rest)
    either = " or ".join("%s (%d bytes)" % (volume.names[index], volume.sizes[index]) for index in which)
    return RefusedError(
        "%s: %s: one copy was cut" % (either, detail),
        "compare their sizes with those of the originals, and go on with the copy that is shorter, as"
        " `rsync --append-verify` does",
    )


def _list_end_parts(volume: BundleVolume) -> Sequence[int]:
    """Return the parts that may be short.

    Each of two may be: the size of the first is not known. Of more parts it is the last.
    """
    return (0, 1) if len(volume.paths) == 2 else (len(volume.paths) - 1,)


def _list_short_parts(bundle: Bundle) -> Sequence[int]:
    """Return the parts that may be short, judged by headers.

    Of two parts, it is one if the headers tell. The first member gives the offset of each header. If the
    first part was cut, each header behind it comes earlier.
    """
    volume, ends = bundle.volume, _list_end_parts(bundle.volume)
    first, lost = volume.sizes[0], bundle.end - volume.size
    for _, offset, head in bundle.placed() if len(ends) > 1 else ():
        if offset >= first and volume.read(offset, len(head)) == head:
            return (1,)
        if offset - lost >= first and volume.read(offset - lost, len(head)) == head:
            return (0,)
    return ends


def _check_length(bundle: Bundle) -> None:
    volume, end = bundle.volume, bundle.end
    if volume.size > end:
        raise RefusedError("%s: %d bytes follow its end" % (volume.names[-1], volume.size - end), AGAIN)
    if volume.size == end:
        return
    whole = max(volume.sizes)
    count = -(-end // whole)
    part = _PART.fullmatch(volume.paths[0])
    if part and volume.sizes[-1] == whole and count > len(volume.paths):
        numbers = range(len(volume.paths) + 1, count + 1)
        stem = part.group(1)
        raise RefusedError(
            "missing: %s" % _parts_named(stem, numbers), "copy what is missing; the other parts can stay"
        )
    raise _cut(volume, "%d" % end, _list_short_parts(bundle))
