"""A bounded, seeded fuzzer of the documents that others hand over: `python -m tests.untrusted.fuzz_documents`.

Case N of a seed is always the same. Each outcome must be a value, or a ReproError with an exit code and a hint that can
be printed. Cases run in a child process with a bound on memory, each with a bound on time; where the child dies, the
case that it was at is told.
"""

from __future__ import annotations

import argparse
import http.server
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from reprobuild.config.override_text import describe_decisions, list_unconfirmed
from reprobuild.config.overrides import read_decisions
from reprobuild.distribute.unbundle import unbundle
from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.ecosystems.apt.snapshot_archive import read_release
from reprobuild.ecosystems.conda.repodata import Repodata
from reprobuild.ecosystems.oci_registry.logins import Logins
from reprobuild.ecosystems.oci_registry.manifest import find_image
from reprobuild.ecosystems.oci_registry.reference import parse_reference
from reprobuild.ecosystems.pypi.indexes import PackageIndex
from reprobuild.ecosystems.pypi.simple_api import Pages
from reprobuild.errors import ReproError
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.infra.http.client import Net
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import encode
from reprobuild.output.directory import read_image
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from reprobuild.verify.certificate.read import read_certificate
from tests.conftest import ROOT
from tests.distribute.conftest import make_results
from tests.snapshot import fuzz as of_snapshots
from tests.untrusted.mutations import JSON, NAMES, any_bytes

SECONDS = 20
MEMORY = 1 << 30
BATCH = 400
_WORDS = [
    *NAMES,
    "\u202e",
    "\x1b[31m",
    "9" * 5000,
    "-",
    "a" * 100_000,
    "https://u:p@h.invalid/",
    "fd::0",
    "$(x)",
    "\ud800",
]
_YAML = """python: "3.11"
base: debian/bookworm
sources: {mylib: mylib.bundle, other: "https://git.example.org/x@v1"}
services: {torch-index: "https://mirror.example.org/{local}"}
archives: ["ppa:some/fresh", {url: "http://site.example.org/{time}/", key: AB, suites: [x]}]
bake: [MY_FLAG, MY_MODE=fast]
build: {p: {requires: [ninja], variables: {A: "1"}}}
seed: 7
workload: {command: [python, train.py], outputs: [checkpoint.pt]}
"""
_BOMBS = (
    "&a [*a]",
    "!!timestamp x",
    "!!int ''",
    "? [a]\n: b",
    "<<: *a",
    "- " * 500,
    "{" * 500,
    "2020-99-99",
    "1:" * 2000,
)
_RELEASE = """Origin: Debian
Suite: oldstable
Codename: bookworm
Date: Sat, 11 Jul 2026 10:16:37 UTC
SHA256:
 0000000000000000000000000000000000000000000000000000000000000000 120 main/binary-amd64/Packages
"""
_PACKAGES = """Package: bash
Version: 5.2-1
Architecture: amd64
Priority: required
Essential: yes
Depends: libc6 (>= 2.36), base-files | other (<< 3)
Provides: sh (= 1)
Filename: pool/b/bash.deb
Size: 100
SHA256: 0000000000000000000000000000000000000000000000000000000000000000

"""
_SIMPLE = {
    "meta": {"api-version": "1.1"}, "name": "six",
    "files": [{"filename": "six-1.16.0-py3-none-any.whl", "url": "six.whl", "hashes": {"sha256": "0" * 64},
               "requires-python": ">=3", "yanked": False, "size": 5}],
}  # fmt: skip
_HTML = (
    '<!DOCTYPE html><html><head><meta name="pypi:repository-version" content="1.0"></head><body>\n'
    '<a href="six-1.16.0-py3-none-any.whl#sha256=00" data-requires-python="&gt;=3" data-yanked="">six-1.16.0</a>\n'
    "</body></html>\n"
)
_REPODATA = {
    "info": {"subdir": "noarch"},
    "packages": {"six-1.16-0.tar.bz2": {
        "name": "six", "version": "1.16", "build": "0", "build_number": 0, "depends": ["python"], "size": 5,
        "md5": "0" * 32, "sha256": "0" * 64, "subdir": "noarch",
    }},
    "packages.conda": {},
}  # fmt: skip


