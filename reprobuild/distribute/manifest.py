"""The manifest of a bundle as a value.

Each string in it has a grammar; `standalone/unbundle.py` uses the same grammars.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import DistributionError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import BundlePath, Digest, ImageName, Sha256, ShortLine, Word

_HINT = "is it a file that `reprobuild bundle` wrote?"


class BundleEntry(Struct, frozen=True, kw_only=True):
    """A file of a bundle."""

    path: BundlePath
    sha256: Sha256
    size: Annotated[int, Meta(ge=0)]


class Names(Struct, frozen=True, kw_only=True):
    """The name of an image and its digests."""

    reference: ImageName
    tree: Digest
    config: Digest
    manifest: Digest


class Manifest(Struct, frozen=True, kw_only=True):
    """`bundle.json`: a bundle's origin, lock, image, parts and files.

    `made_by` is the program, and `lock` a digest in hex.
    """

    form: int
    digest: Sha256
    made_by: ShortLine
    lock: Sha256
    image: Names
    parts: Annotated[tuple[Word, ...], Meta(max_length=100)]
    members: tuple[BundleEntry, ...]


def read_manifest(content: bytes) -> Manifest:
    """Return the manifest in the first file of a bundle.

    Raises:
        DistributionError: a field of it is missing or has another grammar; the message names the field.
    """
    try:
        return decode_json(content, Manifest)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        message = str(err).encode("unicode_escape").decode()[:300]
        raise DistributionError(f"its bundle.json is damaged or hostile: {message}", hint=_HINT) from None
