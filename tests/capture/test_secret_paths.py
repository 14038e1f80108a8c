"""A token in the path of a file is in no byte of a snapshot, and a path that a commit names is reported."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reprobuild.config.overrides import Decisions
from reprobuild.ecosystems.git.restore.restore import restore_repository
from reprobuild.report.text import render_snapshot
from reprobuild.resolve.readiness import list_questions
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from tests.capture.repositories import ENV, content, document, git, locked, new_origin, own, take, write
from tests.capture.test_secrets import bundled, captured_bytes, run_program
from tests.snapshot.shapes import fill

TOKEN = fill("ghp_{a36}", random.Random(11))[0]
RULE = "github in its path"
PASSWORD = fill("Pw9{a17}", random.Random(12))[0]
COLON = ":"  # no search finds a login in this file
# Paths, each with the text that stands for it.
SECRET_NAMES = {
    f"new api_key={PASSWORD}I.py": "new api_key=***",
    f"api_key={PASSWORD}J.py": "api_key=***",
    f"x,password={PASSWORD}K.txt": "x,password=***",
    f"run --api-key {PASSWORD}N/x": "run --api-key ***",
    f"https:/me{COLON}{PASSWORD}M@h/x": "https:/***@h/x",
    f"new\npassword={PASSWORD}O": '"new\\npassword=***"',
}


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
        "code: 1 file of a repository not captured (clone/out-***/f.txt): "
        "rename each file that is shown with `***`, and capture again; to freeze without"
    )
    assert question.options == ("--accept 'clone/out-***/f.txt'",)


def test_a_path_that_any_rule_finds_is_not_shown(tmp_path: Path) -> None:
    """The rules for paths know more secrets than the tokens of vendors."""
    top = new_origin(tmp_path)
    for name in SECRET_NAMES:
        write(top, name, b"plain\n")
    out = tmp_path / "out"
    done = run_program(top, out)
    assert PASSWORD.encode() not in captured_bytes(out) + (done.stdout + done.stderr).encode()
    (one,) = document(out)["repositories"]
    assert sorted(file["path"] for file in one["left_out"]) == sorted(SECRET_NAMES.values())
    for file in one["left_out"]:
        assert (
            f"clone: {file['path']} was left out, its path looks like a secret ({file['rule']}): "
            "rename it, and capture again"
        ) in document(out)["notes"]
    shown = render_snapshot(read_snapshot(out))
    assert PASSWORD not in shown


def test_two_paths_that_look_the_same_are_two_files(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, f"api_key={PASSWORD}A.py", b"plain\n")
    write(top, f"api_key={PASSWORD}B.py", b"plain\n")
    write(top, "new.py", b"plain\n")
    git(top, "add", f"api_key={PASSWORD}B.py")
    out = tmp_path / "out"
    run_program(top, out)
    (one,) = document(out)["repositories"]
    assert [file["path"] for file in one["left_out"]] == ["api_key=***", "api_key=***"]
    assert one["left_out_count"] == 2
    snapshot = read_snapshot(out)
    answers = Decisions(python="3.11.2", accept=("no-apt-list",))
    (question,) = list_questions(snapshot, answers)
    assert question.text == (
        "code: 2 files of a repository not captured (clone/api_key=***, clone/api_key=***): "
        "rename each file that is shown with `***`, and capture again; to freeze without"
    )
    assert question.options == ("--accept 'clone/api_key=***'",)
    accepted = Decisions(python="3.11.2", accept=("no-apt-list", "clone/api_key=***"))
    assert not list(list_questions(snapshot, accepted))
    sources, rulings = locked(out, Store(tmp_path / "store"), own(out))
    assert [source.name for source in sources] == ["clone"]
    assert [ruling.subject for ruling in rulings if ruling.kind == "file-left-out"] == [
        "clone/api_key=***"
    ] * 2
    restore_repository(snapshot.captured.repositories, "clone", out, tmp_path / "again", ENV, own(out))
    assert {name for name in content(top) if b"api_key" not in name} == set(content(tmp_path / "again"))
    assert PASSWORD.encode() not in bundled(top, out)


@pytest.mark.parametrize("rule", ["too-large", "ignored", "pushed"])
def test_no_list_has_a_path_that_is_a_secret(rule: str, tmp_path: Path) -> None:
    """The lists of names that capture.json has for other reasons."""
    name = f"x,password={PASSWORD}.txt"
    top = new_origin(tmp_path, {name: b"one\n"} if rule == "pushed" else {"kept.py": b"one\n"})
    if rule == "pushed":
        (top / name).unlink()
    else:
        write(top, name, b"" if rule == "ignored" else bytes(11 << 20))
        write(top, ".gitignore", b"x,*\n" if rule == "ignored" else b"\n")
    out = tmp_path / "out"
    done = run_program(top, out)
    (one,) = document(out)["repositories"]
    lists = {
        "too-large": [file["path"] for file in one["left_out"]],
        "ignored": one["ignored"].get("paths"),
        "pushed": one["deleted"]["paths"],
    }
    assert lists[rule] == ["x,password=***"]
    assert PASSWORD.encode() not in (out / "capture.json").read_bytes() + done.stderr.encode()


def test_an_unpushed_path_of_any_rule_is_not_shown(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, f"x,password={PASSWORD}A.txt", b"plain\n")
    write(top, f"x,password={PASSWORD}B.txt", f"{TOKEN}\n".encode())
    git(top, "add", "-A")
    git(top, "commit", "-qm", "unpushed")
    commit = git(top, "rev-parse", "HEAD").decode().strip()
    done = run_program(top, tmp_path / "out")
    said = [line.partition(": ")[2] for line in done.stderr.splitlines() if ": a secret (" in line]
    path = (
        f"a secret (assigned-inside) in clone, the path x,password=*** of commit {commit[:12]}, which no remote "
        "has: it is in the bundle of this snapshot"
    )
    assert said.count(path) == 2
    assert len(said) == 3
    assert PASSWORD not in done.stderr + done.stdout + (tmp_path / "out" / "capture.json").read_text()


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


def test_a_changed_file_with_a_flag_is_left_out_for_its_path(tmp_path: Path) -> None:
    name = f"x,password={PASSWORD}.txt"
    top = new_origin(tmp_path, {name: b"one\n"})
    git(top, "update-index", "--assume-unchanged", name)
    write(top, name, b"two\n")
    out = tmp_path / "out"
    take(top, out)
    (one,) = document(out)["repositories"]
    assert [(file["path"], file["rule"]) for file in one["left_out"]] == [
        ("x,password=***", "assigned-inside in its path")
    ]
