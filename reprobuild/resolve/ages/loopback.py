"""A Simple API on the loopback interface, only for uv and only while it runs.

Its addresses hold a secret, and it keeps no log. Files are fetched by this process, so uv gets no login of an index.
Formats: https://packaging.python.org/specifications/simple-repository-api/.
"""

from __future__ import annotations

import hmac
import http.server
import secrets
import shutil
import threading
import zlib
from collections.abc import Callable
from lzma import LZMAError
from pathlib import Path
from types import TracebackType
from urllib.parse import quote, unquote

import msgspec

from reprobuild.ecosystems.pypi.page_cache import ListedFile
from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.tars import UNREADABLE, members, open_stream
from reprobuild.lock.system import Artefact
from reprobuild.resolve.ages.evidence import AgeReader
from reprobuild.resolve.python.archives import download_file
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store

_JSON = "application/vnd.pypi.simple.v1+json"
_FILES = "+files"
_IDLE = 600  # seconds without a request on a connection
_ACCEPT = 1.0  # seconds to wait for an announced connection

MakePage = Callable[[int, str], "list[ListedFile]"]


class PageServer:
    """Serves the pages of indexes, and their files.

    Args:
        page: returns the files of a project on the index of a number.
        reader: has read the metadata of wheels.
        store, net: for files.
    """

    def __init__(self, page: MakePage, reader: AgeReader, store: Store, net: Net) -> None:
        self._page, self._reader, self._store, self._net = page, reader, store, net
        self._secret = secrets.token_urlsafe(24)
        self._files: dict[str, ListedFile] = {}
        self._guard = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _make_handler(self))

    def __enter__(self) -> PageServer:
        threading.Thread(
            target=self._server.serve_forever, args=(0.05,), daemon=True, name="loopback"
        ).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def address(self, number: int) -> str:
        """Return the address of an index."""
        return f"http://127.0.0.1:{self._server.server_port}/{self._secret}/{number}"

    def answer(self, path: str) -> tuple[str, bytes | Path] | None:
        """Return the media type and the content at a path, or None for an unknown path."""
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        if len(parts) < 3 or not hmac.compare_digest(parts[0].encode(), self._secret.encode()):
            return None
        if parts[1] == _FILES and len(parts) == 4:
            return self._answer_file(parts[2], parts[3])
        if len(parts) == 3 and parts[1].isascii() and parts[1].isdigit():
            return self._answer_page(int(parts[1][:4]), parts[2])
        return None

    def _answer_page(self, number: int, project: str) -> tuple[str, bytes] | None:
        files = self._page(number, project)
        if not files:
            return None
        entries = [self._describe(file, f"{number}.{project}.{place}") for place, file in enumerate(files)]
        document = {"meta": {"api-version": "1.1"}, "name": project, "files": entries}
        return _JSON, msgspec.json.encode(document)

    def _describe(self, file: ListedFile, key: str) -> dict[str, object]:
        with self._guard:
            self._files[key] = file
        entry: dict[str, object] = {
            "filename": file.filename,
            "url": f"/{self._secret}/{_FILES}/{quote(key, safe='')}/{quote(file.filename)}",
            "hashes": file.hashes,
            "yanked": False if file.yanked is None else file.yanked or True,
            "core-metadata": file.filename.endswith(".whl"),
        }
        optional = {"upload-time": file.uploaded, "requires-python": file.requires_python}
        return entry | {name: value for name, value in optional.items() if value}

    def _answer_file(self, key: str, name: str) -> tuple[str, bytes | Path] | None:
        with self._guard:
            file = self._files.get(key)
        if file is None or name not in (file.filename, f"{file.filename}.metadata"):
            return None
        try:
            if name == file.filename:
                path = self._bring(file)
                if not name.endswith(".whl"):
                    check_archive(path, name)  # uv unpacks it
                return "application/octet-stream", path
            header = self._reader.wheel_header(file)
            return "text/plain; charset=utf-8", header.encode() if header else self._read_metadata(file)
        except (FetchError, BuildError, OSError, zlib.error, LZMAError, *UNREADABLE, *zips.UNREADABLE):
            return None

    def _bring(self, file: ListedFile) -> Path:
        sha256 = file.hashes.get("sha256", "").lower()
        if sha256:
            artefact = Artefact(filename=file.filename, sha256=sha256, size=file.size, url=file.url)
            fetch([artefact], self._store, self._net)
        else:
            artefact = download_file(file.url, file.filename, self._store, self._net)
        return self._store.verified(artefact.sha256, file.filename)

    def _read_metadata(self, file: ListedFile) -> bytes:
        """Return the metadata of a wheel that can only be read whole."""
        with zips.open_zip(self._bring(file), file.filename) as (archive, infos):
            names = [name for name in infos if name.count("/") == 1 and name.endswith(".dist-info/METADATA")]
            if not names:
                raise ValueError("the wheel has no metadata")
            return zips.read_text(archive, infos[names[0]], file.filename)


def check_archive(path: Path, filename: str) -> None:
    """Read a source archive once.

    Raises:
        BuildError: it unpacks to too much, or has too many members.
        UNREADABLE, and those of `zips`: it is damaged.
    """
    if filename.lower().endswith(".zip"):
        with zips.open_zip(path, filename):
            return
    with path.open("rb") as stream, open_stream(stream, "r|*") as tar:
        for _ in members(tar, filename, packed=path.stat().st_size):
            pass


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128  # uv opens some 50 connections at once

    def server_activate(self) -> None:
        """Listen, and wait for no connection that went away after it was announced: `shutdown` would wait, too."""
        super().server_activate()
        self.socket.settimeout(_ACCEPT)

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore clients that go away: uv is ended when its time is up."""


def _make_handler(pages: PageServer) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE

        def do_GET(self) -> None:
            self._reply(body=True)

        def do_HEAD(self) -> None:
            self._reply(body=False)

        def _reply(self, *, body: bool) -> None:
            reply = pages.answer(self.path)
            media, content = reply or ("text/plain", b"")
            size = len(content) if isinstance(content, bytes) else content.stat().st_size
            self.send_response(200 if reply else 404)
            self.send_header("Content-Type", media)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            if not body:
                return
            if isinstance(content, bytes):
                self.wfile.write(content)
            else:
                with content.open("rb") as stream:
                    shutil.copyfileobj(stream, self.wfile)

        def log_message(self, *_: object) -> None:
            """Keep no log: addresses hold the secret."""

    return Handler
