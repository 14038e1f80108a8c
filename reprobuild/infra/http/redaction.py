"""Addresses as they are told and kept, and as they are asked: with the token or the signature that only this run knows.

conda's tokens stand in the path, those of other indexes in the query; stores of files sign the links to them.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping

from reprobuild_portable.secrets import CONDA_TOKEN, redact, secret_query


class Hidden:
    """What of addresses must be told to nobody. Threads may share it."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._links: dict[str, str] = {}

    def learn(self, tokens: Mapping[str, str]) -> None:
        """Keep {address: the same with a token in its path or its query}, also for all that is below."""
        self._tokens.update(tokens)

    def hide(self, url: str) -> str:
        """Return an address without a token and a signature, and keep those for when it is asked."""
        clean = told_address(url)
        if clean != url:
            self._links[clean] = url
        return clean

    def whole(self, url: str) -> str:
        """Return what is asked for an address."""
        if url in self._links:
            return self._links[url]
        above = (one for one in self._tokens if url == one or url.startswith(f"{one}/"))
        clean = max(above, key=len, default=None)
        if clean is None:
            return url
        place, _, query = self._tokens[clean].partition("?")
        found = place + url.removeprefix(clean)
        return f"{found}{'&' if '?' in found else '?'}{query}" if query else found

    def shown(self, text: str) -> str:
        """Return a text for the eyes, whose addresses may be what a server says."""
        for clean, full in self._tokens.items():
            text = text.replace(full, clean)
        return redact(text)


def told_address(url: str) -> str:
    """Return an address without conda's token, and without its query where that may be a login or a signature.

    The whole query goes: without its signature the rest of it means nothing. ValueError where it is no address.
    """
    if url.startswith("file:") or ("?" not in url and "/t/" not in url):
        return url
    parts = urllib.parse.urlsplit(url)
    query = "" if secret_query(parts.query) else parts.query
    path = CONDA_TOKEN.sub("", parts.path)
    if (path, query) == (parts.path, parts.query):
        return url
    return urllib.parse.urlunsplit(parts._replace(path=path, query=query))
