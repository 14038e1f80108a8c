"""Results that differ and look equal: each was, or could be, called identical; and what is hostile to the reader."""

from __future__ import annotations

import collections
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
from reprobuild_runtime.artefacts.ignore_rules import ExcuseRules
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


class Node:
    """An object that leads to others."""

    child: Node  # of few

    def __init__(self, value: object = 0) -> None:
        self.value = value

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


class Stated:
    """An object whose state is any value."""

    def __init__(self, state: object) -> None:
        self.state = state

    def __getstate__(self) -> object:
        return self.state

    def __setstate__(self, state: object) -> None:
        self.state = state


class Late:
    """An object whose state is set by a call whose result is thrown away, as cloudpickle does with functions."""

    def __init__(self, state: object) -> None:
        self.state = state

    def __reduce__(self) -> Any:
        return Late, (0,), self.state, None, None, setattr


def ring(at: str) -> bytes:
    """Return three objects, the last of which leads back to one of them."""
    nodes = {name: Node(name) for name in "abc"}
    for name, target in (("a", "b"), ("b", "c"), ("c", at)):
        nodes[name].value = [name, nodes[target]]
    return dumped(nodes["a"])


def circle(length: int) -> bytes:
    nodes = [Node() for _ in range(length)]
    for number, node in enumerate(nodes):
        node.value = nodes[(number + 1) % length]
    return dumped({"ring": nodes[0], "step": 1})


def looped(*items: object) -> bytes:
    """Return a list that ends in itself."""
    values = list(items)
    values.append(values)
    return dumped(values)


def crossed(swapped: bool) -> bytes:
    """Return two parents with a child each; a child of equal content leads to one of them."""
    one, two = Node("one"), Node("two")
    child = Node(one)
    one.child = child
    two.child = Node(two) if swapped else child
    return dumped([one, two])


def attributes(state: object) -> bytes:
    """Return an ordered dictionary with a state, which unpickling sets."""
    return (
        b"\x80\x04ccollections\nOrderedDict\n)R"
        + pickle.dumps(state, 4)[2:-1].replace(
            b"\x95" + len(pickle.dumps(state, 4)[11:]).to_bytes(8, "little"), b""
        )
        + b"b."
    )


def filed(**members: bytes) -> bytes:
    """Return a zip with directories: `_` in a name stands for what ends it."""
    return packed({"a": b"x", **{name.replace("_", "/"): data for name, data in members.items()}})


