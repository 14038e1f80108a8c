"""A short run of the fuzzer of documents (`make proof` runs it for longer), and that each of its checks can fail."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from proof import evidence
from proof.page import TABLES
from reprobuild.errors import SnapshotError
from tests.untrusted import fuzz_documents as fuzz

SECONDS = float(os.environ.get("REPROBUILD_FUZZ_SECONDS", "30"))


def test_nothing_is_found() -> None:
    told = fuzz.fuzz(seed=11, seconds=SECONDS)
    assert told["found"] == [], f"seed {told['seed']}"
    assert set(told["cases"]) == {*fuzz.TARGETS, *fuzz.SLOW}
    assert told["refused"] > sum(told["cases"].values()) / 3  # neither all nor none are refused
    assert told["accepted"] > sum(told["cases"].values()) / 10
    shown = TABLES["documents"]({**told, "date": "2026-01-02", "machine": evidence.machine()})
    assert f"{sum(told['cases'].values())} documents in " in shown


def fails(error: BaseException) -> Callable[[Random, fuzz.World, Path], None]:
    def target(random: Random, world: fuzz.World, place: Path) -> None:
        raise error

    return target


def hoards(random: Random, world: fuzz.World, place: Path) -> None:
    held = [bytes(1 << 20) for _ in range(2 << 10)]
    assert held


def dies(random: Random, world: fuzz.World, place: Path) -> None:
    os._exit(3)


def hangs(random: Random, world: fuzz.World, place: Path) -> None:
    time.sleep(60)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (fails(KeyError("x")), "KeyError: 'x'"),
        (fails(RecursionError()), "RecursionError"),
        (fails(SnapshotError("it is bad")), "the error has no hint"),
        (hoards, "MemoryError"),
        (dies, "the process ended with 3"),
        (hangs, "not done after 1 s"),
    ],
)
def test_every_check_can_fail(
    monkeypatch: pytest.MonkeyPatch, target: Callable[[Random, fuzz.World, Path], None], words: str
) -> None:
    monkeypatch.setattr(fuzz, "TARGETS", {"planted": target})
    monkeypatch.setattr(fuzz, "SECONDS", 1)
    told = fuzz.fuzz(seed=1, cases=2)
    assert [(found["target"], found["number"]) for found in told["found"]] == [("planted", 0), ("planted", 1)]
    assert all(words in found["what"] for found in told["found"])


def test_documents_that_are_not_changed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "structured", lambda random, data: data)
    monkeypatch.setattr(fuzz, "any_bytes", lambda random, data: data)
    told = fuzz.fuzz(seed=1, cases=fuzz._EVERY * 4)
    assert told["found"] == []
    assert told["accepted"] > 0.6 * sum(told["cases"].values())
