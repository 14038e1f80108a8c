"""Checks of manifest.json and `repositories` beside index.json.

`docker save` writes these files, and all must state one image. A Docker with containerd's image store reads
the index, one with the classic store manifest.json, and `repositories` if that is missing; Dockers before
1.10 read only `repositories`. https://github.com/moby/docker-image-spec/blob/main/spec/v1.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from reprobuild.image.oci.members import ImageFiles
from reprobuild.infra.untrusted.json_documents import CONFIG, SAVED, parse_image_json
from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_stream

SAVED_MANIFEST = "manifest.json"
REPOSITORIES = "repositories"
_ID = re.compile(r"[0-9a-f]{64}")


def check_saved(files: ImageFiles, raw: bytes, config: str, layers: Sequence[tuple[str, str]]) -> None:
    """Check that manifest.json states the image of the index.

    Args:
        files: those of the image.
        raw: the bytes of manifest.json.
        config: the sha256 (hex) of the configuration that the index names.
        layers: digest and diff_id (hex) of each layer.

    Raises:
        ValueError: it states another image, or several.
        OSError: a file that it names is missing.
    """
    images = parse_image_json(raw, SAVED)
    if not isinstance(images, list) or len(images) != 1 or not isinstance(images[0], dict):
        raise ValueError(f"{SAVED_MANIFEST} does not state one image, and index.json does")
    names = [images[0].get("Config"), *(images[0].get("Layers") or ())]
    hashes = [(config,), *layers]
    digests = _Digests(files)
    if len(names) != len(hashes) or not all(map(digests.agree, names, hashes)):
        raise ValueError(f"{SAVED_MANIFEST} and index.json state different images")


class _Digests:
    """The sha256 (hex) of files, each read once.

    A file with several names is read once, too.
    """

    def __init__(self, files: ImageFiles) -> None:
        self._files = files
        self._known: dict[tuple[int, int] | None, str] = {}

    def find(self, name: str) -> str:
        place = self._files.place(name)
        if place not in self._known:
            with self._files.open(name) as stream:
                self._known[place] = hash_stream(stream, LARGEST_OWN_HOLE)
        return self._known[place]

    def agree(self, name: Any, digests: tuple[str, ...]) -> bool:
        """Return whether a file has one of these digests.

        The bytes of a blob are checked when they are used.
        """
        return isinstance(name, str) and (name == f"blobs/sha256/{digests[0]}" or self.find(name) in digests)


def check_repositories(files: ImageFiles, layers: Sequence[str], read: Callable[[str], bytes]) -> None:
    """Check that `repositories`, if present, fits the image's layers.

    Newer Dockers write it without the layers that it names, Podman with links to the layers.

    Args:
        files: those of the image.
        layers: the names of its layers in `files`, the lowest first.
        read: returns the bytes of a small file.

    Raises:
        ValueError: engines would load another image by it.
        OSError: a file cannot be read.
    """
    if not files.has(REPOSITORIES):
        return
    if not files.has(SAVED_MANIFEST):
        raise ValueError(
            f"engines load another image by its {REPOSITORIES}, since it has no {SAVED_MANIFEST}"
        )
    chains = [_layer_chain(files, top, len(layers), read) for top in _top_layers(read(REPOSITORIES))]
    digests = _Digests(files)
    for chain in filter(None, chains):
        same = len(chain) == len(layers) and all(
            files.place(old) == files.place(new) or digests.find(old) == digests.find(new)
            for old, new in zip(chain, layers, strict=True)
        )
        if not same:
            raise ValueError(f"its {REPOSITORIES} leads to other layers than {SAVED_MANIFEST}")


def _top_layers(raw: bytes) -> list[str]:
    """Return the ids of the uppermost layers in `repositories`."""
    repositories = parse_image_json(raw, {})
    tags = (
        [repository for repository in repositories.values() if isinstance(repository, dict)]
        if isinstance(repositories, dict)
        else []
    )
    tops = sorted(
        {
            top
            for repository in tags
            for top in repository.values()
            if isinstance(top, str) and _ID.fullmatch(top)
        }
    )
    if len(tops) > 1:
        raise ValueError(f"its {REPOSITORIES} names {len(tops)} images")
    return tops


def _layer_chain(files: ImageFiles, top: str, most: int, read: Callable[[str], bytes]) -> list[str]:
    """Return the layers from the lowest to the uppermost.

    The result is empty if one is missing: no Docker loads such an image.
    """
    names: list[str] = []
    current: Any = top
    while current and len(names) <= most:
        name, description = f"{current}/layer.tar", f"{current}/json"
        if not (isinstance(current, str) and files.has(name) and files.has(description)):
            return []
        names.append(name)
        current = parse_image_json(read(description), CONFIG).get("parent")
    return names[::-1]
