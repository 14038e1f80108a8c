"""Particular repositories: inner ones, conflicts, LFS, budgets, hostile configuration."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reprobuild.ecosystems.git.restore.restore import restore_repository
from reprobuild.errors import SnapshotError
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild_runtime import capture
from tests.capture.repositories import (
    BASE,
    ENV,
    LEAN,
    content,
    document,
    git,
    inside,
    new_origin,
    proved,
    run_program,
    status,
    take,
    write,
)
from tests.capture.test_secrets import captured_bytes
from tests.conftest import reprobuild
from tests.snapshot.samples import SECRETS


def record(out: Path, number: int = 0) -> dict[str, object]:
    found: dict[str, object] = document(out)["repositories"][number]
    return found


def test_a_clean_pushed_repository_needs_no_bundle(tmp_path: Path) -> None:
    out = proved(new_origin(tmp_path), tmp_path, tmp_path / "origin.git")
    assert record(out)["bundle"] is None
    assert sorted(path.name for path in out.iterdir()) == ["capture.json"]


def test_unpushed_commits_travel_with_their_ids(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    for number in range(3):
        write(top, "kept.py", b"%d\n" % number)
        git(top, "commit", "-qam", f"change {number}")
    out = proved(top, tmp_path, tmp_path / "origin.git")
    assert record(out)["unpushed"] == 3
    assert git(tmp_path / "again", "log", "--format=%H %s %an") == git(top, "log", "--format=%H %s %an")
    assert git(tmp_path / "again", "symbolic-ref", "HEAD") == git(top, "symbolic-ref", "HEAD")


def test_people_can_use_the_bundle_with_git_alone(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    write(top, "new file", b"untracked\n")
    out = proved(top, tmp_path, tmp_path / "origin.git")
    git(tmp_path, "clone", "-q", tmp_path / "origin.git", "by-hand")
    git(tmp_path / "by-hand", "fetch", "-q", out / "clone.bundle", "refs/reprobuild/worktree")
    git(tmp_path / "by-hand", "checkout", "-q", "FETCH_HEAD")
    assert content(tmp_path / "by-hand") == content(top)
    git(tmp_path, "clone", "-q", tmp_path / "origin.git", "patched")
    git(tmp_path / "patched", "apply", out / "clone.patch")
    assert content(tmp_path / "patched") == content(top)


def with_submodule(folder: Path) -> Path:
    library = folder / "library"
    library.mkdir()
    new_origin(library, {"lib.c": b"int x;\n", "docs/a": b"a\n"})
    top = new_origin(folder)
    git(top, "submodule", "add", "-q", library / "origin.git", "third party/lib")
    git(top, "commit", "-qm", "submodule")
    git(top, "push", "-q")
    return top


@pytest.mark.parametrize("state", ["clean", "changed", "untracked", "committed", "staged", "empty", "gone"])
def test_submodules(state: str, tmp_path: Path) -> None:
    top = with_submodule(tmp_path)
    inner = top / "third party" / "lib"
    if state in ("changed", "committed", "staged"):
        write(inner, "lib.c", b"int y;\n")
    if state == "untracked":
        write(inner, "new", b"new\n")
    if state in ("committed", "staged"):
        git(inner, "commit", "-qam", "inside")
    if state == "staged":
        git(top, "add", "third party/lib")
    if state in ("empty", "gone"):
        git(top, "submodule", "deinit", "-q", "-f", "third party/lib")
    if state == "gone":
        inner.rmdir()
    out = proved(top, tmp_path, tmp_path / "origin.git", {"lib": str(tmp_path / "library" / "origin.git")})
    again = tmp_path / "again" / "third party" / "lib"
    if state not in ("empty", "gone"):
        assert record(out, 1)["parent"] == "clone"
        assert content(again) == content(inner)
        assert status(again) == status(inner)


def test_a_repository_inside_that_is_no_submodule(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    inner = top / "vendor" / "thing"
    inner.mkdir(parents=True)
    git(inner, "init", "-q", ".")
    write(inner, "a", b"a\n")
    git(inner, "add", "-A")
    git(inner, "commit", "-qm", "a")
    write(inner, "a", b"b\n")
    proved(top, tmp_path, tmp_path / "origin.git")
    assert status(tmp_path / "again" / "vendor" / "thing") == status(inner) != b""


def test_a_merge_with_conflicts(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    for branch, text in (("one", b"one side\n"), ("two", b"other side\n")):
        git(top, "checkout", "-q", "-b", branch, "main")
        write(top, "kept.py", text)
        write(top, "both added", text)
        git(top, "rm", "-q", "run.sh") if branch == "two" else write(top, "run.sh", b"changed\n")
        git(top, "add", "-A")
        git(top, "commit", "-qm", branch)
    git(top, "merge", "-q", "one", fails=True)
    assert status(top).count(b"u ") >= 3
    proved(top, tmp_path, tmp_path / "origin.git")


def test_other_hashes_of_git(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    git(top, "init", "-q", "--object-format=sha256", ".")
    write(top, "a", b"a\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "a")
    write(top, "a", b"b\n")
    (top / "b").symlink_to("a")
    proved(top, tmp_path, None)


def test_large_files_of_lfs_are_their_pointers(tmp_path: Path) -> None:
    content_ = b"weights" * 100
    oid = hashlib.sha256(content_).hexdigest()
    pointer = (
        b"version https://git-lfs.github.com/spec/v1\n"
        b"oid sha256:" + oid.encode() + b"\nsize " + str(len(content_)).encode() + b"\n"
    )
    top = new_origin(
        tmp_path, {".gitattributes": b"*.bin filter=lfs diff=lfs merge=lfs -text\n", "w.bin": pointer}
    )
    for key in ("clean", "smudge"):  # they are not there
        git(top, "config", f"filter.lfs.{key}", "git-lfs-of-nobody")
    git(top, "config", "filter.lfs.required", "true")
    write(top, "w.bin", content_)
    # As after `git lfs pull`: the index knows the file on the disk.
    git(top, "-c", "filter.lfs.clean=cat >/dev/null; git cat-file blob :w.bin", "add", "w.bin")
    out = tmp_path / "snapshot"
    repositories = take(top, out)
    assert record(out)["lfs"] == [{"path": "w.bin", "sha256": oid, "bytes": len(content_)}]
    assert record(out)["bundle"] is None
    restore_repository(
        repositories, "clone", out, tmp_path / "again", ENV, {"clone": str(tmp_path / "origin.git")}
    )
    assert (tmp_path / "again" / "w.bin").read_bytes() == pointer


def test_what_other_filters_hide_stays_hidden(tmp_path: Path) -> None:
    """git-crypt keeps the encrypted form; what it decrypted on the disk must not travel."""
    top = new_origin(tmp_path, {".gitattributes": b"hidden filter=crypt\n", "hidden": b"ENCRYPTED\n"})
    git(top, "config", "filter.crypt.clean", f"touch {tmp_path}/ran; cat")
    write(top, "hidden", b"the decrypted text\n")
    out = tmp_path / "snapshot"
    take(top, out)
    assert record(out)["left_out"] == [{"path": "hidden", "reason": "filtered", "bytes": 19}]
    assert not (tmp_path / "ran").exists()
    assert not list(out.glob("*.bundle"))
    assert not list(out.glob("*.patch"))


def test_untracked_and_unmerged_files_behind_a_filter_are_named(tmp_path: Path) -> None:
    top = new_origin(tmp_path, {".gitattributes": b"*.key filter=crypt\n", "torn.key": b"ENCRYPTED\n"})
    for branch, text in (("one", b"ENCRYPTED one\n"), ("two", b"ENCRYPTED two\n")):
        git(top, "checkout", "-q", "-b", branch, "main")
        write(top, "torn.key", text)
        git(top, "commit", "-qam", branch)
    git(top, "merge", "-q", "one", fails=True)
    git(top, "config", "filter.crypt.clean", f"touch {tmp_path}/ran; cat")
    write(top, "torn.key", b"the decrypted one\n")
    write(top, "new.key", b"the decrypted one\n")
    write(top, "new.py", b"plain\n")
    (top / "link.key").symlink_to("new.py")
    out = tmp_path / "snapshot"
    take(top, out)
    found = record(out)
    assert found["left_out"] == [
        {"path": "torn.key", "reason": "filtered", "bytes": 18},
        {"path": "new.key", "reason": "filtered", "bytes": 18},
    ]
    assert found["untracked"] == {"count": 2, "paths": ["link.key", "new.py"]}
    assert b"the decrypted one" not in captured_bytes(out)
    assert not (tmp_path / "ran").exists()


def test_files_in_a_submodule_that_was_not_initialised_are_named(tmp_path: Path) -> None:
    top = with_submodule(tmp_path)
    git(top, "submodule", "deinit", "-q", "-f", "third party/lib")
    write(top, "third party/lib/deep/work.c", b"int lost;\n")
    out = tmp_path / "snapshot"
    take(top, out)
    assert record(out)["left_out"] == [{"path": "third party/lib/", "reason": "not-initialised"}]


def test_a_remote_that_is_a_folder_of_this_machine_is_noted(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    take(top, tmp_path / "snapshot")
    base = git(top, "rev-parse", "HEAD").decode().strip()
    assert document(tmp_path / "snapshot")["notes"] == [
        f"clone: commit {base} and those before it are with no remote but {tmp_path}/origin.git, a directory of this "
        "machine: keep it"
    ]
    git(top, "remote", "add", "far", "https://git.example/r.git")
    take(top, tmp_path / "still")
    assert record(tmp_path / "still")["only_here"] == f"{tmp_path}/origin.git"
    git(top, "update-ref", "refs/remotes/far/main", "HEAD")
    take(top, tmp_path / "far")
    assert document(tmp_path / "far")["notes"] == []


def test_more_remotes_than_a_reader_takes(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    config = top / ".git" / "config"
    many = "".join(f'[remote "r{number}"]\n\turl = https://example.org/{number}\n' for number in range(1000))
    config.write_text(many + config.read_text())
    take(top, tmp_path / "out")
    (found,) = document(tmp_path / "out")["repositories"]
    names = [remote["name"] for remote in found["remotes"]]
    assert names == ["origin", *(f"r{number}" for number in range(999))]
    note = f"{found['name']}: 1000 of its 1001 remotes are in capture.json"
    assert note in document(tmp_path / "out")["notes"]
    assert len(load_capture(tmp_path / "out").repositories[0].remotes) == 1000


def test_work_that_was_left_out_is_said_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = new_origin(tmp_path)
    for number in range(5):
        write(top, f"large {number}", b"x" * (capture.UNTRACKED_FILE + number + 1))
    done = run_program("-o", tmp_path / "out", env=LEAN, cwd=top)
    assert done.returncode == 0
    line = "clone: 5 files are not in the snapshot: large 4 (too-large), large 3 (too-large), large 2 (too-large), ..."
    assert f"reprobuild capture: {line}\n" in done.stderr
    shown = reprobuild("show", tmp_path / "out")
    for number in range(5):
        assert f"not captured  clone: large {number}: too-large\n" in shown.stdout


def test_what_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "UNTRACKED_FILE", 1000)
    monkeypatch.setattr(capture, "UNTRACKED_TOTAL", 2500)
    monkeypatch.setattr(capture, "UNTRACKED_COUNT", 4)
    top = new_origin(tmp_path)
    write(top, "large", b"x" * 1001)
    for number in range(3):
        write(top, f"middle {number}", b"x" * 900)
    for number in range(3):
        write(top, f"small {number}", b"y")
    out = tmp_path / "snapshot"
    take(top, out)
    found = record(out)
    assert found["untracked"] == {"count": 4, "paths": ["middle 0", "small 0", "small 1", "small 2"]}
    assert found["left_out"] == [
        {"path": "middle 1", "reason": "too-many", "bytes": 900},
        {"path": "middle 2", "reason": "too-many", "bytes": 900},
        {"path": "large", "reason": "too-many", "bytes": 1001},
    ]
    monkeypatch.setattr(capture, "UNTRACKED_COUNT", 100)
    take(top, tmp_path / "second")
    assert record(tmp_path / "second")["left_out"] == [
        {"path": "middle 2", "reason": "too-large", "bytes": 900},
        {"path": "large", "reason": "too-large", "bytes": 1001},
    ]


def test_a_bundle_or_diff_that_is_too_large_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    top = new_origin(tmp_path)
    write(top, "new", os.urandom(5000))
    monkeypatch.setattr(capture, "DIFF", 1000)
    take(top, tmp_path / "snapshot")
    assert record(tmp_path / "snapshot")["diff"]["reason"] == "too-large"  # type: ignore[index]  # it is JSON
    monkeypatch.setattr(capture, "BUNDLE", 1000)
    take(top, tmp_path / "second")
    assert record(tmp_path / "second")["bundle"]["reason"] == "too-large"  # type: ignore[index]  # it is JSON
    with pytest.raises(SnapshotError, match=r"not captured \(too-large\)"):
        restore_repository(
            load_capture(tmp_path / "second").repositories,
            "clone",
            tmp_path / "second",
            tmp_path / "again",
            ENV,
        )


def test_ignored_files_are_left_out_and_said(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, ".gitignore", b"build/\n*.log\n")
    write(top, "build/x", b"x")
    write(top, "a.log", b"x")
    out = proved(top, tmp_path, tmp_path / "origin.git")
    assert record(out)["ignored"] == {"count": 2, "paths": ["a.log", "build/"]}


def test_special_files_and_unreadable_ones_are_named(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    (top / "kept.py").unlink()
    os.mkfifo(top / "kept.py")
    out = tmp_path / "snapshot"
    take(top, out)
    assert record(out)["left_out"] == [{"path": "kept.py", "reason": "special-file"}]


@pytest.mark.parametrize(
    ("key", "attributes"),
    [
        ("core.fsmonitor", b""),
        ("core.pager", b""),
        ("core.sshCommand", b""),
        ("core.editor", b""),
        ("core.askPass", b""),
        ("credential.helper", b""),
        ("diff.external", b""),
        ("gpg.program", b""),
        ("core.alternateRefsCommand", b""),
        ("diff.evil.command", b"* diff=evil\n"),
        ("diff.evil.textconv", b"* diff=evil\n"),
        ("filter.evil.clean", b"* filter=evil\n"),
        ("filter.evil.process", b"* filter=evil\n"),
        ("filter.evil.smudge", b"* filter=evil\n"),
        ("merge.evil.driver", b"* merge=evil\n"),
        ("submodule.lib.update", b""),
        ("alias.ls-files", b""),
    ],
)
def test_nothing_that_a_configuration_names_is_run(key: str, attributes: bytes, tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    write(top, "kept.py", b"changed\n")
    write(top, "new", b"new\n")
    write(top, ".git/info/attributes", attributes)
    git(top, "config", key, f"!{evil}" if key.startswith(("alias", "credential", "submodule")) else str(evil))
    for hook in (
        "post-index-change",
        "pre-commit",
        "reference-transaction",
        "post-checkout",
        "fsmonitor-watchman",
    ):
        write(top, f".git/hooks/{hook}", evil.read_bytes())
        (top / ".git" / "hooks" / hook).chmod(0o755)
    take(top, tmp_path / "snapshot")
    assert not (tmp_path / "ran").exists()


SIGNED = b"""tree %s
author a <a@b.invalid> 0 +0000
committer a <a@b.invalid> 0 +0000
gpgsig -----BEGIN %s-----
 abcd
 -----END %s-----

