"""Addresses without their secrets, and the mapping back.

Logs and locks have the redacted form; requests use the token or the signature that only this run knows.
conda's tokens are in the path, those of other indexes in the path or the query; file stores sign the links to them.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Mapping

from reprobuild_portable.secrets import redact
from reprobuild_portable.secrets.redact import hide_path_tokens, secret_query
from reprobuild_portable.secrets.words import CONDA_TOKEN, GONE, looks_generated


class UrlRedactor:
    """The secret parts of addresses. Thread-safe."""

    def __init__(self) -> None:
        self._tokens: dict[str, str] = {}
        self._links: dict[tuple[str, str], str] = {}

    def learn(self, tokens: Mapping[str, str]) -> None:
        """Add {address: the same with a token}.

        The token is in its path or its query; it also counts for all addresses below.
        """
        for clean, full in tokens.items():
            head, mark, tail = clean.partition(f"/{GONE}/")
            if mark and full.endswith(f"/{tail}"):  # the files of an index may lie beside its pages
                self._tokens.setdefault(f"{head}/{GONE}", full.removesuffix(f"/{tail}"))
        self._tokens.update(tokens)

    def hide(self, url: str, *, hashed: bool = False) -> str:
        """Return an address without token and signature.

        Args:
            url: the address of a file.
            hashed: whether its sha256 is known: then a query that may be a token is removed, whatever its name.
        """
        clean = redact_address(url)
        for place, full in self._tokens.items():
            if "?" not in full and clean.startswith(f"{full}/"):
                clean = place + clean.removeprefix(full)
        clean = hide_path_tokens(clean, index=False)
        return clean.partition("?")[0] if hashed and may_hold_token(clean) else clean

    def keep_link(self, url: str, sha256: str, link: str) -> None:
        """Keep the complete link of a chosen file for its download.

        An index states links to any host, so the address alone is no key: it may be that of another file.
        """
        if link:
            self._links[url, sha256] = link

    def find_link(self, url: str, sha256: str) -> str:
        """Return the complete link of a chosen file, or an empty text."""
        return self._links.get((url, sha256), "")

    def with_secrets(self, url: str) -> str:
        """Return the address to request, with the tokens of the configuration."""
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


def may_hold_token(url: str) -> bool:
    """Tell whether a value in the query of an address looks generated."""
    values = re.split("[&;=]", urllib.parse.urlsplit(url).query)
    return any(len(value) >= 12 and looks_generated(urllib.parse.unquote(value)) for value in values)


def redact_index(url: str) -> str:
    """Return the address of a configured index without its tokens; one among its directories becomes `***`."""
    return hide_path_tokens(redact_address(url), index=True)


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
