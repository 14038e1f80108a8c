"""Event files of TensorBoard: times may differ, all else counts, and a damaged file is compared as bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from reprobuild.verify.workload.file_names import mask_run_parts
from reprobuild_runtime.artefacts.events import is_event_file, masked_checksum
from tests.determinism.test_verdicts import BEGAN, compared

NAME = "runs/events.out.tfevents.1795414745.vm.44.0"


def field(number: int, data: bytes) -> bytes:
    return bytes([number << 3 | 2, len(data)]) + data


def scalar(tag: bytes, value: float) -> bytes:
    """Return the summary of one number, as TensorBoard's writers have it."""
    return field(5, field(1, field(1, tag) + b"\x15" + struct.pack("<f", value)))


def file(*events: bytes, time: float = BEGAN + 5) -> bytes:
    """Return an event file: each event has a time, one second after the one before."""
    made = b""
    for number, event in enumerate((field(3, b"brain.Event:2"), *events)):
        data = b"\x09" + struct.pack("<d", time + number) + event
        length = struct.pack("<Q", len(data))
        made += length + struct.pack("<I", masked_checksum(length))
        made += data + struct.pack("<I", masked_checksum(data))
    return made


STEP = b"\x10\x03"
ONE = file(STEP + scalar(b"loss", 0.5))


def told(tmp_path: Path, two: bytes) -> dict[str, Any]:
    return compared(tmp_path, NAME, ONE, two)


def test_the_checksum_is_that_of_the_framing() -> None:
    """The first record of a file that tensorboardX wrote: 24 bytes long."""
    assert ONE[:8] == struct.pack("<Q", 24)
    assert (
        masked_checksum(bytes.fromhex("1800000000000000"))
        == struct.unpack("<I", bytes.fromhex("a37f4b22"))[0]
    )
    assert is_event_file(NAME, ONE)
    assert not is_event_file("model.bin", ONE)
    assert not is_event_file(NAME, b"\0" * 20)


def test_other_times_of_the_run_are_no_drift(tmp_path: Path) -> None:
    found = told(tmp_path, file(STEP + scalar(b"loss", 0.5), time=BEGAN + 90))
    assert (found["verdict"], found["format"]) == ("identical", "event file of TensorBoard")
    assert found["counts"] == {"time": 2}


@pytest.mark.parametrize(
    ("two", "words"),
    [
        (file(STEP + scalar(b"loss", 0.75)), "event 2 (step 3).summary[0].simple_value: 0.5 and 0.75"),
        (file(STEP + scalar(b"lost", 0.5)), "event 2 (step 3).summary[0].tag: 'loss' and 'lost'"),
        (file(b"\x10\x04" + scalar(b"loss", 0.5)), "event 2 (step 3).step: 3 and 4"),
        (file(), "event 2 (step 3): only in the first run"),
        (file(STEP + scalar(b"loss", 0.5), field(9, b"x")), "event 3 (step 0): only in the second run"),
        (file(STEP + scalar(b"loss", 0.5), time=BEGAN - 9e6), "event 1 (step 0).wall_time: "),
        (file(STEP + scalar(b"loss", 0.5) + field(9, b"x")), "event 2 (step 3).field 9: only in the second run"),
    ],
    ids=["value", "tag", "step", "missing", "more", "a time of other days", "another field"],
)  # fmt: skip
def test_results_are_drift(tmp_path: Path, two: bytes, words: str) -> None:
    found = told(tmp_path, two)
    assert found["verdict"] == "drift"
    assert found["details"][0].startswith(words), found


@pytest.mark.parametrize(
    ("two", "why"),
    [
        (ONE[:-3], "the last event is not whole"),
        (ONE + b"\1", "a record has no length"),
        (ONE[:12] + b"\x0b" + ONE[13:], "a field of an unknown type"),
        (ONE[:12] + b"\x09" + b"\xff" * 23 + ONE[36:], "a number is not whole"),
    ],
)
def test_a_damaged_file_is_compared_as_bytes(tmp_path: Path, two: bytes, why: str) -> None:
    found = told(tmp_path, two)
    assert (found["verdict"], found["format"]) == ("drift", "bytes")
    assert why in found["notes"][0], found


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("o/events.out.tfevents.1795414745.vm.44.0", "o/events.out.tfevents.<time>.<host>.<process>.0"),
        ("events.out.tfevents.1795414745.vm.44.0.v2", "events.out.tfevents.<time>.<host>.<process>.0.v2"),
        ("events.out.tfevents.1795414745.vm", "events.out.tfevents.<time>.<host>"),
        ("events.out.tfevents.1795414745.vm.99.0", "events.out.tfevents.<time>.<host>.99.0"),
        ("outputs/2026-11-23/06-20-01/train.log", "outputs/<time>/train.log"),
        ("outputs/2026-11-21/06-20-01/train.log", "outputs/2026-11-21/06-20-01/train.log"),
        ("mlruns/0/0b1f6f0c8ad94d0e9b7d2f6f3c1c7a11/meta.yaml", "mlruns/0/<run>/meta.yaml"),
        ("mlruns/0/9b74c9897bac770ffc029102a200c5de/meta.yaml",) * 2,  # a digest, by its form
        ("best/0b1f6f0c8ad94d0e9b7d2f6f3c1c7a11/w.pt",) * 2,
    ],
)
def test_names_of_event_files_and_runs(path: str, wanted: str) -> None:
    assert mask_run_parts(path, BEGAN, BEGAN + 1800, "vm", processes=(44, 50)) == wanted


def test_records_in_a_file_that_is_called_json(tmp_path: Path) -> None:
    """MMEngine and detectron2 add one record after the other to a `.json`."""
    one, two = (
        b'{"lr": 0.1, "data_time": %d.5, "time": 0.5, "iter": 1, "memory": 7, "step": 1}\n{"loss": 1}\n' % number
        for number in (1, 2)
    )  # fmt: skip
    found = compared(tmp_path, "scalars.json", one, two)
    assert (found["verdict"], found["format"], found["counts"]) == ("identical", "JSON lines", {"time": 1})
    assert compared(tmp_path, "scalars.json", one, two + b'{"loss": 2}\n')["verdict"] == "drift"
    assert compared(tmp_path, "a.json", b'{"a": 1}', b'{"a": 1}\n\n')["format"] == "JSON"
