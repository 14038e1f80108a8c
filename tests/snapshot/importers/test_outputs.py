"""An output directory in the place of a snapshot: its own pylock.toml is no input."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from reprobuild.output import directory
from reprobuild.snapshot import not_snapshot
from tests.conftest import reprobuild

PYLOCK = 'lock-version = "1.0"\ncreated-by = "reprobuild"\npackages = []\n'


@pytest.fixture
def out(tmp_path: Path) -> Path:
    folder = tmp_path / "a frozen"
    folder.mkdir()
    for name, text in {"image.json": "{}", "reprobuild.lock": "{}", "pylock.toml": PYLOCK}.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    "argv",
    [("show",), ("lock", "-o", "x.lock"), ("import", "-o", "x"), ("from-snapshot", "-o", "x", "--no-verify")],
    ids=lambda argv: str(argv[0]),
)
def test_an_output_directory_is_no_snapshot(argv: tuple[str, ...], out: Path, tmp_path: Path) -> None:
    (out / "snapshot").mkdir()
    (out / "snapshot" / "requirements.txt").write_text("six==1.16.0\n")
    (out / "report.html").touch()
    done = reprobuild(argv[0], out, *argv[1:], cwd=tmp_path)
    assert done.returncode == 3
    assert (
        f"`{out}` is an output directory, and no snapshot; its snapshot is `{out}/snapshot`; its report is "
        f"`{out}/report.html`"
    ) in done.stderr
    quoted = shlex.quote(f"{out}/snapshot")
    assert f"hint: name its snapshot; `reprobuild show {quoted}` shows it" in done.stderr
    assert "1 distributions" in reprobuild("show", *shlex.split(quoted)).stdout


def test_only_what_is_there_is_named(out: Path) -> None:
    error = not_snapshot.output_error(out)
    assert str(error) == f"`{out}` is an output directory, and no snapshot"
    assert error.hint == (
        f"name the snapshot that it was made of; `reprobuild verify '{out}'` checks its image"
    )


def test_a_snapshot_that_an_image_was_built_into_is_still_one(out: Path) -> None:
    (out / "env.txt").write_text("HOME=/root\n")
    (out / "requirements.txt").write_text("six==1.16.0\n")
    assert reprobuild("show", out).returncode == 0


def test_the_names_are_those_of_an_output_directory() -> None:
    assert not_snapshot.OUTPUT_FILES == (directory.IMAGE, directory.LOCK)
    assert not_snapshot.OUTPUT_SNAPSHOT == directory.SNAPSHOT
    assert not_snapshot.OUTPUT_REPORT == directory.REPORT
