"""Saved choices of compilers, for bundles and registries.

In a registry, the choices of one platform are a manifest of their own whose `subject` is the image. Its two layers are
the record and the archive.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.distribute.attachments import EMPTY, EMPTY_TYPE, digest_of
from reprobuild.ecosystems.oci_registry.repository import MANIFEST, Descriptor, OciRepository, encode_manifest
from reprobuild.errors import DistributionError, FetchError
from reprobuild.image.choices.archive import KIND, LARGEST, read_files
from reprobuild.image.choices.record import (
    CHOICES,
    LARGEST_RECORD,
    ChoiceFile,
    is_accepted,
    parse_choices,
    read_choices,
)
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Text
from reprobuild.infra.untrusted.write_below import open_below, refuse_link, write_below
from reprobuild.lock.system import Artefact
from reprobuild.store.fetch import fetch
from reprobuild.store.keyring import StoreKeyring
from reprobuild.store.store import Store
from reprobuild_portable import secrets

TYPE = "application/vnd.reprobuild.choices"
RECORD_TYPE = f"{TYPE}+json"
MOST = 20  # platforms of one image; a registry may list any number, and each costs a request
LARGEST_SUM = 1 << 30  # bytes of archives that `pull` fetches
_MOST_TEXT = 64 << 20  # bytes that are searched for secrets, at some 2 s each MiB
_HEAD = 8192


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
        DistributionError: an archive is missing; a text in it looks like a secret, or there is too much text to search;
            or the user has neither saved nor accepted the choices.
    """
    files = read_choices(out)
    for file in files:
        if not is_accepted(file, known):
            raise DistributionError(
                f"the choices {file.name} were not saved here, and are code that is not handed to others",
                hint=f"accept them with `reprobuild run {shlex.quote(str(out))} --trust-choices {file.digest} -- CMD`, "
                f"or remove {file.record}",
            )
        try:
            file.open_archive().close()
        except OSError:
            raise DistributionError(
                f"{file.archive} is missing, or no plain file",
                hint=f"remove {file.record}, and save the choices again with `reprobuild run --save-choices`",
            ) from None
    searched = 0
    for file in {file.saved.archive.sha256: file for file in files}.values():
        searched = _refuse_secrets(file, searched)
    return files


def _refuse_secrets(file: ChoiceFile, searched: int) -> int:
    """Refuse an archive with a text that looks like a secret; compiled code is not searched.

    Return the number of searched bytes, with those of former archives.
    """
    for path, stream in read_files(file.open_archive, file.saved.archive, f"the choices {file.name}"):
        content = stream.read(_HEAD)
        if b"\0" in content:
            continue
        content += stream.read(_MOST_TEXT + 1 - searched)
        searched += len(content)
        if searched > _MOST_TEXT:
            raise DistributionError(
                f"the texts in the choices of {file.record.parent} have more than {_MOST_TEXT >> 20} MiB, too many to "
                "look for secrets",
                hint=f"remove {file.record}, or hand the image over without its choices",
            )
        for line, rule in secrets.find(content):
            raise DistributionError(
                f"{file.archive}: {path}:{line} looks like a secret ({rule}), and is not handed to others",
                hint=f"remove {file.record}, or hand the image over without its choices",
            )
    return searched


def send_choices(
    repository: OciRepository, files: Sequence[ChoiceFile], subject: Descriptor
) -> tuple[Descriptor, ...]:
    """Attach saved choices to an image; return the descriptor of each manifest."""
    descriptors = []
    for file in files:
        archive = file.saved.archive
        repository.put(file.archive, f"sha256:{archive.sha256}", archive.size)
        repository.put(file.document, digest_of(file.document), len(file.document))
        content = _encode_manifest(file, subject)
        if not repository.has_manifest(digest_of(content)):
            repository.put_manifest(content, MANIFEST, digest_of(content))
        descriptors.append(
            Descriptor(media_type=MANIFEST, digest=digest_of(content), size=len(content), artifact_type=TYPE)
        )
    return tuple(descriptors)


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
    left = LARGEST_SUM
    for offer in offers[:MOST]:
        try:
            file = _read_manifest(repository, offer.digest, subject, out / CHOICES)
        except (NotFoundError, DistributionError, msgspec.MsgspecError, ValueError, RecursionError):
            yield PulledChoices(digest=offer.digest, why="damaged, or made up")
            continue
        archive = file.saved.archive
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
        yield PulledChoices(digest=offer.digest, file=name)


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
