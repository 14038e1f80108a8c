"""Which login is for an address: two indexes on one host may have two."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Mapping

from reprobuild.net.gate import Fixed

Login = tuple[str, str]


def login_for(url: str, credentials: Mapping[str, Login]) -> Login | None:
    """Return the login that is for an address, None where there is none.

    Args:
        url: the address, without one.
        credentials: logins by `HOST[:PORT]`, or by that and a path. The longest path that the address begins with
            counts; where none does, the first login of the same host, as files lie elsewhere than their lists.
    """
    parts = urllib.parse.urlsplit(url)
    path = f"{parts.netloc}{parts.path}"
    of_host = [place for place in credentials if place.partition("/")[0] == parts.netloc]
    above = [place for place in of_host if path == place or path.startswith(f"{place}/")]
    place = max(above, key=len) if above else next(iter(of_host), None)
    return credentials[place] if place is not None else None


def sendable(login: Login | None) -> Login | Fixed | None:
    """Return a login that can be sent: requests, and so pip, knows Latin-1; what is beyond goes as UTF-8 (RFC 7617)."""
    if login is None:
        return None
    whole = ":".join(login)
    try:
        whole.encode("latin-1")
    except UnicodeEncodeError:
        return Fixed(f"Basic {base64.b64encode(whole.encode()).decode()}")
    return login
