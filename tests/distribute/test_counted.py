"""The port that counts, by which other tests look: whoever comes when nobody is behind it gets nothing."""

from __future__ import annotations

import socket
import threading

import pytest

from tests.distribute.counted import Counted


def test_nobody_behind_it_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failed: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{free.getsockname()[1]}"
    with Counted(nobody) as counted:
        before = set(threading.enumerate())
        with socket.create_connection(
            ("127.0.0.1", int(counted.host.rpartition(":")[2])), timeout=20
        ) as near:
            assert near.recv(1) == b""
        for one in set(threading.enumerate()) - before:
            one.join(20)
    assert failed == []
