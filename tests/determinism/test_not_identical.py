"""Results that differ and look equal: each was, or could be, called identical; and what is hostile to the reader."""

from __future__ import annotations

import gzip
import json
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.artefacts import archives
from reprobuild_runtime.artefacts.excuses import Rules
from reprobuild_runtime.artefacts.moments import Run
from tests.determinism.test_compare import (
    NOW,
    PROGRAM,
    SAFE,
    asked,
    compare,
    floats,
    lines,
    npy,
    packed,
    safetensors,
)  # fmt: skip


def dumped(value: object) -> bytes:
    return pickle.dumps(value, protocol=4)


def shared(loss: float) -> bytes:
    values = [loss]
    return dumped({"times": values, "loss": values})


class Phase:
    """A key of the user's own class."""

    def __init__(self, name: str) -> None:
        self.name = name


def script(code: bytes) -> bytes:
    """Return what TorchScript writes: code beside the pickle."""
    members = {"m/data.pkl": dumped({"a": 1}), "m/version": b"3", "m/code/__torch__.py": code}
    return packed(members)


DIFFERENT: list[tuple[str, bytes, bytes]] = [
    ("a.npy", npy("|O", (2,), dumped([1, 2])), npy("|O", (2,), dumped([1, "long"]))),
    ("a.npz", packed({"a.npy": npy("<U9", (1,), b"1" * 36)}), packed({"a.npy": npy("<U9", (1,), b"1" * 40)})),
    ("a.safetensors", safetensors({"w": ("F4", [2], b"1")}), safetensors({"w": ("F4", [2], b"12")})),
    ("a.pt", script(b"return a + 1"), script(b"return a + 2")),
    ("a.zip", packed({"a": b"1"}), packed({"a": b"1"})[:-2] + b"\x01\x00!"),
    ("a.safetensors", SAFE + b"1", SAFE + b"2"),
    ("a.pkl", dumped({1: 5, "1": 5}), dumped({1: 7, "1": 5})),
    ("a.pkl", dumped({1: 5}), dumped({"1": 5})),
    ("a.pkl", dumped({Phase("train"): 1, Phase("val"): 2}), dumped({Phase("train"): 7, Phase("val"): 2})),
    ("a.pkl", dumped({0.0}), dumped({-0.0})),
    ("a.pkl", dumped({1, 2}), dumped({True, 2})),
    ("a.pkl", dumped(complex(0.0, 0.0)), dumped(complex(0.0, -0.0))),
    ("a.pkl", dumped(float("nan")), dumped(-float("nan"))),
    ("a.pkl", shared(0.5), shared(0.6)),
    ("a.csv", b"id,n\n007,1\n", b"id,n\n7,1\n"),
    ("a.json", b'{"a": 1e400}', b'{"a": 1e500}'),
    ("run.log", b"step 1 loss 0.5\rstep 2 loss 0.4\n", b"step 1 loss 0.6\rstep 2 loss 0.4\n"),
    ("a.jsonl", b'{"loss": 0.5}\r{"loss": 0.4}\n', b'{"loss": 0.6}\r{"loss": 0.4}\n'),
    ("a.jsonl", lines({"loss": {"duration": 0.5}}), lines({"loss": {"duration": 0.6}})),
    ("a.jsonl", lines({"train/loss/duration": 0.5}), lines({"train/loss/duration": 0.6})),
    ("a.jsonl", lines({"eta": 0.1}), lines({"eta": 0.2})),
    ("a.jsonl", lines({"best_checkpoint_path": "s-1.pt"}), lines({"best_checkpoint_path": "s-2.pt"})),
    ("a.jsonl", lines({"elapsed": "0:01<loss=0.5"}), lines({"elapsed": "0:01<loss=0.6"})),
    ("a.jsonl", lines({"elapsed": "0:01:00"}), lines({"elapsed": "9:01:00"})),
    ("run.log", b"run_id=ab|loss=0.5\n", b"run_id=ab|loss=0.6\n"),
    ("run.log", b"loss/duration: 0.5\n", b"loss/duration: 0.6\n"),
    ("run.log", b"eta: 0:00:08 step 1\n", b"eta: 0:00:09 step 1\n"),
    ("a.jsonl", lines({"eta": "0:00:08"}), lines({"eta": "0:00:09"})),
    ("a.jsonl", lines({"batch_time": 0.5, "step_time": [1.5]}), lines({"batch_time": 0.6, "step_time": [1.6]})),
    ("a.jsonl", lines({"meta": {"a": {"time": NOW - 5}}}), lines({"meta": {"a": {"time": NOW - 6}}})),
    ("a.json", json.dumps([{"time": NOW - 5}]).encode(), json.dumps([{"time": NOW - 6}]).encode()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "one", "two"), DIFFERENT)
