"""`times.json`: the times of the stages, of this image alone, and no more than numbers."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from reprobuild.infra.stage_clock import StageClock
from reprobuild.output.times import TIMES, read_times, write_times
from tests.report.samples import IMAGE


def test_a_stage_that_did_not_run_keeps_its_time(tmp_path: Path) -> None:
    assert read_times(tmp_path, IMAGE) == {}
    write_times(tmp_path, IMAGE, {"image": 3.0, "lock": 1.23456, "unknown": 1.0})
    assert list(write_times(tmp_path, IMAGE, {"check": 9.0, "image": 4.0}).items()) == [
        ("lock", 1.235), ("image", 4.0), ("check", 9.0),
    ]  # fmt: skip
    assert write_times(tmp_path, IMAGE, {"check": 2.0, "image": 0.1}) == {
        "lock": 1.235,
        "image": 4.0,
        "check": 2.0,
    }
    other = msgspec.structs.replace(IMAGE, manifest=f"sha256:{'4' * 64}")
    assert read_times(tmp_path, other) == {}
    assert write_times(tmp_path, other, {"lock": 2.0}) == {"lock": 2.0}


@pytest.mark.parametrize(
    "change",
    [
        {"version": 2},
        {"image": "x"},
        {"seconds": {"lock": -1}},
        {"seconds": {"<b>": 1}},
        {"seconds": {"lock": "1"}},
    ],
)
def test_a_file_of_another_form_is_not_read(tmp_path: Path, change: dict[str, object]) -> None:
    document = {"version": 1, "image": IMAGE.manifest, "seconds": {"lock": 1.0}}
    (tmp_path / TIMES).write_text(json.dumps(document))
    assert read_times(tmp_path, IMAGE) == {"lock": 1.0}
    (tmp_path / TIMES).write_text(json.dumps({**document, **change}))
    assert read_times(tmp_path, IMAGE) == {}


def test_the_clock_adds_up_and_counts_a_stage_that_failed() -> None:
    clock = StageClock()
    for _ in range(2):
        with clock.measure("lock"):
            pass
    with pytest.raises(KeyError), clock.measure("fetch"):
        raise KeyError
    assert list(clock.seconds) == ["lock", "fetch"]
    assert all(seconds >= 0 for seconds in clock.seconds.values())