class FoundError(Exception):
    """An outcome that must not be."""


class Answers(http.server.ThreadingHTTPServer):
    """A server on loopback that gives one answer to each question; `login` asks for a token first."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content, self.kind, self.login = b"", "application/json", False
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        asked = self.server.login and not self.path.startswith("/token")
        self.send_response(401 if asked else 200)
        if asked:
            self.send_header("WWW-Authenticate", f'Bearer realm="{self.server.url}/token",service="x"')
        content = b"" if asked else self.server.content
        self.send_header("Content-Type", self.server.kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


class World:
    """What the cases begin with: honest documents, a server, and a bundle."""

    def __init__(self, place: Path) -> None:
        results = make_results(place, size=2000)
        self.out = results.out
        self.lock = (self.out / "reprobuild.lock").read_bytes()
        results.bundle(place / "b.tar", parts=frozenset({"wheels"}))
        self.bundle = (place / "b.tar").read_bytes()
        self.capture = (ROOT / "examples/cpu-capture/snapshot/capture.json").read_bytes()
        self.answers: Answers  # of the child process, because threads do not survive a fork


def structured(random: Random, data: bytes) -> bytes:
    """Change a JSON document in its structure, or in its bytes."""
    if random.random() < 0.25:
        return any_bytes(random, data)
    value = json.loads(data)
    for _ in range(random.choice([1, 1, 2, 5])):
        value = _changed(random, value)
    text = json.dumps(value, ensure_ascii=random.random() < 0.5)
    if random.random() < 0.1:
        text = text.replace("{", '{"x": ' + "[" * 50_000, 1)
    return text.encode("utf-8", "surrogatepass")


def _changed(random: Random, value: Any) -> Any:
    """Return a value with one of its parts replaced, removed, renamed or repeated."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        key = random.choice(list(value))
        way = random.randrange(10)
        if way == 0:
            return {name: one for name, one in value.items() if name != key}
        if way == 1:
            return {**value, random.choice(_WORDS): value[key]}
        return {**value, key: _changed(random, value[key])}
    if isinstance(value, list) and value and random.random() < 0.9:
        at = random.randrange(len(value))
        if random.random() < 0.1:
            return value * random.choice([0, 2, 1000 if len(value) < 50 else 3])
        return [*value[:at], _changed(random, value[at]), *value[at + 1 :]]
    return random.choice([*JSON, *_WORDS, value, [value], {"a": value}, f"{value}\n", -1.5, 1e308])


def lock(random: Random, world: World, place: Path) -> None:
    (place / "reprobuild.lock").write_bytes(structured(random, world.lock))
    encode(read_lock(place / "reprobuild.lock"))


def image(random: Random, world: World, place: Path) -> None:
    for name in ("image.json", "reprobuild.lock"):
        data = (world.out / name).read_bytes()
        (place / name).write_bytes(structured(random, data) if random.random() < 0.7 else data)
    read_image(place)


def layout(random: Random, world: World, place: Path) -> None:
    for path in (world.out / "image").rglob("*"):
        target = place / path.relative_to(world.out / "image")
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file():
            data = path.read_bytes()
            target.write_bytes(
                structured(random, data) if data[:1] == b"{" and random.random() < 0.5 else data
            )
    layout_tree(read_layout(place))


def capture(random: Random, world: World, place: Path) -> None:
    (place / "requirements.txt").write_text("six==1.16.0\n")
    (place / "capture.json").write_bytes(structured(random, world.capture))
    read_snapshot(place)
    load_capture(place)


def snapshot(random: Random, world: World, place: Path) -> None:
    of_snapshots.one(random.choice(of_snapshots.TARGETS), random.randrange(1 << 30), 0)


def verdict(random: Random, world: World, place: Path) -> None:
    (place / "verdict.json").write_bytes(structured(random, (world.out / "verdict.json").read_bytes()))
    read_certificate(place)


