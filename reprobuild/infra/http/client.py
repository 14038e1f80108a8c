"""The only HTTP client, with retries, resumption, proxies and certificates.

It fetches pages and files. `requests` reads proxies from the environment by its own documented rules, and
`authorities` has the certificates. `file:` addresses are read from the disk, as pip's and uv's indexes may be
directories.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

import requests
import urllib3

from reprobuild.errors import FetchError
from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.http.auth import RegistryAuth, StaticAuth, send_with_login
from reprobuild.infra.http.authorities import Authorities
from reprobuild.infra.http.credentials import encode_login, login_for, origins
from reprobuild.infra.http.download import Download
from reprobuild.infra.http.file_scheme import copy_local, local_page
from reprobuild.infra.http.file_scheme import local_hash as local_hash
from reprobuild.infra.http.file_scheme import local_path as local_path
from reprobuild.infra.http.file_scheme import local_size as local_size
from reprobuild.infra.http.model import CHUNK as CHUNK
from reprobuild.infra.http.model import PAGE as PAGE
from reprobuild.infra.http.model import AccessDeniedError as AccessDeniedError
from reprobuild.infra.http.model import CrossHostRedirectError as CrossHostRedirectError
from reprobuild.infra.http.model import DistrustedError, innermost_cause, origin
from reprobuild.infra.http.model import ForbiddenError as ForbiddenError
from reprobuild.infra.http.model import NotFoundError as NotFoundError
from reprobuild.infra.http.model import Page as Page
from reprobuild.infra.http.model import UnreachedError as UnreachedError
from reprobuild.infra.http.model import WrongSizeError as WrongSizeError
from reprobuild.infra.http.model import split_credentials as split_credentials
from reprobuild.infra.http.netrc import Netrc as Netrc
from reprobuild.infra.http.redaction import UrlRedactor
from reprobuild.infra.http.redirects import REDIRECTIONS as REDIRECTIONS
from reprobuild.infra.http.redirects import Auth, NoAuth, follow_redirects, refuse_other_origin
from reprobuild.infra.http.request import Body as Body
from reprobuild.infra.http.request import Response as Response
from reprobuild.infra.http.retry import RateLimiter, freshness_seconds
from reprobuild.infra.http.retry import RetryableError as RetryableError
from reprobuild.infra.http.retry import RetryPolicy as RetryPolicy
from reprobuild.infra.http.status import (
    PARTS,
    check_status,
    drain_connection,
    is_private,
    is_temporary,
    refuse_stacked_encodings,
)
from reprobuild.infra.http.stream import StreamInterruptedError, read_body
from reprobuild.infra.http.thread_session import ThreadSession

T = TypeVar("T")
_FOLLOWED = ("GET", "HEAD")
_ENDLESS = "it may be hostile, or no index at all; name another address with --service"
_LOOP = "the server's set-up is broken, or it wants a login that it cannot see; try the address in a browser"
_UNREACHABLE = "check the network and the proxy settings, or name another address with --service"
_DISTRUSTED = (
    "the authority of this certificate is not trusted: set REQUESTS_CA_BUNDLE=FILE, or `cert` of pip.conf "
    "(`pip config set global.cert FILE`), to your site's certificates"
)
_CERTIFICATE = "check the address and the clock of this machine, or name another address with --service"
# Verification errors of OpenSSL (X509_verify_cert_error_string): no chain leads to a trusted authority.
_NO_AUTHORITY = re.compile("self.signed certificate|issuer certificate|unable to verify the first")


class Net:
    """Thread-safe access to the network, or its explicit refusal.

    Args:
        offline: refuse every address that is not a file.
        credentials: (user, password) by address, as `https://example.org:8080/simple`; used only for its
            scheme, host and port.
        manners: limits and retries.
        distances: the least number of seconds between two requests, by host; snapshot archives throttle.
        gate: logins of registries.
        configured: addresses of the user's configuration. netrc's logins are sent there by http, at any port,
            and from its `default` entry; for other addresses see `Netrc`.
        hidden: tokens and signatures of addresses, shared by the clients of one run.
        netrc: the user's, also shared; without it there is no login of netrc.
        authorities: the site's, also shared.
    """

    def __init__(
        self, *, offline: bool = False, credentials: Mapping[str, tuple[str, str]] | None = None,
        manners: RetryPolicy | None = None, distances: Mapping[str, float] | None = None,
        gate: RegistryAuth | None = None, configured: Iterable[str] = (),
        hidden: UrlRedactor | None = None, netrc: Netrc | None = None,
        authorities: Authorities | None = None,
    ) -> None:  # fmt: skip
        self.offline = offline
        self._gate = gate
        self._credentials = dict(credentials or {})
        self._manners = manners or RetryPolicy()
        self._pace = RateLimiter(self._manners, distances or {})
        self.authorities = authorities or Authorities()
        self._own = ThreadSession(self._manners, self.authorities)
        self.hidden = hidden or UrlRedactor()
        self._configured = set(origins(configured))
        self.netrc = netrc or Netrc({})

    def learn(
        self, credentials: Mapping[str, tuple[str, str]], tokens: Mapping[str, str] = MappingProxyType({}),
        configured: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Add logins, and addresses with a token.

        The token is in their path or their query.

        Args:
            credentials: as in the constructor.
            tokens: {address: the same with the token}; an address that begins with the first is requested at
                the second, and only the server sees it.
            configured: as in the constructor.
        """
        self._configured.update(origins(configured))
        self._credentials.update(credentials)
        self.hidden.learn(tokens)

    def page(self, url: str, *, accept: str = "*/*", most: int = 0, alone: bool = False) -> Page:
        """Return the document at an address.

        Args:
            url: the address.
            accept: the wanted media types.
            most: the maximum number of bytes, if the manners allow too many.
            alone: someone else named the address, and gets the answer. So the only login sent is one in the
                address (not netrc's, none of an index, no token), and it may redirect only within its own
                host.

        Raises:
            NotFoundError: there is none. CrossHostRedirectError: with `alone`, it leads to another host.
            FetchError: it cannot be reached, or has no end.
        """
        if url.startswith("file:"):
            return local_page(url, most or self._manners.page)

        def once() -> Page:
            headers = {"Accept": accept, "Accept-Encoding": "gzip, deflate"}
            with self._ask(url, headers, alone=alone) as response:
                content = self._content(response, split_credentials(url)[0], most or self._manners.page)
                return Page(
                    url=split_credentials(response.url)[0],
                    content_type=response.headers.get("Content-Type", ""),
                    content=content,
                    fresh=freshness_seconds(response.headers, login=is_private(response)),
                )

        return self._pace.patiently(url, once, self._own.halt)

    def probe(self, url: str) -> None:
        """Request an address, and read only the headers.

        Raises:
            NotFoundError, AccessDeniedError: the server answers so.
            FetchError: it cannot be reached, or its answer is not usable.
        """

        def once() -> None:
            self._ask(url, {"Accept": "*/*"}).close()

        self._pace.patiently(url, once, self._own.halt)

    def download(
        self,
        url: str,
        part: Path,
        *,
        progress: Callable[[int], None] = lambda _: None,
        size: int = 0,
        halt: CancelToken | None = None,
        link: str = "",
    ) -> str:
        """Fetch or resume a file; return its sha256 (hex).

        It continues from an earlier try. The hash is of the complete file.

        Args:
            url: the address.
            part: the growing file; its bytes are kept and completed.
            progress: called with the number of bytes (including those already there).
            size: the number of bytes of the file, if known: not a byte more is taken.
            halt: cancels it from another thread; the bytes so far stay.
            link: the address with its secrets, as an index lists it; it is requested, and no message has it.

        Raises:
            CancelledError: it was cancelled. NotFoundError: there is none. WrongSizeError: it is larger or smaller.
            FetchError: it cannot be reached.
        """
        part.parent.mkdir(parents=True, exist_ok=True)
        if url.startswith("file:"):
            return copy_local(url, part, progress, size, self._manners.file)
        growing = Download(
            split_credentials(url)[0], part, size, self._manners, progress, halt or CancelToken()
        )

        def once() -> str:
            if not growing.complete:
                headers = growing.headers()
                with self._ask(
                    url, headers, good=(200, *PARTS) if "Range" in headers else (200,), link=link
                ) as response:
                    growing.take(response)
            return growing.digest

        with self._own.use_cancel_token(halt):
            return self._pace.patiently(url, once, self._own.halt)

    def send(
        self, method: str, url: str, *, good: Container[int], body: Body | None = None,
        headers: Mapping[str, str] = MappingProxyType({}), most: int = 0, patient: bool = True,
    ) -> Response:  # fmt: skip
        """Return the answer to a request of any method.

        Only GET and HEAD follow redirections: a body is sent only to this address.

        Args:
            method: `PUT`, ...
            url: the address.
            good: the wanted status codes.
            body: the content to send; it may take any time as long as it progresses.
            headers: sent with the request.
            most: the maximum bytes of the answer's body; more are an error. With 0 none is read.
            patient: retry transient failures; else `RetryableError` is raised, for a caller with its own retries.

        Raises:
            NotFoundError, AccessDeniedError, FetchError: as those of `page`.
        """

        def once() -> Response:
            with self._ask(url, headers, method, body, good) as response:
                content = self._content(response, split_credentials(url)[0], most) if most else b""
                drain_connection(response)
                named = {name.lower(): value for name, value in response.headers.items()}
                return Response(status=response.status_code, headers=named, content=content)

        return self.patiently(url, once) if patient else once()

    def patiently(self, url: str, once: Callable[[], T]) -> T:
        """Call `once` until it raises no `RetryableError`.

        If the retries are used up, the error of the last try is raised.
        """
        return self._pace.patiently(url, once, self._own.halt)

    def _ask(
        self, url: str, headers: Mapping[str, str], method: str = "GET", body: Body | None = None,
        good: Container[int] = (200,), alone: bool = False, link: str = "",
    ) -> requests.Response:  # fmt: skip
        """Return the open answer, with only its headers read."""
        url, url_login = split_credentials(url)
        if self.offline:
            raise FetchError(
                f"{url} is needed, and --offline forbids the network", hint="run without --offline once"
            )
        auth = encode_login(url_login or (None if alone else login_for(url, self._credentials)))
        gate = None if alone or auth else self._gate
        stranger = alone or bool(self._gate and self._gate.serves(url))

        def send(place: str, login: Auth) -> requests.Response:
            if alone:
                refuse_other_origin(url, place)
            self._pace.wait(place, self._own.halt)
            if login is None and not stranger:
                led = origin(place) != origin(url)
                login = encode_login(self.netrc.login(place, configured=self._configured, led=led))
            full = place if alone else link if link and place == url else self.hidden.with_secrets(place)
            response = self._own.session.request(
                method, full, headers=dict(headers),
                auth=login or NoAuth(), stream=True, data=self._own.rewind_body(body), allow_redirects=False,
                timeout=(self._manners.connect, self._manners.read),
            )  # fmt: skip
            response.url = place  # messages about it have no token
            return response

        def get(login: StaticAuth | None) -> requests.Response:
            return (
                follow_redirects(send, url, login or auth)
                if method in _FOLLOWED
                else send(url, login or auth)
            )

        def answer() -> requests.Response:
            return send_with_login(gate, url, self, get) if gate else get(None)

        try:
            try:
                response = answer()
            except requests.exceptions.SSLError:
                if not self.authorities.extend():
                    raise
                response = answer()
        except requests.TooManyRedirects:
            raise FetchError(f"{url} redirects in a loop", hint=_LOOP) from None
        # Addresses of redirections may be anything: requests lets some errors of parsers through.
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as err:
            final = _make_error(url, self.hidden.redact(innermost_cause(err)))
            if is_temporary(err):
                raise RetryableError(final) from None
            raise final from None
        try:
            check_status(response, url, self._gate, self._led(response, url), good=good)
        except BaseException:
            drain_connection(response)
            response.close()
            raise
        return response

    def _content(self, response: requests.Response, url: str, most: int) -> bytes:
        refuse_stacked_encodings(response, url)
        chunks, size, begun = [], 0, time.monotonic()
        try:
            for piece in read_body(
                response, CHUNK, self._manners, self._manners.least, self._own.halt, decode=True
            ):
                chunks.append(piece)
                size += len(piece)
                if size > most:
                    raise FetchError(f"{url} gives more than {most} bytes", hint=_ENDLESS)
                if time.monotonic() - begun > self._manners.page_time:
                    raise FetchError(f"{url} gives no end in {self._manners.page_time:.0f} s", hint=_ENDLESS)
        except StreamInterruptedError as stopped:
            raise RetryableError(FetchError(f"{url} broke off: {stopped}", hint=_UNREACHABLE)) from None
        return b"".join(chunks)

    def _led(self, response: requests.Response, url: str) -> str:
        """Return the target of a redirection, for a message.

        Its query may hold a signature, so it is left out.
        """
        if response.url == url or not response.history:
            return ""
        place = self.hidden.redact(response.url.partition("?")[0])
        return f" (which leads to {split_credentials(place)[0]})"


def _make_error(url: str, cause: str) -> UnreachedError:
    text = f"{url} cannot be reached: {cause}"
    if "certificate verify failed" not in cause:
        return UnreachedError(text, hint=_UNREACHABLE)
    is_unknown = _NO_AUTHORITY.search(cause) is not None
    return DistrustedError(text, hint=_DISTRUSTED if is_unknown else _CERTIFICATE)
