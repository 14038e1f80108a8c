"""A short run of the fuzzer (`make proof` runs it for longer), and that each of its checks can fail."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.tar.entries import TarEntry
from tests.untrusted import fuzz
from tests.untrusted.fuzz import FoundError, Seeds

CASES = int(os.environ.get("REPROBUILD_FUZZ_CASES", "160"))


def test_nothing_is_found() -> None:
    told = fuzz.fuzz(seed=11, cases=CASES)
    assert told["found"] == []
    assert sum(told["cases"].values()) == CASES
    assert fuzz.Case.refused > CASES / 2  # neither all nor none are refused
    assert fuzz.Case.accepted > CASES / 4


def raising(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (lambda place: (place / "evil").write_text("x"), "written outside: {'evil'}"),
        (lambda place: (place.parent / "evil").write_text("x"), "written outside: {'evil'}"),
        (lambda place: (place / "secret").write_text("x"), "written outside: set()"),
        (lambda place: (place / "in" / "x").write_bytes(bytes(50 << 20)), "bytes on the disk"),
        (lambda place: (place / "store" / "tmp" / "x").mkdir(parents=True), "private files are left"),
        (lambda place: raising(KeyError("x")), "KeyError: 'x'"),
        (lambda place: raising(BuildError("a.whl is bad")), "has no hint"),
        (lambda place: raising(BuildError("it is bad", hint="do")), "names no file"),
        (lambda place: fuzz.inside([TarEntry(path="../x", type="file", mode=0)], ""), "the tree holds"),
        (lambda place: fuzz.inside([TarEntry(path="x", type="file", mode=0)], "y/"), "'x' is not below y/"),
    ],
)
def test_every_check_can_fail(monkeypatch: pytest.MonkeyPatch, use: object, words: str) -> None:
    def target(random: Random, seeds: Seeds, place: Path) -> None:
        fuzz.outcomes("a.whl", [lambda: use(place)])

    monkeypatch.setitem(fuzz.TARGETS, "wheel", target)
    with pytest.raises(FoundError) as caught:
        fuzz.one("wheel", 1, 1, seeds=None)
    assert words in str(caught.value)
