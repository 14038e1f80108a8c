"""The snapshot that a callback left in a run is read in place of the tracker's files, and links to it are not."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from reprobuild.cli.main import run_line
from reprobuild.errors import SnapshotError
from reprobuild.integrations import directory
from reprobuild.snapshot.importers import own_snapshot
from reprobuild.snapshot.importers.import_snapshot import import_into, open_snapshot
from reprobuild.snapshot.importers.own_snapshot import find_own_snapshot
from reprobuild.snapshot.read import read_snapshot
from tests.conftest import ROOT

CAPTURE = ROOT / "examples" / "cpu-capture" / "snapshot"
WANDB = "wandb/offline-run-20260118_150613-bm15x271"
META = "artifact_uri: file:///srv\nrun_id: 8fdbeecca3ce43b38180cdec196332bb\n"
# The file of the tracker in a run, the snapshot, and paths that people name for the run, as the callbacks leave them.
LAYOUTS = {
    "wandb": (
        {f"{WANDB}/files/requirements.txt": "six==1.16.0\n", f"{WANDB}/files/wandb-metadata.json": "{}",
         f"{WANDB}/run-bm15x271.wandb": "", f"{WANDB}/logs/debug.log": ""},
        f"{WANDB}/reprobuild-snapshot", (WANDB, f"{WANDB}/files", "wandb", "wandb/latest-run"),
    ),
    "mlflow": (
        {"mlruns/0/8fdb/meta.yaml": META, "mlruns/0/8fdb/tags/mlflow.user": "ada"},
        "mlruns/0/8fdb/artifacts/reprobuild-snapshot", ("mlruns/0/8fdb", "mlruns/0/8fdb/artifacts"),
    ),
    "hydra": ({"out/.hydra/config.yaml": "{}\n"}, "out/reprobuild-snapshot", ("out",)),
    "transformers": ({"out/checkpoint-1/trainer_state.json": "{}"}, "out/reprobuild-snapshot", ("out",)),
    "lightning": (
        {"lightning_logs/version_0/hparams.yaml": "{}\n"}, "lightning_logs/version_0/reprobuild-snapshot",
        ("lightning_logs/version_0",),
    ),
}  # fmt: skip


def make_run(folder: Path, name: str) -> Path:
    """Write the run of a layout, and return its snapshot."""
    files, place, _ = LAYOUTS[name]
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text)
    shutil.copytree(CAPTURE, folder / place)
    if name == "wandb":
        (folder / "wandb" / "latest-run").symlink_to(Path(WANDB).name)
    return folder / place


def test_the_name_is_that_of_the_callbacks() -> None:
    assert own_snapshot.NAME == directory.NAME


@pytest.mark.parametrize(("name", "path"), [(name, path) for name in LAYOUTS for path in LAYOUTS[name][2]])
def test_a_run_is_read_by_its_own_snapshot(
    name: str, path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = make_run(tmp_path, name)
    found = find_own_snapshot(tmp_path / path)
    assert found is not None
    assert found.samefile(own)
    with open_snapshot(tmp_path / path) as opened:
        assert read_snapshot(opened).digest == read_snapshot(own).digest
    assert run_line(["show", str(tmp_path / path)]) == 0
    shown = capsys.readouterr()
    assert shown.err.splitlines()[0] == f"the run has its own snapshot: {found}"
    import_into(tmp_path / path, tmp_path / "new")
    names = {entry.name for entry in (tmp_path / "new").iterdir()} - {"import.json"}
    assert names == {entry.name for entry in own.iterdir()}


def test_each_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = make_run(tmp_path, "mlflow")
    run = own.parent.parent
    (own / "capture.json").write_text("{")  # so that each ends with the read
    line = f"the run has its own snapshot: {own}"
    for words in (
        ["import", str(run), "-o", str(tmp_path / "new")],
        ["compare", str(run), str(own)],
        ["lock", str(run), "-o", str(tmp_path / "lock")],
        ["from-snapshot", str(run), "-o", str(tmp_path / "out")],
        ["restore", str(run), "no-such-repository", "-o", str(tmp_path / "work")],
    ):
        assert run_line(words) == 3
        assert line in capsys.readouterr().err, words


def test_a_snapshot_and_a_lock_file_are_no_run(tmp_path: Path) -> None:
    own = make_run(tmp_path, "hydra")
    shutil.copytree(CAPTURE, own / "reprobuild-snapshot")
    assert find_own_snapshot(own) is None
    (tmp_path / "out" / "requirements.txt").write_text("six==1.16.0\n")
    assert find_own_snapshot(tmp_path / "out" / "requirements.txt") is None
    assert find_own_snapshot(tmp_path / "gone") is None
    (tmp_path / "out" / "env.txt").write_text("A=b\n")
    assert find_own_snapshot(tmp_path / "out") is None


def test_several_runs_have_no_single_snapshot(tmp_path: Path) -> None:
    own = make_run(tmp_path, "wandb")
    shutil.copytree(own.parent, tmp_path / "wandb" / "run-20260119_000000-other")
    assert find_own_snapshot(tmp_path / "wandb") is None
    assert find_own_snapshot(own.parent) == own


@pytest.mark.parametrize(
    "linked", ["artifacts", "artifacts/reprobuild-snapshot", "artifacts/reprobuild-snapshot/capture.json"]
)
def test_no_link_of_a_run_is_followed_to_a_snapshot(linked: str, tmp_path: Path) -> None:
    own = make_run(tmp_path, "mlflow")
    run = own.parent.parent
    (run / linked).rename(tmp_path / "elsewhere")
    (run / linked).symlink_to(tmp_path / "elsewhere")
    assert find_own_snapshot(run) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 100_000, b'{"capture": 1, "repositories": "x"}'])
def test_a_damaged_snapshot_of_a_run_is_an_error(content: bytes, tmp_path: Path) -> None:
    """It is not passed over: the tracker's files would say less, and nobody would see it."""
    own = make_run(tmp_path, "wandb")
    (own / "capture.json").write_bytes(content)
    with open_snapshot(own.parent) as opened, pytest.raises(SnapshotError, match=r"capture\.json"):
        read_snapshot(opened)


def test_an_unfinished_snapshot_is_none(tmp_path: Path) -> None:
    own = make_run(tmp_path, "wandb")
    (own / "capture.json").unlink()
    assert find_own_snapshot(own.parent) is None