def test_what_differs_is_drift(tmp_path: Path, name: str, one: bytes, two: bytes) -> None:
    assert one != two
    found = compare(tmp_path, name, one, two)
    assert found["verdict"] == "drift", found
    assert not any("loss" in line for line in found["excused"])


def test_a_key_twice_in_safetensors_is_no_file_of_it(tmp_path: Path) -> None:
    """The second would hide the first."""
    files = []
    for value in (1, 2):
        data = safetensors({"w": ("F32", [1], floats(value)), "v": ("F32", [1], floats(3))})
        files.append(data.replace(b'"v"', b'"w"'))
    found = compare(tmp_path, "a.safetensors", *files)
    assert found["verdict"] == "drift"
    assert "not read as safetensors" in found["notes"][0]


SAME: list[tuple[str, bytes, bytes]] = [
    ("a.pkl", dumped({(1, "a"): 1, "s": {(1, 2), (3, 4)}}), pickle.dumps({(1, "a"): 1, "s": {(3, 4), (1, 2)}}, 3)),
    ("a.pkl", dumped({Phase("x"): 1, "t": 5.0}), pickle.dumps({Phase("x"): 1, "t": 5.0}, 3)),
    ("run.log", b" 0%\r 20%\r100%|##| 5/5\n", b" 0%\r 20%\r 40%\r100%|##| 5/5\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "one", "two"), SAME)
def test_what_is_equal_is_no_alarm(tmp_path: Path, name: str, one: bytes, two: bytes) -> None:
    assert one != two
    found = compare(tmp_path, name, one, two)
    assert (found["verdict"], found["details"]) == ("identical", [])


def test_a_missing_key_that_is_ignored_is_told(tmp_path: Path) -> None:
    found = compare(tmp_path, "a.json", b'{"a": 1, "b": 2}', b'{"a": 1}', "b")
    assert (found["verdict"], found["excused"]) == (
        "identical", ["b (--ignore): 1 time, the first b: only in the first run"],
    )  # fmt: skip
    one, two = safetensors({"w": ("F32", [1], floats(1)), "v": ("F32", [0], b"")}), SAFE
    assert compare(tmp_path, "a.safetensors", one, two, "v")["details"] == ["v: only in the first run"]


def test_the_user_ignores_a_part_of_the_losses(tmp_path: Path) -> None:
    one, two = (lines({"loss": {"duration": value, "all": 1}}) for value in (0.5, 0.6))
    assert compare(tmp_path, "a.jsonl", one, two, "duration")["verdict"] == "identical"
    assert compare(tmp_path, "a.jsonl", one, two, "all")["verdict"] == "drift"


def test_one_broken_file_does_not_silence_the_others(tmp_path: Path) -> None:
    """A checkpoint of the old format whose list of storages names one that is not there."""
    broken = b"".join(
        pickle.dumps(part, protocol=2) for part in (0x1950A86A20F9469CFC6C, 1001, {}, {"a": 1}, ["0"])
    )
    found = compare(tmp_path, "a.pt", broken + b"1" * 8, broken + b"2" * 8)
    assert (found["verdict"], found["format"]) == ("drift", "bytes")
    assert found["notes"][0].startswith("not read as torch checkpoint of the format before 1.6: KeyError")


def test_the_answer_is_bounded(tmp_path: Path) -> None:
    """The host refuses an answer with endless lines: hostile keys must not make one."""
    one, two = (
        lines({f"t{n}_time": NOW - 30 + value for n in range(500)} | {"k" * 90000: value})
        for value in (0.1, 0.2)
    )
    found = compare(tmp_path, "a.jsonl", one, two)
    assert len(found["excused"]) == 101
    deep: Any = 1
    for _ in range(150):
        deep = {"x" * 150: deep}
    text = json.dumps(deep).encode()
    found = compare(tmp_path, "a.json", text, text.replace(b"1}", b"2}"))
    assert found["verdict"] == "drift"
    assert max(len(line) for line in found["details"]) < 2100


@pytest.mark.parametrize(
    "text", ["a" * 100_000, "a." * 50_000, "a" + " " * 100_000, "1" * 100_000, "a=" * 50_000, "_" * 100_000]
)
def test_a_long_line_takes_no_time(text: str) -> None:
    rules = Rules([Run(NOW - 60, NOW, "h")] * 2)
    began = time.monotonic()
    assert rules.texts(text, text + "!") == []
    assert rules.excuse(text, 1, 2, envelope=True) == []
    assert time.monotonic() - began < 10
    far = "x" * (1 << 17)
    assert rules.texts("<A at 0x7f00aabbccdd>" + far, "<A at 0x7f00aabbcc00>" + far) == []


@pytest.mark.parametrize(
    "unit", ["1", "a ", "1 ", "12:34 ", "a 1 ", "| ", "loss 1, ", "[", "1/1 ", "time: 1 ", "'a': 1, "]
)
def test_lines_made_for_the_patterns_take_no_time(unit: str) -> None:
    """Each of the known loggers' patterns is tried on a line as long as any in which they are looked for."""
    rules = Rules([Run(NOW - 60, NOW, "abcdefgh")] * 2, ["mfu", "#/s", "*_per_second"])
    for begin in (
        "",
        "iteration 1/ 1 | consumed samples: 1 |",
        "%|",
        "epoch 1: wps=1 wpb=1 bsz=1",
        "iter: 1  ",
    ):
        line = (begin + unit * 2048)[:2048]
        began = time.monotonic()
        assert rules.texts(line, line + "?") == []
        assert rules.loggers.bar(line) in (True, False)
        assert time.monotonic() - began < 2, (unit, begin)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("a.gz", lambda data: gzip.compress(data)),
        ("a.zip", lambda data: packed({"a": data}, method=8)),
    ],
)
def test_what_is_too_large_to_unpack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Callable[[bytes], bytes]
) -> None:
    monkeypatch.setattr(archives, "room", lambda folder: 100_000)
    found = compare(tmp_path, name, make(b"1" * 200_000), make(b"2" * 200_000))
    assert (found["verdict"], found["format"]) == ("drift", "bytes")
    assert "there is no room to unpack" in found["notes"][0]