signed
"""
SIGNATURES = [
    ("gpg.program", b"PGP SIGNATURE"), ("gpg.openpgp.program", b"PGP SIGNATURE"),
    ("gpg.x509.program", b"SIGNED MESSAGE"), ("gpg.ssh.program", b"SSH SIGNATURE"),
]  # fmt: skip


@pytest.mark.parametrize(("key", "kind"), SIGNATURES)
def test_no_program_looks_at_a_signature(key: str, kind: bytes, tmp_path: Path) -> None:
    """The commit of a secret is looked up among commits that somebody signed."""
    top = tmp_path / "clone"
    top.mkdir()
    git(top, "init", "-q", ".")
    write(top, "settings.py", f'token = "{SECRETS["github"]}"\n'.encode())
    git(top, "add", "-A")
    said = SIGNED % (git(top, "write-tree").strip(), kind, kind)
    commit = git(top, "hash-object", "-t", "commit", "-w", "--stdin", stdin=said).decode().strip()
    git(top, "update-ref", "HEAD", commit)
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    evil.chmod(0o755)
    git(top, "config", key, evil)
    git(top, "config", "log.showSignature", "true")
    git(top, "config", "gpg.ssh.allowedSignersFile", evil)
    write(top, "new", b"new\n")
    take(top, tmp_path / "snapshot")
    assert not (tmp_path / "ran").exists()
    (secret,) = document(tmp_path / "snapshot")["repositories"][0]["secrets"]
    assert (secret["file"], secret["commit"]) == ("settings.py", commit)
    git(top, "log", fails=True)  # the control: git itself starts it, and can end by it as it reads nothing
    assert (tmp_path / "ran").exists()


def test_the_hostile_configuration_of_these_tests_works(tmp_path: Path) -> None:
    """The control of the test above: plain git does run it."""
    top = new_origin(tmp_path)
    git(top, "config", "filter.evil.clean", f"touch {tmp_path}/ran; cat")
    write(top, ".git/info/attributes", b"* filter=evil\n")
    write(top, "kept.py", b"changed\n")
    git(top, "diff")
    assert (tmp_path / "ran").exists()


SETTINGS = {
    "color.ui": "always", "color.diff": "always", "diff.noprefix": "true", "diff.mnemonicPrefix": "true",
    "core.abbrev": "4", "diff.context": "0", "diff.renames": "copies", "diff.suppressBlankEmpty": "true",
    "diff.algorithm": "patience", "diff.submodule": "log", "diff.ignoreSubmodules": "all", "core.quotePath": "false",
    "core.bigFileThreshold": "1", "core.safecrlf": "true", "status.showUntrackedFiles": "no",
    "core.whitespace": "cr-at-eol",
    "diff.orderFile": "/nonexistent", "diff.wsErrorHighlight": "all", "apply.whitespace": "fix", "index.version": "4",
    "core.untrackedCache": "true", "pack.compression": "0", "commit.gpgSign": "true", "feature.manyFiles": "true",
}  # fmt: skip


def test_settings_of_the_user_do_not_change_what_is_captured(tmp_path: Path) -> None:
    top = new_origin(
        tmp_path, {"kept.py": b"one\n\n\ntwo \nthree\n", "dir/inner.py": b"two\n" * 20, "run.sh": b"x\n"}
    )
    (top / "copy.py").write_bytes((top / "dir" / "inner.py").read_bytes())
    write(top, "kept.py", b"one\n\n\ntwo \r\nfour\n")
    git(top, "mv", "run.sh", "moved.sh")
    write(top, "new", b"new\n")
    for key, value in SETTINGS.items():
        git(top, "config", key, value)
    git(top, "update-index", "--force-write-index")
    out = tmp_path / "snapshot"
    repositories = take(top, out)
    restore_repository(
        repositories, "clone", out, tmp_path / "again", ENV, {"clone": str(tmp_path / "origin.git")}
    )
    assert content(tmp_path / "again") == content(top)
    for key in SETTINGS:
        git(top, "config", "--unset", key)
    assert status(tmp_path / "again") == status(top)
    git(tmp_path, "clone", "-q", tmp_path / "origin.git", "patched")
    git(tmp_path / "patched", "apply", "--whitespace=nowarn", out / "clone.patch")
    assert content(tmp_path / "patched") == content(top)


def test_variables_of_git_do_not_lead_elsewhere(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    elsewhere = {
        "GIT_DIR": "/nonexistent", "GIT_INDEX_FILE": "/nonexistent/index", "GIT_WORK_TREE": "/",
        "GIT_TRACE": str(tmp_path / "trace"),
        "GIT_TRACE2_EVENT": str(tmp_path / "trace"), "GIT_EXTERNAL_DIFF": "false", "GIT_DIFF_OPTS": "-u0",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": f"touch {tmp_path}/trace",
        "GIT_OBJECT_DIRECTORY": "/nonexistent", "GIT_NAMESPACE": "x", "GIT_CEILING_DIRECTORIES": str(tmp_path),
    }  # fmt: skip
    with mock.patch.dict(ENV, elsewhere):
        repositories = take(top, tmp_path / "snapshot")
    assert not (tmp_path / "trace").exists()
    origins = {"clone": str(tmp_path / "origin.git")}
    restore_repository(repositories, "clone", tmp_path / "snapshot", tmp_path / "again", ENV, origins)
    assert content(tmp_path / "again") == content(top)


def test_a_work_tree_elsewhere_is_not_believed(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    private = tmp_path / "private"
    private.mkdir()
    (private / "diary").write_text("mine\n")
    git(top, "config", "core.worktree", private)
    out = tmp_path / "snapshot"
    take(top, out)
    assert record(out)["untracked"] == {"count": 0, "paths": []}


def test_a_filter_that_cannot_be_switched_off_ends_the_part(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    git(top, "config", "filter.a=b.clean", "true")
    context = capture.Context(dict(ENV), 1e12, str(tmp_path), program=False)
    with pytest.raises(capture.GaveUpError, match="cannot be switched off"):
        capture.take_repository(context, str(top), "top", installed=True)


def test_a_folder_that_only_looks_like_a_repository(tmp_path: Path) -> None:
    (tmp_path / ".git").write_text("nothing\n")
    context = capture.Context(dict(ENV), 1e12, str(tmp_path), program=False)
    with pytest.raises(capture.GaveUpError, match="no git directory"):
        capture.take_repository(context, str(tmp_path), "top", installed=True)


def test_without_git_the_part_fails_and_says_so(tmp_path: Path) -> None:
    context = capture.Context({"PATH": str(tmp_path)}, 1e12, str(tmp_path), program=False)
    with pytest.raises(capture.GaveUpError, match="git is not on PATH"):
        capture.take_repository(context, str(new_origin(tmp_path)), "top", installed=True)


def test_a_home_folder_full_of_files_does_not_cost_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    write(top, "new", b"new\n")
    monkeypatch.setattr(capture, "LISTING", -1.0)
    take(top, tmp_path / "snapshot")
    found = record(tmp_path / "snapshot")
    assert found["left_out"] == [{"path": ".", "reason": "timed-out"}]
    assert found["ignored"] == {"reason": "timed-out"}
    assert found["changed"] == {"count": 1, "paths": ["kept.py"]}


@pytest.mark.parametrize("index", ["--no-sparse-index", "--sparse-index"])
def test_sparse_work_trees(index: str, tmp_path: Path) -> None:
    files = {f"{folder}/{number}": b"%d\n" % number for folder in ("a", "b/c", "b/d") for number in range(3)}
    top = new_origin(tmp_path, {"root": b"root\n", **files})
    git(top, "sparse-checkout", "set", "--cone", index, "b/c")
    write(top, "b/c/0", b"changed\n")
    assert not (top / "a").exists()
    # With a sparse index, each git sets the times of the trees that it looks into.
    proved(top, tmp_path, tmp_path / "origin.git", times=index == "--no-sparse-index")


@pytest.mark.parametrize("how", ["--shared", "--reference"])
def test_objects_of_other_repositories(how: str, tmp_path: Path) -> None:
    """They may be private: the user admits them by git's own setting."""
    new_origin(tmp_path)
    words = ("--shared",) if how == "--shared" else ("--reference", tmp_path / "origin.git")
    git(tmp_path, "clone", "-q", *words, tmp_path / "source", "borrowed")
    write(tmp_path / "borrowed", "kept.py", b"changed\n")
    git(tmp_path / "borrowed", "commit", "-qam", "unpushed")
    settings = tmp_path / "settings"
    hint = f"`git config --global --add safe.directory {tmp_path / 'borrowed'}` admits them"
    refused(tmp_path / "borrowed", tmp_path / "refused", hint)
    git(tmp_path, "config", "--file", settings, "safe.directory", tmp_path / "borrowed")
    with mock.patch.dict(ENV, GIT_CONFIG_GLOBAL=str(settings)):
        out = proved(tmp_path / "borrowed", tmp_path, tmp_path / "source")
    notes = document(out)["notes"]
    assert any(note.startswith(f"borrowed has objects of other repositories: {tmp_path}/") for note in notes)


