"""Each start of a program among decoys: none of them runs, wherever the program comes from.

The list of places is computed, so that a new one fails until it has a row.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.errors import ReproError
from tests.starts.census import census, sites
from tests.starts.decoys import RELATIVE, Decoys
from tests.starts.rows import ROWS
from tests.starts.scene import Scene

SUBJECT = "python3"  # of the environment that is captured, which it must see as it is


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def test_every_start_has_a_row() -> None:
    assert sorted(ROWS) == census()
    assert len(ROWS) > 40


@pytest.mark.parametrize(
    "source",
    [
        "from reprobuild.infra import proc\ndef f(): proc.run([])",
        "from reprobuild.infra.proc import run as start\ndef f(): start([])",
        "from reprobuild.infra.proc.stream import stream\ndef f(): stream([])",
        "import subprocess as s\ndef f(): s.Popen([])",
        "from subprocess import check_output\ndef f(): check_output([])",
        "import os\ndef f(): os.execvp('x', [])",
        "import os\ndef f(): os.system('x')",
    ],
)
def test_a_start_is_found(source: str) -> None:
    assert list(sites(source)) == ["f"]


@pytest.mark.parametrize("place", sorted(ROWS))
def test_no_decoy_runs(place: str, scene: Scene) -> None:
    row = ROWS[place]
    with contextlib.suppress(ReproError):
        row.call(scene)
    assert row.program in {start[0] for start in scene.starts}, "the row does not get to its place"
    assert scene.decoys.marks == []
    for name, _, path, *words in scene.starts:
        if name != SUBJECT:
            assert not {*path.split(os.pathsep)} & {*RELATIVE.split(os.pathsep)}, name
        if name == "own-python":
            assert words[0] == "-I"


@pytest.mark.parametrize(
    ("command", "mark"),
    [
        ([sys.executable, "-c", "import pip"], "pip/__init__.py"),
        ([sys.executable, "-m", "uv"], "uv/__main__.py"),
        ([sys.executable, "-c", "import json"], "json.py"),
        ([sys.executable, "-m", "reprobuild.cli"], "reprobuild/__init__.py"),
        (["env", f"PYTHONPATH={os.pathsep}.", sys.executable, "-c", ""], "sitecustomize.py"),
        (["env", f"PATH={RELATIVE}", "git"], "git"),
        (["env", f"PATH={RELATIVE}", "/bin/sh", "-c", "srun"], "srun"),
        (["env", "PATH=node_modules/.bin", "/bin/sh", "-c", "docker"], "node_modules/.bin/docker"),
        (["git", "status"], "hostile"),
        (["git", "hook", "run", "post-checkout"], ".git/hooks/post-checkout"),
        ([sys.executable, "-c", "import site; site.addsitedir('.')"], "decoy.pth"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_a_decoy_that_is_run_leaves_its_mark(command: list[str], mark: str, tmp_path: Path) -> None:
    decoys = Decoys(tmp_path / "decoys")
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    subprocess.run(command, cwd=decoys.place, env=env, check=False, capture_output=True)
    assert mark in decoys.marks


@pytest.mark.parametrize("file", ["uv.toml", "pyproject.toml"])
def test_uv_reads_the_files_of_its_directory(file: str, tmp_path: Path) -> None:
    decoys = Decoys(tmp_path / "decoys")
    for other in {"uv.toml", "pyproject.toml"} - {file}:
        (decoys.place / other).unlink()
    argv = [sys.executable, "-I", "-m", "uv", "python", "list", "--offline", "--only-installed"]
    done = subprocess.run(argv, cwd=decoys.place, check=False, capture_output=True, text=True)
    assert file in done.stderr
