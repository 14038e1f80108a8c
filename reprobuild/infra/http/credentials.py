"""The choice of a login for an address.

Two indexes on one host may have two logins. A login of https is not used for an address of http, which others
on the way could read, nor for another port.
"""

from __future__ import annotations

import base64
import contextlib
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping

from reprobuild.infra.http.auth import StaticAuth
from reprobuild.infra.http.model import origin

Login = tuple[str, str]
Origin = tuple[str, "str | None", "int | None"]


def login_for(url: str, credentials: Mapping[str, Login]) -> Login | None:
    """Return the login for an address, or None.

    Args:
        url: the address, without a login.
        credentials: logins by address. Scheme, host and port must be the same. The longest path that is a
            prefix of the address counts; without one, the first login there, as files may be at other paths
            than their lists.
    """
    places = [place for place in credentials if origin(place) == origin(url)]
    above = [place for place in places if f"{_url_path(url)}/".startswith(f"{_url_path(place)}/")]
    place = max(above, key=lambda address: len(_url_path(address))) if above else next(iter(places), None)
    return credentials[place] if place is not None else None


def origins(addresses: Iterable[str]) -> Iterator[Origin]:
    """Yield the origins of addresses; invalid ones are skipped.

    The user's addresses may have placeholders.
    """
    for address in addresses:
        with contextlib.suppress(ValueError):
            yield origin(address)


def _url_path(url: str) -> str:
    return urllib.parse.urlsplit(url).path.rstrip("/")


def encode_login(login: Login | None) -> Login | StaticAuth | None:
    """Return a login in a form that can be sent.

    requests, and so pip, knows Latin-1; other characters are sent as UTF-8 (RFC 7617).
    """
    if login is None:
        return None
    whole = ":".join(login)
    try:
        whole.encode("latin-1")
    except UnicodeEncodeError:
        return StaticAuth(f"Basic {base64.b64encode(whole.encode()).decode()}")
    return login
