"""A fetch that is interrupted, or fails, ends at once, and the next one goes on."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from pathlib import Path

import msgspec
import pytest

from reprobuild.infra.flock import machine_name
from reprobuild.infra.http.client import Net
from reprobuild.infra.http.model import NotFoundError
from reprobuild.lock.system import Artefact
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.conftest import ROOT
from tests.resolve.served import Reply, Served
from tests.store.test_crowd import PLAIN

BODY = bytes(range(256)) * 4000
ENV = {**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "NETRC": "/nonexistent/netrc"}


def slow(served: Served) -> Artefact:
    url = served.give("/slow", Reply(BODY, pause=6))
    return Artefact(filename="slow", sha256=hashlib.sha256(BODY).hexdigest(), size=len(BODY), url=url)


def part_of(store: Store, item: Artefact) -> Path:
    return store.root / "partial" / f"{item.sha256}.{machine_name()}"


def test_an_interrupted_fetch_ends_at_once_and_goes_on_later(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    with Served() as served:
        item, file = slow(served), tmp_path / "x.json"
        file.write_bytes(msgspec.json.encode([item]))
        argv = [*PLAIN, str(store.root), str(file)]
        # The second waits for the lock of the first.
        both = [subprocess.Popen(argv, cwd=ROOT, env=ENV, stderr=subprocess.PIPE) for _ in range(2)]
        part, limit = part_of(store, item), time.monotonic() + 30
        while not (part.exists() and part.stat().st_size) and time.monotonic() < limit:
            time.sleep(0.05)
        for process in reversed(both):
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
            assert time.monotonic() - begun < 5
            assert b"KeyboardInterrupt" in said
        left = part.stat().st_size
        assert 0 < left < len(BODY)
        served.give("/slow", BODY)
        assert subprocess.run(argv, cwd=ROOT, env=ENV, check=False).returncode == 0
        assert served.headers("Range")[-1] == f"bytes={left}-"
    assert store.verified(item.sha256, "slow").read_bytes() == BODY


@pytest.mark.parametrize("silent", [0, 20])
def test_the_first_failure_is_told_at_once(
    silent: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as served:
        item = slow(served)
        served.give("/slow", Reply(BODY, pause=6, silent=silent))
        url = served.give("/bad", Reply(status=404, silent=0.5))
        begun = time.monotonic()
        with pytest.raises(NotFoundError):
            fetch([item, Artefact(filename="bad", sha256="1" * 64, size=5, url=url)], Store(tmp_path), Net())
        assert time.monotonic() - begun < 5
