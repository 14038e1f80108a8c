"""A token in the path of a file is in no byte of a snapshot, and a path that a commit names is reported."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.resolve.readiness import list_questions
from reprobuild.snapshot.read import read_snapshot
from tests.capture.repositories import document, git, new_origin, take, write
from tests.capture.test_secrets import bundled, captured_bytes, run_program
from tests.snapshot.shapes import fill

TOKEN = fill("ghp_{a36}", random.Random(11))[0]
RULE = "github in its path"
PASSWORD = fill("Pw9{a17}", random.Random(12))[0]


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("name", [f"out-{TOKEN}/f.txt", f"{TOKEN}.txt", f"new\nline/{TOKEN}"])
def test_a_new_file_is_left_out(name: str, staged: bool, tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, name, b"plain\n")
    write(top, "new.py", b"plain\n")
    if staged:
        git(top, "add", "-A")
    out = tmp_path / "out"
    done = run_program(top, out)
    assert TOKEN.encode() not in bundled(top, out) + (done.stdout + done.stderr).encode()
    (one,) = document(out)["repositories"]
    assert [(file["reason"], file["rule"]) for file in one["left_out"]] == [
        ("secret", f"{RULE}, staged" if staged and not one["left_out"][0].get("bytes") else RULE)
    ]
    assert b"new.py" in git(top, "ls-tree", "-r", "--name-only", "refs/of/worktree").split()
    path = one["left_out"][0]["path"]
    assert "***" in path
    assert (
        f"clone: {path} was left out, its path looks like a secret ({one['left_out'][0]['rule']}): "
        "rename it, and capture again"
    ) in document(out)["notes"]
    assert one["diff"]["file"] == "clone.patch"
    read_snapshot(out)


def test_a_link_is_left_out(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    (top / f"link-{TOKEN}").symlink_to("kept.py")
    (top / f"staged-{TOKEN}").symlink_to("kept.py")
    git(top, "add", f"staged-{TOKEN}")
    out = tmp_path / "out"
    take(top, out)
    (one,) = document(out)["repositories"]
    assert [file["path"] for file in one["left_out"]] == ["link-***", "staged-***"]
    assert one["bundle"] is None
    assert TOKEN.encode() not in captured_bytes(out)


@pytest.mark.parametrize("change", ["write", "remove", "rename"])
def test_a_pushed_path_is_in_no_diff(change: str, tmp_path: Path) -> None:
    """A diff would name the path, and no reader takes a diff with a secret."""
    top = new_origin(tmp_path, {f"out-{TOKEN}/f.txt": b"one\n", "kept.py": b"one\n"})
    write(top, "kept.py", b"changed\n")
    place = top / f"out-{TOKEN}" / "f.txt"
    if change == "write":
        place.write_bytes(b"two\n")
    elif change == "remove":
        place.unlink()
    else:
        place.rename(top / "f.txt")
    out = tmp_path / "out"
    take(top, out)
    (one,) = document(out)["repositories"]
    if change == "write":
        assert [(file["path"], file["rule"]) for file in one["left_out"]] == [("out-***/f.txt", RULE)]
        assert one["diff"]["file"] == "clone.patch"
    else:
        assert (one["diff"]["file"], one["diff"]["reason"]) == (None, "secret")
        assert (
            f"clone: there is no diff, as it would name out-***/f.txt, which looks like a secret ({RULE}): "
            "the bundle has the change"
        ) in document(out)["notes"]
    assert not [
        path for path in out.iterdir() if path.suffix != ".bundle" and TOKEN.encode() in path.read_bytes()
    ]
    read_snapshot(out)


def test_an_unpushed_path_is_named_with_its_commit(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, f"out-{TOKEN}/f.txt", b"plain\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "unpushed")
    commit = git(top, "rev-parse", "HEAD").decode().strip()
    done = run_program(top, tmp_path / "out")
    said = [line.partition(": ")[2] for line in done.stderr.splitlines() if ": a secret (" in line]
    assert said == [
        f"a secret (github) in clone, the path out-***/f.txt of commit {commit[:12]}, which no remote has: "
        "it is in the bundle of this snapshot"
    ]
    assert TOKEN not in done.stderr + done.stdout
    (one,) = document(tmp_path / "out")["repositories"]
    assert one["diff"]["reason"] == "secret"
    read_snapshot(tmp_path / "out")


def test_an_accepted_path_is_captured_without_a_diff(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, f"out-{TOKEN}/f.txt", b"plain\n")
    done = run_program(top, tmp_path / "out", "--accept", f"clone/out-{TOKEN}/f.txt")
    said = [line.partition(": ")[2] for line in done.stderr.splitlines() if ": a secret (" in line]
    assert said == ["a secret (github) in clone, the path out-***/f.txt: a build will refuse it"]
    (one,) = document(tmp_path / "out")["repositories"]
    assert (one["left_out"], one["diff"]["reason"]) == ([], "secret")
    assert TOKEN.encode() in bundled(top, tmp_path / "out")
    read_snapshot(tmp_path / "out")


def test_no_option_repeats_a_path_that_is_a_secret(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, f"out-{TOKEN}/f.txt", b"plain\n")
    run_program(top, tmp_path / "out")
    answers = Decisions(python="3.11.2", accept=("no-apt-list",))
    (question,) = list_questions(read_snapshot(tmp_path / "out"), answers)
    assert question.text == (
        "code: 1 file of a repository not captured (clone/out-***/f.txt): to freeze without"
    )
    assert question.options == ("--accept 'clone/out-***/f.txt'",)


@pytest.mark.parametrize("state", ["new", "staged", "changed", "staged change", "intended"])
def test_a_link_with_a_secret_target_is_left_out(state: str, tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    if "change" in state:
        (top / "link").symlink_to("kept.py")
        git(top, "add", "link")
        git(top, "commit", "-qm", "link")
        (top / "link").unlink()
    (top / "link").symlink_to(f"https://me:{PASSWORD}@host/x")
    write(top, "new.py", b"plain\n")
    if "staged" in state:
        git(top, "add", "link")
    if state == "intended":
        git(top, "add", "-N", "link")
    out = tmp_path / "out"
    done = run_program(top, out)
    assert PASSWORD.encode() not in bundled(top, out) + (done.stdout + done.stderr).encode()
    (one,) = document(out)["repositories"]
    (file,) = one["left_out"]
    assert (file["path"], file["reason"], file["rule"]) == ("link", "secret", "url-credential in line 1")
    assert (
        "clone: link was left out, it looks like a secret (url-credential in line 1): "
        "`--accept clone/link` captures it"
    ) in document(out)["notes"]
    assert one["diff"]["file"] == "clone.patch"
    assert document(out)["warnings"] == []


def test_an_accepted_link_is_captured(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    (top / "link").symlink_to(f"https://me:{PASSWORD}@host/x")
    run_program(top, tmp_path / "out", "--accept", "clone/link")
    (one,) = document(tmp_path / "out")["repositories"]
    assert one["left_out"] == []
    assert PASSWORD.encode() in bundled(top, tmp_path / "out")