def test_a_file_that_fills_the_memory_is_compared_as_bytes(tmp_path: Path) -> None:
    """Run under a limit of its own, which the program keeps where it is the lower one."""
    options = tmp_path / "options.json"
    bomb = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05" + (3 << 32).to_bytes(5, "little") + b"\x85R"
    options.write_text(asked(tmp_path, "a.pkl", bomb + b"K\x01\x86.", bomb + b"K\x02\x86."))
    done: Any = subprocess.run(
        [sys.executable, "-I", str(PROGRAM), str(options)], capture_output=True, check=True, timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30)),
    )  # fmt: skip
    (found,) = json.loads(done.stdout)["files"]
    assert (found["verdict"], found["format"]) == ("drift", "bytes")


TENSORS = """
import sys, torch
folder, second = sys.argv[1], sys.argv[2] == "1"
weight = torch.nn.Parameter(torch.ones(3), requires_grad=not second)
torch.save({"frozen": weight}, folder + "/frozen.pt")
pairs = torch.ones(3, dtype=torch.complex64)
torch.save({"conjugate": pairs.conj() if second else pairs}, folder + "/conjugate.pt")
torch.save({"words": torch.tensor([1, 2 + 256 * second]).to(torch.uint16)}, folder + "/words.pt")
whole = torch.ones(2, 3)
torch.save({"time": whole, "loss": whole * (1.5 if second else 1)}, folder + "/named.pt")
torch.jit.save(torch.jit.script(torch.nn.Dropout(0.5 + 0.25 * second)), folder + "/script.pt")
"""


def test_tensors_that_differ_in_more_than_their_bytes(torch_python: Path, tmp_path: Path) -> None:
    folders = [tmp_path / "made-one", tmp_path / "made-two"]
    for number, folder in enumerate(folders):
        folder.mkdir()
        subprocess.run([torch_python, "-c", TENSORS, folder, str(number)], check=True, timeout=300)
    for name in ("frozen", "conjugate", "words", "named", "script"):
        one, two = ((folder / f"{name}.pt").read_bytes() for folder in folders)
        found = compare(tmp_path, f"{name}.pt", one, two)
        assert (found["verdict"], found["format"]) == ("drift", "torch checkpoint"), (name, found)
