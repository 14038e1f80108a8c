"""Offsets of contents in a layer's tar, from its headers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from reprobuild.infra.tar.entries import TarEntry, entry_of
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members


def index_tar(
    stream: IO[bytes], origin: str = "the tar", allowance: Allowance | None = None
) -> Iterator[tuple[TarEntry, int]]:
    """Yield each entry of a layer, and its content's offset.

    The content's hash is missing: only headers are read of a seekable stream. For `origin` and `allowance`
    see `untrusted.layers.layer_members`.

    Raises:
        BuildError, tarfile.TarError: see `untrusted.layers.layer_members`.
    """
    for info, _ in layer_members(stream, origin, allowance):
        yield entry_of(info), info.offset_data