def test_a_shallow_clone_whose_remote_is_gone(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"second\n")
    git(top, "commit", "-qam", "second")
    git(top, "push", "-q")
    git(tmp_path, "clone", "-q", "--depth", "1", f"file://{tmp_path}/origin.git", "shallow")
    git(tmp_path / "shallow", "remote", "remove", "origin")
    write(tmp_path / "shallow", "new", b"new\n")
    proved(tmp_path / "shallow", tmp_path, None)
    assert (tmp_path / "again" / ".git" / "shallow").read_bytes() == (
        tmp_path / "shallow/.git/shallow"
    ).read_bytes()


def test_odd_places_of_repositories(tmp_path: Path) -> None:
    """Names that end lists of directories, begin comments and need quotes."""
    odd = tmp_path / '#a:b"c\\d\ne'
    odd.mkdir()
    top = new_origin(odd)
    write(top, "kept.py", b"changed\n")
    proved(top, tmp_path, odd / "origin.git")


def taken(top: Path, out: Path, **more: str) -> dict[str, Any]:
    """Capture the repository of a working directory, whatever comes of it, and return the document."""
    env = mock.patch.dict(os.environ, {**ENV, **more}, clear=True)
    with mock.patch.object(capture, "PARTS", ()), env, inside(top):
        report = capture.capture(str(out))
    assert report["captured"]
    found = document(out)
    assert report["notes"] == found["notes"]  # they are printed
    return found


