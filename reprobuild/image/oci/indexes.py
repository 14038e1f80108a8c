"""The images in an index of OCI or Docker.

Nested indexes are included; each index is read once.
https://github.com/opencontainers/image-spec/blob/main/image-index.md,
https://docs.docker.com/build/metadata/attestations/attestation-storage/
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reprobuild.image.layering.packed import parse_digest
from reprobuild.image.oci.write import INDEX, MANIFEST, REFERENCE

INDEXES = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = (MANIFEST, "application/vnd.docker.distribution.manifest.v2+json")
DEEPEST_INDEX = 4
MOST_DESCRIPTORS = 10_000  # the index of an image has one or two for each platform
_TYPE, _SUBJECT = "vnd.docker.reference.type", "vnd.docker.reference.digest"
_NAMES = (REFERENCE, "io.containerd.image.name")

Descriptor = dict[str, Any]


def list_images(
    index: Descriptor, has: Callable[[str], bool], read: Callable[[str], Any]
) -> list[Descriptor]:
    """Return the descriptors of all images with existing manifests.

    Args:
        index: the first document.
        has: returns whether a digest ("sha256:" and hex) has a blob.
        read: returns the index of a digest.

    Raises:
        ValueError: it lists too much, is nested too deep, or names an image in a form that engines may know.
    """
    return list(_Walk(has, read).images(index, DEEPEST_INDEX))


class _Walk:
    def __init__(self, has: Callable[[str], bool], read: Callable[[str], Any]) -> None:
        self._has, self._read = has, read
        self._visited: set[str] = set()
        self._count = 0

    def images(self, index: Descriptor, depth: int) -> Iterator[Descriptor]:
        items = index["manifests"]
        self._count += len(items)
        if self._count > MOST_DESCRIPTORS:
            raise ValueError(f"its indexes list more than {MOST_DESCRIPTORS} manifests")
        digests = {item["digest"] for item in items}
        for item in items:
            # `docker save` leaves the manifests of other platforms out.
            if not _is_attestation(item, digests) and self._has(f"sha256:{parse_digest(item['digest'])}"):
                yield from self._image(item, depth)

    def _image(self, item: Descriptor, depth: int) -> Iterator[Descriptor]:
        kind = item.get("mediaType", MANIFEST)
        if kind in MANIFESTS:
            yield item
        elif kind not in INDEXES:
            if _is_named(item):
                raise ValueError(f"its index names an image of the unknown type {kind!r:.80}")
        elif item["digest"] not in self._visited:
            if not depth:
                raise ValueError("its indexes are nested too deep")
            self._visited.add(item["digest"])
            yield from self.images(self._read(item["digest"]), depth - 1)


def _is_named(item: Descriptor) -> bool:
    return any(name in (item.get("annotations") or {}) for name in _NAMES)


def _is_attestation(item: Descriptor, digests: set[str]) -> bool:
    """Return whether a manifest is only an attestation.

    An attestation is on an image of the same index, and no engine can take it for an image.
    """
    notes, platform = item.get("annotations") or {}, item.get("platform") or {}
    return (
        notes.get(_TYPE) == "attestation-manifest"
        and notes.get(_SUBJECT) in digests
        and notes[_SUBJECT] != item["digest"]
        and (platform.get("os"), platform.get("architecture")) == ("unknown", "unknown")
        and not _is_named(item)
    )
