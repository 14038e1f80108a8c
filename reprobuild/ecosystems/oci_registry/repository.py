"""A repository of a registry, for writing and for referrers.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md; sections are named at their use.
`oras` 0.2.43 (PyPI) was read for this, and is not used: it reads a complete layer into memory to send it,
sends the token of a registry to any host that an answer names for the upload, has no timeout, does not resume
an interrupted upload or download, compares no digest, and has no query for referrers. Requests go through
`http`, and logins through `logins`, as those for images of bases do.
"""

from __future__ import annotations

import hashlib
import io
import json
import urllib.parse
from collections.abc import Callable
from typing import IO, Any

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.oci_registry.manifest import LARGEST_JSON, OTHER
from reprobuild.ecosystems.oci_registry.reference import Reference
from reprobuild.ecosystems.oci_registry.upload import Upload
from reprobuild.errors import DistributionError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.http.request import Body, Response
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Digest, Key, Text

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
MOST_PAGES = 20
MOST_REFERRERS = 2000
# Status codes of registries without lists. The specification has 404 for that; older registries answer as to
# any unknown path.
_NO_LIST = (400, 404, 405, 406, 410)


class Descriptor(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A part of a registry, by digest.

    `artifact_type` is the purpose of a manifest.
    """

    media_type: Text
    digest: Digest
    size: int
    artifact_type: Text = ""
    annotations: dict[Key, Text] | None = None


class _Index(Struct):
    manifests: tuple[msgspec.Raw, ...]


class Referrers(Struct, frozen=True, kw_only=True):
    """The referrers of an image, possibly from anyone.

    `api`: the registry keeps the list itself.
    """

    found: tuple[Descriptor, ...]
    api: bool


class OciRepository:
    """A repository of a registry.

    Its answers are untrusted: all content is compared with its digest.

    Args:
        reference: host and name are used.
        net: with the user's logins.
        hub: the address of Docker's own registry.
        sent: called with the number of sent bytes of blobs.
    """

    def __init__(
        self, reference: Reference, net: Net, hub: str, sent: Callable[[int], None] = lambda _: None
    ) -> None:
        self.reference, self._net, self._sent = reference, net, sent
        self._root = f"{reference.root(hub)}/v2/{reference.name}"

    def has(self, digest: str) -> bool:
        """Return whether a blob exists.

        Section: "Checking if content exists in the registry".
        """
        return self._exists(self.blob_address(digest))

    def blob_address(self, digest: str) -> str:
        """Return the address of a blob."""
        return f"{self._root}/blobs/{digest}"

    def has_manifest(self, digest: str) -> bool:
        """Return whether a manifest exists."""
        return self._exists(f"{self._root}/manifests/{digest}")

    def put(self, content: IO[bytes] | bytes, digest: str, size: int, *, missing: bool = False) -> bool:
        """Send a missing blob; return whether it was sent.

        It is sent in one piece ("Pushing a blob in chunks"), and resumed after an interruption.

        Args:
            content: a file is an open one, whose bytes the caller has checked: its path can lead to another one since.
            digest, size: of the content.
            missing: it is known to be missing.

        Raises:
            FetchError: the registry cannot be reached, or refuses. DistributionError: it violates the protocol.
            OSError: the file cannot be read.
        """
        if not missing and self.has(digest):
            return False
        stream = io.BytesIO(content) if isinstance(content, bytes) else content
        place = Upload(self._net, f"{self._root}/blobs/uploads/", stream, size, self._sent).finished()
        try:
            self._net.send("PUT", _with_digest(place, digest), good=(201, 204))
        except NotFoundError:  # an answer was lost, and this is the second attempt
            if not self.has(digest):
                raise
        return True

    def put_manifest(self, content: bytes, media_type: str, identifier: str) -> Response:
        """Send a manifest under a tag or digest ("Pushing Manifests")."""
        return self._net.send(
            "PUT", f"{self._root}/manifests/{identifier}", good=(201,), headers={"Content-Type": media_type},
            body=Body(io.BytesIO(content), 0, len(content)),
        )  # fmt: skip

    def manifest(self, identifier: str, media_type: str = MANIFEST) -> bytes:
        """Return a manifest by tag or digest.

        Raises:
            NotFoundError: there is none. DistributionError: its bytes have another digest.
        """
        url = f"{self._root}/manifests/{identifier}"
        content = self._net.page(url, accept=media_type, most=LARGEST_JSON).content
        if ":" in identifier:
            self._check(content, identifier)
        return content

    def blob(self, stated: Descriptor, most: int) -> bytes:
        """Return a small blob.

        Raises:
            DistributionError: its stated size exceeds `most` bytes, or its bytes have another digest.
            FetchError: it is larger than stated.
        """
        if not 0 <= stated.size <= most:
            raise self._lie(f"states a part {stated.digest[:80]!r} of {stated.size} bytes")
        # With 0, `page` would read up to its default bound.
        content = self._net.page(f"{self._root}/blobs/{stated.digest}", most=max(stated.size, 1)).content
        if len(content) != stated.size:
            raise self._lie(f"gives {len(content)} bytes for {stated.digest}, of {stated.size}")
        self._check(content, stated.digest)
        return content

    def referrers(self, digest: str) -> Referrers:
        """Return the referrers of a manifest ("Listing Referrers").

        If the registry has no such list, the tag that clients keep in its place is read ("Unavailable
        Referrers API").

        Raises:
            DistributionError: the list has no end, leads elsewhere, or is not valid.
        """
        first = url = f"{self._root}/referrers/{digest}"
        descriptors: list[Descriptor] = []
        for _ in range(MOST_PAGES):
            answer = self._net.send(
                "GET", url, good=(200, *_NO_LIST), headers={"Accept": INDEX}, most=LARGEST_JSON
            )
            if not _is_referrers_list(answer):
                if url != first:
                    raise self._lie("breaks off a list")
                return Referrers(found=self._described(self._read_referrers(digest)), api=False)
            descriptors += self._described(self._read(answer.content))
            if not answer.next_page:
                return Referrers(found=tuple(descriptors), api=True)
            url = _join_address(url, answer.next_page)
            if url.partition("?")[0] != first:
                raise self._lie("leads elsewhere for the rest of a list")
        raise self._lie(f"gives a list of more than {MOST_PAGES} pages")

    def list_referrers(self, digest: str, added: tuple[Descriptor, ...]) -> None:
        """Add referrers to the tag that replaces the registry's list.

        Entries of others stay. Two concurrent writers may lose each other's entries; another push adds them.
        """
        before = self._read_referrers(digest)  # unchanged: it may have fields that are not read here
        known = {descriptor.digest for descriptor in self._described(before)}
        new = [descriptor for descriptor in added if descriptor.digest not in known]
        if new:
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*before, *new]}
            self.put_manifest(msgspec.json.encode(index), INDEX, _referrers_tag(digest))

    def _read_referrers(self, digest: str) -> tuple[msgspec.Raw, ...]:
        try:
            return self._read(self.manifest(_referrers_tag(digest), INDEX))
        except NotFoundError:
            return ()

    def _read(self, content: bytes) -> tuple[msgspec.Raw, ...]:
        """Return the raw entries of a list."""
        try:
            entries = decode_json(content, _Index).manifests
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise self._lie("gives a list that is none") from None
        if len(entries) > MOST_REFERRERS:
            raise self._lie(f"lists {len(entries)} things that belong to one image")
        return entries

    def _described(self, entries: tuple[msgspec.Raw, ...]) -> tuple[Descriptor, ...]:
        """Return the usable entries of a list.

        An invalid digest would become part of an address.
        """
        descriptors = []
        for entry in entries:
            try:
                descriptors.append(decode_json(entry, Descriptor))
            except msgspec.ValidationError:  # another form, or an unknown kind of digest
                continue
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                raise self._lie("gives a list that is none") from None
        return tuple(descriptors)

    def _exists(self, url: str) -> bool:
        try:
            self._net.send("HEAD", url, good=(200,), headers={"Accept": f"{MANIFEST}, {INDEX}, */*"})
        except NotFoundError:
            return False
        return True

    def _check(self, content: bytes, digest: str) -> None:
        actual = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if actual != digest:
            raise self._lie(f"gives other bytes for {digest}: {actual}")

    def _lie(self, predicate: str) -> DistributionError:
        return DistributionError(f"{self.reference.host} {predicate} ({self.reference.name})", hint=OTHER)


def _with_digest(place: str, digest: str) -> str:
    return f"{place}{'&' if '?' in place else '?'}digest={digest}"


def _referrers_tag(digest: str) -> str:
    """Return the tag of the referrers list ("Referrers Tag Schema")."""
    return digest.replace(":", "-")


def _is_referrers_list(answer: Response) -> bool:
    """Return whether an answer is a list of referrers.

    Some registries answer a web page for any unknown path.
    """
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return answer.status not in _NO_LIST and kind == INDEX


def _join_address(url: str, following: str) -> str:
    """Return the address of the next page, or "" if invalid."""
    try:
        return urllib.parse.urljoin(url, following)
    except ValueError:
        return ""


def encode_manifest(value: dict[str, Any]) -> bytes:
    """Return the canonical form of a manifest."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
