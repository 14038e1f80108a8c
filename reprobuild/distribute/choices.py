"""Saved choices of compilers, for bundles and registries.

In a registry, the choices of one platform are a manifest of their own whose `subject` is the image. Its two layers are
the record and the archive.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO

import msgspec
from msgspec import Struct

from reprobuild.distribute.attachments import EMPTY, EMPTY_TYPE, digest_of
from reprobuild.distribute.choice_secrets import refuse_secrets
from reprobuild.ecosystems.oci_registry.repository import MANIFEST, Descriptor, OciRepository, encode_manifest
from reprobuild.errors import DistributionError, FetchError
from reprobuild.image.choices.archive import KIND, LARGEST
from reprobuild.image.choices.record import (
    CHOICES,
    LARGEST_RECORD,
    MOST_RECORDS,
    ChoiceFile,
    is_accepted,
    parse_choices,
    read_choices,
)
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Text
from reprobuild.infra.untrusted.write_below import open_below, refuse_link, write_below
from reprobuild.lock.system import Artefact
from reprobuild.store.fetch import fetch
from reprobuild.store.keyring import StoreKeyring
from reprobuild.store.store import Store
from reprobuild_portable.hashing import LARGEST_OWN_HOLE, hash_stream

TYPE = "application/vnd.reprobuild.choices"
RECORD_TYPE = f"{TYPE}+json"
MOST = 20  # platforms of one image; a registry may list any number, and each costs a request
TOO_MANY = f"not looked at: the registry lists more than {MOST}"
LARGEST_SUM = 1 << 30  # bytes of archives that `pull` fetches


class PulledChoices(Struct, frozen=True, kw_only=True):
    """Saved choices that a registry attaches to an image: the digest of their manifest, and their file.

    `why` is the reason for a missing file.
    """

    digest: str
    file: str = ""
    why: str = ""


class _Manifest(Struct, rename="camel"):
    layers: tuple[Descriptor, ...]
    subject: Descriptor | None = None
    artifact_type: Text = ""


def list_choices(out: Path, known: StoreKeyring) -> tuple[ChoiceFile, ...]:
    """Return the saved choices of an output directory, for other machines.

    Args:
        out: the output directory.
        known: beside these keys, the choices are recorded that the user saved or accepted.

    Raises:
        UsageError: a record is damaged.
        BuildError: an archive is damaged.
        DistributionError: an archive is missing; something looks like a secret, or there is too much text to search; or
            the user has neither saved nor accepted the choices.
    """
    files = read_choices(out)
    for file in files:
        if not is_accepted(file, known):
            raise DistributionError(
                f"the choices {file.name} were not saved here, and are code that is not handed to others",
                hint=f"accept them with `reprobuild run {quote_path(out)} --trust-choices {file.digest} -- CMD`, "
                f"or remove {file.record}",
            )
        try:
            file.open_archive().close()
        except OSError:
            raise DistributionError(
                f"{file.archive} is missing, or no plain file",
                hint=f"remove {file.record}, and save the choices again with `reprobuild run --save-choices`",
            ) from None
    refuse_secrets(files)
    return files


def send_choices(
    repository: OciRepository, files: Sequence[ChoiceFile], subject: Descriptor
) -> tuple[Descriptor, ...]:
    """Attach saved choices to an image; return the descriptor of each manifest.

    Raises:
        DistributionError: an archive is another one since `list_choices` searched it, or the registry is broken.
        FetchError: the registry cannot be reached, or refuses.
    """
    descriptors = []
    for file in files:
        digest = f"sha256:{file.saved.archive.sha256}"
        if not repository.has(digest):
            with _open_searched(file) as stream:
                repository.put(stream, digest, file.saved.archive.size, missing=True)
        repository.put(file.document, digest_of(file.document), len(file.document))
        content = _encode_manifest(file, subject)
        if not repository.has_manifest(digest_of(content)):
            repository.put_manifest(content, MANIFEST, digest_of(content))
        descriptors.append(
            Descriptor(media_type=MANIFEST, digest=digest_of(content), size=len(content), artifact_type=TYPE)
        )
    return tuple(descriptors)


@contextlib.contextmanager
def _open_searched(file: ChoiceFile) -> Iterator[IO[bytes]]:
    """Yield the archive in which secrets were searched.

    Other users may write to the directory, and exchange the file for another one of this user. So the bytes are
    compared and sent through one descriptor.
    """
    archive = file.saved.archive
    try:
        stream = file.open_archive()
    except OSError:
        raise _exchange_error(file) from None
    with stream:
        try:
            sha256 = hash_stream(stream, LARGEST_OWN_HOLE)
        except OSError:
            raise _exchange_error(file) from None
        if (sha256, stream.tell()) != (archive.sha256, archive.size):
            raise _exchange_error(file)
        stream.seek(0)
        yield stream


def _exchange_error(file: ChoiceFile) -> DistributionError:
    return DistributionError(
        f"{file.archive} is not the archive in which secrets were searched, and is not sent",
        hint=f"look which program writes to {file.folder}, and push again",
    )


def _encode_manifest(file: ChoiceFile, subject: Descriptor) -> bytes:
    """Return the manifest that attaches saved choices; the same choices have the same manifest."""
    title = "org.opencontainers.image.title"
    layers = [
        {
            "mediaType": RECORD_TYPE, "digest": digest_of(file.document), "size": len(file.document),
            "annotations": {title: f"{CHOICES}/{file.record.name}"},
        },
        {
            "mediaType": KIND, "digest": f"sha256:{file.saved.archive.sha256}", "size": file.saved.archive.size,
            "annotations": {title: f"{CHOICES}/{file.archive.name}"},
        },
    ]  # fmt: skip
    return encode_manifest(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": TYPE,
            "config": {"mediaType": EMPTY_TYPE, "digest": digest_of(EMPTY), "size": len(EMPTY)},
            "layers": layers,
            "subject": {"mediaType": subject.media_type, "digest": subject.digest, "size": subject.size},
        }
    )


def fetch_choices(
    repository: OciRepository, offers: Sequence[Descriptor], subject: str, out: Path, store: Store, net: Net
) -> tuple[PulledChoices, ...]:
    """Write the choices that a registry attaches to an image into an output directory.

    `run` does not use them before the user accepts them: everyone who may write to the repository can attach some.

    Args:
        repository: the repository of the image.
        offers: the manifests of this type.
        subject: the digest of the image's manifest.
        out: the output directory.
        store: for the archives.
        net: the connection for them.

    Raises:
        UsageError: the directory of choices is a link.
        FetchError: the registry cannot be reached.
    """
    refuse_link(out / CHOICES, "the choices")
    return tuple(_fetch_each(repository, offers, subject, out, store, net))


def _fetch_each(
    repository: OciRepository, offers: Sequence[Descriptor], subject: str, out: Path, store: Store, net: Net
) -> Iterator[PulledChoices]:
    left, count = LARGEST_SUM, _count_records(out / CHOICES)
    for offer in offers[MOST:]:
        yield PulledChoices(digest=offer.digest, why=TOO_MANY)
    for offer in offers[:MOST]:
        try:
            file = _read_manifest(repository, offer.digest, subject, out / CHOICES)
        except (NotFoundError, DistributionError, msgspec.MsgspecError, ValueError, RecursionError):
            yield PulledChoices(digest=offer.digest, why="damaged, or made up")
            continue
        except FetchError as err:  # as a record of another size than it states
            yield PulledChoices(digest=offer.digest, why=str(err))
            continue
        archive = file.saved.archive
        is_new = not file.record.exists()
        if count + is_new > MOST_RECORDS:
            yield PulledChoices(digest=offer.digest, why=f"{CHOICES} has {MOST_RECORDS} records")
            continue
        if archive.size > left or archive.content > LARGEST:
            yield PulledChoices(digest=offer.digest, why=f"too large: {archive.size} bytes")
            continue
        left -= archive.size
        name = f"{CHOICES}/{file.record.name}"
        artefact = Artefact(
            filename=file.archive.name, sha256=archive.sha256, size=archive.size,
            url=repository.blob_address(f"sha256:{archive.sha256}"),
        )  # fmt: skip
        try:
            fetch([artefact], store, net)
        except FetchError as err:
            yield PulledChoices(digest=offer.digest, why=str(err))
            continue
        with (
            store.verified(archive.sha256, artefact.filename).open("rb") as source,
            open_below(out, f"{CHOICES}/{file.archive.name}", replace=True) as target,
        ):
            shutil.copyfileobj(source, target)
        write_below(out, name, file.document, replace=True)
        count += is_new
        yield PulledChoices(digest=offer.digest, file=name)


def _count_records(folder: Path) -> int:
    """Return the number of records in a directory, of no more than it may have."""
    return sum(1 for _ in islice(folder.glob("*.json"), MOST_RECORDS))


def _read_manifest(repository: OciRepository, digest: str, subject: str, folder: Path) -> ChoiceFile:
    """Return the choices of a manifest, without their archive.

    Raises:
        NotFoundError: there is no such manifest, or no record.
        DistributionError, ValueError, msgspec.MsgspecError, RecursionError: it is not one of choices of this image.
    """
    manifest = decode_json(repository.manifest(digest), _Manifest)
    whole = manifest.artifact_type == TYPE and manifest.subject is not None and len(manifest.layers) == 2
    if not whole or manifest.subject is None or manifest.subject.digest != subject:
        raise ValueError("of another image, or of another type")
    record, archive = manifest.layers
    document = repository.blob(record, LARGEST_RECORD)
    file = ChoiceFile(saved=parse_choices(document), document=document, folder=folder)
    if (archive.digest, archive.size) != (f"sha256:{file.saved.archive.sha256}", file.saved.archive.size):
        raise ValueError("its archive is not the one of its record")
    return file
