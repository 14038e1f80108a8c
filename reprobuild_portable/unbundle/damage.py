"""Comparison of all bytes of a bundle with its manifest."""

from __future__ import annotations

import hashlib
from typing import Callable, Iterator, Optional, Sequence

from reprobuild_portable.unbundle.bundle import Bundle, _stored_size
from reprobuild_portable.unbundle.format import AGAIN, CHUNK, MOST_NAMED, Member, RefusedError, padding_size


class MemberSink:
    """A receiver of the bytes of a member.

    Its last call has the result of the comparison.
    """

    def write(self, piece: bytes) -> None:
        """Take a piece of the bytes."""

    def close(self, right: bool) -> None:
        """End the bytes: no more follow, or are wanted.

        `right` is the result of the comparison.
        """


def find_damage(bundle: Bundle, take: Callable[[Member], Optional[MemberSink]]) -> Iterator[str]:
    """Read every member, and yield each damage.

    Args:
        bundle: the bundle.
        take: gets each member with a right header, and returns its receiver, or None if the bytes are not to
            be read. A link has no receiver.
    """
    volume, end = bundle.volume, bundle.start
    for member, offset, head in bundle.placed():
        begin, end = offset + len(head), offset + len(head) + _stored_size(member)
        if volume.read(offset, len(head)) != head:
            yield "the header of %s is not what it must be (%s)" % (member.path, volume.place(offset, begin))
            continue
        sink = take(member)
        if sink is not None:
            yield from _find_member_damage(bundle, member, begin, sink)
        if sink is not None and volume.read(begin + member.size, padding_size(member.size)) != bytes(
            padding_size(member.size)
        ):
            yield "what follows %s is not empty (%s)" % (member.path, volume.place(begin + member.size, end))
    if volume.read(end, bundle.end - end) != bytes(bundle.end - end):
        yield "its end is not empty (%s)" % volume.place(end, bundle.end)


def _find_member_damage(bundle: Bundle, member: Member, begin: int, sink: MemberSink) -> Iterator[str]:
    digest, rest = hashlib.sha256(), member.size
    right = False
    try:
        while rest:
            piece = bundle.volume.read(begin + member.size - rest, min(CHUNK, rest))
            if not piece:
                raise RefusedError("%s became shorter meanwhile" % bundle.volume.names[-1], AGAIN)
            digest.update(piece)
            sink.write(piece)
            rest -= len(piece)
        right = digest.hexdigest() == member.sha256
    finally:
        sink.close(right)
    if not right:
        yield "%s is damaged: sha256 %s, and the manifest says %s (%s)" % (
            member.path, digest.hexdigest(), member.sha256, bundle.volume.place(begin, begin + member.size),
        )  # fmt: skip


def refuse_damaged(messages: Sequence[str]) -> None:
    """Raise `RefusedError` if any damage was found."""
    if messages:
        more = ["and %d more" % (len(messages) - MOST_NAMED)] if len(messages) > MOST_NAMED else []
        raise RefusedError("\n".join([*messages[:MOST_NAMED], *more]), AGAIN)


def check(bundle: Bundle) -> None:
    """Compare every byte of a bundle with its manifest.

    Raises:
        RefusedError: with the names of damaged members.
    """
    refuse_damaged(list(find_damage(bundle, lambda member: None if member.link else MemberSink())))
