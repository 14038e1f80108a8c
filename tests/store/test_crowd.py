"""Many processes fetch into one store from a bad server, and are killed: no file is ever wrong."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from benchmarks.measure import peak_of
from reprobuild.infra.flock import machine_name
from reprobuild.lock.system import Artefact
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT
from tests.dying import Dying, Generated, Weather

PROCESSES, EACH, ROUNDS, KILLS = 8, 25, 1, 3
WORKER = """
import json, sys
from pathlib import Path
import msgspec
from reprobuild.store.fetch import fetch
from reprobuild.lock.system import Artefact
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.retry import RetryPolicy
from reprobuild.store.store import Store
wanted = msgspec.json.decode(Path(sys.argv[2]).read_bytes(), type=list[Artefact])
manners = RetryPolicy(tries=40, pause=0.01, longest=0.1, read=20)
print("begins", flush=True)
fetch(wanted, Store(Path(sys.argv[1])), Net(manners=manners))
"""
PLAIN = (sys.executable, "-c", WORKER)
# On another machine: see there.
REFUSED = (sys.executable, "-m", "tests.store.other_machine", "refused", *PLAIN)
IGNORED = (sys.executable, "-m", "tests.store.other_machine", "ignored", *PLAIN)


def wrong(store: Store) -> list[str]:
    """Return the blobs that are not what their names say."""
    return [path.name for path in (store.root / "blobs").glob("*/*") if hash_file(path) != path.name]


def start(command: tuple[str, ...], store: Store, wanted: Path) -> subprocess.Popen[str]:
    env = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "NETRC": "/nonexistent/netrc"}
    return subprocess.Popen(
        [*command, str(store.root), str(wanted)], cwd=ROOT, env=env, text=True, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@pytest.mark.parametrize("command", [PLAIN, REFUSED, IGNORED], ids=["locks", "refused", "ignored"])
def test_two_hundred_fetches_with_kills(command: tuple[str, ...], tmp_path: Path) -> None:
    """One round: eight processes with 25 files each. Where fewer than three were killed at work, up to four rounds."""
    chance = random.Random(7)
    contents = {f"pool/{n}.deb": chance.randbytes(chance.randrange(1_000_000)) for n in range(60)}
    killed = 0
    with Dying(contents) as server:
        server.weather = Weather(seed=11)
        items = [artefact(server, path, content) for path, content in contents.items()]
        for number in range(4 * ROUNDS):
            if number >= ROUNDS and killed >= KILLS:
                break  # a fast machine may be through before it is killed, and then gets more rounds
            folder = tmp_path / str(number)
            folder.mkdir()
            killed += crowd(command, folder, items, chance)
            shutil.rmtree(folder)
    assert killed >= KILLS, "the machine is too fast for this test: make the files larger"


def crowd(command: tuple[str, ...], folder: Path, items: list[Artefact], chance: random.Random) -> int:
    """Let the processes fetch, and kill some, which are started again; return how many were killed at work."""
    store, running, killed = Store(folder / "store"), [], 0
    for number in range(PROCESSES):
        file = folder / f"{number}.json"
        file.write_bytes(msgspec.json.encode(chance.sample(items, EACH)))
        running.append((start(command, store, file), file))
    for _ in range(PROCESSES):
        process, file = running.pop(chance.randrange(PROCESSES))
        assert process.stdout is not None
        process.stdout.readline()  # it has begun
        time.sleep(chance.random() * 0.15)
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            os.killpg(process.pid, signal.SIGKILL)
        _, said = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), said
        killed += process.returncode != 0
        running.append((start(command, store, file), file))
        assert wrong(store) == []
    for process, _ in running:
        _, said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    wanted = {item.sha256 for item in items if any(item.sha256 in file.read_text() for _, file in running)}
    assert {path.name for path in (store.root / "blobs").glob("*/*")} == wanted
    assert wrong(store) == []
    return killed


def artefact(server: Dying, path: str, content: bytes) -> Artefact:
    sha256 = hashlib.sha256(content).hexdigest()
    return Artefact(
        filename=path.rpartition("/")[2], sha256=sha256, size=len(content), url=server.address(path)
    )


def test_the_stand_ins_for_nfs_are_what_they_say(tmp_path: Path) -> None:
    program = (
        "import fcntl, os, sys\n"
        "a, b = (os.open(sys.argv[1], os.O_RDWR | os.O_CREAT) for _ in range(2))\n"
        "try:\n"
        "    for number in (a, b): fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "    print('both', os.uname().nodename)\n"
        "except OSError as err:\n"
        "    print(err.errno)\n"
    )
    said = []
    for mode in ((), ("refused",), ("ignored",)):
        prefix = [sys.executable, "-m", "tests.store.other_machine", *mode] if mode else []
        argv = [*prefix, sys.executable, "-c", program, str(tmp_path / "x")]
        said.append(subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split())
    assert said[0] == [str(errno.EAGAIN)]
    assert said[1] == [str(errno.ENOLCK)]
    assert said[2][0] == "both"
    assert said[2][1] != os.uname().nodename


def test_without_locks_nothing_unfinished_is_shared(tmp_path: Path) -> None:
    """With one unfinished file for all, all would write to it."""
    content = random.Random(1).randbytes(600_000)
    store = Store(tmp_path / "store")
    with Dying({"x": content}) as server:
        server.weather = Weather(seed=3, chance=0.3)
        item = Artefact(
            filename="x",
            sha256=hashlib.sha256(content).hexdigest(),
            size=len(content),
            url=server.address("x"),
        )
        file = tmp_path / "x.json"
        file.write_bytes(msgspec.json.encode([item]))
        running = [start(command, store, file) for command in (REFUSED, IGNORED, REFUSED, IGNORED)]
        for process in running:
            _, said = process.communicate(timeout=100)
            assert process.returncode == 0, said
    assert store.verified(item.sha256, "x").read_bytes() == content
    assert list((store.root / "partial").iterdir()) == []


class Holed(Generated):
    """Generated bytes, but for zeros from `HOLE` to `SHORE`: a file of it needs no room for those."""

    HOLE, SHORE, SIZE = 64 << 20, (1 << 31) - (32 << 20), (1 << 31) + (320 << 20)

    def __init__(self) -> None:
        super().__init__(self.SIZE)
        self._zeros = bytes(self.BLOCK)

    def read(self, start: int, size: int) -> bytes:
        if self.HOLE <= start < self.SHORE:
            return self._zeros[: min(size, self.BLOCK - start % self.BLOCK)]
        return super().read(start, size)


def test_a_file_above_two_gigabytes_goes_on_after_a_kill(tmp_path: Path) -> None:
    """Of its hole little is sent: the unfinished file is made longer. What is sent after that crosses 2^31 bytes."""
    body = Holed()
    store = Store(tmp_path / "store")
    with Dying({"torch.whl": body}) as server:
        item = Artefact(
            filename="torch.whl", sha256=body.sha256, size=body.size, url=server.address("torch.whl")
        )
        part = store.root / "partial" / f"{item.sha256}.{machine_name()}"
        file = tmp_path / "x.json"
        file.write_bytes(msgspec.json.encode([item]))
        process = start(PLAIN, store, file)
        while not (part.exists() and part.stat().st_size > body.HOLE):
            assert process.poll() is None
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert body.HOLE < part.stat().st_size < body.SHORE
        os.truncate(part, body.SHORE)
        before = server.sent
        # Its own peak: a process that this one starts directly would keep ours.
        settings = ("NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1", "NETRC=/nonexistent/netrc")
        peak, _, _ = peak_of(["/usr/bin/env", "-C", str(ROOT), *settings, *PLAIN, str(store.root), str(file)])
        assert len(server.asked) == 2
        assert server.sent - before < body.size - body.SHORE + (
            100 << 20
        )  # the first may still have been sending
    with store.blob(item.sha256).open("rb") as stream:
        stream.seek(body.SHORE)
        for place in range(body.SHORE, body.size, body.BLOCK):
            assert stream.read(body.BLOCK) == body.read(place, body.BLOCK)
        assert stream.read() == b""
    store.blob(item.sha256).unlink()
    assert peak < 300 << 10  # KiB, less than what was sent
