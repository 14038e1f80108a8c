"""A real HTTP server on this machine that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import base64
import http.server
import time
from dataclasses import dataclass, field
from email.message import Message

from tests.loopback import Loopback


@dataclass(frozen=True)
class Reply:
    """One answer. `cut` bytes are sent though all are announced; `ranges` tells whether Range is obeyed;
    `login` (`user:password`) is demanded; `pause` seconds pass after each of ten pieces, and `silent` before the
    first word; an `endless` body is sent again and again, and its length is not said."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    ranges: bool = True
    login: str = ""
    pause: float = 0
    silent: float = 0
    endless: bool = False


class Served(Loopback):
    """The server. `replies` are given in order for each path, the last of them for ever."""

    def __init__(self) -> None:
        self.replies: dict[str, list[Reply]] = {}
        self.asked: list[tuple[str, Message]] = []
        super().__init__(_handler(self))

    def give(self, path: str, *replies: Reply | bytes) -> str:
        """Answer the path with these, and return its address."""
        self.replies[path] = [Reply(reply) if isinstance(reply, bytes) else reply for reply in replies]
        return self.url + path

    def headers(self, name: str) -> list[str | None]:
        """Return one header of every request so far."""
        return [headers[name] for _, headers in self.asked]


def _handler(served: Served) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append((self.path, self.headers))
            replies = served.replies.get(self.path, [Reply(b"nothing here", 404)])
            _answer(self, replies.pop(0) if len(replies) > 1 else replies[0])

        def log_message(self, *_: object) -> None:
            pass

    return Handler


def _answer(handler: http.server.BaseHTTPRequestHandler, reply: Reply) -> None:
    body, status, headers = reply.body, reply.status, dict(reply.headers)
    wanted = handler.headers["Range"]
    login = "Basic " + base64.b64encode(reply.login.encode()).decode()
    if reply.login and handler.headers["Authorization"] != login:
        body, status = b"", 401
    elif (
        wanted
        and reply.ranges
        and status == 200
        and handler.headers["If-Range"] in (None, headers.get("ETag"))
    ):
        start = int(wanted.removeprefix("bytes=").rstrip("-"))
        body, status = (body[start:], 206) if start < len(body) else (b"", 416)
        headers["Content-Range"] = f"bytes {start}-{len(reply.body) - 1}/{len(reply.body)}"
    time.sleep(reply.silent)
    handler.send_response(status)
    for name, value in {**({} if reply.endless else {"Content-Length": str(len(body))}), **headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    while reply.endless:
        handler.wfile.write(body)
    body = body if reply.cut is None else body[: reply.cut]
    piece = max(1, len(body) // 10) if reply.pause else max(1, len(body))
    for start in range(0, len(body), piece):
        handler.wfile.write(body[start : start + piece])
        time.sleep(reply.pause)
