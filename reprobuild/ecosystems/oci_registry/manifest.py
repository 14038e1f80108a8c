"""The present meaning of a reference: manifest, configuration and layers.

They are those of one platform, all by digest.
https://github.com/opencontainers/image-spec/blob/main/manifest.md, image-index.md and config.md;
https://distribution.github.io/distribution/spec/manifest-v2-2/. Every byte is compared with the digest that
named it.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from typing import TypeVar

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.oci_registry.reference import Reference
from reprobuild.errors import FetchError, LockError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Digest, Text, Value
from reprobuild.lock.system import BaseImage, ImageBlob, ImageLayer
from reprobuild.store.store import Store

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_LAYERS = (
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.v1.tar+gzip",
    "application/vnd.oci.image.layer.v1.tar+zstd",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.diff.tar.gzip",
)
_ACCEPT = ", ".join((*_INDEXES, *_MANIFESTS))
# The specification lets registries refuse manifests of more than 4 MiB; configurations have some kilobytes.
LARGEST_JSON = 4 << 20
_MOST_LAYERS = 512  # overlayfs takes at most 500, Docker 127
_LARGEST_LAYER = 256 << 30
OTHER = "the registry is broken, or hostile; take the image from another one"
_PLATFORMS = "choose another `--platform`, or an image that was made for this one"


T = TypeVar("T")


class _Platform(Struct):
    os: Text = ""
    architecture: Text = ""
    variant: Text = ""


class _Descriptor(Struct, rename="camel"):
    digest: Digest
    size: int
    media_type: Text = ""
    platform: _Platform | None = None
    urls: tuple[Text, ...] = ()


class _Index(Struct):
    manifests: tuple[msgspec.Raw, ...]


class _Manifest(Struct):
    config: _Descriptor
    layers: tuple[_Descriptor, ...]


class _Kind(Struct, rename="camel"):
    media_type: Text = ""
    schema_version: int = 0
    manifests: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _RootFS(Struct):
    diff_ids: tuple[Digest, ...]


class _Runtime(Struct, rename="pascal"):
    env: tuple[Value, ...] | None = None


class _Config(Struct):
    os: Text
    architecture: Text
    rootfs: _RootFS
    config: _Runtime | None = None


class FoundImage(Struct, frozen=True, kw_only=True):
    """An image, and the `NAME=VALUE` lines of its configuration.

    Its own packages are not known yet.
    """

    image: BaseImage
    variables: tuple[str, ...]


def find_image(reference: Reference, platform: str, net: Net, store: Store, hub: str) -> FoundImage:
    """Find the image of a reference in a registry.

    Its manifest and its configuration are kept in the store.

    Args:
        reference: the override.
        platform: `linux/amd64`, ...; empty for the only one available.
        net: with the user's logins.
        store: keeps both.
        hub: the address of Docker's own registry.

    Raises:
        FetchError: the registry cannot be reached, refuses, has no such image, or sends wrong content.
        LockError: the image is not for this platform, or of an unknown kind.
    """
    source = _Source(reference, net, store, hub)
    digest, content = source.manifest(reference.selector)
    if source.kind(content) in _INDEXES:
        chosen = _choose_descriptor(_decode_document(content, _Index, reference), platform, reference)
        digest, content = source.manifest(_check_descriptor(chosen, reference, LARGEST_JSON))
        if source.kind(content) in _INDEXES:
            raise LockError(f"{reference} is a list of lists of images", hint=OTHER)
    manifest = _decode_document(content, _Manifest, reference)
    config = source.config(manifest.config)
    if platform and f"{config.os}/{config.architecture}" != platform:
        raise LockError(
            f"{reference} is for {display_text(f'{config.os}/{config.architecture}')}, and {platform} is wanted",
            hint=_PLATFORMS,
        )
    return FoundImage(
        image=BaseImage(
            reference=str(reference),
            digest=digest,
            config=source.artefact(manifest.config, "configuration", LARGEST_JSON),
            layers=_image_layers(manifest, config, source),
        ),
        variables=(config.config.env or ()) if config.config else (),
    )


class _Source:
    """A repository of a registry."""

    def __init__(self, reference: Reference, net: Net, store: Store, hub: str) -> None:
        self.reference, self._net, self._store = reference, net, store
        self._root = f"{reference.root(hub)}/v2/{reference.name}"

    def manifest(self, identifier: str) -> tuple[str, bytes]:
        """Return a manifest's digest and bytes, by tag or digest."""
        try:
            page = self._net.page(f"{self._root}/manifests/{identifier}", accept=_ACCEPT, most=LARGEST_JSON)
        except NotFoundError:
            kind = "image" if ":" in identifier else "tag"
            raise NotFoundError(
                f"{self.reference.host}/{self.reference.name} has no {kind} {identifier}",
                hint="it may have been removed; name a tag or a digest that is there, or take the lock and the store "
                "of a run that has it",
            ) from None
        digest = f"sha256:{self._store.add(page.content)}"
        if ":" in identifier and digest != identifier:
            raise self._lie(identifier, digest)
        return digest, page.content

    def kind(self, content: bytes) -> str:
        """Return the media type of a manifest, stated or inferred.

        Raises:
            LockError: it is of another kind.
        """
        stated = _decode_document(content, _Kind, self.reference)
        # The OCI specification allows the type to be absent.
        unstated = _MANIFESTS[0] if stated.manifests is msgspec.UNSET else _INDEXES[0]
        kind = stated.media_type or unstated
        if kind not in (*_INDEXES, *_MANIFESTS) or stated.schema_version != 2:
            raise LockError(
                f"{self.reference} is no image of a kind that is known ({display_text(kind) or 'none stated'})",
                hint="push it again with a tool of this decade: images of Docker's schema 2 and of OCI are known",
            )
        return kind

    def config(self, stated: _Descriptor) -> _Config:
        """Fetch an image's configuration, and return its used fields."""
        artefact = self.artefact(stated, "configuration", LARGEST_JSON)
        content = self._net.page(artefact.url, most=LARGEST_JSON).content
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != artefact.sha256:
            raise self._lie(stated.digest, f"sha256:{sha256}")
        self._store.add(content)
        return _decode_document(content, _Config, self.reference)

    def artefact(self, stated: _Descriptor, role: str, largest: int) -> ImageBlob:
        """Return a blob for the lock.

        Its address contains image and digest, and no login.
        """
        digest = _check_descriptor(stated, self.reference, largest)
        return ImageBlob(
            filename=f"{self.reference.name}, {role} {digest[7:19]}",
            sha256=digest[7:],
            size=stated.size,
            url=f"{self._root}/blobs/{digest}",
        )

    def _lie(self, identifier: str, digest: str) -> FetchError:
        return FetchError(
            f"{self.reference.host} gives other bytes for {self.reference.name}@{identifier}: {digest}",
            hint=OTHER,
        )


