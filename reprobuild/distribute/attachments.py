"""Attachments of an image, and their form in registries.

They are lock, verdict file, bill of materials and provenance. Each is a manifest of its own whose `subject`
is the image, with one layer: the file.

https://github.com/opencontainers/image-spec/blob/v1.1.0/manifest.md#guidelines-for-artifact-usage
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from reprobuild.compare.images.explain import LABEL
from reprobuild.distribute import provenance, sbom
from reprobuild.ecosystems.oci_registry import repository
from reprobuild.ecosystems.oci_registry.repository import MANIFEST, Descriptor
from reprobuild.errors import DistributionError, UsageError
from reprobuild.image.engine_name import own_name
from reprobuild.image.model import Image
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.strings import Text
from reprobuild.lock.model import Lock, encode
from reprobuild.output.directory import LOCK, VERDICT, is_document_of_here
from reprobuild.store.store import Store
from reprobuild.verify.certificate.read import LARGEST, read_verdict
from reprobuild.verify.verdict import Verdict
from reprobuild_portable import secrets

Kind = Literal["lock", "certificate", "sbom", "provenance"]
KINDS: tuple[Kind, ...] = get_args(Kind)
TYPES: dict[Kind, str] = {
    "lock": "application/vnd.reprobuild.lock+json",
    "certificate": "application/vnd.reprobuild.certificate+json",
    "sbom": sbom.MEDIA_TYPE,
    "provenance": provenance.MEDIA_TYPE,
}
FILES: dict[Kind, str] = {
    "lock": LOCK,
    "certificate": VERDICT,
    "sbom": sbom.FILE,
    "provenance": provenance.FILE,
}
LARGEST_PAPER = LARGEST
# The empty configuration of an artifact, as in the image specification.
EMPTY = b"{}"
EMPTY_TYPE = "application/vnd.oci.empty.v1+json"


class Attachment(Struct, frozen=True, kw_only=True):
    """An attachment and its content."""

    kind: Kind
    content: bytes

    @property
    def digest(self) -> str:
        """The digest of the content."""
        return digest_of(self.content)


class OwnVerdict(Struct, frozen=True, kw_only=True):
    """A verdict of a check here, and the content of its file."""

    content: bytes
    verdict: Verdict


class _Artifact(Struct, rename="camel"):
    """The fields read from the manifest of an artifact."""

    layers: tuple[Descriptor, ...]
    config: Descriptor
    subject: Descriptor | None = None
    artifact_type: Text = ""


def digest_of(content: bytes) -> str:
    """Return the digest of some bytes, as registries write it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def default_image_name(lock: Lock) -> str:
    """Return the default name of a lock's image."""
    return own_name(lock.digest)


def provenance_of(lock: Lock, image: Image) -> bytes:
    """Return the provenance for a registry.

    It has no name of the user's, and no single files.
    """
    return provenance.provenance(
        lock, msgspec.structs.replace(image, reference=default_image_name(lock), sif="", sqsh="")
    )


def list_attachments(
    lock: Lock, image: Image, out: Path, store: Store, say: Callable[[str], None]
) -> list[Attachment]:
    """Return the attachments of the image of an output directory.

    Raises:
        DistributionError: a file looks like a secret; see also `read_own_verdict`.
    """
    attachments = [
        Attachment(kind="lock", content=encode(lock)),
        Attachment(kind="sbom", content=sbom.cyclonedx(lock)),
        Attachment(kind="provenance", content=provenance_of(lock, image)),
    ]
    if own_verdict := read_own_verdict(lock, image, out, store, say):
        attachments.append(Attachment(kind="certificate", content=own_verdict.content))
    for paper in attachments:
        for line, rule in secrets.find(paper.content):
            raise DistributionError(
                f"{FILES[paper.kind]}:{line}: this looks like a secret ({rule}), and is not handed to others",
                hint="leave what it comes from out, with --drop NAME, and build again",
            )
    return attachments


def read_own_verdict(
    lock: Lock, image: Image, out: Path, store: Store, say: Callable[[str], None]
) -> OwnVerdict | None:
    """Return the verdict of an output directory, or None without one of a check here.

    A verdict of another party is left out: whoever hands it on would vouch for it, and a signature would cover it.

    Args:
        lock, image: of the directory.
        out: the directory.
        store: remembers the checks here.
        say: logs that a verdict is left out.

    Raises:
        DistributionError: the verdict file is of another image, damaged, or not a regular file.
    """
    place = out / VERDICT
    content = _read_verdict_file(place)
    if content is None:
        return None
    verdict = parse_image_verdict(content, lock, image)
    if verdict is None:
        raise DistributionError(
            f"{place} is no verdict on this image",
            hint="make one with `reprobuild verify OUT`, or take the file away and go without one",
        )
    if not is_document_of_here(VERDICT, image, content, store):
        say(
            f"{place} is left out: no check here made it; `reprobuild verify {quote_path(out)}` makes your own"
        )
        return None
    return OwnVerdict(content=content, verdict=verdict)


def _read_verdict_file(place: Path) -> bytes | None:
    """Return the content of a verdict file, or None without one; no link is followed."""
    try:
        stream, _ = open_plain(place, links=False)
    except FileNotFoundError:
        return None
    except OSError:
        raise DistributionError(
            f"{place} is no plain file, or cannot be read",
            hint="take it away, and make a verdict with `reprobuild verify OUT`",
        ) from None
    with stream:
        return stream.read(LARGEST + 1)


def parse_image_verdict(content: bytes, lock: Lock, image: Image) -> Verdict | None:
    """Return the verdict of this image's verdict file, or None."""
    try:
        verdict = read_verdict(content, VERDICT) if len(content) <= LARGEST else None
    except UsageError:
        return None
    if verdict is None:
        return None
    digests = (f"sha256:{lock.digest}", image.manifest, image.tree)
    return verdict if (verdict.lock, verdict.image, verdict.tree) == digests else None


def encode_artifact(paper: Attachment, subject: Descriptor) -> bytes:
    """Return the manifest that attaches a file to an image.

    The same file has the same manifest.
    """
    empty = {"mediaType": EMPTY_TYPE, "digest": digest_of(EMPTY), "size": len(EMPTY)}
    layer = {
        "mediaType": TYPES[paper.kind], "digest": paper.digest, "size": len(paper.content),
        "annotations": {"org.opencontainers.image.title": FILES[paper.kind]},
    }  # fmt: skip
    return repository.encode_manifest(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": TYPES[paper.kind],
            "config": empty,
            "layers": [layer],
            **({"annotations": {LABEL: paper.digest}} if paper.kind == "lock" else {}),  # shown in lists
            "subject": {"mediaType": subject.media_type, "digest": subject.digest, "size": subject.size},
        }
    )


def read_artifact(content: bytes, kind: Kind, subject: str) -> Descriptor | None:
    """Return the descriptor of an attached file, or None.

    None means that the manifest is not an attachment of this kind to this image.
    """
    try:
        manifest = decode_json(content, _Artifact)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
    stated = manifest.artifact_type or manifest.config.media_type
    whole = manifest.subject is not None and manifest.subject.digest == subject and len(manifest.layers) == 1
    return manifest.layers[0] if whole and stated == TYPES[kind] else None
