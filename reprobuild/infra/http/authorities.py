"""The authorities whose certificates are trusted: those of requests, and those of this site.

urllib3 reads their file for each connection, and that takes 30 ms of a processor for the file of a Linux distribution.
So they are read once for all connections.
"""

from __future__ import annotations

import os
import ssl
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

from reprobuild.errors import FetchError, ReproError

_GUARD = threading.Lock()
_CONTEXTS: dict[tuple[tuple[str, int, int, int], ...], ssl.SSLContext] = {}
_NAMED = "SSL_CERT_FILE, SSL_CERT_DIR or pip's setting `cert` names it: name a file of certificates (PEM)"
_UNREADABLE = "name a readable file: `pip config set global.cert FILE`, or set REQUESTS_CA_BUNDLE=FILE"


class Authorities:
    """The files and directories of this site's authorities, beside the file of requests.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` are OpenSSL's, which ignores a missing one (SSL_CTX_set_default_verify_paths).
    requests takes `REQUESTS_CA_BUNDLE` or `CURL_CA_BUNDLE` instead of all others.

    Args:
        env: the user's environment.
        ask: returns pip's setting `cert`, or "". pip takes a third of a second, so it is asked after the first
            refused certificate.
    """

    def __init__(
        self, env: Mapping[str, str] = MappingProxyType({}), ask: Callable[[], str] = lambda: ""
    ) -> None:
        named = (env.get("SSL_CERT_FILE", ""), *env.get("SSL_CERT_DIR", "").split(os.pathsep))
        self.paths = tuple(path for path in named if path and os.access(path, os.R_OK))
        self._replaced = bool(env.get("REQUESTS_CA_BUNDLE") or env.get("CURL_CA_BUNDLE"))
        self._ask = ask
        self._guard = threading.Lock()
        self._pip: str | None = None

    def extend(self) -> bool:
        """Add pip's; return whether another try may succeed.

        Raises:
            FetchError: pip's file cannot be read.
        """
        if self._replaced:
            return False
        with self._guard:
            if self._pip is None:
                self._pip = self._ask_pip()
            if not self._pip:
                return False
            if not os.access(self._pip, os.R_OK):
                raise FetchError(
                    f"pip's setting `cert` names {self._pip}, which cannot be read", hint=_UNREADABLE
                )
            if self._pip not in self.paths:
                self.paths = (*self.paths, self._pip)
            return True

    def _ask_pip(self) -> str:
        try:
            return self._ask()
        except ReproError:  # the command that needs an index reports it
            return ""


class SharedContext(ssl.SSLContext):
    """A context of connections in several threads.

    urllib3 sets the protocols at each connection, and OpenSSL must not replace them while another thread connects.
    """

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Do nothing: they are set."""


def share_context(path: str, more: tuple[str, ...] = ()) -> ssl.SSLContext | None:
    """Return a context of urllib3 that trusts the authorities in a file, or None if it cannot be read.

    Args:
        path: the file.
        more: further files and directories.

    Raises:
        FetchError: one of these has no certificates.
    """
    try:
        key = tuple(_identify(place) for place in (path, *more))
        with _GUARD:
            if key not in _CONTEXTS:
                context = create_urllib3_context()
                context.load_verify_locations(path)
                for place in more:
                    _load(context, place)
                context.set_alpn_protocols(ALPN_PROTOCOLS)
                context.__class__ = SharedContext
                _CONTEXTS[key] = context
            return _CONTEXTS[key]
    except OSError:  # a connection reports it
        return None


def _identify(path: str) -> tuple[str, int, int, int]:
    status = Path(path).stat()
    return path, status.st_ino, status.st_size, status.st_mtime_ns


def _load(context: ssl.SSLContext, path: str) -> None:
    if Path(path).is_dir():
        context.load_verify_locations(capath=path)
        return
    try:
        context.load_verify_locations(path)
    except OSError as err:
        raise FetchError(f"{path} has no certificates: {err}", hint=_NAMED) from None
