"""One repository of a registry, to be written to and asked for what belongs to an image.

https://github.com/opencontainers/distribution-spec/blob/v1.1.0/spec.md; sections are named where they are used.

`oras` 0.2.43 (PyPI) was read for this, and is not used: it reads a whole layer into memory to send it, sends the token
of a registry to whatever host an answer names for the upload, has no timeout, does not go on where an upload or a
download broke off, compares no digest, and cannot ask for referrers at all. Requests go through `net`, and logins
through `logins`, as those for images of bases do.
"""

from __future__ import annotations

import hashlib
import io
import json
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.oci_registry.manifest import LARGEST_JSON, OTHER
from reprobuild.ecosystems.oci_registry.reference import Reference
from reprobuild.ecosystems.oci_registry.upload import Upload
from reprobuild.errors import DistributionError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.infra.http.request import Body, Response
from reprobuild.infra.untrusted.strings import Digest, Key, Text

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
MOST_PAGES = 20
MOST_REFERRERS = 2000
# Of registries that keep no lists. The specification has 404 for that; those before it answer as to any odd path.
_NO_LIST = (400, 404, 405, 406, 410)


class Descriptor(Struct, frozen=True, omit_defaults=True, rename="camel"):
    """A part of a registry, by its digest; `artifact_type` says what a manifest is for."""

    media_type: Text
    digest: Digest
    size: int
    artifact_type: Text = ""
    annotations: dict[Key, Text] | None = None


class _Index(Struct):
    manifests: tuple[msgspec.Raw, ...]


class Referrers(Struct, frozen=True, kw_only=True):
    """What says to belong to an image; it may be from anybody. `api`: the registry keeps the list itself."""

    found: tuple[Descriptor, ...]
    api: bool


