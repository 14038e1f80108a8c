"""An index on this machine with 300 public names.

Its pages are as long as those of public indexes.

    python -m benchmarks.made_index [--latency SECONDS]     prints its address, and serves until it is ended

No public server is asked. The names and versions are of a freeze that thousands have; each project has a history of
made versions, every fourth with wheels for many platforms. Answers have the content of PyPI's: JSON (PEP 691), hashes,
metadata beside each wheel (PEP 658), ETag and `max-age=600`. The latency is that of a server far away.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import io
import json
import random
import socketserver
import time
import zipfile
from pathlib import Path
from typing import Any, ClassVar

from packaging.utils import canonicalize_name
from packaging.version import Version

LINES = tuple((Path(__file__).parent / "freeze300.txt").read_text().split())
_PURE = ("py3-none-any",)
_TAGS = tuple(
    f"cp{minor}-cp{minor}-{platform}"
    for minor in (39, 310, 311, 312, 313)
    for platform in (
        "manylinux_2_17_x86_64.manylinux2014_x86_64", "manylinux_2_17_aarch64.manylinux2014_aarch64",
        "musllinux_1_2_x86_64", "macosx_11_0_arm64", "win_amd64",
    )
)  # fmt: skip
PAGE = "application/vnd.pypi.simple.v1+json"


def pages() -> dict[str, bytes]:
    """Return the page of each project, by its path."""
    draw = random.Random(300)
    return {
        f"/simple/{canonicalize_name(line.partition('==')[0])}/": _page(line, number, draw)
        for number, line in enumerate(LINES)
    }


def _page(line: str, number: int, draw: random.Random) -> bytes:
    name, _, version = line.partition("==")
    stem, tags = name.replace("-", "_").lower(), _TAGS if number % 4 == 0 else _PURE
    former = (f"0.{major}.{minor}" for major in range(draw.randint(1, 25)) for minor in range(4))
    versions = [*(one for one in former if Version(one) != Version(version)), version]
    files: list[dict[str, Any]] = []
    for one in versions:
        files += [_file(f"{stem}-{one}-{tag}.whl", metadata=True, real=one == version) for tag in tags]
        files.append(_file(f"{stem}-{one}.tar.gz", metadata=False, real=False))
    body = {"meta": {"api-version": "1.1"}, "name": name, "versions": versions, "files": files}
    return json.dumps(body, separators=(",", ":")).encode()


@functools.cache
def wheel(filename: str) -> bytes:
    """Return the bytes of a wheel of this name.

    They are always the same.
    """
    stem = "-".join(filename.split("-")[:2])
    content = {f"{stem}.dist-info/METADATA": metadata_of(filename), f"{stem}/__init__.py": b""}
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in content.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return stream.getvalue()


def _file(filename: str, *, metadata: bool, real: bool) -> dict[str, Any]:
    body = wheel(filename) if real and metadata else b""
    sha256 = hashlib.sha256(body or filename.encode()).hexdigest()
    beside = {"sha256": hashlib.sha256(metadata_of(filename)).hexdigest()} if metadata else False
    return {
        "filename": filename, "url": f"/files/{filename}", "hashes": {"sha256": sha256}, "requires-python": ">=3.8",
        "size": len(body) or 100_000, "upload-time": "2025-01-01T00:00:00.000000Z", "yanked": False,
        "core-metadata": beside,
        "data-dist-info-metadata": beside, "provenance": None,
    }  # fmt: skip


def metadata_of(filename: str) -> bytes:
    """Return the METADATA of a wheel of this name."""
    name, version = filename.split("-")[:2]
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.8\n".encode()


class Handler(socketserver.StreamRequestHandler):
    """A handler of one connection, one request after the other.

    Headers and body are one packet.
    """

    disable_nagle_algorithm = True
    pages: ClassVar[dict[str, tuple[str, bytes]]] = {}
    latency = 0.0

    def handle(self) -> None:
        while request := self.rfile.readline():
            headers = {}
            while (row := self.rfile.readline().decode("latin-1").strip()) != "":
                key, _, value = row.partition(":")
                headers[key.lower()] = value.strip()
            time.sleep(self.latency)
            self.wfile.write(self._answer(request.decode("latin-1").split()[1], headers))

    def _answer(self, path: str, headers: dict[str, str]) -> bytes:
        etag, body = self.pages.get(path, ("", b""))
        if path.endswith(".metadata"):
            body, etag = metadata_of(path.rpartition("/")[2]), path
        elif path.endswith(".whl"):
            body, etag = wheel(path.rpartition("/")[2]), path
        if not body:
            return b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
        kind = "application/octet-stream" if path.startswith("/files/") else PAGE
        same = headers.get("if-none-match") == f'"{etag}"'
        head = (
            f"HTTP/1.1 {'304 Not Modified' if same else '200 OK'}\r\nContent-Type: {kind}\r\n"
            f'ETag: "{etag}"\r\nCache-Control: max-age=600, public\r\n'
            f"Content-Length: {0 if same else len(body)}\r\n\r\n"
        )
        return head.encode() + (b"" if same else body)


class Server(socketserver.ThreadingTCPServer):
    """A server on a free port of this machine."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 256


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description="serve a made index")
    parser.add_argument("--latency", type=float, default=0.0)
    Handler.latency = parser.parse_args().latency
    Handler.pages = {path: (hashlib.sha256(body).hexdigest()[:16], body) for path, body in pages().items()}
    with Server(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_address[1]}/simple", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
