"""The archives of a made-up year on loopback, by date and as they are now, with the moods of public servers."""

from __future__ import annotations

import hashlib
import http.server
import json
import lzma
import random
import re
import socket
import threading
import urllib.parse
from dataclasses import dataclass
from datetime import datetime, timezone

from reprobuild.ecosystems.apt.snapshot_archive import format_identifier
from tests.archives.world import END, START, TICK, World
from tests.loopback import Loopback

_DATED = re.compile(r"/(?P<archive>.+?)/(?P<time>\d{8}T\d{6}Z)/(?P<rest>.+)")


@dataclass
class Moods:
    """How often, of 1000 requests, the server resets, cuts the answer off, or says that it is asked too often."""

    resets: int = 0
    cuts: int = 0
    limits: int = 0


class Archives(Loopback):
    """The server. `asked` are the paths of all requests."""

    def __init__(self, world: World, moods: Moods | None = None, seed: int = 0) -> None:
        self.world = world
        self.moods = moods or Moods()
        self.asked: list[str] = []
        self.dice = random.Random(seed)
        self.lock = threading.Lock()
        super().__init__(_handler(self))

    def answer(self, path: str) -> tuple[int, bytes, str]:
        """Return status, content and where else to look."""
        path, _, query = path.partition("?")
        if path.startswith("/devel/"):
            return self._launchpad(path, dict(urllib.parse.parse_qsl(query)))
        if path.startswith("/mr/binary/"):
            return self._first_seen(*map(urllib.parse.unquote, path.split("/")[3:5]))
        if path.startswith("/files/"):
            name, version, _ = path.removeprefix("/files/").split("_")
            return 200, self.world.deb(name, version), ""
        match = _DATED.fullmatch(path)
        if not match or match["archive"] not in self.world.shape.archives:
            return 404, b"", ""
        asked = _seconds(match["time"])
        tick = START + (asked - START) // TICK * TICK
        if tick < START:
            return 404, b"", ""
        tick = min(tick, END)
        if (
            format_identifier(tick) != match["time"]
        ):  # the nearest state before that moment, as the public ones do
            return 302, b"", f"/{match['archive']}/{format_identifier(tick)}/{match['rest']}"
        return self._file(match["archive"], tick, match["rest"])

    def _first_seen(self, name: str, version: str) -> tuple[int, bytes, str]:
        """As https://salsa.debian.org/snapshot-team/snapshot/raw/master/API has it."""
        times = [v.since for _, v in self.world.versions if (v.name, v.version) == (name, version)]
        if not times:
            return 404, b"", ""
        seen = {"name": f"{name}_{version}_amd64.deb", "archive_name": "debian", "path": f"/pool/main/{name}"}
        info = {"0" * 40: [{**seen, "first_seen": format_identifier(min(times)), "size": 1}]}
        result = [{"hash": "0" * 40, "architecture": "amd64"}]
        return 200, json.dumps({"_comment": "", "result": result, "fileinfo": info}).encode(), ""

    def _launchpad(self, path: str, query: dict[str, str]) -> tuple[int, bytes, str]:
        """As https://api.launchpad.net/devel.html has it: publications of Ubuntu, and the files of one."""
        if query.get("ws.op") == "getPublishedBinaries" and path == "/devel/ubuntu/+archive/primary":
            name, version = query["binary_name"], query["version"]
            assert query["exact_match"] == "true"
            assert query["distro_arch_series"] == f"{self.url}/devel/ubuntu/{self.world.shape.codename}/amd64"
            known = any(
                of == "ubuntu" and (v.name, v.version) == (name, version) for of, v in self.world.versions
            )
            link = f"{self.url}/devel/ubuntu/+archive/primary/+binarypub/{name}/{urllib.parse.quote(version)}"
            entries = [{"self_link": link, "binary_package_name": name}] if known else []
            return 200, json.dumps({"start": 0, "total_size": len(entries), "entries": entries}).encode(), ""
        if query == {"ws.op": "binaryFileUrls", "include_meta": "true"}:
            name, version = map(urllib.parse.unquote, path.split("/")[-2:])
            content = self.world.deb(name, version)
            file = {
                "url": f"{self.url}/files/{name}_{version}_amd64.deb", "size": len(content),
                "sha1": hashlib.sha1(content).hexdigest(), "sha256": hashlib.sha256(content).hexdigest(),
            }  # fmt: skip
            return 200, json.dumps([file]).encode(), ""
        return 404, b"", ""

    def _file(self, archive: str, tick: int, rest: str) -> tuple[int, bytes, str]:
        pocket = rest.split("/")[1] if rest.startswith("dists/") else ""
        if pocket and pocket not in self.world.shape.archives[archive]:
            return 404, b"", ""
        if rest == f"dists/{pocket}/InRelease":
            return 200, self.world.signed(archive, pocket, tick), ""
        if rest == f"dists/{pocket}/main/binary-amd64/Packages.xz":
            return 200, lzma.compress(self.world.packages(archive, pocket, tick), preset=0), ""
        deb = re.fullmatch(r"pool/([^_/]+)_([^_/]+)_amd64\.deb", rest)
        if deb and (deb[1], deb[2]) in self.world.debs:
            return 200, self.world.debs[(deb[1], deb[2])], ""
        return 404, b"", ""

    def mood(self) -> str:
        """Return what befalls the next request."""
        with self.lock:
            number = self.dice.randrange(1000)
        for name, share in vars(self.moods).items():
            if number < share:
                return str(name)
            number -= share
        return ""


def _seconds(text: str) -> int:
    return int(datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc).timestamp())


def _handler(archives: Archives) -> type[http.server.BaseHTTPRequestHandler]:
    class Handler(http.server.BaseHTTPRequestHandler):
        wbufsize = 1 << 16  # headers and body in one packet: two would wait for each other (Nagle)

        def do_GET(self) -> None:
            archives.asked.append(self.path)
            mood = archives.mood()
            if mood == "resets":
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
                self.close_connection = True
                self.connection.close()
                return
            if mood == "limits":
                self._send(429, b"too many requests", {"Retry-After": "0"})
                return
            status, content, place = archives.answer(self.path)
            self._send(status, content, {"Location": place} if place else {}, cut=mood == "cuts")

        def _send(self, status: int, content: bytes, headers: dict[str, str], *, cut: bool = False) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(content)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if cut else content)
            self.close_connection = self.close_connection or cut

        def log_message(self, *_: object) -> None:
            pass

    return Handler
