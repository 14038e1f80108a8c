"""The only HTTP client: pages and files, with retries, resume and the machine's proxies and certificates.

`requests` reads proxies, certificates and netrc from the environment by its own documented rules.
`file:` addresses are read from the disk, as pip's and uv's indexes may be folders.
"""

from __future__ import annotations

import hashlib
import os
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

import requests
from msgspec import Struct
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

from reprobuild.errors import FetchError
from reprobuild.whole import FULL, naming

CHUNK = 1 << 20
CONNECT_SECONDS = 15
READ_SECONDS = 120
RETRIES = 4


class NotFound(FetchError):
    """The address answered that there is nothing there (404 or 410, or no such file)."""


class Page(Struct, frozen=True, kw_only=True):
    """A fetched document: where it finally came from, its media type and its bytes."""

    url: str
    content_type: str
    content: bytes


def split_credentials(url: str) -> tuple[str, tuple[str, str] | None]:
    """Return the address without user name and password, and those two where there were any."""
    parts = urllib.parse.urlsplit(url)
    if not parts.username and not parts.password:
        return url, None
    host = parts.hostname or ""
    netloc = f"[{host}]" if ":" in host else host
    netloc += f":{parts.port}" if parts.port else ""
    clean = urllib.parse.urlunsplit(parts._replace(netloc=netloc))
    return clean, (urllib.parse.unquote(parts.username or ""), urllib.parse.unquote(parts.password or ""))


class Gate(Protocol):
    """Logins that are given where a server asks for them, as registries do (RFC 9110, 11.6)."""

    def known(self, url: str) -> str | None:
        """Return the `Authorization` for an address that was answered before, or None."""

    def answer(self, url: str, challenge: str, net: Net) -> str | None:
        """Return the `Authorization` that a `WWW-Authenticate` asks for, or None where there is no login."""

    def remedy(self, url: str) -> str:
        """Return what helps where an address refuses access, empty for addresses of others."""


class Net:
    """Access to the network, or the clear refusal of it.

    Args:
        offline: refuse every address that is not a file.
        credentials: (user, password) by host and port, as `example.org:8080`; used for that host alone.
        gate: logins of registries.
    """

    def __init__(
        self, *, offline: bool = False, credentials: Mapping[str, tuple[str, str]] | None = None,
        gate: Gate | None = None,
    ) -> None:  # fmt: skip
        self.offline = offline
        self._gate = gate
        self._credentials = dict(credentials or {})
        self._local = threading.local()

    def page(self, url: str, *, accept: str = "*/*", most: int = 0) -> Page:
        """Return the document at an address.

        Args:
            url: the address.
            accept: the media types that are wanted.
            most: how many bytes it may have, 0 for any number.

        Raises:
            NotFound: there is none. FetchError: it cannot be reached, or is larger.
        """
        if url.startswith("file:"):
            return _local_page(url)
        with self._request(url, {"Accept": accept}, stream=bool(most)) as response:
            return Page(
                url=response.url,
                content_type=response.headers.get("Content-Type", ""),
                content=_bounded(response, most) if most else response.content,
            )

    def download(self, url: str, part: Path, *, progress: Callable[[int], None] = lambda _: None) -> str:
        """Bring a file, going on where an earlier try stopped, and return the sha256 (hex) of all of it.

        Args:
            url: the address.
            part: the growing file; what is there is kept and completed.
            progress: called with the number of bytes (of those already there, too).
        """
        part.parent.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256()
        have = 0
        if part.exists():
            with part.open("rb") as stream:
                while chunk := stream.read(CHUNK):
                    digest.update(chunk)
                    have += len(chunk)
            progress(have)
        if url.startswith("file:"):
            return _copy_local(url, part, progress)
        headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
        with self._request(url, headers, stream=True) as response:
            if response.status_code == requests.codes.requested_range_not_satisfiable:
                return digest.hexdigest()
            if have and response.status_code != requests.codes.partial_content:
                digest = hashlib.sha256()  # the server sends all of it again
                have = 0
            with naming(part), part.open("ab" if have else "wb") as stream:
                try:
                    for chunk in response.iter_content(CHUNK):
                        stream.write(chunk)
                        digest.update(chunk)
                        progress(len(chunk))
                except (requests.RequestException, OSError) as err:
                    if err.errno in FULL:
                        raise
                    raise FetchError(
                        f"the download of {url} broke off: {_cause(err)}",
                        hint="run the command again: it goes on where this one stopped",
                    ) from None
        return digest.hexdigest()

    def _request(self, url: str, headers: Mapping[str, str], *, stream: bool) -> requests.Response:
        url, own = split_credentials(url)
        if self.offline:
            raise FetchError(
                f"{url} is needed, and --offline forbids the network", hint="run without --offline once"
            )
        auth = own or self._credentials.get(urllib.parse.urlsplit(url).netloc)
        response = self._passed(url, headers, auth, stream=stream)
        if response.status_code >= 400:
            response.close()
        if response.status_code in (404, 410):
            raise NotFound(
                f"{url} does not exist (HTTP {response.status_code})", hint="it may have been removed"
            )
        if response.status_code in (401, 403):
            raise FetchError(
                f"{url} refuses access (HTTP {response.status_code})",
                hint=(self._gate and self._gate.remedy(url))
                or "put the credentials where pip finds them (its configuration, or ~/.netrc)",
            )
        if response.status_code >= 400 and response.status_code != 416:
            raise FetchError(f"{url} answered HTTP {response.status_code}", hint="try again later")
        return response

    def _passed(
        self, url: str, headers: Mapping[str, str], auth: tuple[str, str] | None, *, stream: bool
    ) -> requests.Response:
        """Ask, and once more with a login where the server wants one that the gate has."""
        known = self._gate.known(url) if self._gate and not auth else None
        response = self._get(url, headers, _Fixed(known) if known else auth, stream=stream)
        if self._gate is None or auth or response.status_code != requests.codes.unauthorized:
            return response
        if urllib.parse.urlsplit(response.url)[:2] != urllib.parse.urlsplit(url)[:2]:
            return response  # it led elsewhere, and who is there gets no login of the first
        response.close()  # its words are of no use
        given = self._gate.answer(url, response.headers.get("WWW-Authenticate", ""), self)
        if given is None or given == known:
            return response
        return self._get(url, headers, _Fixed(given), stream=stream)

    def _get(
        self, url: str, headers: Mapping[str, str], auth: tuple[str, str] | _Fixed | None, *, stream: bool
    ) -> requests.Response:
        try:
            return self._session().get(
                url, headers=dict(headers), auth=auth, stream=stream, timeout=(CONNECT_SECONDS, READ_SECONDS)
            )
        except requests.RequestException as err:
            raise FetchError(
                f"{url} cannot be reached: {_cause(err)}",
                hint="check the network and the proxy settings, or name another address with --service",
            ) from None

    def _session(self) -> requests.Session:
        # One session a thread: requests does not promise that a session may be shared.
        if not hasattr(self._local, "session"):
            session = requests.Session()
            retry = Retry(
                total=RETRIES, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504),
                respect_retry_after_header=True, raise_on_status=False,
            )  # fmt: skip
            adapter = HTTPAdapter(max_retries=retry)
            session.mount("http://", adapter)
            session.mount("https://", adapter)
            self._local.session = session
        session_of_thread: requests.Session = self._local.session
        return session_of_thread


