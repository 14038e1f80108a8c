"""An index on loopback that publishes no upload times, with wheels and source archives made for a test."""

from __future__ import annotations

import calendar
import gzip
import hashlib
import http.server
import io
import json
import tarfile
import zipfile
from collections.abc import Mapping
from datetime import datetime, timezone

from tests.loopback import Loopback

CONSTANT = "2020-02-02"


def seconds(day: str) -> int:
    """Return noon of a day, in seconds since 1970."""
    return int(datetime.fromisoformat(f"{day}T12:00:00").replace(tzinfo=timezone.utc).timestamp())


def make_wheel(
    name: str,
    version: str,
    day: str,
    *,
    generator: str = "bdist_wheel (0.40.0)",
    requires: str = "",
    size: int = 0,
) -> tuple[str, bytes]:
    """Return the name and the content of a wheel whose members are of noon of a day (`CONSTANT`: midnight)."""
    info = f"{name}-{version}.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    texts = {
        f"{name}.py": "x" * size,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}\nA description.\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: {generator}\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": "",
    }
    year, month, number = map(int, day.split("-"))
    hour = 0 if day == CONSTANT else 12
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for place, (path, text) in enumerate(texts.items()):
            second = 0 if day == CONSTANT else 2 * place
            archive.writestr(zipfile.ZipInfo(path, (year, month, number, hour, 0, second)), text)
    return f"{name}-{version}-py3-none-any.whl", stream.getvalue()


def make_sdist(
    name: str,
    version: str,
    *,
    written: str = "",
    newest: str = CONSTANT,
    files: Mapping[str, str] | None = None,
) -> tuple[str, bytes]:
    """Return the name and the content of a source archive; an empty `written` is the time 0 in the header of gzip."""
    stream = io.BytesIO()
    moment = seconds(newest) if newest != CONSTANT else calendar.timegm((2020, 2, 2, 0, 0, 0))
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path, text in {"PKG-INFO": f"Name: {name}\n", **(files or {})}.items():
            member = tarfile.TarInfo(f"{name}-{version}/{path}")
            member.size, member.mtime = len(text.encode()), moment
            archive.addfile(member, io.BytesIO(text.encode()))
    packed = gzip.compress(stream.getvalue(), mtime=seconds(written) if written else 0)
    return f"{name}-{version}.tar.gz", packed


class UntimedIndex(Loopback):
    """The index. `ranges` tells whether it obeys Range; `asked` has path, Range and Authorization of each request.

    `uploads` has upload times by file name, for a page in JSON; without any, pages are HTML. `published` has what
    pages state about the metadata file of a wheel: true, or its sha256. `metadata` has these files (see `publish`).
    """

    def __init__(self, *, ranges: bool = True, login: str = "") -> None:
        self.ranges, self.login = ranges, login
        self.files: dict[str, dict[str, bytes]] = {}
        self.uploads: dict[str, str] = {}
        self.published: dict[str, bool | str] = {}
        self.metadata: dict[str, bytes] = {}
        self.asked: list[tuple[str, str | None, str | None]] = []
        self.broken = False
        super().__init__(_make_handler(self))

    def add(self, *files: tuple[str, bytes]) -> None:
        """Publish files, whose projects their names say."""
        for filename, content in files:
            project = filename.split("-")[0].replace("_", "-").lower()
            self.files.setdefault(project, {})[filename] = content

    def publish(self, filename: str, content: bytes | None, stated: bool | str = "") -> None:
        """Publish a metadata file, or only claim it; an empty `stated` is its hash."""
        self.published[filename] = stated or hashlib.sha256(content or b"").hexdigest()
        if content is not None:
            self.metadata[f"{filename}.metadata"] = content

    @property
    def root(self) -> str:
        """Return the address of the Simple API."""
        return f"{self.url}/simple"

    def page(self, project: str) -> tuple[str, bytes]:
        """Return the media type and the content of a page."""
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in self.files[project].items()}
        if self.uploads:
            entries = [
                {"filename": name, "url": f"/files/{project}/{name}", "hashes": {"sha256": digest},
                 **({"upload-time": self.uploads[name]} if name in self.uploads else {}),
                 **({"core-metadata": _state(self.published[name])} if name in self.published else {})}
                for name, digest in digests.items()
            ]  # fmt: skip
            document = {"meta": {"api-version": "1.1"}, "name": project, "files": entries}
            return "application/vnd.pypi.simple.v1+json", json.dumps(document).encode()
        rows = "".join(
            f'<a href="/files/{project}/{name}#sha256={digest}"{self._attribute(name)}>{name}</a>\n'
            for name, digest in digests.items()
        )
        return "text/html", f"<!DOCTYPE html><html><body>\n{rows}</body></html>".encode()

    def _attribute(self, name: str) -> str:
        stated = self.published.get(name)
        text = f"sha256={stated}" if isinstance(stated, str) else "true"
        return f' data-core-metadata="{text}"' if stated else ""


def _state(stated: bool | str) -> object:
    return {"sha256": stated} if isinstance(stated, str) else stated


def _make_handler(index: UntimedIndex) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wished, login = self.headers["Range"], self.headers["Authorization"]
            index.asked.append((self.path, wished, login))
            parts = self.path.strip("/").split("/")
            if index.broken:
                return self._send(403, "text/plain", b"")
            if index.login and not login:
                return self._send(401, "text/plain", b"")
            if parts[0] == "simple" and parts[-1] in index.files:
                return self._send(200, *index.page(parts[-1]))
            files = {**index.files.get(parts[1], {}), **index.metadata} if parts[0] == "files" else {}
            content = files.get(parts[-1])
            if content is None:
                return self._send(404, "text/plain", b"")
            if not (wished and index.ranges):
                return self._send(200, "application/octet-stream", content)
            first, _, last = wished.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(content) - int(last))
            end = min(int(last), len(content) - 1) if first and last else len(content) - 1
            headers = {"Content-Range": f"bytes {start}-{end}/{len(content)}"}
            return self._send(206, "application/octet-stream", content[start : end + 1], headers)

        def _send(
            self, status: int, media: str, body: bytes, headers: Mapping[str, str] | None = None
        ) -> None:
            self.send_response(status)
            for name, value in {
                "Content-Type": media,
                "Content-Length": str(len(body)),
                **(headers or {}),
            }.items():
                self.send_header(name, value)
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    return Handler