class OciRepository:
    """One repository. What it says is not believed: whatever it gives is compared with its digest.

    Args:
        reference: host and name are used.
        net: with the user's logins.
        hub: the address of Docker's own registry.
        sent: called with the number of bytes of blobs that go out.
    """

    def __init__(
        self, reference: Reference, net: Net, hub: str, sent: Callable[[int], None] = lambda _: None
    ) -> None:
        self.reference, self._net, self._sent = reference, net, sent
        self._root = f"{reference.root(hub)}/v2/{reference.name}"

    def has(self, digest: str) -> bool:
        """Tell whether a blob is there ("Checking if content exists in the registry")."""
        return self._is_there(f"{self._root}/blobs/{digest}")

    def has_manifest(self, digest: str) -> bool:
        """Tell whether a manifest is there."""
        return self._is_there(f"{self._root}/manifests/{digest}")

    def put(self, content: Path | bytes, digest: str, size: int, *, missing: bool = False) -> bool:
        """Send a blob, unless it is there; return whether it was sent. `missing`: that it is not there is known.

        It goes in one piece ("Pushing a blob in chunks"), and where that breaks off, on from what the registry has.

        Raises:
            FetchError: it cannot be reached, or refuses. DistributionError: it does not keep to the protocol.
            OSError: the file cannot be read.
        """
        if not missing and self.has(digest):
            return False
        with content.open("rb") if isinstance(content, Path) else io.BytesIO(content) as stream:
            place = Upload(self._net, f"{self._root}/blobs/uploads/", stream, size, self._sent).finished()
        try:
            self._net.send("PUT", _with_digest(place, digest), good=(201, 204))
        except NotFoundError:  # an answer was lost, and this is the second time
            if not self.has(digest):
                raise
        return True

    def put_manifest(self, content: bytes, media_type: str, wanted: str) -> Response:
        """Send a manifest under a tag, or under its digest ("Pushing Manifests")."""
        return self._net.send(
            "PUT", f"{self._root}/manifests/{wanted}", good=(201,), headers={"Content-Type": media_type},
            body=Body(io.BytesIO(content), 0, len(content)),
        )  # fmt: skip

    def manifest(self, wanted: str, media_type: str = MANIFEST) -> bytes:
        """Return a manifest by tag or digest.

        Raises:
            NotFoundError: there is none. DistributionError: its bytes are others.
        """
        url = f"{self._root}/manifests/{wanted}"
        content = self._net.page(url, accept=media_type, most=LARGEST_JSON).content
        if ":" in wanted:
            self._check(content, wanted)
        return content

    def blob(self, stated: Descriptor, most: int) -> bytes:
        """Return a small blob.

        Raises:
            DistributionError: it says to be larger than `most` bytes, or its bytes are others.
            FetchError: it is larger than it says.
        """
        if not 0 <= stated.size <= most:
            raise self._lie(f"states a part {stated.digest[:80]!r} of {stated.size} bytes")
        # With 0, `page` would read as much as it may of any page.
        content = self._net.page(f"{self._root}/blobs/{stated.digest}", most=max(stated.size, 1)).content
        if len(content) != stated.size:
            raise self._lie(f"gives {len(content)} bytes for {stated.digest}, of {stated.size}")
        self._check(content, stated.digest)
        return content

    def referrers(self, digest: str) -> Referrers:
        """Return what says to belong to a manifest ("Listing Referrers").

        Where the registry has no such list, it is asked for the tag that clients keep in its place
        ("Unavailable Referrers API").

        Raises:
            DistributionError: the list has no end, leads elsewhere, or is none.
        """
        first = url = f"{self._root}/referrers/{digest}"
        found: list[Descriptor] = []
        for _ in range(MOST_PAGES):
            answer = self._net.send(
                "GET", url, good=(200, *_NO_LIST), headers={"Accept": INDEX}, most=LARGEST_JSON
            )
            if not _is_list(answer):
                if url != first:
                    raise self._lie("breaks off a list")
                return Referrers(found=self._described(self._listed(digest)), api=False)
            found += self._described(self._read(answer.content))
            if not answer.following:
                return Referrers(found=tuple(found), api=True)
            url = _joined(url, answer.following)
            if url.partition("?")[0] != first:
                raise self._lie("leads elsewhere for the rest of a list")
        raise self._lie(f"gives a list of more than {MOST_PAGES} pages")

    def list_referrers(self, digest: str, added: tuple[Descriptor, ...]) -> None:
        """Put what was attached on the tag that stands for the list, for a registry that keeps none itself.

        What others put there stays. Two who do this at once may lose each other's entries; pushing again adds them.
        """
        before = self._listed(digest)  # as it is: it may say more than is read here
        known = {one.digest for one in self._described(before)}
        new = [one for one in added if one.digest not in known]
        if new:
            index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [*before, *new]}
            self.put_manifest(msgspec.json.encode(index), INDEX, _tag(digest))

    def _listed(self, digest: str) -> tuple[msgspec.Raw, ...]:
        try:
            return self._read(self.manifest(_tag(digest), INDEX))
        except NotFoundError:
            return ()

    def _read(self, content: bytes) -> tuple[msgspec.Raw, ...]:
        """Return the entries of a list, each of which is one."""
        try:
            found = msgspec.json.decode(content, type=_Index).manifests
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            raise self._lie("gives a list that is none") from None
        if len(found) > MOST_REFERRERS:
            raise self._lie(f"lists {len(found)} things that belong to one image")
        return found

    def _described(self, entries: tuple[msgspec.Raw, ...]) -> tuple[Descriptor, ...]:
        """Return the entries that can be asked for. What is no digest would become part of an address."""
        found = []
        for one in entries:
            try:
                found.append(msgspec.json.decode(one, type=Descriptor))
            except msgspec.ValidationError:  # of another form, or of a kind of digest that is not known here
                continue
            except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                raise self._lie("gives a list that is none") from None
        return tuple(found)

    def _is_there(self, url: str) -> bool:
        try:
            self._net.send("HEAD", url, good=(200,), headers={"Accept": f"{MANIFEST}, {INDEX}, */*"})
        except NotFoundError:
            return False
        return True

    def _check(self, content: bytes, digest: str) -> None:
        found = f"sha256:{hashlib.sha256(content).hexdigest()}"
        if found != digest:
            raise self._lie(f"gives other bytes for {digest}: {found}")

    def _lie(self, what: str) -> DistributionError:
        return DistributionError(f"{self.reference.host} {what} ({self.reference.name})", hint=OTHER)


def _with_digest(place: str, digest: str) -> str:
    return f"{place}{'&' if '?' in place else '?'}digest={digest}"


def _tag(digest: str) -> str:
    """Return the tag that stands for the list of referrers ("Referrers Tag Schema")."""
    return digest.replace(":", "-")


def _is_list(answer: Response) -> bool:
    """Tell whether an answer is a list of referrers: what some give for any path they do not know is a page."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return answer.status not in _NO_LIST and kind == INDEX


def _joined(url: str, following: str) -> str:
    """Return the address of the next page; what is none is nowhere."""
    try:
        return urllib.parse.urljoin(url, following)
    except ValueError:
        return ""


def encode(value: dict[str, Any]) -> bytes:
    """Return the one form of a manifest that is made here."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
