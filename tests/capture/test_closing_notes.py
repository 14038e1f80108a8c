"""The last lines of `reprobuild capture`: the environment that was captured, and what to do if it is another one."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.report.text import render_snapshot
from reprobuild.snapshot.read import read_snapshot
from tests.capture.repositories import BASE, LEAN, ROOT

TAKEN = "reprobuild capture: another process has captured, or is capturing, into this directory"
WARNING = (
    "warning: no environment is active, and reprobuild's own was captured: activate yours and capture again with "
    "another -o DIR, or name its interpreter with --python PATH"
)


def capture(folder: Path, *words: str, **variables: str) -> list[str]:
    """Run the command in a directory, and return the lines on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "reprobuild.cli", "capture", *words],
        cwd=folder, env=LEAN | {"PYTHONPATH": str(ROOT)} | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def test_the_captured_environment_is_named_and_the_remedy_followed(tmp_path: Path) -> None:
    *_, warning, last = capture(tmp_path, "-o", "own")
    assert warning == WARNING
    assert last == f"reprobuild capture: the captured environment is that of {shlex.quote(sys.executable)}"
    lines = capture(tmp_path, "-o", "other", "--python", BASE)
    assert WARNING not in lines
    assert lines[-1] == f"reprobuild capture: the captured environment is that of {shlex.quote(BASE)}"


def test_an_active_environment_is_named_without_a_warning(tmp_path: Path) -> None:
    active = tmp_path / "active"
    (active / "bin").mkdir(parents=True)
    (active / "bin" / "python").symlink_to(BASE)
    (active / "pyvenv.cfg").write_text(f"home = {Path(BASE).parent}\n")
    *others, last = capture(tmp_path, "-o", "out", VIRTUAL_ENV=str(active))
    assert WARNING not in others
    assert last.endswith(f" is that of {active}/bin/python")
    text = render_snapshot(read_snapshot(tmp_path / "out"))
    assert f" distributions in {active}\n" in text


@pytest.mark.parametrize("words", [(), ("-o", "my runs")])
def test_a_second_capture_names_another_directory(words: tuple[str, ...], tmp_path: Path) -> None:
    capture(tmp_path, *words)
    name = "'my runs-2'" if words else "snapshot-2"
    hint = f"hint: it has a snapshot; to capture again, name another directory: -o {name}"
    assert capture(tmp_path, *words) == [TAKEN, hint]
    again = capture(tmp_path, *shlex.split(hint.partition("directory: ")[2]))
    assert again[0].endswith("-2: captured")
    assert capture(tmp_path, *words)[-1] == hint.replace("-2", "-3")


def test_the_ranks_of_a_job_get_no_hint(tmp_path: Path) -> None:
    capture(tmp_path, SLURM_JOB_ID="42")
    assert capture(tmp_path, SLURM_JOB_ID="42") == [TAKEN]
