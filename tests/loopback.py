"""What servers of the tests on loopback share: they serve in a `with` block, and mind no client that goes away."""

from __future__ import annotations

import http.server
import threading
from types import TracebackType
from typing import TypeVar

_Own = TypeVar("_Own", bound="Loopback")


class Server(http.server.ThreadingHTTPServer):
    """A thread for each connection."""

    def server_activate(self) -> None:
        """Listen, and wait for no connection that went away after it was announced: `shutdown` would wait, too."""
        super().server_activate()
        self.socket.settimeout(1)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away, or are killed, are no news here."""


class Loopback:
    """Serves on a free port of 127.0.0.1; `host` and `url` say where."""

    def __init__(
        self, handler: type[http.server.BaseHTTPRequestHandler], server: type[Server] = Server
    ) -> None:
        self._server = server(("127.0.0.1", 0), handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"

    def __enter__(self: _Own) -> _Own:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