def decisions(random: Random, world: World, place: Path) -> None:
    lines = _YAML.split("\n")
    for _ in range(random.choice([1, 1, 3])):
        at = random.randrange(len(lines))
        key = lines[at].partition(":")[0]
        lines[at] = random.choice(
            [
                f"{key}: {random.choice(_BOMBS)}",
                f"{key}: {json.dumps(random.choice([*JSON, *_WORDS]))}",
                "",
                lines[at] * 2,
            ]
        )
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    (place / "reprobuild.yaml").write_bytes(any_bytes(random, data) if random.random() < 0.3 else data)
    found = read_decisions(place / "reprobuild.yaml")
    describe_decisions(found)
    list_unconfirmed(found)
    msgspec.json.encode(found.lock_document())


def package(random: Random, world: World, place: Path) -> None:
    """A bundle, changed in its archive or in its manifest."""
    data = bytearray(world.bundle)
    end = data.index(b"\0", 512)
    if random.random() < 0.5:
        manifest = structured(random, bytes(data[512:end]))[: end - 512]
        data[512:end] = manifest + b" " * (end - 512 - len(manifest))
    else:
        data = bytearray(any_bytes(random, bytes(data)))
    (place / "b.tar").write_bytes(data)
    store = Store(place / "store")
    unbundle(place / "b.tar", place / "out", store, {"PATH": ""}, signers=None, say=lambda _: None)


def simple(random: Random, world: World, place: Path) -> None:
    as_json = random.random() < 0.5
    content = (
        structured(random, json.dumps(_SIMPLE).encode()) if as_json else any_bytes(random, _HTML.encode())
    )
    kind = (
        "application/vnd.pypi.simple.v1+json"
        if as_json
        else random.choice(["text/html", "text/html; charset=x", ""])
    )
    world.answers.content, world.answers.kind, world.answers.login = content, kind, False
    Pages(Net()).files(PackageIndex(world.answers.url, links=random.random() < 0.2), "six", "six")


def registry(random: Random, world: World, place: Path) -> None:
    """An index, a manifest or a configuration, whatever was asked for; or a token."""
    names = sorted((world.out / "image" / "blobs" / "sha256").iterdir())
    known = [
        data
        for path in (*names, world.out / "image" / "index.json")
        if (data := path.read_bytes())[:1] == b"{"
    ]
    login = random.random() < 0.3
    data = b'{"token": "abc", "expires_in": 300}' if login else random.choice(known)
    world.answers.content, world.answers.kind, world.answers.login = (
        structured(random, data),
        "application/json",
        login,
    )
    reference = parse_reference(f"127.0.0.1:{world.answers.server_port}/team/x:1")
    net = Net(gate=Logins({}, "https://hub.invalid"))
    find_image(reference, "linux/amd64", net, Store(place / "store"), "https://hub.invalid")


def channel(random: Random, world: World, place: Path) -> None:
    world.answers.content, world.answers.kind, world.answers.login = (
        structured(random, json.dumps(_REPODATA).encode()), "application/json", False
    )  # fmt: skip
    Repodata(Net(), place).list_packages(world.answers.url, "noarch", "six")


def archive(random: Random, world: World, place: Path) -> None:
    read_release(any_bytes(random, _RELEASE.encode()), "the suite")
    content = any_bytes(random, _PACKAGES.encode() * 3)
    index = SystemIndex("debian", "bookworm", [PackagesFile(uri="http://x.invalid/", content=content)])
    index.versions("bash")
    index.providers("sh")


TARGETS: dict[str, Callable[[Random, World, Path], None]] = {
    "lock": lock, "image.json": image, "layout": layout, "capture.json": capture, "snapshot": snapshot,
    "verdict.json": verdict, "reprobuild.yaml": decisions, "bundle": package, "simple api": simple,
    "registry": registry, "archive": archive,
}  # fmt: skip
# A process is started for each of these, so that they come seldom.
SLOW: dict[str, Callable[[Random, World, Path], None]] = {"channel": channel}
_EVERY = 40


