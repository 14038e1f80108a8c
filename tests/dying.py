"""A server on this machine whose files die in every way in which files of the network die.

    with Dying({"pool/a.deb": content}) as server:
        url = server.address("pool/a.deb")
        server.faults["pool/a.deb"] = "replaced"    # one of FAULTS; `del` brings it back
        server.everything = "deleted"               # all that has no fault of its own
        server.weather = Weather(seed=1)            # now and then a passing fault: slowness, resets, cuts

`server.asked` has the path of every request, `server.sent` the number of bytes of all answers. Contents are bytes,
or a `Body` that is made while it is sent, such as `Generated`, which needs no memory however large it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.server
import random
import socket
import struct
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Literal, Protocol, get_args

from tests.loopback import Loopback, Server

Fault = Literal[
    "deleted",  # 404
    "replaced",  # other bytes under the same name, as many
    "truncated",  # all is announced, half is sent
    "short",  # half is announced, half is sent
    "silent",  # the connection is taken, and no word is said
    "login",  # a redirection to a page of HTML
    "elsewhere",  # a redirection to another file
    "loop",  # a redirection in a loop
    "reset",  # the connection is reset after half of it
    "busy",  # 503, for ever
    "endless",  # more and more bytes, and no length
    "refused",  # 403
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
PAGE = b"<!DOCTYPE html>\n<html><title>Log in</title></html>\n"
PIECE = 1 << 16
_PASSING: tuple[str, ...] = ("reset", "truncated", "slow", "busy")


class Body(Protocol):
    """A file that is made while it is sent."""

    size: int

    def read(self, start: int, size: int) -> bytes: ...


class Generated:
    """`size` bytes that follow from `seed`: random ones, with their place in each block of a MiB."""

    BLOCK = 1 << 20

    def __init__(self, size: int, seed: int = 0) -> None:
        self.size = size
        self._rest = random.Random(seed).randbytes(self.BLOCK - 8)

    def read(self, start: int, size: int) -> bytes:
        number, offset = divmod(start, self.BLOCK)
        block = struct.pack(">Q", number) + self._rest
        return block[offset : offset + min(size, self.size - start)]

    @property
    def sha256(self) -> str:
        """The sha256 (hex) of all of it."""
        digest = hashlib.sha256()
        for start in range(0, self.size, self.BLOCK):
            digest.update(self.read(start, self.BLOCK))
        return digest.hexdigest()


class Given:
    """Bytes as a body."""

    def __init__(self, content: bytes) -> None:
        self._content, self.size = content, len(content)

    def read(self, start: int, size: int) -> bytes:
        return self._content[start : start + size]


class Weather:
    """Passing faults: of `chance` requests each, drawn from `seed`."""

    def __init__(self, seed: int, chance: float = 0.5) -> None:
        self._random, self._chance, self._guard = random.Random(seed), chance, threading.Lock()

    def draw(self) -> tuple[str, float]:
        """Return a fault, or nothing, and the part of the rest of the file that comes before it."""
        with self._guard:
            fault = self._random.choice(_PASSING) if self._random.random() < self._chance else ""
            return fault, self._random.random()


class Dying(Loopback):
    """The server. See the module."""

    def __init__(self, files: Mapping[str, bytes | Body]) -> None:
        self.files: dict[str, Body] = {}
        for path, content in files.items():
            self.add(path, content)
        self.faults: dict[str, Fault] = {}
        self.everything: Fault | None = None
        self.weather: Weather | None = None
        self.asked: list[str] = []
        self.sent = 0
        self.closing = threading.Event()
        super().__init__(_handler(self), _Server)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        super().__exit__(kind, value, trace)

    def add(self, path: str, content: bytes | Body) -> str:
        """Serve a file, and return its address."""
        self.files[path] = Given(content) if isinstance(content, bytes) else content
        return self.address(path) if hasattr(self, "url") else ""

    def address(self, path: str) -> str:
        """Return the address of a file."""
        return f"{self.url}/{path}"


class _Server(Server):
    request_queue_size = 128

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]  # it is a socket here
        """Close without a farewell, which would come before a reset."""
        self.close_request(request)


def _handler(dying: Dying) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0].strip("/")
            dying.asked.append(path)
            _Answer(self, dying, path).give()

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Answer:
    def __init__(self, handler: http.server.BaseHTTPRequestHandler, dying: Dying, path: str) -> None:
        self._handler, self._dying, self._path = handler, dying, path

    def give(self) -> None:
        body = self._dying.files.get(self._path)
        if self._path == "login":
            self._send(Given(PAGE), kind="text/html")
        elif self._path.startswith("loop/"):
            self._lead(f"/loop/{self._path}"[:200])
        elif body is None:
            self._say(404)
        else:
            self._faulty(body, self._dying.faults.get(self._path) or self._dying.everything)

    def _faulty(self, body: Body, fault: Fault | None) -> None:
        half = body.size // 2
        if fault is None:
            self._weathered(body)
        elif fault in ("deleted", "refused", "busy"):
            self._say({"deleted": 404, "refused": 403, "busy": 503}[fault])
        elif fault == "replaced":
            self._send(_Other(body))
        elif fault == "truncated":
            self._send(body, end=half)
        elif fault == "short":
            self._send(Given(body.read(0, half)))
        elif fault == "silent":
            self._dying.closing.wait(60)
        elif fault == "reset":
            self._send(body, end=half, reset=True)
        elif fault == "endless":
            self._endless(body)
        else:
            others = [path for path in self._dying.files if path != self._path]
            self._lead(
                {"login": "/login", "loop": "/loop/x"}.get(fault) or f"/{others[0] if others else 'login'}"
            )

    def _weathered(self, body: Body) -> None:
        fault, part = self._dying.weather.draw() if self._dying.weather else ("", 0.0)
        if fault == "busy":
            self._say(503)
        elif fault == "slow":
            self._send(body, pause=part / 20)
        else:
            start = self._start()
            end = start + int(part * max(0, body.size - start)) if fault else None
            self._send(body, end=end, reset=fault == "reset")

    def _start(self) -> int:
        wanted = self._handler.headers["Range"]
        return int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0

    def _send(
        self, body: Body, *, end: int | None = None, reset: bool = False, pause: float = 0,
        kind: str = "application/octet-stream",
    ) -> None:  # fmt: skip
        start = self._start()
        if start and start >= body.size:
            self._say(416, {"Content-Range": f"bytes */{body.size}"})
            return
        headers = {"Content-Type": kind, "Content-Length": str(body.size - start)}
        if start:
            headers["Content-Range"] = f"bytes {start}-{body.size - 1}/{body.size}"
        self._head(206 if start else 200, headers)
        end = body.size if end is None else end
        while start < end:
            piece = body.read(start, min(PIECE, end - start))
            self._handler.wfile.write(piece)
            self._dying.sent += len(piece)
            start += len(piece)
            time.sleep(pause)
        if reset:
            with contextlib.suppress(OSError):
                self._handler.wfile.flush()
                self._handler.connection.setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
                )

    def _endless(self, body: Body) -> None:
        self._head(200, {})
        while not self._dying.closing.is_set():
            self._handler.wfile.write(body.read(0, PIECE))

    def _lead(self, target: str) -> None:
        self._say(302, {"Location": target})

    def _say(self, status: int, headers: Mapping[str, str] | None = None) -> None:
        self._head(status, {"Content-Length": "0", **(headers or {})})

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self._handler.send_response(status)
        for name, value in headers.items():
            self._handler.send_header(name, value)
        self._handler.end_headers()


class _Other:
    """Other bytes, as many."""

    def __init__(self, body: Body) -> None:
        self._body, self.size = body, body.size

    def read(self, start: int, size: int) -> bytes:
        return self._body.read(start, size).translate(bytes((n + 1) % 256 for n in range(256)))
