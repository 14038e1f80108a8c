"""The server of pages for uv ends, whatever a client does."""

from __future__ import annotations

import http.server
import socketserver
import threading

import pytest

from reprobuild.resolve.ages.loopback import _Server
from tests.loopback import Server


@pytest.mark.parametrize("kind", [_Server, Server])
def test_a_connection_that_went_away_is_not_waited_for(kind: type[socketserver.TCPServer]) -> None:
    """The kernel announced it, and `accept` finds none; a server that waits there cannot be shut down."""
    with kind(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(
            target=server._handle_request_noblock, daemon=True
        )  # as `serve_forever` does
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
