"""Requirements that uv needs gigabytes or hours for: limits end it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from reprobuild.errors import LockError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.resolve import solve_versions
from reprobuild.resolve.ages.dated_indexes import dated_indexes
from tests.resolve.test_as_of import around, lists, snapshot

MOMENT, TARGET = "2024-01-15T00:00:00Z", ("3.11.2", "x86_64")


def solve(folder: Path, text: str) -> dict[str, str]:
    context = around(folder)
    lines = snapshot(text).requirements
    with dated_indexes(MOMENT, lines, lists(context), context, TARGET) as dated:
        return solve_versions.solve_versions(lines, MOMENT, *TARGET, lists(context), context, dated)


def test_a_marker_that_is_too_hard_for_uv_ends_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solve_versions, "_MOST_MEMORY", 128 << 20)
    pairs = "or ".join(f"extra=='{name}'and extra=='z{name}'" for name in "0123456789abcdefghijklmnopqrstuv")
    with pytest.raises(
        LockError, match=r"it needs more than 128 MiB of memory, or more than 600 s"
    ) as caught:
        solve(tmp_path, f"foo>=1;{pairs}or os_name=='posix'\n")
    assert caught.value.hint == (
        "the marker of a requirement can be too hard for uv: shorten markers in requirements.txt, or write another "
        "version of a release with such markers there, as in NAME==VERSION"
    )
    assert "as of the end of 2024-01-14" in str(caught.value)


def test_all_runs_of_uv_have_one_limit_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of a hundred releases can need a run of its own."""
    limits: list[int] = []
    used = iter([0.0, 0.0, 100.0, 700.0])

    def limited(module: str, *words: str, memory: int, seconds: int) -> list[str]:
        limits.append(seconds)
        return [module]

    def run(argv: Sequence[str], **options: object) -> bytes:
        if len(limits) < 3:
            raise ProcessFailedError(f"Failed to build `a{len(limits)}==1`", code=1, stderr="")
        return b"a==1\n"

    monkeypatch.setattr(solve_versions, "own_limited_module", limited)
    monkeypatch.setattr(solve_versions, "run", run)
    monkeypatch.setattr(solve_versions, "_used_seconds", lambda: next(used))
    monkeypatch.setattr(solve_versions, "read_static_requires", lambda *_: ())
    assert solve(tmp_path, "a\n") == {"a": "1"}
    assert limits == [600, 500, 1]
