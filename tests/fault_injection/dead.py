"""In how many ways one file of a server can be dead, and how many of them bring the very bytes all the same."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from reprobuild.infra.http.retry import RetryPolicy
from tests.resolve.served import Reply, Served

# Three tries of a third of a second each.
MANNERS = RetryPolicy(connect=0.3, read=0.3, least=1, least_of_file=1, tries=3, pause=0.01)
LOGIN = b'<!DOCTYPE html>\n<html><title>Log in</title><form><input name="password"></form></html>\n'


@dataclass(frozen=True)
class Scene:
    """A file in its place: what it is when all is well, the server, and another server."""

    path: str
    well: Reply
    server: Served
    other: Served

    @property
    def half(self) -> int:
        return len(self.well.body) // 2


def lead(target: str) -> Reply:
    return Reply(status=302, headers={"Location": target})


def changed(body: bytes) -> bytes:
    """Return other bytes, as many."""
    return body[:-9] + bytes((n + 1) % 256 for n in body[-9:])


def mirrored(scene: Scene, reply: Reply) -> list[Reply]:
    return [lead(scene.other.give(f"/mirror{scene.path}", reply))]


def login(scene: Scene) -> list[Reply]:
    return [lead(scene.server.give("/login", Reply(LOGIN, headers={"Content-Type": "text/html"})))]


def loop(scene: Scene) -> list[Reply]:
    return [lead(scene.server.give("/loop", lead("/loop")))]


def like(reply: Reply, body: bytes | None = None, **headers: str) -> Reply:
    """Return the same answer with other headers, and another body where one is given."""
    more = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(reply.body if body is None else body, headers={**reply.headers, **more})


def cut(scene: Scene) -> Reply:
    return Reply(scene.well.body, headers=scene.well.headers, cut=scene.half, ranges=False)


FAULTS: dict[str, Callable[[Scene], Sequence[Reply]]] = {
    "404": lambda scene: [Reply(status=404)],
    "410": lambda scene: [Reply(status=410)],
    "401": lambda scene: [Reply(status=401)],
    "403": lambda scene: [Reply(status=403)],
    "503": lambda scene: [Reply(status=503)],
    "hangs": lambda scene: [Reply(silent=0.7)],
    "cut": lambda scene: [cut(scene)],
    "cut twice": lambda scene: [cut(scene), cut(scene), scene.well],
    "announced short": lambda scene: [like(scene.well, scene.well.body[: scene.half])],
    "leads to a mirror": lambda scene: mirrored(scene, scene.well),
    "leads to a login page": login,
    "a login page": lambda scene: [Reply(LOGIN, headers={"Content-Type": "text/html"})],
    "leads to a file": lambda scene: [lead("file:///etc/hostname")],
    "leads in a loop": loop,
    "another media type": lambda scene: [like(scene.well, Content_Type="application/octet-stream")],
    "claims gzip": lambda scene: [like(scene.well, Content_Encoding="gzip")],
    "gzip": lambda scene: [like(scene.well, gzip.compress(scene.well.body, mtime=0), Content_Encoding="gzip")],
    "empty": lambda scene: [like(scene.well, b"")],
}  # fmt: skip
