from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import SnapshotError
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.import_snapshot import needs_import
from reprobuild.snapshot.read import read_snapshot
from tests.conftest import unreadable

RECIPE = (
    "take one with `reprobuild capture -o DIR`, or name the directory that holds env.txt and requirements.txt"
)
DIFF = "diff --git a/x b/x\nindex 0123456..89abcde 100644\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "snap"
    folder.mkdir()
    for name, content in {
        "requirements.txt": "six==1.16.0\n",
        "apt-packages.txt": "libx/stable,now 1.0 amd64 [installed]\n",
        "env.txt": "PATH=/bin\nHF_TOKEN=hunter2\n",
        "modules.txt": "Currently Loaded Modules:\n  1) a/1\n",
        "mine.diff": DIFF,
    }.items():
        (folder / name).write_text(content)
    return folder


def test_everything_is_read(folder: Path) -> None:
    snapshot = read_snapshot(folder)
    assert [r.name for r in snapshot.requirements] == ["six"]
    assert [p.name for p in snapshot.packages] == ["libx"]
    assert [v.name for v in snapshot.variables] == ["PATH", "HF_TOKEN"]
    assert [m.name for m in snapshot.modules] == ["a"]
    assert snapshot.absent == ()
    assert snapshot.patches[0].name == "mine"
    assert len(snapshot.digest) == 64
    assert b"hunter2" not in msgspec.json.encode(snapshot)


def test_a_snapshot_can_be_written_and_read_back(folder: Path) -> None:
    snapshot = read_snapshot(folder)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=type(snapshot)) == snapshot


def test_the_digest_follows_content_and_never_a_secret(folder: Path) -> None:
    first = read_snapshot(folder).digest
    assert read_snapshot(folder).digest == first
    (folder / "env.txt").write_text("PATH=/bin\nHF_TOKEN=another\n")
    (folder / "README.md").write_text("for people")
    assert read_snapshot(folder).digest == first
    (folder / "env.txt").write_text("PATH=/usr/bin\nHF_TOKEN=another\n")
    assert read_snapshot(folder).digest != first


def test_what_is_not_there_is_named(folder: Path) -> None:
    (folder / "mine.diff").unlink()
    (folder / "env.txt").unlink()
    assert read_snapshot(folder).absent == ("env.txt", "*.diff")


def test_unknown_files_are_remarked_and_ours_are_not(folder: Path) -> None:
    (folder / "notes.txt").write_text("x")
    (folder / "sub").mkdir()
    for name in ("reprobuild.yaml", "README", "readme.rst", "src.bundle"):
        (folder / name).write_text("x")
    remarks = read_snapshot(folder).remarks[-2:]
    assert [(r.place.file, r.understood) for r in remarks if "read" in r.reason] == [
        ("notes.txt", False),
        ("sub", False),
    ]


def test_no_folder(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="there is no directory") as err:
        read_snapshot(tmp_path / "none")
    assert err.value.hint == RECIPE
    (tmp_path / "requirements.txt").touch()
    with pytest.raises(SnapshotError, match="there is no directory") as err:
        read_snapshot(tmp_path / "requirement.txt")
    assert err.value.hint == f"did you mean `{tmp_path}/requirements.txt`?"


def test_a_file_instead_of_a_folder(folder: Path) -> None:
    with pytest.raises(SnapshotError, match="is a file") as err:
        read_snapshot(folder / "env.txt")
    assert err.value.hint == "name the directory that it stands in"


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="is empty") as err:
        read_snapshot(tmp_path)
    assert err.value.hint == RECIPE


def test_a_folder_around_the_right_one(folder: Path) -> None:
    with pytest.raises(SnapshotError, match="nothing captured") as err:
        read_snapshot(folder.parent)
    assert err.value.hint == f"did you mean `{folder}`?"


def test_a_folder_without_anything_captured(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("x")
    with pytest.raises(SnapshotError, match="nothing captured") as err:
        read_snapshot(tmp_path)
    assert err.value.hint == RECIPE


def test_links_that_leave_the_folder(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("SECRET=1\n")
    (folder / "env.txt").unlink()
    (folder / "env.txt").symlink_to(tmp_path / "outside")
    with pytest.raises(SnapshotError, match=r"`env.txt` is a link that leaves the directory") as err:
        read_snapshot(folder)
    assert err.value.hint == "put the file itself into the directory"


def test_links_that_stay(folder: Path) -> None:
    (folder / "env.txt").rename(folder / "reprobuild.yaml")
    (folder / "env.txt").symlink_to("reprobuild.yaml")
    assert read_snapshot(folder).variables


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_only_regular_files_are_opened(folder: Path, make: object) -> None:
    (folder / "env.txt").unlink()
    make(folder / "env.txt")
    with pytest.raises(SnapshotError, match="not a regular file") as err:
        read_snapshot(folder)
    assert err.value.hint == "put the captured text there, or remove it"


def test_a_loop_of_links(folder: Path) -> None:
    (folder / "env.txt").unlink()
    (folder / "env.txt").symlink_to("env.txt")
    with pytest.raises(SnapshotError, match=r"`env\.txt`"):
        read_snapshot(folder)


def test_a_huge_file_is_not_read(folder: Path) -> None:
    with (folder / "env.txt").open("wb") as file:
        file.truncate(text.LIMIT + 1)
    with pytest.raises(SnapshotError, match="MiB") as err:
        read_snapshot(folder)
    assert "what wrote it" in err.value.hint


def test_a_file_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, largest: int) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("reprobuild.snapshot.read.read_plain", refuse)
    with pytest.raises(SnapshotError, match="cannot be read: Permission denied") as err:
        read_snapshot(folder)
    assert err.value.hint == "check who owns it, and what it links to"


def test_a_folder_that_cannot_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> object:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(SnapshotError, match="cannot be read: Permission denied") as err:
        read_snapshot(folder)
    assert err.value.hint == "check who owns it"


def test_names_that_act_on_a_terminal_are_shown_as_escapes(folder: Path) -> None:
    (folder / "a\x1b[31m.txt").write_text("x")
    (folder / os.fsdecode(b"b\xff.diff")).write_text(DIFF)
    snapshot = read_snapshot(folder)
    assert all(r.place.file.isprintable() for r in snapshot.remarks)
    assert msgspec.json.encode(snapshot)


def test_a_snapshot_of_another_user_is_refused_by_its_name(tmp_path: Path) -> None:
    """`capture` makes private directories; a file in one that this user cannot see is no cause."""
    snapshot = tmp_path / "their snapshot"
    snapshot.mkdir()
    tmp_path.chmod(0o755)
    with (
        unreadable(snapshot),
        pytest.raises(SnapshotError, match="their snapshot` cannot be read") as caught,
    ):
        needs_import(snapshot)
    opening = "a snapshot is private: let its owner copy it, or open it: `chmod -R g+rX "
    assert caught.value.hint == f"{opening}'{snapshot}'`"
    subprocess.run(shlex.split(caught.value.hint.split("`")[-2]), check=True)
    assert not needs_import(snapshot)
