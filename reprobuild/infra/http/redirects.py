"""Targets of redirections, and the logins sent to them.

`requests` would read the complete body of each redirection into memory, so it must not follow them.
"""

from __future__ import annotations

import ipaddress
import socket
import urllib.parse
from collections.abc import Callable
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
import requests.utils

from reprobuild.errors import FetchError
from reprobuild.infra.http.auth import StaticAuth
from reprobuild.infra.http.model import CrossHostRedirectError, origin, parse_credentials
from reprobuild_portable.secrets import redact

REDIRECTIONS = 10
_INNER = (
    "if this address is right, name it itself, as with --service NAME=URL, --index NAME=URL or pip's index-url; else "
    "name another server"
)
_STAYS = "the registry must name its token server by the address where it answers"


class NoRedirectSession(requests.Session):
    """A session that ignores redirections and cookies.

    Even if it does not follow a redirection, `send` of requests would read its body to the end. A cookie may stand for
    a login, and a jar would send it to each port and scheme of its host.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._settings: dict[tuple[Any, ...], Any] = {}

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return None, so that no redirection is followed."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Return the settings of requests, cached for each host.

        Reading all variables takes longer than a request.
        """
        parts = urllib.parse.urlsplit(url)
        place = (parts.scheme, parts.netloc, stream, verify)
        if place not in self._settings:
            self._settings[place] = super().merge_environment_settings(url, proxies, stream, verify, cert)
        return {**self._settings[place], "proxies": dict(self._settings[place]["proxies"])}


class NoAuth:
    """An absent login, which also stops requests from using netrc.

    requests adds netrc's login by rules of its own if there is none.
    """

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


# None leaves it to netrc.
Auth = tuple[str, str] | StaticAuth | NoAuth | None


def follow_redirects(
    ask: Callable[[str, Auth], requests.Response], url: str, auth: Auth
) -> requests.Response:
    """Return the open answer at the end of the redirections.

    `history` has the answers before it, closed unread. A login is sent on as long as scheme, host and port
    stay the same. Beyond that `ask` decides if netrc is read, but never after a step from https to http.
    Logins in addresses of redirections are left out.

    Args:
        ask: returns the open answer of one request.
        url: the first address, without credentials.
        auth: the login for this address.

    Raises:
        requests.TooManyRedirects: there is no end after `REDIRECTIONS`. ValueError: one leads to no address.
        FetchError: another host leads to this machine or its link. Errors of `ask`.
    """
    led: list[requests.Response] = []
    while True:
        response = ask(url, auth)
        if not response.is_redirect:
            response.history = led
            return response
        response.close()
        if len(led) == REDIRECTIONS:
            raise requests.TooManyRedirects(response=response)
        led.append(response)
        target = _target(url, response)
        if is_inner(target) and not is_inner(url):
            place = redact(target.partition("?")[0])
            raise FetchError(
                f"{url} leads to {place}, an address of this machine or of its link", hint=_INNER
            )
        if origin(target) != origin(url):
            lowered = origin(url)[0] == "https" and origin(target)[0] == "http"
            auth = NoAuth() if lowered or isinstance(auth, NoAuth) else None
        url = target


def is_inner(url: str) -> bool:
    """Return whether an address names this machine, or a host of its link, such as a cloud's metadata server.

    Services there often ask for no login. A private network does not count, nor a name that resolves to such an
    address.
    """
    host = (urllib.parse.urlsplit(url).hostname or "").rstrip(".")
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        # The resolver also reads `127.1` and `2130706433`.
        ip = ipaddress.ip_address(host if ":" in host else socket.inet_aton(host))
    except (OSError, ValueError):
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    return ip.is_loopback or ip.is_link_local or ip.is_unspecified


def refuse_other_origin(url: str, place: str) -> None:
    """Refuse a redirection to another origin.

    An origin is scheme, host and port of the requested address.

    Raises:
        CrossHostRedirectError: it is one.
    """
    if origin(place) != origin(url):
        raise CrossHostRedirectError(
            f"{url} leads to {redact(place.partition('?')[0])}, which is another host", hint=_STAYS
        )


def _target(url: str, response: requests.Response) -> str:
    # http.client reads headers as Latin-1, and servers write UTF-8.
    location = response.headers["Location"].encode("latin-1").decode()
    target = urllib.parse.urljoin(url, requests.utils.requote_uri(location))
    return parse_credentials(urllib.parse.urldefrag(target)[0])[0]
