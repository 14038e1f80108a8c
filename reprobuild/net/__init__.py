"""The only HTTP client: pages and files, with patience, resume and the machine's proxies and certificates.

`requests` reads proxies, certificates and netrc from the environment by its own documented rules.
`file:` addresses are read from the disk, as pip's and uv's indexes may be folders.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import requests
import urllib3

from reprobuild.errors import FetchError
from reprobuild.halt import Halt
from reprobuild.net.body import Stopped, pieces
from reprobuild.net.following import REDIRECTIONS as REDIRECTIONS
from reprobuild.net.following import Auth, Still, follow
from reprobuild.net.gate import Fixed, Gate, pass_gate
from reprobuild.net.growing import Growing
from reprobuild.net.hidden import Hidden
from reprobuild.net.hidden import told_address as told_address
from reprobuild.net.line import Line
from reprobuild.net.local import copy_local, local_page
from reprobuild.net.local import local_hash as local_hash
from reprobuild.net.local import local_path as local_path
from reprobuild.net.local import local_size as local_size
from reprobuild.net.logins import login_for, origins, sendable, without_netrc
from reprobuild.net.manners import Again, Pace, fresh_for, retry_after
from reprobuild.net.manners import Manners as Manners
from reprobuild.net.model import CHUNK as CHUNK
from reprobuild.net.model import PAGE as PAGE
from reprobuild.net.model import Forbidden as Forbidden
from reprobuild.net.model import NotFound as NotFound
from reprobuild.net.model import Page as Page
from reprobuild.net.model import Refused as Refused
from reprobuild.net.model import WrongSize as WrongSize
from reprobuild.net.model import cause
from reprobuild.net.model import split_credentials as split_credentials

# What another try may mend: too busy, or an error of a server or of a proxy before it.
_PASSING = (408, 425, 429, 500, 502, 503, 504)
# A part of a file, or that there is no more of it.
_PARTS = (206, 416)
_ENDLESS = "it may be hostile, or no index at all; name another address with --service"
_LOOP = "the server's set-up is broken, or it wants a login that it cannot see; try the address in a browser"
_ODD = "the server, or a proxy before it, is broken; name another address with --service"
_UNREACHABLE = "check the network and the proxy settings, or name another address with --service"


class Net:
    """Access to the network, or the clear refusal of it. Threads may share it.

    Args:
        offline: refuse every address that is not a file.
        credentials: (user, password) by address, as `https://example.org:8080/simple`; used for its scheme, host and
            port alone.
        manners: limits and patience.
        distances: the least number of seconds between two requests, by host; snapshot archives throttle.
        gate: logins of registries.
        configured: addresses of the user's configuration. To http, netrc's logins are sent there alone.
        hidden: tokens and signatures of addresses, which clients of one run share.
    """

    def __init__(
        self, *, offline: bool = False, credentials: Mapping[str, tuple[str, str]] | None = None,
        manners: Manners | None = None, distances: Mapping[str, float] | None = None, gate: Gate | None = None,
        configured: Iterable[str] = (), hidden: Hidden | None = None,
    ) -> None:  # fmt: skip
        self.offline = offline
        self._gate = gate
        self._credentials = dict(credentials or {})
        self._manners = manners or Manners()
        self._pace = Pace(self._manners, distances or {})
        self._local = threading.local()
        self.hidden = hidden or Hidden()
        self._configured = set(origins(configured))

    def learn(
        self, credentials: Mapping[str, tuple[str, str]], tokens: Mapping[str, str] = MappingProxyType({}),
        configured: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """Use these logins, too, and addresses with a token in their path or their query.

        Args:
            credentials: as at the beginning.
            tokens: {address: the same with the token}; what begins with the first is asked at the second, and only
                there is it seen.
            configured: as at the beginning.
        """
        self._configured.update(origins(configured))
        self._credentials.update(credentials)
        self.hidden.learn(tokens)

    def page(self, url: str, *, accept: str = "*/*", most: int = 0) -> Page:
        """Return the document at an address.

        Args:
            url: the address.
            accept: the media types that are wanted.
            most: how many bytes it may have, where the manners allow too many.

        Raises:
            NotFound: there is none. FetchError: it cannot be reached, or has no end.
        """
        if url.startswith("file:"):
            return local_page(url, most or self._manners.page)

        def once() -> Page:
            with self._ask(url, {"Accept": accept, "Accept-Encoding": "gzip, deflate"}) as response:
                content = self._content(response, split_credentials(url)[0], most or self._manners.page)
                return Page(
                    url=split_credentials(response.url)[0],
                    content_type=response.headers.get("Content-Type", ""),
                    content=content,
                    fresh=fresh_for(response.headers, login=_is_private(response)),
                )

        return self._pace.patiently(url, once, self._halt())

    def download(
        self,
        url: str,
        part: Path,
        *,
        progress: Callable[[int], None] = lambda _: None,
        size: int = 0,
        halt: Halt | None = None,
    ) -> str:
        """Bring a file, going on where an earlier try stopped, and return the sha256 (hex) of all of it.

        Args:
            url: the address.
            part: the growing file; what is there is kept and completed.
            progress: called with the number of bytes (of those already there, too).
            size: how many bytes the file has, where that is known: no byte more is taken.
            halt: ends it from another thread; what is there by then stays.

        Raises:
            Halted: so it was said. NotFound: there is none. WrongSize: it is larger or smaller.
            FetchError: it cannot be reached.
        """
        part.parent.mkdir(parents=True, exist_ok=True)
        if url.startswith("file:"):
            return copy_local(url, part, progress, size, self._manners.file)
        growing = Growing(split_credentials(url)[0], part, size, self._manners, progress, halt or Halt())

        def once() -> str:
            if not growing.complete:
                with self._ask(url, growing.headers()) as response:
                    growing.take(response)
            return growing.digest

        self._session()
        line: Line = self._local.line
        before, line.halt = line.halt, halt or line.halt
        try:
            return self._pace.patiently(url, once, line.halt)
        finally:
            line.halt = before

    def _ask(self, url: str, headers: Mapping[str, str]) -> requests.Response:
        """Return the open answer, of which only the headers are read."""
        url, own = split_credentials(url)
        if self.offline:
            raise FetchError(
                f"{url} is needed, and --offline forbids the network", hint="run without --offline once"
            )
        auth = sendable(own or login_for(url, self._credentials))

        def one(place: str, login: Auth) -> requests.Response:
            self._pace.wait(place, self._halt())
            login = without_netrc(place, login, self._configured)
            response = self._session().get(
                self.hidden.whole(place), headers=dict(headers), auth=login, stream=True, allow_redirects=False,
                timeout=(self._manners.connect, self._manners.read),
            )  # fmt: skip
            response.url = place  # what is told of it has no token
            return response

        def get(login: Fixed | None) -> requests.Response:
            return follow(one, url, login or auth)

        try:
            response = pass_gate(self._gate, url, self, get) if self._gate and not auth else get(None)
        except requests.TooManyRedirects:
            raise FetchError(f"{url} redirects in a loop", hint=_LOOP) from None
        # Addresses that servers redirect to may be anything: requests lets some errors of parsers through.
        except (requests.RequestException, urllib3.exceptions.HTTPError, ValueError) as err:
            final = FetchError(f"{url} cannot be reached: {self.hidden.shown(cause(err))}", hint=_UNREACHABLE)
            if _passes(err):
                raise Again(final) from None
            raise final from None
        try:
            _judge(response, url, self._gate, self._led(response, url), ranged="Range" in headers)
        except BaseException:
            response.close()
            raise
        return response

    def _content(self, response: requests.Response, url: str, most: int) -> bytes:
        found, size, begun = [], 0, time.monotonic()
        try:
            for piece in pieces(
                response, CHUNK, self._manners, self._manners.least, self._halt(), decode=True
            ):
                found.append(piece)
                size += len(piece)
                if size > most:
                    raise FetchError(f"{url} gives more than {most} bytes", hint=_ENDLESS)
                if time.monotonic() - begun > self._manners.page_time:
                    raise FetchError(f"{url} gives no end in {self._manners.page_time:.0f} s", hint=_ENDLESS)
        except Stopped as stopped:
            raise Again(FetchError(f"{url} broke off: {stopped}", hint=_UNREACHABLE)) from None
        return b"".join(found)

    def _led(self, response: requests.Response, url: str) -> str:
        """Return where a redirection led to; what is asked there may hold a signature, so it is left out."""
        if response.url == url or not response.history:
            return ""
        place = self.hidden.shown(response.url.partition("?")[0])
        return f" (which leads to {split_credentials(place)[0]})"

    def _halt(self) -> Halt:
        """Return what ends the requests of this thread; those for a login on the way to a file are among them."""
        self._session()
        line: Line = self._local.line
        return line.halt

    def _session(self) -> requests.Session:
        # One session a thread: requests does not promise that a session may be shared.
        if not hasattr(self._local, "session"):
            self._local.session = Still()
            self._local.line = line = Line(self._manners.connect + self._manners.read)
            for scheme in ("http://", "https://"):
                self._local.session.mount(scheme, line)
        session_of_thread: requests.Session = self._local.session
        return session_of_thread


def _passes(err: Exception) -> bool:
    """Tell whether another try may mend a failure: not that of a certificate or of an address."""
    lasting = (requests.exceptions.SSLError, requests.exceptions.InvalidProxyURL)
    passing = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)
    return isinstance(err, passing) and not isinstance(err, lasting)


def _judge(response: requests.Response, url: str, gate: Gate | None, led: str, *, ranged: bool) -> None:
    """Raise what an answer means that brings nothing: only the whole brings something, or the part asked for."""
    status = response.status_code
    if status == requests.codes.ok or (ranged and status in _PARTS):
        return
    told = url + led
    if status in (404, 410):
        raise NotFound(f"{told} does not exist (HTTP {status})", hint="it may have been removed")
    if status in (401, 403):
        login = "put the credentials where pip finds them (its configuration, or ~/.netrc)"
        hint = (gate and gate.remedy(url)) or login
        kind = Forbidden if status == requests.codes.forbidden else Refused
        raise kind(f"{told} refuses access (HTTP {status})", hint=hint)
    if status < 400 or status in _PARTS:
        raise FetchError(f"{told} answered HTTP {status}, which answers nothing that was asked", hint=_ODD)
    final = FetchError(f"{told} answered HTTP {status}", hint="try again later")
    if status in _PASSING:
        asked = retry_after(response.headers.get("Retry-After"))
        raise Again(final, wait=asked, place=response.url)
    raise final


def _is_private(response: requests.Response) -> bool:
    """Tell whether a login, a token or a signature went along on any step to an answer."""
    steps = [step.request for step in (*response.history, response)]
    return any("Authorization" in one.headers or told_address(one.url or "") != one.url for one in steps)
