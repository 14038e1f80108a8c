"""The last lines of `reprobuild capture`: the environment that was captured, and what to do if it is another one."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from reprobuild.capture.launch import closing_notes
from reprobuild.report.text import render_snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable.capture.output import ALREADY_TAKEN
from tests.capture.repositories import BASE, LEAN, ROOT

TAKEN = f"reprobuild capture: {ALREADY_TAKEN}"
WARNING = (
    "warning: no environment is active, and reprobuild's own was captured: activate yours and capture again with "
    "another -o DIR, or name its interpreter with --python PATH"
)


def capture(folder: Path, *words: str, code: int = 0, **variables: str) -> list[str]:
    """Run the command in a directory, and return the lines on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "reprobuild.cli", "capture", *words],
        cwd=folder, env=LEAN | {"PYTHONPATH": str(ROOT)} | variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
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


@pytest.mark.parametrize("words", [(), ("-o", "my runs"), ("--python", BASE, "-o", "runs")])
def test_a_second_capture_has_the_whole_command_for_another_directory(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    capture(tmp_path, *words)
    name = words[-1] if words else "snapshot"
    command = shlex.join(("reprobuild", "capture", *words[:-2], "-o", f"{name}-2"))
    hint = f"hint: {name} has a snapshot; to capture again, name another one: `{command}`"
    assert capture(tmp_path, *words, code=3) == [TAKEN, hint]
    again = capture(tmp_path, *shlex.split(command)[2:])
    assert again[0].endswith("-2: captured")
    assert capture(tmp_path, *words, code=3)[-1] == hint.replace("-2", "-3")


def test_a_directory_that_cannot_be_used_has_the_command_for_another(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "note.txt").touch()
    (tmp_path / "file").touch()
    for words, command in (
        (("-o", "full"), "reprobuild capture -o full-2"),
        (("-o", "file/inner"), "reprobuild capture -o inner"),
        (("-o", "file/my run"), "reprobuild capture -o 'my run'"),
    ):
        *_, cause, hint = capture(tmp_path, *words, code=3)
        assert cause.startswith(f"reprobuild capture: {tmp_path}/{words[-1]} ")
        assert hint.startswith(
            ("hint: name another directory: `", "hint: name a directory that you can write: `")
        )
        assert hint.endswith(f": `{command}`")
        assert capture(tmp_path, *shlex.split(command)[2:])[0].endswith(": captured")


def test_a_read_only_directory_leads_to_one_that_can_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "snapshot").mkdir()
    monkeypatch.setattr("os.access", lambda folder, _: str(folder) == str(tmp_path))
    for cause in ("Read-only file system", "Permission denied"):
        said = f"reprobuild capture: /job/snapshot cannot be written: {cause}\n".encode()
        (hint,) = closing_notes(said, "python", None, {"HOME": str(tmp_path)}, default=True)
        assert hint == (
            f"hint: name a directory that you can write: `reprobuild capture -o {tmp_path}/snapshot-2`"
        )
        (hint,) = closing_notes(said, "python", None, {}, default=True)
        assert hint == "hint: name a directory that you can write: `reprobuild capture -o DIR`"


def test_the_ranks_of_a_job_get_no_hint(tmp_path: Path) -> None:
    capture(tmp_path, SLURM_JOB_ID="42")
    assert capture(tmp_path, SLURM_JOB_ID="42") == [TAKEN]
