"""The command `push`: an output directory's image to a registry.

Attachments are sent, too. Blobs are sent first, then the manifest by its digest, then lock, verdict file,
bill of materials and provenance, and the tag last: a client of the tag finds all of it, even if this was
interrupted.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
from msgspec import Struct

from reprobuild.compare.images.explain import LABEL
from reprobuild.config.services import change_addresses
from reprobuild.context import RunContext
from reprobuild.distribute.attachments import (
    EMPTY,
    TYPES,
    Attachment,
    Kind,
    digest_of,
    encode_artifact,
    list_attachments,
)
from reprobuild.distribute.choices import list_choices, send_choices
from reprobuild.distribute.registry_errors import convert_errors
from reprobuild.distribute.secret_files import make_source_finder, refuse_secret_files
from reprobuild.ecosystems.oci_registry.reference import Reference, parse_reference
from reprobuild.ecosystems.oci_registry.repository import MANIFEST, Descriptor, OciRepository
from reprobuild.errors import BuildError, DistributionError
from reprobuild.image.layering.packed import parse_digest
from reprobuild.image.model import Image
from reprobuild.image.oci.open import LARGEST_JSON
from reprobuild.image.oci.read import Layout, open_blob, read_layout
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.lock.model import Lock

_BROKEN = "build it again: `reprobuild build OUT/reprobuild.lock -o OUT`"


class AttachedFile(Struct, frozen=True, kw_only=True):
    """An attachment of a registry's image, with its manifest's digest."""

    kind: Kind
    digest: str


class PushResult(Struct, frozen=True, kw_only=True):
    """The result of a push.

    Attributes:
        reference: exact reference of this image: HOST/NAME@DIGEST.
        tag: another name of it; empty for none.
        sent: the number of sent blobs, and `sent_bytes` their size.
        there: the number of blobs that the registry had.
        attached: lock, verdict file, bill of materials, provenance.
        choices: the manifest of the saved choices of each platform, by digest.
        api: the registry lists the image's referrers itself; else a tag does.
    """

    reference: str
    tag: str
    digest: str
    sent: int
    sent_bytes: int
    there: int
    attached: tuple[AttachedFile, ...]
    choices: tuple[str, ...]
    api: bool

    @property
    def document(self) -> dict[str, Any]:
        """The document of `push --json`."""
        result: dict[str, Any] = msgspec.to_builtins(self)
        return result


class _Image(Struct):
    config: Descriptor
    layers: tuple[Descriptor, ...]


class _Count:
    """Counts of sent blobs and bytes, for the progress."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.blobs = self.bytes = self.there = self._gone = self.total = 0

    def show_progress(self, size: int) -> None:
        self._gone += size
        self._context.progress(min(self._gone, self.total), self.total)

    def done(self, sent: bool, size: int) -> None:
        self.blobs, self.bytes = self.blobs + sent, self.bytes + size * sent
        self.there += not sent


def push(
    lock: Lock, image: Image, out: Path, text: str, context: RunContext, services: Mapping[str, str]
) -> PushResult:
    """Send an output directory's image and attachments to a registry.

    Only missing blobs are sent.

    Args:
        lock, image: of the directory.
        out: the output directory.
        text: the reference: HOST/NAME:TAG, HOST/NAME@DIGEST, or both.
        context: the context of the run.
        services: the user's own addresses of services.

    Raises:
        UsageError: the reference is not valid.
        DistributionError: its digest is that of another image; the registry cannot be reached, refuses, or is broken;
            the directory is damaged; an attachment looks like a secret.
    """
    reference = parse_reference(text, "REF")
    if reference.digest and reference.digest != image.manifest:
        raise DistributionError(
            f"{out} holds {image.manifest}, and {reference} is to be another image",
            hint="leave the digest out, or push the directory that has it",
        )
    attachments, choices = (
        list_attachments(lock, image, out, context.store, context.say),
        list_choices(out, context.store.known),
    )  # before anything is sent
    refuse_secret_files(lock, make_source_finder(out, lock, context.store))
    net, hub = context.net, change_addresses(context.services, services)["docker-hub"].url
    count = _Count(context)
    with convert_errors():
        repository = OciRepository(reference, net, hub, count.show_progress)
        content, parts = _read_manifest(out / image.layout, image)
        layout = _read_named_layout(out / image.layout, lock)
        subject = Descriptor(media_type=MANIFEST, digest=image.manifest, size=len(content))
        _send_blobs(repository, layout, parts, count, context)
        if not repository.has_manifest(image.manifest):
            repository.put_manifest(content, MANIFEST, image.manifest)
        sent_choices = send_choices(repository, choices, subject)
        attached, api = _attach_files(repository, attachments, subject, sent_choices, count)
        if reference.tag:
            repository.put_manifest(content, MANIFEST, reference.tag)
    exact = Reference(host=reference.host, name=reference.name, digest=image.manifest)
    context.say(f"pushed {exact}: {count.blobs} blobs sent, {count.there} were there")
    return PushResult(
        reference=str(exact), tag=reference.tag, digest=image.manifest, sent=count.blobs, sent_bytes=count.bytes,
        there=count.there, attached=attached, choices=tuple(descriptor.digest for descriptor in sent_choices), api=api,
    )  # fmt: skip


