"""Which login is for an address: two indexes on one host may have two.

One of https is for no address of http, which anybody on the way could read, nor for another port.
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
    """Return the login that is for an address, None where there is none.

    Args:
        url: the address, without one.
        credentials: logins by address. Scheme, host and port must be the same. The longest path that the address
            begins with counts; where none does, the first login there, as files lie elsewhere than their lists.
    """
    there = [place for place in credentials if origin(place) == origin(url)]
    above = [place for place in there if f"{_path(url)}/".startswith(f"{_path(place)}/")]
    place = max(above, key=lambda one: len(_path(one))) if above else next(iter(there), None)
    return credentials[place] if place is not None else None


def origins(addresses: Iterable[str]) -> Iterator[Origin]:
    """Yield what addresses name; nothing for those that are none, as the user's may have placeholders."""
    for address in addresses:
        with contextlib.suppress(ValueError):
            yield origin(address)


def _path(url: str) -> str:
    return urllib.parse.urlsplit(url).path.rstrip("/")


def sendable(login: Login | None) -> Login | StaticAuth | None:
    """Return a login that can be sent: requests, and so pip, knows Latin-1; what is beyond goes as UTF-8 (RFC 7617)."""
    if login is None:
        return None
    whole = ":".join(login)
    try:
        whole.encode("latin-1")
    except UnicodeEncodeError:
        return StaticAuth(f"Basic {base64.b64encode(whole.encode()).decode()}")
    return login
