"""Logins for servers that request them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import requests

if TYPE_CHECKING:
    from reprobuild.infra.http.client import Net


class RegistryAuth(Protocol):
    """A provider of registry logins (RFC 9110, 11.6)."""

    def serves(self, url: str) -> bool:
        """Return whether an address is a registry's.

        netrc is not used for registries, nor for addresses that they redirect to.
        """

    def known(self, url: str) -> str | None:
        """Return the `Authorization` of a former answer, or None."""

    def answer(self, url: str, challenge: str, net: Net) -> str | None:
        """Return the `Authorization` for a `WWW-Authenticate`, or None.

        None means that there is no login.
        """

    def remedy(self, url: str) -> str:
        """Return the remedy for a refused address.

        It is empty for an address that is not a registry's.
        """


class StaticAuth:
    """An unchangeable `Authorization` header.

    requests replaces one in the headers by netrc's.
    """

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._value
        return request


def send_with_login(
    gate: RegistryAuth, url: str, net: Net, get: Callable[[StaticAuth | None], requests.Response]
) -> requests.Response:
    """Send a request; on 401, retry once with a login.

    `get` sends it, and `gate` has the login.
    """
    known = gate.known(url)
    response = get(StaticAuth(known) if known else None)
    if response.status_code != requests.codes.unauthorized:
        return response
    if urllib.parse.urlsplit(response.url)[:2] != urllib.parse.urlsplit(url)[:2]:
        return response  # it was redirected, and the new host gets no login of the first
    response.close()  # its body is not needed
    authorization = gate.answer(url, response.headers.get("WWW-Authenticate", ""), net)
    return get(StaticAuth(authorization)) if authorization and authorization != known else response