def target_of(number: int) -> str:
    """Return the target of a case."""
    if number % _EVERY == _EVERY - 1:
        return list(SLOW)[number // _EVERY % len(SLOW)]
    return list(TARGETS)[number % len(TARGETS)]


def one(target: str, seed: int, number: int, world: World) -> str:
    """Do one case, and return `accepted` or `refused`.

    Raises:
        FoundError: its outcome must not be.
    """
    random = Random(f"{seed}/{target}/{number}")
    try:
        signal.alarm(SECONDS)
        with tempfile.TemporaryDirectory() as place:
            {**TARGETS, **SLOW}[target](random, world, Path(place))
        return "accepted"
    except ReproError as err:
        if not err.hint or not err.exit_code:
            raise FoundError(f"the error has no hint: {err!r}") from err
        return "refused"
    except FoundError:
        raise
    except BaseException as err:
        raise FoundError("".join(traceback.format_exception(err)[-4:])) from err
    finally:
        signal.alarm(0)


def hang(signum: int, frame: object) -> None:
    raise FoundError(f"not done after {SECONDS} s:\n{''.join(traceback.format_stack()[-6:])}")


def _child(numbers: range, seed: int, writing: int, until: float, world: World) -> None:
    """Do cases, and write one line before and one after each."""
    signal.signal(signal.SIGALRM, hang)
    with os.fdopen(writing, "w", buffering=1) as told:
        world.answers = Answers()
        now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))
        for number in numbers:
            if time.monotonic() > until:
                break
            told.write(json.dumps({"at": number}) + "\n")
            try:
                outcome = one(target_of(number), seed, number, world)
            except FoundError as err:
                told.write(json.dumps({"found": str(err)}) + "\n")
            else:
                told.write(json.dumps({"outcome": outcome}) + "\n")


def _batch(numbers: range, seed: int, until: float, world: World) -> list[dict[str, Any]]:
    """Do cases in a child process, and return what it told; its death is the outcome of the case that it was at."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            os.environ.update(no_proxy="127.0.0.1", NO_PROXY="127.0.0.1", NETRC="/nonexistent/netrc")
            _child(numbers, seed, writing, until, world)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as stream:
        said = [json.loads(line) for line in stream]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        said.append({"found": f"the process ended with {code}"})
    return said


def fuzz(seed: int, *, seconds: float = 1e9, cases: int = 1 << 60) -> dict[str, Any]:
    """Do cases of all targets in turn until the time or the number is reached; return counts and what was found."""
    began, done, outcomes = time.monotonic(), Counter[str](), Counter[str]()
    found: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as scratch:
        world, start = World(Path(scratch)), 0
        while start < cases and time.monotonic() - began < seconds:
            stop, at = min(cases, start + BATCH), start
            for line in _batch(range(start, stop), seed, began + seconds, world):
                if "at" in line:
                    at = line["at"]
                    done[target_of(at)] += 1
                elif "found" in line:
                    found.append({"target": target_of(at), "number": at, "what": line["found"]})
                else:
                    outcomes[line["outcome"]] += 1
            start = at + 1  # where the process died, the next one goes on
    spent = time.monotonic() - began
    return {
        "seed": seed, "seconds": round(spent, 1), "cases": dict(done), "cases/s": round(sum(done.values()) / spent, 1),
        "refused": outcomes["refused"], "accepted": outcomes["accepted"], "found": found,
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--cases", type=int, default=1 << 60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", metavar="N", type=int, help="do one case")
    given = parser.parse_args()
    if given.only is not None:
        with tempfile.TemporaryDirectory() as scratch:
            only = range(given.only, given.only + 1)
            told: Any = _batch(only, given.seed, time.monotonic() + 1e9, World(Path(scratch)))
        sys.stdout.write("\n".join(line.get("found", "") or json.dumps(line) for line in told) + "\n")
        return 0
    told = fuzz(given.seed, seconds=given.seconds, cases=given.cases)
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 1 if told["found"] else 0


if __name__ == "__main__":
    sys.exit(main())