NAMED = b"\x80\x02cm\n%s\n)R."


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
    ("a.pkl", dumped({Node(): 2, Node(): 2}), dumped({Node(): 5, Node(): 2})),
    ("a.pkl", dumped([1, {Node(), Node(), Node()}]), dumped([1, {Node()}])),
    ("a.pkl", dumped({Node(): 1, Node(): 2}), dumped({Node(): 2, Node(): 1})),
    ("a.pkl", ring("a"), ring("b")),
    ("a.pkl", ring("b"), ring("c")),
    ("a.pkl", looped(1), dumped([1, "<a ring>"])),
    ("a.pkl", looped(1), looped(1, 1)),
    ("a.pkl", crossed(False), crossed(True)),
    *(
        ("a.pkl", dumped([Stated(one), 1]), dumped([Stated(two), 1]))
        for one, two in ((0, 0.0), (0.0, -0.0), (False, ""), (0, []), ([], {}), ((), []), (1, 1.0))
    ),
    ("a.pkl", dumped([Late(1), 1]), dumped([Late(2), 1])),
    ("a.pkl", dumped(collections.OrderedDict(a=1)), dumped({"a": 1})),
    ("a.pkl", dumped([bytearray(b"a")]), dumped([b"a"])),
    ("a.pkl", NAMED % b"a", NAMED % b"b"),
    ("a.pkl", NAMED % b"a", NAMED.replace(b"R", b"\x81") % b"a"),
    ("a.json", b'{"a": 1e-400}', b'{"a": 2e-400}'),
    ("a.json", b'{"a": 12345678901234567890.0}', b'{"a": 12345678901234567891.0}'),
    ("a.json", b'{"a": 0.1}', b'{"a": 0.1000000000000000055511151231257827}'),
    ("a.json", b'{"a": 0}', b'{"a": -0}'),
    ("a.json", b'{"a": 1e-9999999999999999999}', b'{"a": 1e-9999999999999999998}'),
    ("a.jsonl", b'{"a": 1e-400}\n', b'{"a": 2e-400}\n'),
    ("a.safetensors", SAFE, SAFE.replace(b'"F32", "shape": [1]', b'"F32", "shape":[1e0]')),
    ("a.csv", b'a,b\n"x\ny",1\n', b'a,b\n"xy",1\n'),
    ("a.zip", filed(d_=b""), filed()),
    ("a.zip", filed(d_=b"1"), filed(d_=b"2")),
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
    ("a.pkl", dumped({Node(1): 1, "t": {Node(1), Node(2)}}), pickle.dumps({Node(1): 1, "t": {Node(2), Node(1)}}, 3)),
    ("a.pkl", looped(1), pickle.dumps(pickle.loads(looped(1)), 3)),
    ("a.pkl", circle(2), circle(3)),
    ("a.pkl", dumped([[1], [1]]), dumped([[1]] * 2)),
    ("a.json", b'{"a": [0.10, 1e2, 1E-3, 5e-324]}', b'{"a": [0.1, 100.0, 0.001, 4.9406564584124654e-324]}'.replace(
        b"4.9406564584124654e-324", b"50e-325"
    )),
    ("a.json", b'{"a": 0.1000000000000000055511151231257827}', b'{"a": 1.0000000000000000555111512312578270e-1}'),
    ("a.zip", filed(d_=b"", e_=b""), filed(e_=b"", d_=b"")),
    ("run.log", b" 0%\r 20%\r100%|##| 5/5\n", b" 0%\r 20%\r 40%\r100%|##| 5/5\n"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "one", "two"), SAME)
def test_what_is_equal_is_no_alarm(tmp_path: Path, name: str, one: bytes, two: bytes) -> None:
    assert one != two
    found = compare(tmp_path, name, one, two)
    assert (found["verdict"], found["details"]) == ("identical", [])


@pytest.mark.parametrize(
    "value",
    [
        {Node(): 1, Node(): 2, Node(): 2}, {Node(1), Node(1)}, [Stated(()), bytearray(b"a"), float("nan")],
        collections.Counter("ab"), [{float("nan"): 1, float("nan"): 2}],
    ],
)  # fmt: skip
def test_equal_bytes_are_no_drift(tmp_path: Path, value: object) -> None:
    for data in (dumped(value), pickle.dumps(value, 2), ring("a"), crossed(True), attributes({"a": 1})):
        found = compare(tmp_path, "a.pkl", data, data)
        assert (found["verdict"], found["details"], found["notes"]) == ("identical", [], [])


def test_members_that_lead_to_each_other_have_no_order(tmp_path: Path) -> None:
    files = []
    for turned in (False, True):
        nodes = [Node("a"), Node("b")]
        nodes[0].value, nodes[1].value = ("a", nodes[1]), ("b", nodes[0])
        files.append(dumped([1, set(reversed(nodes) if turned else nodes)]))
    found = compare(tmp_path, "a.pkl", *files)
    assert (found["verdict"], found["details"]) == ("identical", [])


def test_attributes_of_an_ordered_dictionary_count(tmp_path: Path) -> None:
    found = compare(tmp_path, "a.pkl", attributes({"a": 1}), attributes({"a": 2}))
    assert found["details"] == ["(attributes)[0].a: 1 and 2"]
    assert compare(tmp_path, "a.pkl", attributes({}), attributes([]))["verdict"] == "drift"


def damaged(data: bytes, checksum: int) -> bytes:
    """Return a zip whose first stored member has another CRC in the directory at its end."""
    place = data.index(b"PK\1\2") + 16
    return data[:place] + checksum.to_bytes(4, "little") + data[place + 4 :]


