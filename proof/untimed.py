"""An index without upload times: the pages of this machine's own index as PEP 503 has them, on loopback."""

from __future__ import annotations

import html
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import msgspec

from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError

_JSON = "application/vnd.pypi.simple.v1+json"


@contextmanager
def untimed_index(source: str) -> Iterator[str]:
    """Yield the address of an index with the files of another, but without their upload times and sizes."""
    net = Net()

    @cache
    def page(project: str) -> bytes | None:
        try:
            content = net.page(f"{source}/{project}/", accept=_JSON).content
        except NotFoundError:
            return None
        return _write_page(msgspec.json.decode(content)["files"])

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                body = page(self.path.strip("/").rpartition("/")[2])
            except FetchError:
                self.send_error(503)
                return
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/simple"
    finally:
        server.shutdown()
        server.server_close()


def _write_page(files: list[dict[str, object]]) -> bytes:
    rows = ["<!DOCTYPE html>\n<html><body>\n"]
    for file in files:
        hashes = file["hashes"]
        assert isinstance(hashes, dict)
        url = html.escape(f"{file['url']}#sha256={hashes.get('sha256', '')}")
        more = ""
        if file.get("requires-python"):
            more += f' data-requires-python="{html.escape(str(file["requires-python"]))}"'
        if file.get("yanked"):
            more += ' data-yanked=""'
        rows.append(f'<a href="{url}"{more}>{html.escape(str(file["filename"]))}</a><br/>\n')
    return "".join([*rows, "</body></html>\n"]).encode()