def _read_manifest(layout: Path, image: Image) -> tuple[bytes, list[Descriptor]]:
    """Return the manifest of a layout, and its blobs.

    Each blob is listed once, the configuration last.
    """
    try:
        content = read_plain(layout / "blobs" / "sha256" / parse_digest(image.manifest), LARGEST_JSON)
        manifest = decode_json(content, _Image)
        if digest_of(content) != image.manifest:
            raise ValueError("its bytes are others")
        parts = {descriptor.digest: descriptor for descriptor in (*manifest.layers, manifest.config)}
        for digest in parts:
            parse_digest(digest)
    except (OSError, ValueError, msgspec.MsgspecError) as err:
        raise DistributionError(f"the manifest of {layout} cannot be read: {err}", hint=_BROKEN) from None
    return content, list(parts.values())


def _read_named_layout(folder: Path, lock: Lock) -> Layout:
    """Return a layout whose image names its lock.

    A machine that pulls another one could not identify the right lock.
    """
    layout = read_layout(folder)
    if layout.runtime.labels.get(LABEL) != f"sha256:{lock.digest}":
        raise DistributionError(
            f"the image in {folder} does not name its lock in the label {LABEL}", hint=_BROKEN
        )
    return layout


def _send_blobs(
    repository: OciRepository, layout: Layout, parts: list[Descriptor], count: _Count, context: RunContext
) -> None:
    missing = [descriptor for descriptor in parts if not repository.has(descriptor.digest)]
    count.there += len(parts) - len(missing)
    count.total = sum(descriptor.size for descriptor in missing)
    if missing:
        context.say(f"sending {len(missing)} of {len(parts)} blobs, {count.total / 1e6:.1f} MB")
    for descriptor in missing:
        with _open_blob(layout, descriptor.digest) as (stream, size):
            count.done(repository.put(stream, descriptor.digest, size, missing=True), descriptor.size)


@contextlib.contextmanager
def _open_blob(layout: Layout, digest: str) -> Iterator[tuple[IO[bytes], int]]:
    """Yield a blob that has the right bytes, and its size."""
    try:
        with open_blob(layout, parse_digest(digest)) as opened:
            yield opened
    except BuildError:
        path = layout.blob(parse_digest(digest))
        raise DistributionError(f"{path} is not there, or damaged", hint=_BROKEN) from None


def _attach_files(
    repository: OciRepository,
    attachments: list[Attachment],
    subject: Descriptor,
    sent_choices: tuple[Descriptor, ...],
    count: _Count,
) -> tuple[tuple[AttachedFile, ...], bool]:
    """Attach files to an image; return them, and a flag.

    The flag is true if the registry lists referrers itself.
    """
    count.done(repository.put(EMPTY, digest_of(EMPTY), len(EMPTY)), len(EMPTY))
    manifests = []
    for paper in attachments:
        count.done(repository.put(paper.content, paper.digest, len(paper.content)), len(paper.content))
        content = encode_artifact(paper, subject)
        digest = digest_of(content)
        if not repository.has_manifest(digest):
            repository.put_manifest(content, MANIFEST, digest)
        manifests.append((paper.kind, Descriptor(
            media_type=MANIFEST, digest=digest, size=len(content), artifact_type=TYPES[paper.kind],
            annotations={LABEL: paper.digest} if paper.kind == "lock" else None,
        )))  # fmt: skip
    api = repository.referrers(subject.digest).api
    if not api:
        repository.list_referrers(
            subject.digest, (*(descriptor for _, descriptor in manifests), *sent_choices)
        )
    return tuple(AttachedFile(kind=kind, digest=descriptor.digest) for kind, descriptor in manifests), api