@pytest.mark.parametrize(
    ("name", "data", "shown"),
    [
        ("a.npz", packed({"a.npy": npy("<f4", (2,), floats(1, 2))}), "a.npy"),
        ("a.zip", packed({"a": b"1"}), "a"),
        (
            "a.pt",
            packed({"m/data/0": floats(1), "m/data.pkl": dumped({"a": 1}), "m/version": b"3"}),
            "data/0",
        ),
    ],
)
def test_a_member_with_another_checksum_is_drift(tmp_path: Path, name: str, data: bytes, shown: str) -> None:
    found = compare(tmp_path, name, data, damaged(data, 7))
    said = f"{shown}: the same bytes with another checksum: a file is damaged"
    assert (found["verdict"], found["details"], found["notes"]) == ("drift", [said], [])
    assert compare(tmp_path, name, damaged(data, 7), damaged(data, 7))["verdict"] == "identical"


def test_members_of_equal_values_may_have_other_bytes_and_checksums(tmp_path: Path) -> None:
    header = repr({"descr": "<f4", "fortran_order": False, "shape": (2,)}).encode()
    arrays = [
        b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + floats(1, 2)
        for head in (header, header + b"\n")
    ]
    found = compare(tmp_path, "a.npz", *(packed({"a.npy": array}) for array in arrays))
    assert (found["verdict"], found["details"]) == ("identical", [])


def test_a_zip_with_a_name_that_ends_early_is_compared_as_bytes(tmp_path: Path) -> None:
    files = [filed(ab=b"1").replace(b"ab", b"a\0") for _ in range(2)]
    found = compare(tmp_path, "a.zip", files[0], files[1].replace(b"a\0", b"b\0"))
    assert (found["verdict"], found["format"]) == ("drift", "bytes")


@pytest.mark.parametrize("levels", [8, 18])
def test_shared_keys_take_no_time(tmp_path: Path, levels: int) -> None:
    """Their text would be as long as two to the number of levels."""
    key: object = (1,)
    for _ in range(levels):
        key = (key, key)
    began = time.monotonic()
    found = compare(tmp_path, "a.pkl", dumped({key: 1, 2: {key}}), dumped({key: 1, 2: {(key,)}}))
    assert (found["verdict"], found["count"]) == ("drift", 2)
    found = compare(tmp_path, "a.pkl", dumped({key: 1, 2: 2}), dumped({key: 1, 2: 3}))
    assert found["details"] == ["2: 2 and 3"]
    assert time.monotonic() - began < 5


def test_rings_in_keys_take_no_time(tmp_path: Path) -> None:
    """From each object a way leads to each other one: there are more ways than can be gone."""
    nodes = [Node() for _ in range(30)]
    for node in nodes:
        node.value = list(nodes)
    began = time.monotonic()
    found = compare(tmp_path, "a.pkl", dumped([{*nodes}, 1]), dumped([{*nodes}, 2]))
    assert (found["verdict"], found["format"]) == ("drift", "bytes")
    assert "rings" in found["notes"][0]
    assert time.monotonic() - began < 20


def test_zeros_of_any_number_are_not_made(tmp_path: Path) -> None:
    bomb = b"\x80\x02cbuiltins\nbytearray\n\x8a\x05" + (3 << 30).to_bytes(5, "little") + b"\x85R"
    found = compare(tmp_path, "a.pkl", bomb + b"K\x01\x86.", bomb + b"K\x02\x86.")
    assert "it asks for a number of zeros" in found["notes"][0]


def test_a_missing_key_that_is_ignored_is_told(tmp_path: Path) -> None:
    found = compare(tmp_path, "a.json", b'{"a": 1, "b": 2}', b'{"a": 1}', "b")
    assert (found["verdict"], found["excused"]) == (
        "identical", ["b (--ignore-key): 1 time, the first b: only in the first run"],
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
    rules = ExcuseRules([Run(NOW - 60, NOW, "h")] * 2)
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
    rules = ExcuseRules([Run(NOW - 60, NOW, "abcdefgh")] * 2, ["mfu", "#/s", "*_per_second"])
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
    monkeypatch.setattr(archives, "unpacking_limit", lambda folder: 100_000)
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
