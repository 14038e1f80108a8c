"""An output directory with files of the user: it is refused before anything is written, whatever the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.errors import UsageError
from reprobuild.output.occupied import refuse_files_of_others
from tests.conftest import EXAMPLE, reprobuild
from tests.image.made import Made
from tests.store.sealing import built, sealed

DECIDED = ("--decisions", EXAMPLE / "reprobuild.yaml")
NAMES = (
    "Dockerfile", "Apptainer.def", "pylock.toml", "image/cat.png", "context/notes.txt", "verdict.json", "report.html",
    "badge.svg", "cluster.json", "image.sif", "image.sqsh",
)  # fmt: skip


def listing(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_the_user_stays(name: str, tmp_path: Path) -> None:
    """The hint names another directory, which is taken."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    (tmp_path / "train.py").write_text("mine, too")
    with pytest.raises(UsageError, match=f"would replace: {name.partition('/')[0]}$") as failed:
        refuse_files_of_others(tmp_path)
    assert failed.value.hint == f"name a new directory: -o {tmp_path}/frozen; or move these files away"
    refuse_files_of_others(tmp_path / "frozen")


def test_all_are_named_by_each_command(tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    lock = tmp_path / "given.lock"
    built(sealed(made, "alpha"), lock, made.store, tmp_path / "theirs")
    folder = tmp_path / "project"
    folder.mkdir()
    for name in ("Dockerfile", "pylock.toml", "requirements.txt"):
        (folder / name).write_text("mine")
    before = listing(folder)
    store = ("--store", str(made.store.root))
    for command in (
        ("from-snapshot", EXAMPLE / "snapshot", *DECIDED, "-o", folder, *store),
        ("from-snapshot", folder / "requirements.txt", "-o", folder, *store),
        ("build", lock, "-o", folder, *store),
        ("render", lock, "-o", folder),
    ):
        done = reprobuild(*command)
        assert done.returncode == 2, done.stderr
        more = ", requirements.txt" if command[0] == "render" else ""
        assert f"that its output would replace: Dockerfile, pylock.toml{more}\n" in done.stderr
        assert listing(folder) == before


def test_an_output_directory_is_written_again(tmp_path: Path) -> None:
    """By whichever command, also where a part of it was removed."""
    made = Made(tmp_path / "made")
    lock, out = tmp_path / "given.lock", tmp_path / "out"
    built(sealed(made, "alpha"), lock, made.store, out)
    refuse_files_of_others(out)
    assert reprobuild("render", lock, "-o", out).returncode == 0
    assert reprobuild("render", lock, "-o", out).returncode == 0
    refuse_files_of_others(out, requirements=True)
    (out / "reprobuild.lock").unlink()
    (out / "Dockerfile").unlink()
    refuse_files_of_others(out)


def test_an_empty_directory_of_such_a_name(tmp_path: Path) -> None:
    (tmp_path / "image").mkdir()
    refuse_files_of_others(tmp_path)
    (tmp_path / "context").symlink_to(tmp_path / "image")
    with pytest.raises(UsageError, match=r"would replace: context$"):
        refuse_files_of_others(tmp_path)
