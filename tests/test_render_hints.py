"""Hints of the recipe and of the search for an engine, as people read them."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.engines import builtin
from reprobuild.engines.registry import find_engine
from reprobuild.errors import BuildError, EngineError
from reprobuild.lock.sealed import require_sealed
from tests.image.made import Made


def test_a_lock_that_is_not_sealed(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="the lock is not sealed") as caught:
        require_sealed(Made(tmp_path).unsealed_lock())
    assert caught.value.hint == "run `reprobuild build` or `from-snapshot`, which seal it"


@pytest.fixture
def _sockets_that_the_sdk_forgets() -> Iterator[None]:
    """The SDK does not close a socket that could not connect, which is an error in a later test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        yield
        gc.collect()


@pytest.mark.usefixtures("_sockets_that_the_sdk_forgets")
def test_no_engine_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "find_obstacle", lambda: "made")
    with pytest.raises(EngineError, match="no container engine answers") as caught:
        find_engine(None, {"DOCKER_HOST": "unix:///nonexistent/docker.sock"})
    assert (
        caught.value.hint == "start one, point DOCKER_HOST at one, or ask `reprobuild doctor` what is missing"
    )
