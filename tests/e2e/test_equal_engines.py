"""One image in each engine, as root and as an ordinary user: equal verdicts, and equal bytes of the user's work."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import PROGRAM, Built, reprobuild
from tests.system.conftest import shared_tmp
from tests.system.samples import ORDINARY_USER

__all__ = ["shared_tmp"]  # a fixture
PARTS = ("--only", "round-trip", "--only", "workload", "--runs", "2")
OWN = {
    "made",
    "engine",
    "work",
}  # the moment and the engine, and the conditions of the work, which name the machine


def equal_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a verdict without what two runs of one engine may differ in."""
    return {name: value for name, value in document.items() if name not in OWN}


@pytest.fixture(scope="module")
def expected(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The verdict by the built-in engine, as root."""
    out = built_example.copy(tmp_path_factory.mktemp("builtin") / "out")
    return equal_part(verify(out, "builtin", os.environ))


def verify(out: Path, engine: str, env: Mapping[str, str], *parts: str) -> dict[str, Any]:
    done = reprobuild("verify", out, "--engine", engine, *(parts or PARTS), env=env)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads((out / "verdict.json").read_text())
    assert document["engine"] == engine
    return document


def test_the_verdict_has_results(expected: dict[str, Any]) -> None:
    assert expected["round_trip"] == "explained"
    assert [comparison["verdict"] for comparison in expected["comparisons"]] == ["identical"]


@pytest.mark.parametrize(
    "engine", ["docker", *(pytest.param(name, marks=pytest.mark.long) for name in ("podman", "apptainer"))]
)
def test_another_engine(
    engine: str, expected: dict[str, Any], built_example: Built, podman_env: Mapping[str, str],
    apptainer_env: Mapping[str, str], tmp_path: Path,
) -> None:  # fmt: skip
    env = {"docker": os.environ, "podman": podman_env, "apptainer": apptainer_env}[engine]
    assert equal_part(verify(built_example.copy(tmp_path / "out"), engine, env)) == expected


def test_an_ordinary_user(expected: dict[str, Any], built_example: Built, shared_tmp: Path) -> None:
    """No root, a cache of the user's own, and a store that the user cannot write to."""
    out = built_example.copy(shared_tmp / "out")
    subprocess.run(["chown", "-R", "12345:12345", str(out)], check=True)
    env = {**os.environ, "HOME": str(shared_tmp), "XDG_CACHE_HOME": str(shared_tmp / "cache")}
    done = subprocess.run(
        [*ORDINARY_USER, *PROGRAM, "verify", str(out), "--engine", "builtin", *PARTS],
        env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert equal_part(json.loads((out / "verdict.json").read_text())) == expected


@pytest.mark.long
@pytest.mark.parametrize("engine", ["docker", "podman"])
def test_every_probe_in_another_engine(
    engine: str, built_example: Built, podman_env: Mapping[str, str], tmp_path: Path
) -> None:
    """The certificate that the built-in engine gave holds in the other one."""
    out = built_example.copy(tmp_path / "out")
    env = {"docker": os.environ, "podman": podman_env}[engine]
    earlier = tmp_path / "verdict.json"
    earlier.write_bytes(built_example.certificate)
    done = reprobuild(
        "verify", out, "--engine", engine, "--runs", "2", "--against", earlier, env=env, timeout=3000
    )
    assert done.returncode == 0, done.stderr
    ours, theirs = json.loads(built_example.certificate), json.loads((out / "verdict.json").read_text())
    assert ours["engine"] == "builtin"
    assert theirs["determinism"] == ours["determinism"]
    assert theirs["against"]["verdict"] == "same"
