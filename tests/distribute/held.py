"""A registry in memory, of version 1.1 of the specification or before, that counts what it takes and can lie.

Debian's own registry, which other tests use, keeps no lists of referrers and does as it is told.
"""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import re
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.loopback import Loopback
from tests.registry.pushing import sha256

INDEX = "application/vnd.oci.image.index.v1+json"
_PATH = re.compile(
    r"/v2/(?P<name>[a-z/]+?)/(?P<kind>blobs/uploads|sessions/of/uploads|blobs|manifests|referrers)/(?P<rest>[^?]*)\??(?P<query>.*)"
)


@dataclass(frozen=True)
class Asked:
    """One request: its body's size as it was announced, and its login."""

    method: str
    path: str
    size: int
    login: str | None


@dataclass(frozen=True)
class Said:
    """An answer in the place of the true one. An `endless` body is sent again and again."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False


def listed(body: bytes, *, endless: bool = False, **headers: str) -> Said:
    """Return an answer that is a list of referrers, by its type."""
    return Said(body=body, headers={"Content-Type": INDEX, **headers}, endless=endless)


class Held(Loopback):
    """The registry. `manifests` are by digest and by tag, (type, content); `lies` gives answers by method and path.

    `breaks` are numbers of bytes of bodies of PATCH after which the connection is reset, each once; with `forgets`
    what came before is forgotten.
    """

    def __init__(self, *, api: bool = True, login: tuple[str, str] | None = None) -> None:
        self.api = api
        self.login = "Basic " + base64.b64encode(":".join(login).encode()).decode() if login else ""
        self.challenge = 'Basic realm="held"'
        self.tokens: dict[str, str] = {}
        self.blobs: dict[str, bytes] = {}
        self.manifests: dict[str, tuple[str, bytes]] = {}
        self.uploads: dict[str, bytes] = {}
        self.asked: list[Asked] = []
        self.breaks: list[int] = []
        self.forgets = False
        self.place = "blobs/uploads"  # or sessions/of/uploads
        self.lies: list[tuple[str, str, Said]] = []
        self.taken: Callable[[int], None] = lambda _: None
        super().__init__(_handler(self))

    def lie(self, method: str, path: str, said: Said) -> None:
        """Answer requests whose path begins so with something else."""
        self.lies.append((method, path, said))

    def sizes(self, method: str) -> list[int]:
        """Return the sizes of the bodies of all requests of a method."""
        return [one.size for one in self.asked if one.method == method]

    def accepts(self, method: str, login: str | None) -> bool:
        """Tell whether a login does for a method: of `tokens` that of HEAD to read, that of POST for everything."""
        if self.tokens:
            kinds = ("HEAD", "POST") if method in ("GET", "HEAD") else ("POST",)
            return login in [f"Bearer {self.tokens[kind]}" for kind in kinds]
        return not self.login or login == self.login

    def referrers(self, digest: str) -> bytes:
        """Return the list of what belongs to a manifest."""
        found = []
        for wanted, (kind, content) in self.manifests.items():
            manifest = json.loads(content)
            if wanted.startswith("sha256:") and (manifest.get("subject") or {}).get("digest") == digest:
                found.append({
                    "mediaType": kind, "digest": wanted, "size": len(content),
                    "artifactType": manifest.get("artifactType", ""),
                    "annotations": manifest.get("annotations") or {},
                })  # fmt: skip
        index = {
            "schemaVersion": 2,
            "mediaType": INDEX,
            "manifests": found,
        }
        return json.dumps(index).encode()

    def check(self) -> None:
        """Nothing that is held is damaged, and every manifest has all of its parts."""
        assert all(sha256(content) == digest for digest, content in self.blobs.items())
        for wanted, (_, content) in self.manifests.items():
            assert sha256(content) == wanted or not wanted.startswith("sha256:")
            held = json.loads(content)
            parts = [*held.get("layers", ()), *([held["config"]] if "config" in held else [])]
            assert all(part["digest"] in self.blobs for part in parts), wanted


def _handler(held: Held) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            _Request(self, held).answer()

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = _any

        def log_message(self, *_: object) -> None:
            pass

    return Handler


class _Request:
    def __init__(self, handler: http.server.BaseHTTPRequestHandler, held: Held) -> None:
        self.handler, self.held = handler, held
        self.size = int(handler.headers["Content-Length"] or 0)
        login = handler.headers["Authorization"]
        held.asked.append(Asked(handler.command, handler.path, self.size, login))

    def answer(self) -> None:
        handler, held = self.handler, self.held
        for method, path, said in held.lies:
            if handler.command == method and handler.path.startswith(path):
                self.handler.rfile.read(self.size)
                self._say(said)
                return
        if not held.accepts(handler.command, handler.headers["Authorization"]):
            handler.rfile.read(self.size)
            self._say(Said(401, headers={"WWW-Authenticate": held.challenge}))
            return
        found = _PATH.fullmatch(handler.path)
        if found is None:
            self._say(Said(404))
        elif found["kind"].endswith("uploads"):
            self._upload(found["name"], found["rest"], found["query"])
        elif found["kind"] == "referrers":
            self._say(listed(held.referrers(found["rest"])) if held.api else Said(404))
        elif found["kind"] == "blobs":
            self._say(self._content(held.blobs.get(found["rest"])))
        else:
            self._manifest(found["rest"])

    def _content(self, content: bytes | None, kind: str = "application/octet-stream") -> Said:
        if content is None:
            return Said(404)
        wanted = self.handler.headers["Range"]
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        place = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        return Said(206 if start else 200, content[start:], {"Content-Type": kind, **place})

    def _manifest(self, wanted: str) -> None:
        held = self.held
        if self.handler.command != "PUT":
            kind, content = held.manifests.get(wanted, ("", None))
            self._say(self._content(content, kind))
            return
        content = self.handler.rfile.read(self.size)
        subject = json.loads(content).get("subject")
        for place in {wanted, sha256(content)}:
            held.manifests[place] = (self.handler.headers["Content-Type"], content)
        self._say(Said(201, headers={"OCI-Subject": subject["digest"]} if subject and held.api else {}))

    def _upload(self, name: str, number: str, query: str) -> None:
        held, method = self.held, self.handler.command
        if method == "POST":
            number = str(uuid.uuid4())
            held.uploads[number] = b""
        elif number not in held.uploads:
            self.handler.rfile.read(self.size)
            self._say(Said(404))
            return
        if method == "PATCH" and not self._take(number):
            return
        have = len(held.uploads[number])
        place = {"Location": f"/v2/{name}/{held.place}/{number}", "Range": f"0-{max(0, have - 1)}"}
        if method == "PUT":
            content = held.uploads.pop(number)
            digest = query.removeprefix("digest=")
            if sha256(content) != digest:
                self._say(Said(400))
                return
            held.blobs[digest] = content
        self._say(Said({"GET": 204, "PUT": 201}.get(method, 202), headers=place))

    def _take(self, number: str) -> bool:
        """Read the body of a PATCH; tell whether all of it came."""
        held, left = self.held, self.size
        most = held.breaks.pop(0) if held.breaks else None
        begin = self.handler.headers["Content-Range"] or "0-"
        assert int(begin.partition("-")[0]) == len(held.uploads[number])
        came = 0
        while left and (most is None or came < most):
            piece = self.handler.rfile.read(min(left, 1 << 14, left if most is None else most - came))
            if not piece:
                return False
            held.uploads[number] += piece
            left, came = left - len(piece), came + len(piece)
            held.taken(len(piece))
        if left:
            if held.forgets:
                del held.uploads[number]
            self.handler.close_connection = True
            with contextlib.suppress(OSError):
                self.handler.connection.shutdown(socket.SHUT_RDWR)
            return False
        return True

    def _say(self, said: Said) -> None:
        handler = self.handler
        handler.send_response(said.status)
        for name, value in said.headers.items():
            handler.send_header(name, value)
        if said.endless:
            handler.close_connection = True
        else:
            handler.send_header("Content-Length", str(len(said.body)))
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(said.body)
            while said.endless:
                handler.wfile.write(said.body)