def _image_layers(manifest: _Manifest, config: _Config, source: _Source) -> tuple[ImageLayer, ...]:
    reference, diff_ids = source.reference, config.rootfs.diff_ids
    if not 0 < len(manifest.layers) == len(diff_ids) <= _MOST_LAYERS:
        raise FetchError(
            f"{reference} states {len(manifest.layers)} layers, and {len(diff_ids)} in its configuration",
            hint=OTHER,
        )
    for layer in manifest.layers:
        if layer.media_type not in _LAYERS or layer.urls:
            raise LockError(
                f"{reference} has a layer that is no plain part of it ({display_text(layer.media_type)})",
                hint="layers of Windows, encrypted ones and ones that lie elsewhere cannot be used",
            )
    return tuple(
        ImageLayer(
            file=source.artefact(layer, "layer", _LARGEST_LAYER),
            media_type=layer.media_type,
            diff_id=diff_id.removeprefix("sha256:"),
        )
        for layer, diff_id in zip(manifest.layers, diff_ids, strict=True)
    )


def _choose_descriptor(index: _Index, platform: str, reference: Reference) -> _Descriptor:
    """Return the entry of a platform.

    Builders add others, of the platform `unknown`, for attestations.
    """
    offered = [(item, item.platform) for item in _descriptors(index) if item.platform]
    real = [item for item, made_for in offered if made_for.os != "unknown"]
    if not platform and len(real) == 1:
        return real[0]
    for item, made_for in offered:
        if f"{made_for.os}/{made_for.architecture}" == platform:
            return item
    known = sorted({display_text(f"{p.os}/{p.architecture}") for _, p in offered if p.os != "unknown"})[:20]
    raise LockError(
        f"{reference} has no image for {platform or 'one platform alone'}; it has {', '.join(known) or 'none'}",
        hint=_PLATFORMS,
    )


def _descriptors(index: _Index) -> Iterator[_Descriptor]:
    """Yield the usable entries of an index.

    An odd entry, for example with another kind of digest, must not hide the others.
    """
    for entry in index.manifests:
        with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
            yield decode_json(entry, _Descriptor)


def _check_descriptor(stated: _Descriptor, reference: Reference, largest: int) -> str:
    """Return the digest of a descriptor with a plausible size; 0 would mean an unknown one, without a bound."""
    if not 0 < stated.size <= largest:
        raise FetchError(
            f"{reference} states a part {stated.digest[:80]!r} of {stated.size} bytes", hint=OTHER
        )
    return stated.digest


def display_text(text: str, most: int = 80) -> str:
    """Return a registry's text for a terminal, without control characters."""
    return "".join(character if character.isprintable() else "?" for character in text[:most])


def _decode_document(content: bytes, kind: type[T], reference: Reference) -> T:
    try:
        return decode_json(content, kind)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as err:
        raise FetchError(f"{reference} cannot be read: {display_text(str(err), 200)}", hint=OTHER) from None
