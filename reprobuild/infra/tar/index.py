"""Where in the tar of a layer the content of each entry begins, from its headers alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from reprobuild.infra.tar.entries import TarEntry, entry_of
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.layers import layer_members


def index_tar(
    stream: IO[bytes], origin: str = "the tar", allowance: Allowance | None = None
) -> Iterator[tuple[TarEntry, int]]:
    """Yield each entry of a layer, without the content's hash, and where its content begins in the file.

    Only headers are read of a stream that can seek. For `origin` and `allowance` see `guard.layers.layer_members`.

    Raises:
        BuildError, tarfile.TarError: see `guard.layers.layer_members`.
    """
    for info, _ in layer_members(stream, origin, allowance):
        yield entry_of(info), info.offset_data
