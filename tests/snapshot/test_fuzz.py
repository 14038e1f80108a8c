"""A short run of the fuzzer (`make proof` runs it for longer), and that each of its checks can fail."""

from __future__ import annotations

import os
from typing import Any

import pytest

from proof import evidence
from proof.page import TABLES
from reprobuild.errors import SnapshotError
from reprobuild.snapshot import file_kinds
from reprobuild.snapshot.model import ParseNote, SourceLocation
from tests.snapshot import fuzz
from tests.snapshot.fuzz import FoundError

CASES = int(os.environ.get("REPROBUILD_FUZZ_CASES", "280"))


def test_nothing_is_found() -> None:
    told = fuzz.fuzz(seed=11, cases=CASES)
    assert told["found"] == []
    assert sum(told["cases"].values()) == CASES
    assert told["refused"] > CASES / 5  # neither all nor none are refused
    assert told["accepted"] > CASES / 3
    shown = TABLES["reading"]({**told, "date": "2026-01-02", "machine": evidence.machine()})
    assert shown.startswith(f"{CASES} captures in ")
    assert f"| env.nul | {CASES // len(fuzz.TARGETS)} |" in shown or CASES % len(fuzz.TARGETS)


def test_samples_that_are_not_changed_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "changed", lambda random, data: data)
    for target in fuzz.FILES:
        outcomes = [fuzz.one(target, 1, number) for number in range(5)]
        assert "accepted" in outcomes, target


ROW = ParseNote(place=SourceLocation("rpm-packages.txt", 1), text="x", reason="y")


@pytest.mark.parametrize(
    ("gives", "words"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (SnapshotError("it is bad"), "has no hint"),
        (SnapshotError("it is \x1b[31m", hint="do"), "cannot be printed"),
        (((), ()), "no value and no remark for lines [1"),
        (((), (ParseNote(place=ROW.place, text="\x1b", reason="y"),)), "a remark cannot be printed"),
        ((("\ud800",), (ROW,)), "Unicode"),
    ],
)
def test_every_check_can_fail(monkeypatch: pytest.MonkeyPatch, gives: Any, words: str) -> None:
    def parse(data: bytes, file: str) -> Any:
        if isinstance(gives, Exception):
            raise gives
        return gives

    kind = file_kinds.FileKind("rpm-packages.txt", "rpms", parse)
    monkeypatch.setattr(file_kinds, "kind_of", lambda name: kind)
    monkeypatch.setattr(fuzz, "changed", lambda random, data: data)
    with pytest.raises(FoundError) as caught:
        fuzz.one("rpm-packages.txt", 1, 1)
    assert words in str(caught.value)