class _Fixed:
    """An `Authorization` as it is: requests puts those of netrc over one that stands in the headers."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._value
        return request


def _bounded(response: requests.Response, most: int) -> bytes:
    content, url = b"", response.url.partition("?")[0]
    try:
        for chunk in response.iter_content(1 << 16):
            content += chunk
            if len(content) > most:
                raise FetchError(
                    f"{url} gives more than {most} bytes", hint="the server is broken, or hostile"
                )
    except requests.RequestException as err:
        raise FetchError(f"{url} broke off: {_cause(err)}", hint="run the command again") from None
    return content


def local_path(url: str) -> Path:
    """Return the path that a `file:` address names."""
    return Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))


def _local_page(url: str) -> Page:
    path = local_path(url)
    if path.is_dir():
        path = path / "index.html"
        url = url.rstrip("/") + "/index.html"
    try:
        return Page(url=url, content_type="text/html", content=path.read_bytes())
    except OSError as err:
        raise NotFound(
            f"{path} cannot be read: {err.strerror}", hint="check the index in pip's configuration"
        ) from None


def _copy_local(url: str, part: Path, progress: Callable[[int], None]) -> str:
    digest = hashlib.sha256()
    try:
        with naming(part), local_path(url).open("rb") as source, part.open("wb") as target:
            while chunk := source.read(CHUNK):
                target.write(chunk)
                digest.update(chunk)
                progress(len(chunk))
    except FileNotFoundError:
        raise NotFound(f"{local_path(url)} does not exist", hint="it may have been removed") from None
    except OSError as err:
        if err.errno in FULL:
            raise
        raise FetchError(
            f"{local_path(url)} cannot be copied: {err.strerror}", hint=os.strerror(err.errno or 0)
        ) from None
    return digest.hexdigest()


def _cause(err: BaseException) -> str:
    """Return the innermost reason, without the addresses and object names that urllib3 wraps around it."""
    while err.__cause__ or err.__context__ or (err.args and isinstance(err.args[0], BaseException)):
        inner = err.__cause__ or err.__context__
        if inner is None and isinstance(err.args[0], BaseException):
            inner = err.args[0]
        if inner is None:
            break
        err = inner
    return str(err).rpartition("> ")[2] or type(err).__name__
