"""Compressed layers, unpacked as a stream, with checked hashes."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, cast

import zstandard

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import CHUNK
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.strings import Digest, is_valid

MAKE_AGAIN = "the layout is damaged: make it again with `reprobuild build`"


def parse_digest(digest: object) -> str:
    """Return the hex digits of a sha256 digest.

    Raises:
        ValueError: it is not a sha256 digest.
    """
    if not isinstance(digest, str) or not is_valid(digest, Digest):
        raise ValueError(f"{digest!r:.100} is no sha256 digest")
    return digest.removeprefix("sha256:")


class _Checked:
    """A stream reader that hashes and counts bytes."""

    def __init__(self, stream: IO[bytes], count: Callable[[int], None] | None = None) -> None:
        self._stream = stream
        self._count = count
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        chunk = self._stream.read(size)
        self.digest.update(chunk)
        if self._count is not None:
            self._count(len(chunk))
        return chunk


@contextlib.contextmanager
def open_packed(
    open_blob: Callable[[str], Any],
    kind: str,
    diff_id: str,
    origin: str,
    *,
    allowance: Allowance,
    packed: str = "",
    again: str = MAKE_AGAIN,
) -> Iterator[IO[bytes]]:
    """Yield the uncompressed content of a blob, then check it.

    The rest of it is read at the end, and its hash checked.

    Args:
        open_blob: takes the mode "rb" and returns a context manager of the compressed stream.
        kind: the media type; its end names the compression.
        diff_id: the sha256 (hex) of the uncompressed bytes; empty to skip the check.
        origin: the blob's name for the user.
        allowance: of the image that has the blob. Bytes behind the end of a tar count, too.
        packed: the sha256 (hex) of the compressed bytes, to be checked, too.
        again: the remedy for damage.

    Raises:
        BuildError: the blob is missing or damaged, does not match its diff_id, is of an unknown kind, or
            unpacks to more than the image may.
    """
    packing = kind.rpartition("+")[2] if "+" in kind else "gzip" if kind.endswith(".gzip") else ""
    if packing not in ("", "zstd", "gzip"):
        raise BuildError(f"{origin} is of the unknown kind {kind}", hint=again)
    try:
        with open_blob("rb") as blob:
            source = _Checked(cast("IO[bytes]", blob))
            stream = cast("IO[bytes]", source if packed else blob)
            if packing == "zstd":
                stream = cast(
                    "IO[bytes]", zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
                )
            elif packing == "gzip":
                stream = cast("IO[bytes]", gzip.GzipFile(fileobj=stream))
            plain = _Checked(stream, lambda size: allowance.take_bytes(size, origin))
            yield cast("IO[bytes]", plain)
            for rest in (plain, source) if packed else (plain,):
                while rest.read(CHUNK):
                    pass
    except (OSError, zlib.error, zstandard.ZstdError, *tars.UNREADABLE) as err:
        if isinstance(err, OSError) and err.errno == errno.ENOSPC:  # of the writer that uses these bytes
            raise
        raise BuildError(f"{origin} cannot be read: {err}", hint=again) from None
    pairs = ((packed, source), (diff_id, plain))
    if any(stated and checked.digest.hexdigest() != stated for stated, checked in pairs):
        raise BuildError(f"{origin} is not what it states", hint=again)
