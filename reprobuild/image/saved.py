"""manifest.json beside index.json, as `docker save` writes both: both must state one image.

A Docker with containerd's image store reads the index, one with the classic store the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from reprobuild.archive import CHUNK
from reprobuild.guard.jsons import SAVED, parse_image_json
from reprobuild.image.files import Files

SAVED_MANIFEST = "manifest.json"


def check_saved(files: Files, raw: bytes, config: str, layers: Sequence[tuple[str, str]]) -> None:
    """Check that manifest.json states the image of the index.

    Args:
        files: those of the image.
        raw: the bytes of manifest.json.
        config: the sha256 (hex) of the configuration that the index leads to.
        layers: digest and diff_id (hex) of each layer.

    Raises:
        ValueError: it states another image, or several.
        OSError: a file that it names is missing.
    """
    listed = parse_image_json(raw, SAVED)
    if not isinstance(listed, list) or len(listed) != 1 or not isinstance(listed[0], dict):
        raise ValueError(f"{SAVED_MANIFEST} does not state one image, and index.json does")
    names = [listed[0].get("Config"), *(listed[0].get("Layers") or ())]
    wanted = [(config,), *layers]
    if len(names) != len(wanted) or not all(map(_is, [files] * len(names), names, wanted)):
        raise ValueError(f"{SAVED_MANIFEST} and index.json state different images")


def _is(files: Files, name: Any, digests: tuple[str, ...]) -> bool:
    """Tell whether a file has one of these digests; the bytes of a blob are checked where they are used."""
    if not isinstance(name, str):
        return False
    if name == f"blobs/sha256/{digests[0]}":
        return True
    found = hashlib.sha256()
    with files.open(name) as stream:
        while chunk := stream.read(CHUNK):
            found.update(chunk)
    return found.hexdigest() in digests
