"""Logins that are given where a server asks for them."""

from __future__ import annotations

import urllib.parse
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import requests

if TYPE_CHECKING:
    from reprobuild.infra.http.client import Net


class RegistryAuth(Protocol):
    """Who knows the logins of registries (RFC 9110, 11.6)."""

    def serves(self, url: str) -> bool:
        """Tell whether an address is a registry's: netrc is for none of those, nor for where they lead."""

    def known(self, url: str) -> str | None:
        """Return the `Authorization` for an address that was answered before, or None."""

    def answer(self, url: str, challenge: str, net: Net) -> str | None:
        """Return the `Authorization` that a `WWW-Authenticate` asks for, or None where there is no login."""

    def remedy(self, url: str) -> str:
        """Return what helps where an address refuses access, empty for addresses of others."""


class StaticAuth:
    """An `Authorization` as it is: requests puts those of netrc over one that stands in the headers."""

    def __init__(self, value: str) -> None:
        self._value = value

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = self._value
        return request


def pass_gate(
    gate: RegistryAuth, url: str, net: Net, get: Callable[[StaticAuth | None], requests.Response]
) -> requests.Response:
    """Ask by `get`, and once more with a login where the server wants one that the gate has."""
    known = gate.known(url)
    response = get(StaticAuth(known) if known else None)
    if response.status_code != requests.codes.unauthorized:
        return response
    if urllib.parse.urlsplit(response.url)[:2] != urllib.parse.urlsplit(url)[:2]:
        return response  # it led elsewhere, and who is there gets no login of the first
    response.close()  # its words are of no use
    given = gate.answer(url, response.headers.get("WWW-Authenticate", ""), net)
    return get(StaticAuth(given)) if given and given != known else response
