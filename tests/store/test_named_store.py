"""The store that the variable names, for commands without `--store`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from reprobuild.api.context import open_context
from reprobuild.errors import UsageError
from reprobuild.store.location import STORE


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


def test_an_option_goes_before_the_variable_and_the_variable_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for value in (None, ""):
        if value is not None:
            monkeypatch.setenv(STORE, value)
        assert open_context(caches=False).store.root == tmp_path / "home/.cache/reprobuild"
    (tmp_path / "lab").mkdir(mode=0o700)
    monkeypatch.setenv(STORE, str(tmp_path / "lab"))
    assert open_context(caches=False).store.root == tmp_path / "lab"
    assert open_context(tmp_path / "own", caches=False).store.root == tmp_path / "own"


def test_a_lost_store_is_not_replaced_by_a_private_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hint's command makes one."""
    lost = tmp_path / "of a lab"
    monkeypatch.setenv(STORE, str(lost))
    with pytest.raises(UsageError) as caught:
        open_context(caches=False)
    assert str(caught.value) == f"{STORE} is {lost}, and there is no such directory"
    assert str(caught.value.hint).startswith("unset it, or make a store for you alone by `mkdir -m 700")
    assert str(caught.value.hint).endswith("`, or one of a group by `reprobuild store share --group NAME`")
    assert not lost.exists()
    assert open_context(caches=False, sharing=True).store.root == lost  # `store share` makes it
    subprocess.run(shlex.split(str(caught.value.hint).split("`")[1]), check=True)
    assert open_context(caches=False).store.root == lost
    assert lost.stat().st_mode & 0o777 == 0o700


def test_a_relative_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory in which somebody stands must not become a store."""
    monkeypatch.setenv(STORE, "store")
    with pytest.raises(UsageError, match=f"{STORE} is store: not an absolute path") as caught:
        open_context(caches=False)
    assert caught.value.hint == "give the whole path"
