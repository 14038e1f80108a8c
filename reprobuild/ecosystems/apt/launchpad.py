"""Launchpad: published files of packages, and keys of PPAs.

It has every file that Ubuntu or a PPA ever published.

https://api.launchpad.net/devel.html (archive: `getPublishedBinaries`; binary_package_publishing_history:
`binaryFileUrls` with `include_meta`). Superseded files stay for 18 months at least.
"""

from __future__ import annotations

import contextlib
from typing import Annotated, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import FetchError
from reprobuild.infra.display import display_error
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted.decode import decode_json, decode_value
from reprobuild.infra.untrusted.strings import FileName, Hex, Sha256, Url
from reprobuild.lock.system import Artefact

_T = TypeVar("_T")
_HINT = "the answer is not as documented: try again later, or give the files with `--deb`"
_LONGEST = 8 << 20  # bytes of an answer
_MOST = 50  # examined publications of one version


class _Publication(Struct):
    self_link: Url


class _Publications(Struct):
    entries: list[msgspec.Raw]


class _File(Struct):
    url: Url
    size: Annotated[int, Meta(ge=0)]
    sha256: Sha256


class _Archive(Struct):
    signing_key_fingerprint: Hex | None = None


class Launchpad:
    """The Launchpad service at an address.

    Args:
        url: without a final slash.
        net: the network client.
    """

    def __init__(self, url: str, net: Net) -> None:
        self._url = url.rstrip("/")
        self._net = net

    def published(
        self, name: str, version: str, architecture: str, codename: str, ppa: str = ""
    ) -> tuple[Artefact, ...]:
        """Return all published files of a version for a release.

        Args:
            name, version: of the package; `architecture` in Debian's words, of the machine for `all`.
            codename: the release of Ubuntu.
            ppa: `OWNER/NAME`; empty for Ubuntu's own archive.

        Raises:
            NotFoundError: there is no such archive. FetchError: it cannot be reached, or its answer is wrong.
        """
        series = quote(f"{self._url}/ubuntu/{codename}/{architecture}", safe="")
        query = (
            f"{self._url}/{_ppa_path(ppa)}?ws.op=getPublishedBinaries&binary_name={quote(name, safe='')}"
            f"&version={quote(version, safe='')}&exact_match=true&distro_arch_series={series}"
        )
        artefacts: dict[str, Artefact] = {}
        entries = self._ask(query, _Publications).entries[:_MOST]
        for publication in (self._read(entry, _Publication, query) for entry in entries):
            if not publication.self_link.startswith(f"{self._url}/"):
                raise FetchError(f"{query} leads to {publication.self_link}", hint=_HINT)
            files = f"{publication.self_link}?ws.op=binaryFileUrls&include_meta=true"
            for entry in self._ask(files, list[msgspec.Raw]):
                with contextlib.suppress(msgspec.ValidationError):  # an odd file must not hide the others
                    file = decode_json(entry, _File)
                    filename = decode_value(file.url.rpartition("/")[2], FileName)
                    if filename.endswith(".deb"):
                        artefacts[file.sha256] = Artefact(
                            filename=filename, sha256=file.sha256, size=file.size, url=file.url
                        )
        return tuple(artefacts.values())

    def fingerprint(self, ppa: str) -> str:
        """Return the fingerprint of a PPA's key, or "".

        It is empty for a PPA without a key so far.

        Raises:
            NotFoundError: there is no such PPA. FetchError: as `published`.
        """
        return self._ask(f"{self._url}/{_ppa_path(ppa)}", _Archive).signing_key_fingerprint or ""

    def _ask(self, url: str, kind: type[_T]) -> _T:
        return self._read(self._net.page(url, accept="application/json", most=_LONGEST).content, kind, url)

    @staticmethod
    def _read(content: bytes | msgspec.Raw, kind: type[_T], url: str) -> _T:
        try:
            return decode_json(content, kind)
        except (msgspec.DecodeError, RecursionError) as err:
            raise FetchError(f"{url} answered something else: {display_error(err)}", hint=_HINT) from None


def _ppa_path(ppa: str) -> str:
    if not ppa:
        return "ubuntu/+archive/primary"
    owner, _, name = ppa.partition("/")
    return f"~{quote(owner)}/+archive/ubuntu/{quote(name)}"
