"""Directories of a container or a layer that are nested deeper than Python recurses (built-in engine)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.engines import builtin, builtin_discarded
from reprobuild.engines.builtin_discarded import describe_discarded_files
from reprobuild.engines.builtin_unpack import has_whiteouts
from reprobuild.engines.model import Task
from reprobuild.infra.directory_fd import remove
from reprobuild.infra.walk import walk
from tests.engines.conftest import Tiny
from tests.engines.test_builtin import FILE, make_image, sh

DEEP = "a/" * 1500


@pytest.fixture
def env(tmp_path: Path) -> Iterator[Mapping[str, str]]:
    yield {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    remove(tmp_path / "cache")  # the removal by pytest recurses


def attach(image: Tiny, env: Mapping[str, str], script: str) -> int:
    return builtin.attach(image.reference, Task(arguments=("sh", "-c", script)), env, lambda *_: None)


def test_files_beside_deep_directories_are_named(deep: Callable[[Path], Path], tmp_path: Path) -> None:
    deep(tmp_path / "upper")
    (tmp_path / "upper" / "result").write_text("x")
    assert describe_discarded_files(tmp_path / "upper").startswith("reprobuild: /result (1 bytes) ended with")
    assert not has_whiteouts(tmp_path / "upper")


def test_the_code_of_the_command_outweighs_the_note(
    tiny: Tiny, env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    builtin.load(tiny.layout, tiny.reference, tiny.digests, env)

    def fail(upper: Path) -> str:
        raise RecursionError(str(upper))

    monkeypatch.setattr(builtin, "describe_discarded_files", fail)
    assert attach(tiny, env, "exit 7") == 7


def test_a_layer_of_deep_directories(env: Mapping[str, str], tmp_path: Path) -> None:
    """Its whiteouts count at any depth."""
    lower, upper = [(f"{DEEP}gone", FILE, "x"), (f"{DEEP}stays", FILE, "x")], [(f"{DEEP}.wh.gone", FILE, "")]
    image = make_image(tmp_path, "reprobuild-test/deep:1", lower, upper)
    builtin.load(image.layout, image.reference, image.digests, env)
    assert sh(image, env, f"cd {DEEP} && test ! -e gone && cat stays").stdout == b"x"


def test_a_walk_reads_no_more_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(30):
        (tmp_path / f"{number % 3}" / "b").mkdir(parents=True, exist_ok=True)
        (tmp_path / f"{number % 3}" / "b" / f"{number}").write_text("x")
    assert sum(len(folders) + len(files) for _, folders, files in walk(tmp_path, 36)) == 36
    with pytest.raises(OSError, match="more than 35 files and directories"):
        list(walk(tmp_path, 35))
    errors: list[OSError] = []
    assert sum(len(folders) + len(files) for _, folders, files in walk(tmp_path, 20, errors.append)) == 15
    assert len(errors) == 1
    monkeypatch.setattr(builtin_discarded, "_MOST", 20)
    assert "and 7 more (10 bytes)" in describe_discarded_files(tmp_path)


def test_a_walk_is_in_order_follows_no_link_and_can_be_pruned(tmp_path: Path) -> None:
    for name in ("a/inner", "b/inner"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path)
    visited = []
    for folder, folders, files in walk(tmp_path, 100):
        visited.append(folder.removeprefix(str(tmp_path)))
        assert ("link" in files) == (folder == str(tmp_path))
        folders[:] = sorted(name for name in folders if name != "b")
    assert visited == ["", "/a", "/a/inner"]
    with pytest.raises(FileNotFoundError):
        list(walk(tmp_path / "lost", 100))
    assert list(walk(tmp_path / "lost", 100, lambda _: None)) == []
