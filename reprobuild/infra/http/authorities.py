"""Certificates of authorities, which are read once for all connections.

urllib3 reads their file for each connection, and that takes 30 ms of a processor for the file of a Linux distribution.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterable
from pathlib import Path

from urllib3.util.ssl_ import ALPN_PROTOCOLS, create_urllib3_context

_GUARD = threading.Lock()
_CONTEXTS: dict[tuple[str, int, int, int], ssl.SSLContext] = {}


class SharedContext(ssl.SSLContext):
    """A context of connections in several threads.

    urllib3 sets the protocols at each connection, and OpenSSL must not replace them while another thread connects.
    """

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Do nothing: they are set."""


def share_context(path: str) -> ssl.SSLContext | None:
    """Return a context of urllib3 that trusts the authorities in a file, or None if it cannot be read."""
    try:
        status = Path(path).stat()
        key = (path, status.st_ino, status.st_size, status.st_mtime_ns)
        with _GUARD:
            if key not in _CONTEXTS:
                context = create_urllib3_context()
                context.load_verify_locations(path)
                context.set_alpn_protocols(ALPN_PROTOCOLS)
                context.__class__ = SharedContext
                _CONTEXTS[key] = context
            return _CONTEXTS[key]
    except OSError:  # a connection reports it
        return None
