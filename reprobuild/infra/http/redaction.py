"""Addresses without their secrets, and the mapping back.

Logs and locks have the redacted form; requests use the token or the signature that only this run knows.
conda's tokens are in the path, those of other indexes in the query; file stores sign the links to them.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from reprobuild_portable.secrets import redact
from reprobuild_portable.secrets.redact import secret_query
from reprobuild_portable.secrets.words import CONDA_TOKEN


class UrlRedactor:
    """The secret parts of addresses. Thread-safe."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._links: dict[str, str] = {}

    def learn(self, tokens: Mapping[str, str]) -> None:
        """Add {address: the same with a token}.

        The token is in its path or its query; it also counts for all addresses below.
        """
        self._tokens.update(tokens)

    def hide(self, url: str) -> str:
        """Return an address without token and signature.

        Both are kept for the request.
        """
        clean = redact_address(url)
        if clean != url:
            self._links[clean] = url
        return clean

    def with_secrets(self, url: str) -> str:
        """Return the address to request, with its secrets."""
        if url in self._links:
            return self._links[url]
        above = (prefix for prefix in self._tokens if url == prefix or url.startswith(f"{prefix}/"))
        clean = max(above, key=len, default=None)
        if clean is None:
            return url
        place, _, query = self._tokens[clean].partition("?")
        address = place + url.removeprefix(clean)
        return f"{address}{'&' if '?' in address else '?'}{query}" if query else address

    def redact(self, text: str) -> str:
        """Return a text for display; servers may have written it.

        Secrets in its addresses are redacted.
        """
        for clean, full in self._tokens.items():
            text = text.replace(full, clean)
        return redact(text)


def redact_address(url: str) -> str:
    """Return an address without conda's token and secret query.

    The complete query is removed if it may be a login or a signature: without its signature the rest has no
    meaning. ValueError is raised for an invalid address.
    """
    if url.startswith("file:") or ("?" not in url and "/t/" not in url):
        return url
    parts = urllib.parse.urlsplit(url)
    query = "" if secret_query(parts.query) else parts.query
    path = CONDA_TOKEN.sub("", parts.path)
    if (path, query) == (parts.path, parts.query):
        return url
    return urllib.parse.urlunsplit(parts._replace(path=path, query=query))
