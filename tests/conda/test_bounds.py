"""Channels whose small answers would take all memory, or all of the disk: limits end them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from reprobuild.ecosystems.conda import linking, repodata, solve
from reprobuild.ecosystems.conda.repodata import Repodata
from reprobuild.ecosystems.conda.solve import ChannelList
from reprobuild.errors import FetchError
from reprobuild.infra.http.client import Net
from tests.fault_injection.dead import MANNERS
from tests.resolve.served import Reply, Served

BROKEN = "the channel is broken, or no channel; name another with `--channel URL`"
NO_ROOM = (
    "leave out channels that the packages do not need, or name a store on a disk with more room: --store DIR"
)
BOMB = zstandard.ZstdCompressor().compress(b" " * (3 << 20))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with Served() as one:
        yield one


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


def taken(folder: Path) -> int:
    """Return the bytes of a directory's files."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def bombs(server: Served, count: int) -> list[str]:
    """Serve small answers that unpack to 3 MiB each, and return the channels."""
    for number in range(count):
        server.give(f"/c{number}/noarch/repodata.json.zst", BOMB)
    return [f"{server.url}/c{number}" for number in range(count)]


def test_all_lists_have_one_allowance(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repodata, "_ALLOWANCE", 10 << 20)
    lists, channels = Repodata(Net(manners=MANNERS), tmp_path), bombs(server, 8)
    for channel in channels[:3]:
        assert lists.fetch_list(channel, "noarch") is not None
    for channel in channels[3:]:
        with pytest.raises(FetchError) as caught:
            lists.fetch_list(channel, "noarch")
        assert str(caught.value) == (
            f"{channel}/noarch/repodata.json.zst does not fit: all lists of channels may have {10 << 20} bytes together"
        )
        assert caught.value.hint == NO_ROOM
    assert taken(tmp_path) == 9 << 20
    (tmp_path / "fewer").mkdir()
    fewer = Repodata(Net(manners=MANNERS), tmp_path / "fewer")
    assert fewer.fetch_list(channels[7], "noarch") is not None


def test_lists_take_half_of_the_free_space_at_most(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(folder: Path) -> tuple[int, int, int]:
        return usage._replace(free=(5 if folder == tmp_path else 50) << 20)

    usage = shutil.disk_usage(tmp_path)
    (other := tmp_path / "other").mkdir()
    monkeypatch.setattr(shutil, "disk_usage", free)
    (channel,) = bombs(server, 1)
    with pytest.raises(FetchError, match=f"may have {5 << 19} bytes together") as caught:
        Repodata(Net(manners=MANNERS), tmp_path).fetch_list(channel, "noarch")
    assert caught.value.hint == NO_ROOM
    assert Repodata(Net(manners=MANNERS), other).fetch_list(channel, "noarch") is not None


@pytest.mark.parametrize("name", ["repodata.json", "repodata.json.zst"])
@pytest.mark.parametrize("bound", ["LARGEST", "_ALLOWANCE"])
def test_a_list_without_an_end_is_refused(
    name: str, bound: str, server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repodata, bound, 2 << 20)
    server.give(f"/c/noarch/{name}", Reply(bytes(1 << 20), endless=True))
    with pytest.raises(FetchError, match=rf"/c/noarch/{name} (has no end|does not fit)") as caught:
        Repodata(Net(manners=MANNERS), tmp_path).fetch_list(f"{server.url}/c", "noarch")
    assert caught.value.hint == (BROKEN if bound == "LARGEST" else NO_ROOM)
    assert taken(tmp_path) == 0


def test_a_list_that_unpacks_to_too_much_is_refused(
    server: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repodata, "LARGEST", 2 << 20)
    with pytest.raises(FetchError, match=r"/c0/noarch/repodata\.json\.zst has no end"):
        Repodata(Net(manners=MANNERS), tmp_path).fetch_list(bombs(server, 1)[0], "noarch")
    assert taken(tmp_path) == 0
