"""`bisect --since LOCK`: between a lock and today's versions of its requirements, on an index of this machine."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from reprobuild.lock.file import read_lock, write_lock
from reprobuild.store.store import Store
from tests.bisecting.small import PROLOGUE, Bench, add_wheel
from tests.conftest import reprobuild
from tests.resolve.untimed import UntimedIndex


def environment(index: UntimedIndex) -> dict[str, str]:
    local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1")
    return {**os.environ, **local, "PIP_INDEX_URL": index.root, "PIP_CONFIG_FILE": os.devnull}


@pytest.mark.skipif(sys.platform != "linux", reason="needs the built-in engine")
def test_the_update_that_broke_it_is_found(bench: Bench, tmp_path: Path) -> None:
    """Today's beta breaks the command, and the lock that is kept is B."""
    write_lock(bench.first, tmp_path / "old.lock")
    with UntimedIndex() as index:
        for name, version in (("alpha", 1), ("alpha", 3), ("beta", 3), ("delta", 1), ("gamma", 2)):
            wheel = add_wheel(Store(bench.store), tmp_path, name, version)
            index.add((wheel.file.filename, (tmp_path / wheel.file.filename).read_bytes()))
        arguments = ("--store", bench.store, "--engine", "builtin", "--", "python", "-c")
        done = reprobuild(
            "bisect", "--since", tmp_path / "old.lock", "-o", tmp_path / "new.lock", "--json", *arguments,
            PROLOGUE + "sys.exit(beta == 3 and 9)", env=environment(index),
        )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert [document["differences"][number]["name"] for number in document["guilty"]] == ["beta"]
    assert {item["kind"] for item in document["differences"]} == {"python"}
    shown = "today's versions of alpha, beta, delta, gamma: alpha 1 -> 3, beta 1 -> 3, gamma 1 -> 2"
    assert document["second"] == shown
    assert shown in done.stderr
    new = read_lock(tmp_path / "new.lock")
    assert {wheel.name: wheel.version for wheel in new.wheels} == {
        "alpha": "3", "beta": "3", "delta": "1", "gamma": "2"
    }  # fmt: skip
    # The hints name this command, which takes both locks.
    again = reprobuild(
        "bisect", tmp_path / "old.lock", tmp_path / "new.lock", "--json", "--offline", *arguments,
        PROLOGUE + "sys.exit(beta == 3 and 9)",
    )  # fmt: skip
    document = json.loads(again.stdout)
    assert document["remembered"] == document["runs"]


def test_options_that_do_not_fit(tmp_path: Path) -> None:
    done = reprobuild("bisect", "a", "b", "-o", "x", "--", "true")
    assert done.returncode == 2
    assert "hint: leave -o out, or name one lock: --since LOCK -o FILE" in done.stderr
    done = reprobuild("bisect", "--since", tmp_path / "gone", "-o", tmp_path / "x", "--", "true")
    assert "there is nothing at" in done.stderr
    done = reprobuild("bisect", "--since=a", "b", "--", "true")
    assert "`b` stands before `--`" in done.stderr
