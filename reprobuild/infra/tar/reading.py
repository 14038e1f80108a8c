"""Untrusted tar streams, read to their end by member."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator
from typing import IO

from reprobuild.infra.tar.entries import TarEntry, entry_of, with_hash
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members
from reprobuild.infra.untrusted.names import check_name, check_target


def members(stream: IO[bytes], origin: str = "the tar") -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield each member of a tar stream with its content.

    The content of a file must be read before the next member is taken. No header is kept, so memory does not
    grow with the number of members. `origin` is the user's name for the tar.

    Raises:
        BuildError, and those of `untrusted.tars.UNREADABLE`: see `untrusted.tars.members`.
    """
    with tars.open_stream(stream) as tar:
        for info in tars.members(tar, origin):
            yield info, tar.extractfile(info) if info.isreg() else None


def read_tar(stream: IO[bytes], origin: str = "the tar") -> Iterator[tuple[TarEntry, Callable[[], bytes]]]:
    """Yield each entry of a tar stream, with its content.

    The second value is a function that returns the content of a file. It must be called before the next entry
    is taken. Names are normalised (`./x` is `x`).

    Raises:
        ValueError: a layer cannot hold a member of this kind.
        BuildError, and those of `untrusted.tars.UNREADABLE`: see `untrusted.tars.members`.
    """
    for info, opened in members(stream, origin):

        def content(opened: IO[bytes] | None = opened) -> bytes:
            return opened.read() if opened else b""

        yield entry_of(info), content


def list_tar(
    stream: IO[bytes], origin: str = "the tar", allowance: Allowance | None = None
) -> Iterator[TarEntry]:
    """Yield each entry of a layer with its content's hash.

    The content is read in pieces. `origin` is the user's name for the tar; for `allowance` see
    `untrusted.layers.layer_members`.

    Raises:
        ValueError: a layer cannot hold a member of this kind.
        BuildError, and those of `untrusted.tars.UNREADABLE`: its name leads out, or see `untrusted.layers`.
    """
    for info, opened in layer_members(stream, origin, allowance):
        entry = entry_of(info)
        if entry.path:
            check_name(entry.path, origin)
        if entry.type == "symlink":
            check_target(entry.target, entry.path, origin)
        yield with_hash(entry, opened)
