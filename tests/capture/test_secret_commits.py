"""A secret in the message or the names of a commit that no remote has is reported, as that of its files is."""

from __future__ import annotations

import random
from pathlib import Path
from unittest import mock

import pytest

from reprobuild.snapshot.read import read_snapshot
from reprobuild_runtime import capture
from tests.capture.repositories import ENV, document, git, new_origin, take, write
from tests.capture.test_secrets import run_program
from tests.snapshot.shapes import fill

TOKEN = fill("ghp_{a36}", random.Random(12))[0]
MESSAGE = f"first\n\ncurl -H 'Authorization: token {TOKEN}' x"


def commit(top: Path, *words: str) -> str:
    git(top, "commit", "-q", "--allow-empty", *words)
    return git(top, "rev-parse", "HEAD").decode().strip()


def make_signed_tag(top: Path, name: str, message: str) -> None:
    """Tag HEAD: git writes such a tag into a merge, if the tag seems to be signed."""
    head = git(top, "rev-parse", "HEAD").decode().strip()
    signature = "-----BEGIN PGP SIGNATURE-----\n\nabcd\n-----END PGP SIGNATURE-----"
    who = "Ada <ada@example.test> 0 +0000"
    text = f"object {head}\ntype commit\ntag {name}\ntagger {who}\n\n{message}\n{signature}\n"
    oid = git(top, "hash-object", "-t", "tag", "-w", "--stdin", stdin=text.encode()).decode().strip()
    git(top, "update-ref", f"refs/tags/{name}", oid)


@pytest.mark.parametrize("part", ["message", "author", "committer", "tag"])
def test_a_secret_of_an_unpushed_commit_is_named(part: str, tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    commit(top, "-m", "plain")
    if part == "message":
        named = commit(top, "-m", MESSAGE)
    elif part == "author":
        named = commit(top, "-m", "plain", f"--author=Ada <{TOKEN}@host.example>")
    elif part == "committer":
        with mock.patch.dict(ENV, {"GIT_COMMITTER_NAME": TOKEN}):
            named = commit(top, "-m", "plain")
    else:
        git(top, "checkout", "-qb", "side")
        commit(top, "-m", "side")
        make_signed_tag(top, "v1", MESSAGE)
        git(top, "checkout", "-q", "-")
        git(top, "merge", "-q", "--no-ff", "-m", "merged", "v1")
        named = git(top, "rev-parse", "HEAD").decode().strip()
    commit(top, "-m", "last")
    done = run_program(top, tmp_path / "out")
    (warning,) = document(tmp_path / "out")["warnings"]
    assert {name: warning[name] for name in ("repository", "file", "commit", "part")} == {
        "repository": "clone", "file": "", "commit": named, "part": part,
    }  # fmt: skip
    assert warning["rule"] in ("authorization-header", "github")
    said = [line.partition(": ")[2] for line in done.stderr.splitlines() if ": a secret (" in line]
    assert said == [
        f"a secret ({warning['rule']}) in clone, the {part} of commit {named[:12]}, which no remote has: "
        "it is in the bundle of this snapshot"
    ]
    assert TOKEN not in done.stderr + done.stdout
    assert TOKEN.encode() not in (tmp_path / "out" / "capture.json").read_bytes()
    read_snapshot(tmp_path / "out")


def test_the_value_of_a_secret_variable_is_named_in_a_message(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    named = commit(top, "-m", "run with Zq7-of-nobody")
    with mock.patch.dict(ENV, {"SOME_PASSWORD": "Zq7-of-nobody"}):
        take(top, tmp_path / "out")
    assert document(tmp_path / "out")["warnings"] == [
        {"repository": "clone", "file": "", "line": 1, "rule": "variable", "commit": named, "part": "message"}
    ]


def test_a_pushed_message_and_a_signature_are_not_named(tmp_path: Path) -> None:
    """A remote has the first; the second is public, and has any shape."""
    top = new_origin(tmp_path)
    commit(top, "-m", MESSAGE)
    git(top, "push", "-q", "origin", "HEAD")
    tree, parent = git(top, "rev-parse", "HEAD^{tree}", "HEAD").decode().split()
    who = "Ada <ada@example.test> 0 +0000"
    signature = f"gpgsig -----BEGIN PGP SIGNATURE-----\n \n {TOKEN}\n -----END PGP SIGNATURE-----"
    text = f"tree {tree}\nparent {parent}\nauthor {who}\ncommitter {who}\n{signature}\n\nplain\n"
    oid = git(top, "hash-object", "-t", "commit", "-w", "--stdin", stdin=text.encode()).decode().strip()
    git(top, "reset", "-q", "--hard", oid)
    write(top, "kept.py", b"changed\n")
    take(top, tmp_path / "out")
    (one,) = document(tmp_path / "out")["repositories"]
    assert (one["unpushed"], one["secrets"], one["unsearched"]) == (1, [], 0)
    assert TOKEN.encode() not in (tmp_path / "out" / "capture.json").read_bytes()


def test_messages_without_time_or_room_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = new_origin(tmp_path)
    commit(top, "-m", "x" * 20_000)
    monkeypatch.setattr(capture, "SEARCHED", 10_000)
    take(top, tmp_path / "out")
    (one,) = document(tmp_path / "out")["repositories"]
    assert one["unsearched"] == 1
    assert one["bundle"]["file"] == "clone.bundle"
