"""Where redirections lead, and which login goes along.

`requests` would read the whole body of each redirection into memory, so it is not let follow them.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import Any

import requests
import requests.utils

from reprobuild.infra.http.auth import Fixed
from reprobuild.infra.http.model import Elsewhere, origin, without_credentials
from reprobuild_portable.secrets import redact

REDIRECTIONS = 10
_STAYS = "the registry must name its token server by the address where it answers"


class Still(requests.Session):
    """A session that sees no redirections: even where it does not follow one, `send` reads its body to the end."""

    def __init__(self) -> None:
        super().__init__()
        self._settings: dict[tuple[Any, ...], Any] = {}

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Return that there is none."""

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """As of requests, but asked once for each host: reading all variables takes longer than a request."""
        parts = urllib.parse.urlsplit(url)
        place = (parts.scheme, parts.netloc, stream, verify)
        if place not in self._settings:
            self._settings[place] = super().merge_environment_settings(url, proxies, stream, verify, cert)
        return {**self._settings[place], "proxies": dict(self._settings[place]["proxies"])}


class Nobody:
    """No login: not that of netrc either, which requests adds by rules of its own where there is none."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


# None leaves it to netrc.
Auth = tuple[str, str] | Fixed | Nobody | None


def follow(ask: Callable[[str, Auth], requests.Response], url: str, auth: Auth) -> requests.Response:
    """Return the open answer at the end of the redirections; `history` has those before it, closed unread.

    A login goes along as long as scheme, host and port stay the same. Beyond that it is left to `ask` whether netrc is
    read, but never after a step from https to http. Logins in addresses of redirections are left out.

    Args:
        ask: gives the open answer of one request.
        url: where to begin, without credentials.
        auth: the login for this address.

    Raises:
        requests.TooManyRedirects: there is no end after `REDIRECTIONS`. ValueError: one leads to no address.
        Whatever `ask` raises.
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
        if origin(target) != origin(url):
            lowered = origin(url)[0] == "https" and origin(target)[0] == "http"
            auth = Nobody() if lowered or isinstance(auth, Nobody) else None
        url = target


def refuse_elsewhere(url: str, place: str) -> None:
    """Stop where a redirection leaves scheme, host and port of the address that was asked for.

    Raises:
        Elsewhere: it does.
    """
    if origin(place) != origin(url):
        raise Elsewhere(
            f"{url} leads to {redact(place.partition('?')[0])}, which is another host", hint=_STAYS
        )


def _target(url: str, response: requests.Response) -> str:
    # http.client reads headers as Latin-1, and servers write UTF-8.
    location = response.headers["Location"].encode("latin-1").decode()
    target = urllib.parse.urljoin(url, requests.utils.requote_uri(location))
    return without_credentials(urllib.parse.urldefrag(target)[0])[0]
