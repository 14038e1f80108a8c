"""The referrers of a registry's image, and their validation.

Everyone who may write to a repository can attach anything to an image in it. The image's own configuration
names the digest of its lock; a verdict file must be of this image, lock and tree, and reports observations on
another machine: it is not signed. Bill of materials and provenance must follow from the lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.builders.registry import BUILDERS
from reprobuild.compare.images.explain import LABEL
from reprobuild.distribute.attachments import (
    FILES,
    KINDS,
    LARGEST_PAPER,
    TYPES,
    Attachment,
    Kind,
    digest_of,
    parse_image_verdict,
    provenance_of,
    read_artifact,
)
from reprobuild.distribute.choices import TYPE
from reprobuild.distribute.sbom import cyclonedx
from reprobuild.ecosystems.oci_registry.manifest import OTHER
from reprobuild.ecosystems.oci_registry.repository import Descriptor, OciRepository
from reprobuild.errors import DistributionError, FetchError, LockError
from reprobuild.image.model import NATIVE, Image
from reprobuild.image.oci.open import LARGEST_JSON
from reprobuild.infra.atomic import write_file
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Key, Text
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import BaseImage
from reprobuild.output.directory import LOCK
from reprobuild.store.store import Store

# Of one kind; a registry may list any number, and each costs a request.
MOST_OF_A_KIND = 20
# Each is requested with retries, and takes a while.
MOST_FAILED = 3
_NOT_OURS = (
    "it was pushed by another tool, or copied without what belongs to it: `docker pull` takes it as it is; push it "
    "with `reprobuild push`, and copy it with its referrers (`oras cp -r`)"
)


class ReferrerList(Struct, frozen=True, kw_only=True):
    """The referrers of an image by kind; others are counted.

    `strangers` is the number of all others, which are not read.
    """

    by_kind: Mapping[Kind, list[Descriptor]]
    choices: list[Descriptor]
    strangers: int


class FoundReferrer(Struct, frozen=True, kw_only=True):
    """An attachment that was found.

    It has its kind, the digest of its manifest, and its file, or the reason for its absence.
    """

    kind: Kind
    digest: str
    file: str = ""
    why: str = ""


class _Found(Struct, frozen=True, kw_only=True):
    """An attachment of a registry before its validation."""

    paper: Attachment
    manifest: str


class _Runtime(Struct, rename="pascal"):
    labels: dict[Key, Text] | None = None


class _Config(Struct):
    config: _Runtime | None = None


def read_lock_digest(repository: OciRepository, image: BaseImage, store: Store) -> str:
    """Return the lock's digest from an image's configuration, or "".

    Args:
        repository: the repository of the image.
        image: the image, whose configuration is in the store.
        store: has the configuration.

    Raises:
        DistributionError: the configuration cannot be read.
    """
    content = read_plain(store.verified(image.config.sha256, "the configuration"), LARGEST_JSON)
    try:
        runtime = decode_json(content, _Config).config
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        raise DistributionError(
            f"the configuration of {repository.reference} cannot be read", hint=OTHER
        ) from None
    return ((runtime and runtime.labels) or {}).get(LABEL, "")


def list_referrers(repository: OciRepository, digest: str, named: str) -> ReferrerList:
    """Return an image's referrers, with a bound for each kind.

    Args:
        repository: the repository of the image.
        digest: of its manifest.
        named: the digest of its lock: referrers that claim to be it come first.

    Raises:
        DistributionError, FetchError: see `Repository.referrers`.
    """
    referrers = sorted(
        repository.referrers(digest).found,
        key=lambda referrer: (referrer.annotations or {}).get(LABEL) != named,
    )
    offers: dict[Kind, list[Descriptor]] = {
        kind: [referrer for referrer in referrers if referrer.artifact_type == TYPES[kind]][:MOST_OF_A_KIND]
        for kind in KINDS
    }
    choices = [referrer for referrer in referrers if referrer.artifact_type == TYPE]
    known = sum(map(len, offers.values())) + len(choices)
    return ReferrerList(by_kind=offers, choices=choices, strangers=len(referrers) - known)


def _read_attachments(
    repository: OciRepository, kind: Kind, offers: ReferrerList, subject: str
) -> Iterator[_Found]:
    """Yield an image's attachments of a kind; skip broken ones.

    Others may be valid.

    Raises:
        FetchError: too many attachments failed for an error of single ones.
    """
    failed = 0
    for referrer in offers.by_kind[kind]:
        try:
            layer = read_artifact(repository.manifest(referrer.digest), kind, subject)
            content = repository.blob(layer, LARGEST_PAPER) if layer else None
        except (NotFoundError, DistributionError):
            continue
        except FetchError:
            failed += 1
            if failed > MOST_FAILED:
                raise
            continue
        if content is not None:
            yield _Found(paper=Attachment(kind=kind, content=content), manifest=referrer.digest)


def find_lock(repository: OciRepository, offers: ReferrerList, digest: str, named: str, store: Store) -> Lock:
    """Return the lock whose digest the image's configuration names.

    The uploader does not matter.

    Args:
        repository: the repository of the image.
        offers: its referrers.
        digest: of its manifest.
        named: the digest of the lock.
        store: for files that are read.

    Raises:
        DistributionError: there is none, or its version is unknown to this program.
        FetchError: see `_read_attachments`.
    """
    for candidate in _read_attachments(repository, "lock", offers, digest) if named else ():
        if candidate.paper.digest == named:
            with store.scratch() as folder:
                (folder / LOCK).write_bytes(candidate.paper.content)
                try:
                    return read_lock(folder / LOCK)
                except LockError as err:
                    message = str(err).replace(str(folder / LOCK), f"the lock of {repository.reference}")
                    raise DistributionError(message, hint="use the reprobuild that pushed it") from None
    raise DistributionError(f"{repository.reference} has no lock of reprobuild", hint=_NOT_OURS)


def write_valid_attachments(
    repository: OciRepository, offers: ReferrerList, lock: Lock, image: Image, out: Path
) -> tuple[FoundReferrer, ...]:
    """Write an image's valid attachments into an output directory.

    No verdict file becomes `verdict.json`, which is that of this machine: its uploader may have written
    anything.

    Returns:
        Every attachment of this image.
    """
    referrers: list[FoundReferrer] = []
    valid = _list_valid_digests(lock, image)
    for kind in ("lock", "sbom", "provenance"):
        for candidate in _read_attachments(repository, kind, offers, image.manifest):
            is_valid = candidate.paper.digest in valid[kind]
            if is_valid and kind != "lock":
                write_file(out / FILES[kind], candidate.paper.content)
            why = "" if is_valid else "it does not follow from the lock: of another reprobuild, or made up"
            referrers.append(_found_referrer(candidate, FILES[kind] if is_valid else "", why))
    certificates: list[tuple[str, str, FoundReferrer]] = []  # each is written before the next one is read
    for candidate in _read_attachments(repository, "certificate", offers, image.manifest):
        if verdict := parse_image_verdict(candidate.paper.content, lock, image):
            referrer = _found_referrer(candidate, _write_verdict(candidate.paper.content, out), "")
            certificates.append((verdict.made, candidate.paper.digest, referrer))
    certificates.sort(key=lambda certificate: certificate[:2], reverse=True)
    return (*referrers, *(referrer for *_, referrer in certificates))


def _list_valid_digests(lock: Lock, image: Image) -> dict[Kind, set[str]]:
    """Return the digests of the attachments that follow from a lock, by kind.

    A provenance may name any builder. They are computed once: a repository can hold many.
    """
    provenances = {
        digest_of(provenance_of(lock, msgspec.structs.replace(image, builder=name)))
        for name in (NATIVE, *BUILDERS)
    }
    return {
        "lock": {f"sha256:{lock.digest}"},
        "sbom": {digest_of(cyclonedx(lock))},
        "provenance": provenances,
    }


def _write_verdict(content: bytes, out: Path) -> str:
    """Write a verdict file under its digest; return the name."""
    name = f"verdict-{hashlib.sha256(content).hexdigest()}.json"
    write_file(out / name, content)
    return name


def _found_referrer(candidate: _Found, file: str, why: str) -> FoundReferrer:
    return FoundReferrer(kind=candidate.paper.kind, digest=candidate.manifest, file=file, why=why)