def refused(top: Path, out: Path, said: str) -> None:
    """Capture a directory that leads to a private repository; nothing of that is taken, and the reason is said."""
    found = taken(top, out)
    assert found["repositories"] == []
    (note,) = found["notes"]
    assert note.startswith(f"repository {top.name} was left out: ")
    assert said in note
    assert {path.suffix for path in out.iterdir()} <= {".json", ".txt"}
    assert b"secret plan" not in b"".join(path.read_bytes() for path in out.iterdir())


@pytest.fixture
def private(tmp_path: Path) -> Path:
    """A repository with a commit that was never pushed."""
    folder = tmp_path / "private"
    folder.mkdir()
    top = new_origin(folder)
    write(top, "plan", b"secret plan\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "secret plan")
    return top


def test_a_repository_of_another_user(tmp_path: Path) -> None:
    """git itself refuses it as dubious, but not where it is given `--git-dir`."""
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    for path in (top, *top.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    assert git(top, "status", "--porcelain", fails=True) == b""
    hint = f"`git config --global --add safe.directory {top}` trusts it"
    refused(top, tmp_path / "foreign", f"it belongs to another user: {hint}")
    settings = tmp_path / "settings"
    settings.touch()
    for number, value in enumerate((str(top), "*", f"{tmp_path}/*")):
        git(tmp_path, "config", "--file", settings, "safe.directory", value)
        found = taken(top, tmp_path / f"trusted{number}", GIT_CONFIG_GLOBAL=str(settings))
        assert found["repositories"][0]["changed"] == {"count": 1, "paths": ["kept.py"]}
    git(tmp_path, "config", "--file", settings, "safe.directory", "/elsewhere")
    assert taken(top, tmp_path / "other", GIT_CONFIG_GLOBAL=str(settings))["repositories"] == []
    assert taken(top, tmp_path / "sudo", SUDO_UID="65534")["repositories"] != []


def test_a_hint_with_the_name_of_a_foreign_directory_runs_no_command(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    top = new_origin(tmp_path / "clone").rename(tmp_path / "r$(touch${IFS}here)")
    for path in (top, *top.rglob("*")):
        os.chown(path, 65534, 65534, follow_symlinks=False)
    home = tmp_path / "home"
    home.mkdir()
    (note,) = taken(top, tmp_path / "foreign")["notes"]
    words = note.split("`")[1]
    assert words == f"git config --global --add safe.directory '{top}'"
    subprocess.run(["sh", "-c", words], cwd=tmp_path, env={**os.environ, "HOME": str(home)}, check=True)
    assert not (tmp_path / "here").exists()
    found = taken(top, tmp_path / "trusted", GIT_CONFIG_GLOBAL=str(home / ".gitconfig"))
    assert [one["outcome"] for name, one in found["parts"].items() if "repositor" in name] != ["untrusted"]
    assert found["repositories"] != []


def test_each_part_of_a_repository_belongs_to_the_user(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    for number, path in enumerate((top, top / ".git")):
        os.chown(path, 65534, 65534)
        refused(top, tmp_path / f"foreign{number}", "it belongs to another user")
        os.chown(path, os.geteuid(), os.getegid())


def test_a_private_repository_that_a_directory_leads_to_is_left_out(tmp_path: Path, private: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    (job / ".git").write_text(f"gitdir: {private / '.git'}\n")
    refused(job, tmp_path / "file", f"`git config core.worktree {job}` in that repository makes it that")
    (job / ".git").unlink()
    (job / ".git").symlink_to(private / ".git")
    refused(job, tmp_path / "link", "is the git directory of another directory")
    git(private, "config", "core.worktree", job)  # what the hint says
    assert taken(job, tmp_path / "claimed")["repositories"][0]["head"]


def test_a_private_repository_that_a_part_of_a_git_folder_leads_to_is_left_out(
    tmp_path: Path, private: Path
) -> None:
    job = tmp_path / "job"
    job.mkdir()
    git(job, "init", "-q", ".")
    (job / ".git" / "commondir").write_text(f"{private / '.git'}\n")
    refused(job, tmp_path / "common", "`git worktree repair` there adds one")
    (job / ".git" / "commondir").unlink()
    (job / ".git" / "objects" / "info" / "alternates").write_text(f"{private / '.git' / 'objects'}\n")
    (job / ".git" / "refs" / "heads" / "main").symlink_to(private / ".git" / "refs" / "heads" / "main")
    refused(job, tmp_path / "ref", "refs/heads/main is a link out of the git directory")
    (job / ".git" / "refs" / "heads" / "main").unlink()
    (job / ".git" / "shallow").symlink_to(private / "plan")
    refused(job, tmp_path / "shallow", "shallow is a link out of the git directory")


def diary(folder: Path) -> Path:
    """A file beside the repository that is no part of it."""
    (folder / "private").mkdir()
    (folder / "private" / "notes.txt").write_text("secret plan\n")
    return folder / "private"


def everything(out: Path, folder: Path) -> bytes:
    """Return all text of a snapshot, and each blob of its bundles."""
    git(folder, "clone", "-q", "--bare", folder / "origin.git", "all.git")
    for bundle in out.glob("*.bundle"):
        git(folder / "all.git", "fetch", "-q", bundle, "+refs/*:refs/*")
    rows = git(folder / "all.git", "cat-file", "--batch-all-objects", "--batch")
    return rows + b"".join(path.read_bytes() for path in out.iterdir())


@pytest.mark.parametrize("attributes", [b"", b"* text=auto\n", b"*.txt filter=lfs\n"])
def test_a_file_below_a_link_is_gone(attributes: bytes, tmp_path: Path) -> None:
    top = new_origin(tmp_path, {"kept.py": b"one\n", "d/notes.txt": b"x\n"})
    diary(tmp_path)
    write(top, ".git/info/attributes", attributes)
    write(top, ".git/info/exclude", b"/d\n")
    (top / "d" / "notes.txt").unlink()
    (top / "d").rmdir()
    (top / "d").symlink_to("../private")
    out = tmp_path / "out"
    taken(top, out)
    assert record(out)["deleted"] == {"count": 1, "paths": ["d/notes.txt"]}
    assert b"secret plan" not in everything(out, tmp_path)


@pytest.mark.parametrize(
    "path", ["../private/notes.txt", "./../private/notes.txt", ".git/privates/notes.txt"]
)
def test_a_path_that_git_never_writes_is_not_read(path: str, tmp_path: Path) -> None:
    """The path of an index is changed by hand."""
    top = new_origin(tmp_path, {"kept.py": b"one\n"})
    diary(tmp_path)
    write(top, ".git/privates/notes.txt", b"secret plan\n")
    name = "a" * (len(path) - 10) + "/notes.txt"
    write(top, name, b"x\n")
    git(top, "add", "-A")
    index = (top / ".git" / "index").read_bytes()[:-20].partition(b"TREE")[0]
    index = index.replace(name.encode(), path.encode())
    (top / ".git" / "index").write_bytes(index + hashlib.sha1(index).digest())
    assert path.encode() in git(top, "ls-files", "-s")
    out = tmp_path / "out"
    taken(top, out)
    assert b"secret plan" not in everything(out, tmp_path)


def test_a_submodule_below_a_link_is_no_part(tmp_path: Path, private: Path) -> None:
    top = new_origin(tmp_path)
    commit = git(private, "rev-parse", "HEAD").decode().strip()
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{commit},d/clone")
    git(top, "commit", "-qm", "a submodule")
    write(top, ".git/info/exclude", b"/d\n")
    (top / "d").symlink_to("../private")
    out = tmp_path / "out"
    found = taken(top, out)
    assert [one["name"] for one in found["repositories"]] == ["clone"]
    assert b"secret plan" not in everything(out, tmp_path)


PARTS_OF_GIT = ("refs", "objects", "packed-refs")


def linked(folder: Path, private: Path) -> None:
    """Make a git directory whose commits are those of a private repository."""
    git(private, "pack-refs")
    folder.mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n")
    for name in PARTS_OF_GIT:
        (folder / name).symlink_to(private / ".git" / name)


def test_links_of_a_git_folder_that_claims_the_directory(tmp_path: Path, private: Path) -> None:
    job = tmp_path / "job"
    linked(job / "g", private)
    (job / ".git").write_text("gitdir: g\n")
    assert git(job, "log", "--format=%s").startswith(b"secret plan")
    for name in ("packed-refs", "refs", "objects"):
        refused(job, tmp_path / name, f"g/{name} is a link out of the git directory")
        (job / "g" / name).unlink()


def test_links_of_a_shared_git_folder(tmp_path: Path, private: Path) -> None:
    """The directory of the worktree itself has none."""
    job = tmp_path / "job"
    linked(job / "c", private)
    own = job / "c" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    (own / "gitdir").write_text("../../../.git\n")
    (job / ".git").write_text("gitdir: c/worktrees/w\n")
    assert git(job, "log", "--format=%s").startswith(b"secret plan")
    refused(job, tmp_path / "out", "c/packed-refs is a link out of the git directory")


@pytest.mark.parametrize("name", ["objects", "objects/pack", "objects/info/alternates", "commondir"])
def test_links_to_objects_of_a_private_repository(name: str, tmp_path: Path, private: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    git(job, "init", "-q", "-b", "main", ".")
    commit = git(private, "rev-parse", "HEAD").decode()
    (job / ".git" / "refs" / "heads" / "main").write_text(commit)
    place = job / ".git" / name
    if place.is_dir():
        place.rename(tmp_path / "empty")
    place.symlink_to(private / ".git" / name)
    refused(job, tmp_path / "out", f"{name} is a link out of the git directory")


def test_links_within_a_git_folder_are_followed(tmp_path: Path) -> None:
    top = new_origin(tmp_path)
    write(top, "kept.py", b"changed\n")
    (top / ".git" / "objects").rename(top / ".git" / "store")
    (top / ".git" / "objects").symlink_to("store")
    proved(top, tmp_path, tmp_path / "origin.git")


def test_a_foreign_worktree_is_left_out(tmp_path: Path, private: Path) -> None:
    """Its git directory lies in the directory itself, and only the shared one elsewhere."""
    job = tmp_path / "job"
    own = job / "worktrees" / "job"
    own.mkdir(parents=True)
    (job / ".git").write_text(f"gitdir: {own}\n")
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text(f"{private / '.git'}\n")
    (own / "gitdir").write_text(f"{job / '.git'}\n")
    refused(job, tmp_path / "out", "has no worktree here")


def test_a_private_repository_inside_is_left_out_alone(tmp_path: Path, private: Path) -> None:
    top = new_origin(tmp_path)
    (top / "sub").mkdir()
    (top / "sub" / ".git").write_text(f"gitdir: {private / '.git'}\n")
    found = taken(top, tmp_path / "out")
    assert [one["name"] for one in found["repositories"]] == ["clone"]
    assert any("is the git directory of another directory" in note for note in found["notes"])
    assert found["parts"]["repository sub"]["outcome"] == "untrusted"


@pytest.mark.parametrize("moved", [False, True])
def test_worktrees_of_the_user_are_captured(tmp_path: Path, moved: bool) -> None:
    top = with_submodule(tmp_path)
    tree = tmp_path / "tree"
    git(top, "worktree", "add", "-q", tree)
    git(tree, "submodule", "update", "-q", "--init")
    if moved:
        tree = tree.rename(tmp_path / "elsewhere")
        refused(tree, tmp_path / "stale", "`git worktree repair` there adds one")
        git(top, "worktree", "repair", tree)
    write(tree, "kept.py", b"changed\n")
    found = taken(tree, tmp_path / "out")
    assert found["repositories"][0]["name"] == tree.name
    assert found["repositories"][0]["changed"]["paths"] == ["kept.py"]
    # A repository that lies elsewhere is read, so it is named.
    assert f"{tree.name} is a worktree: its commits are those of {top / '.git'}" in found["notes"]
    if not moved:  # those of submodules are not repaired by that command
        assert len(found["repositories"]) == 2


def test_a_change_in_the_moment_of_the_index(tmp_path: Path) -> None:
    """Same size, same time as the index: git looks into such files only because the index is not younger."""
    top = new_origin(tmp_path)
    git(top, "config", "core.trustctime", "false")
    long_ago = (10**18, 10**18)
    os.utime(top / "kept.py", ns=long_ago)
    git(top, "update-index", "--refresh")
    with (top / "kept.py").open("r+b") as stream:
        stream.write(b"ONE\n")
    for path in (top / "kept.py", top / ".git" / "index"):
        os.utime(path, ns=long_ago)
    assert status(top).endswith(b" kept.py\0")
    proved(top, tmp_path, tmp_path / "origin.git")
    assert (tmp_path / "again" / "kept.py").read_bytes() == b"ONE\n"


@pytest.mark.parametrize("born", [True, False])
def test_an_empty_file_that_is_only_intended_to_be_added(tmp_path: Path, born: bool) -> None:
    top = new_origin(tmp_path)
    if not born:
        top = tmp_path / "unborn"
        top.mkdir()
        git(top, "init", "-q", ".")
    write(top, "empty.py", b"")
    git(top, "add", "-N", "empty.py")
    proved(top, tmp_path, tmp_path / "origin.git" if born else None)


def test_products_of_reprobuild_are_no_code_of_the_job(tmp_path: Path) -> None:
    """A snapshot, an image and the directory of a tool with a file of that name lie in the job's repository."""
    top = new_origin(tmp_path, {"train.py": b"print(1)\n"})
    take(top, top / "repro" / "1")
    for name in ("image.json", "reprobuild.lock", "image/blobs/sha256/x"):
        write(top, f"frozen/{name}", b"{}\n")
    write(top, "other/capture.json", b'{"camera": 1}\n')
    write(top, "half/image.json", b"{}\n")
    take(top, tmp_path / "second")
    found = record(tmp_path / "second")
    assert found["untracked"] == {"count": 2, "paths": ["half/image.json", "other/capture.json"]}
    assert found["ignored"] == {"count": 2, "paths": ["frozen/", "repro/1/"]}
    shutil.rmtree(top / "other")
    shutil.rmtree(top / "half")
    take(top, tmp_path / "third")
    assert record(top / "repro" / "1")["worktree"] == record(tmp_path / "third")["worktree"]


def test_an_environment_is_no_code_of_the_job(tmp_path: Path) -> None:
    """Python 3.11 writes no `.gitignore` into a virtual environment; files of the user in and beside one stay."""
    top = new_origin(tmp_path, {"train.py": b"print(1)\n"})
    subprocess.run([BASE, "-m", "venv", "--without-pip", str(top / "job" / "env")], check=True)
    (top / "job/env/.gitignore").unlink(missing_ok=True)
    own = {
        "job/env/own/train.py",
        "job/new.py",
        "lib/pyvenv.cfg",
        "models/conda-meta/history",
        "models/own.py",
    }
    for path in (*own, "conda/conda-meta/history", "conda/bin/python", "conda/lib/x.py"):
        write(top, path, b"1\n")
    take(top, tmp_path / "snapshot")
    captured = record(tmp_path / "snapshot")
    assert set(captured["untracked"]["paths"]) == own
    assert captured["ignored"] == {"count": 2, "paths": ["conda/", "job/env/"]}
    assert captured["environments"] == captured["ignored"]
    tops = "conda/, job/env/; `--include FILE` captures a file of one"
    note = f"{captured['name']}: environments are no code of the job: {tops}"
    assert note in load_capture(tmp_path / "snapshot").notes
