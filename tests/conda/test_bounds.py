"""Channels whose small answers would take all memory: limits end them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprobuild.ecosystems.conda import linking, repodata, solve
from reprobuild.ecosystems.conda.repodata import Repodata
from reprobuild.ecosystems.conda.solve import ChannelList
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net

BROKEN = "the channel is broken, or no channel; name another with `--channel URL`"


def write_list(channel: Path, count: int) -> Path:
    """Write the list of a channel with `count` versions of one package, and return its file."""
    record = {"build": "0", "build_number": 0, "depends": [], "name": "n", "subdir": "noarch"}
    packages = {f"n-{number}-0.conda": {**record, "version": str(number)} for number in range(count)}
    file = channel / "noarch" / "repodata.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"info": {"subdir": "noarch"}, "packages": {}, "packages.conda": packages}))
    return file


def look_up(channel: Path, folder: Path) -> int:
    """Return the number of the package's versions."""
    folder.mkdir()
    return len(Repodata(Net(), folder).list_packages(channel.as_uri(), "noarch", "n"))


def test_a_list_that_needs_too_much_memory_ends_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repodata, "_MOST_MEMORY", 128 << 20)
    write_list(tmp_path / "small", 100)
    write_list(tmp_path / "large", 100_000)
    assert look_up(tmp_path / "small", tmp_path / "a") == 100
    with pytest.raises(
        FetchError, match="rattler needs more than 128 MiB of memory, or more than 900 s"
    ) as caught:
        look_up(tmp_path / "large", tmp_path / "b")
    assert f"{(tmp_path / 'large').as_uri()}/noarch is not a channel's list of packages" in str(caught.value)
    assert caught.value.hint == BROKEN


def test_a_list_that_needs_too_much_time_ends_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(linking, "_MOST_SECONDS", 1)
    write_list(tmp_path / "large", 100_000)
    with pytest.raises(FetchError, match="rattler needs more than 2048 MiB of memory, or more than 1 s"):
        look_up(tmp_path / "large", tmp_path / "a")


def test_a_choice_that_needs_too_much_memory_ends_at_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def choose() -> str:
        return solve.solve([ChannelList(file, "h", "noarch")], ["n"], [], 1_700_000_000, tmp_path)[0].version

    file = write_list(tmp_path / "large", 100_000)
    assert choose() == "99999"
    monkeypatch.setattr(solve, "_MOST_MEMORY", 128 << 20)
    with pytest.raises(
        FetchError, match=r"cannot be chosen: .* rattler needs more than 128 MiB of memory"
    ) as caught:
        choose()
    assert caught.value.hint == "a channel is broken, or no channel; name another with `--channel URL`"
