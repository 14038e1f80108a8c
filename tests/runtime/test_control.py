"""The control tries larger work until it is seen drifting, and says so where it is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from reprobuild_runtime import probecontrol


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What of torch the control asks for besides its work; the work itself is in every image that is verified."""
    threads = [1]
    monkeypatch.setattr(probecontrol, "comparator", lambda torch: {})
    monkeypatch.setattr(probecontrol, "digest", repr)
    return SimpleNamespace(
        get_num_threads=lambda: threads[0], set_num_threads=lambda number: threads.__setitem__(0, number),
        are_deterministic_algorithms_enabled=lambda: False,
    )  # fmt: skip


@pytest.mark.parametrize(("drifts_from", "tried"), [(0, 1), (1, 2), (2, 3), (9, 3)])
def test_larger_work_until_it_drifts(
    torch: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, drifts_from: int, tried: int
) -> None:
    sizes: list[int] = []

    def results(_torch: Any, _device: str, repeats: int, size: int) -> list[int]:
        sizes.append(size)
        return list(range(repeats)) if len(sizes) > drifts_from else [0] * repeats

    monkeypatch.setattr(probecontrol, "_results", results)
    found = probecontrol.control(torch)
    assert sizes == list(probecontrol.SIZES[:tried])
    assert found["effective"] is (drifts_from < 3)
    assert (found["distinct"], found["size"]) == (10 if drifts_from < 3 else 1, sizes[-1])
    assert (found["threads"], torch.get_num_threads()) == (2, 1)
