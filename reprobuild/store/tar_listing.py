"""Listings of tars in the store.

They save reading the tars again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator

import msgspec
import zstandard

from reprobuild.errors import FetchError
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted.decode import decode_value, json_decoder
from reprobuild.store.store import Store

_LEVEL = 3


def encode_listing(listing: Iterable[TarEntry]) -> bytes:
    """Return a listing as compressed JSON lines.

    Names that are not UTF-8 keep their bytes.
    """
    lines = []
    for entry in listing:
        try:
            lines.append(msgspec.json.encode(entry))
        except UnicodeEncodeError:  # msgspec takes no surrogates; they represent bytes that are not UTF-8
            lines.append(json.dumps(msgspec.structs.asdict(entry)).encode())
    return zstandard.ZstdCompressor(level=_LEVEL).compress(b"".join(line + b"\n" for line in lines))


def decode_listing(content: bytes) -> Iterator[TarEntry]:
    """Yield the entries of an encoded listing."""
    decoder = json_decoder(TarEntry)
    for line in zstandard.ZstdDecompressor().decompress(content).splitlines():
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError:
            yield decode_value(json.loads(line), TarEntry)


def keep_listing(tar: str, listing: Iterable[TarEntry], store: Store) -> str:
    """Remember a tar's entries; return the sha256 of the listing.

    The tar is given by its sha256.
    """
    blob = store.add(encode_listing(listing))
    store.remember(_key(tar), {"listing": blob})
    return blob


def recall_listing(tar: str, store: Store) -> str | None:
    """Return the sha256 of a tar's undamaged listing, or None."""
    known = store.recall(_key(tar))
    if not isinstance(known, dict) or not isinstance(known.get("listing"), str):
        return None
    try:
        store.verified(known["listing"], "a listing")
    except FetchError:
        return None
    return str(known["listing"])


def _key(tar: str) -> str:
    return hashlib.sha256(f"listing\0{tar}".encode()).hexdigest()
