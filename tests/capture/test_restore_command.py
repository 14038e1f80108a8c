"""`reprobuild restore`: a captured repository in a new directory, whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from reprobuild.cli.main import run_line
from reprobuild.ecosystems.git.restore import remote_bounds
from tests.capture.repositories import ENV, content, git, new_origin, place, status, take, write
from tests.capture.test_restore import change, pack_of, plant
from tests.conftest import ROOT, reprobuild
from tests.documents import check_document
from tests.resolve.test_logins import Host

LARGE = (64 << 20) + 1  # bytes; one more than is kept in memory


class Said:
    """Runs a command line in this process, and keeps what it printed."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.out = self.err = ""

    def __call__(self, *words: object) -> int:
        code = run_line([str(word) for word in words])
        self.out, self.err = self._capfd.readouterr()
        return code


@pytest.fixture
def said(capfd: pytest.CaptureFixture[str]) -> Said:
    return Said(capfd)


def worked_on(folder: Path) -> Path:
    """Return a clone with commits that were never pushed, staged, changed, untracked, executable and linked files."""
    top = new_origin(folder)
    write(top, "pushed-never.py", b"mine\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "mine")
    write(top, "kept.py", b"staged\n")
    git(top, "add", "kept.py")
    write(top, "kept.py", b"staged\nand changed\n")
    write(top, "loose/new.py", b"new\n")
    place(top, "loose/new.py").chmod(0o755)
    (top / "loose/link").symlink_to("new.py")
    git(top, "rm", "-q", "--cached", "run.sh")
    return top


def test_a_clone_is_restored_as_it_was(tmp_path: Path, said: Said) -> None:
    top = worked_on(tmp_path)
    take(top, tmp_path / "snapshot")
    origin, again = tmp_path / "origin.git", tmp_path / "new" / "again"
    words = ("restore", tmp_path / "snapshot", "clone", "-o", again)
    assert said(*words, "--source", f"clone={origin}") == 0, said.err
    assert content(again) == content(top)
    assert status(again) == status(top)
    for asked in (
        ("rev-parse", "HEAD"),
        ("log", "--format=%H %s"),
        ("symbolic-ref", "HEAD"),
        ("diff", "--cached"),
    ):
        assert git(again, *asked) == git(top, *asked)
    head = git(top, "rev-parse", "HEAD").decode().strip()
    assert said.out == f"clone: {again}\n  commit        {head}, branch main\n  fetched from  {origin}\n"
    assert said.err == ""
    git(again, "fsck", "--strict")
    assert [path.name for path in again.parent.iterdir()] == ["again"]


def test_the_document(tmp_path: Path, said: Said) -> None:
    top = worked_on(tmp_path)
    write(top, "too-large", b"x" * (11 << 20))
    take(top, tmp_path / "snapshot")
    again = tmp_path / "again"
    words = ("restore", tmp_path / "snapshot", "clone", "-o", again, "--json")
    assert said(*words, "--source", f"clone={top}") == 0, said.err
    check_document([*map(str, words)], said.out)
    assert json.loads(said.out) == {
        "version": 1,
        "repositories": [
            {
                "name": "clone", "directory": str(again), "head": git(top, "rev-parse", "HEAD").decode().strip(),
                "branch": "refs/heads/main", "address": str(top), "bare": [],
                "left_out": [{"path": "too-large", "reason": "too-large"}], "left_out_count": 1,
            }
        ],
    }  # fmt: skip


def test_what_was_not_captured_is_said(tmp_path: Path, said: Said) -> None:
    top = worked_on(tmp_path)
    for number in range(14):
        write(top, f"large-{number:02}", b"x" * (11 << 20))
    take(top, tmp_path / "snapshot")
    words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again")
    assert said(*words, "--source", f"clone={top}") == 0, said.err
    rows = [line for line in said.out.splitlines() if line.startswith("  not captured  ")]
    assert rows[0] == "  not captured  large-00: too-large"
    assert rows[-1] == "  not captured  2 more, which capture.json has"
    assert len(rows) == 13


@pytest.mark.parametrize("kind", ["file", "folder", "empty", "link", "dangling"])
def test_what_stands_there_stays(kind: str, tmp_path: Path, said: Said) -> None:
    top = new_origin(tmp_path)
    take(top, tmp_path / "snapshot")
    again, other = tmp_path / "again", tmp_path / "other"
    if kind == "file":
        again.write_text("mine")
    elif kind in ("link", "dangling"):
        again.symlink_to(other)
    else:
        again.mkdir()
    if kind == "link":
        other.mkdir()
    if kind == "folder":
        write(again, "mine", b"mine")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    words = ("restore", tmp_path / "snapshot", "clone", "-o", again, "--source", f"clone={top}")
    assert said(*words) == 2
    assert said.err == f"error: `{again}` is there already\n\nhint: name a directory that is not there yet\n"
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_the_hint_on_missing_commits_works_as_written(tmp_path: Path, said: Said) -> None:
    """The remote is a directory of this machine, which nobody opens unasked."""
    top = worked_on(tmp_path)
    take(top, tmp_path / "snapshot")
    words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again")
    assert said(*words) == 3
    hint = (
        "hint: name a clone or an address that has it: --source "
        f"clone={top}; the remotes were: {tmp_path / 'origin.git'}"
    )
    assert hint in said.err
    assert "is not in the snapshot: a remote had it" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["clone", "origin.git", "snapshot", "source"]
    option = re.search(r"(--source \S+);", said.err)
    assert option
    assert said(*words, *shlex.split(option[1])) == 0, said.err
    assert content(tmp_path / "again") == content(top)


def test_a_hint_without_the_clone(tmp_path: Path, said: Said) -> None:
    top = worked_on(tmp_path)
    take(top, tmp_path / "snapshot")
    top.rename(tmp_path / "moved")
    words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again")
    assert said(*words) == 3
    assert (
        "hint: name a clone or an address that has it: --source clone=PATH|URL; the remotes were: "
        in said.err
    )
    assert said(*words, "--source", f"clone={tmp_path / 'moved'}") == 0, said.err


def served(folder: Path) -> tuple[Path, Host]:
    """Return a clone of a remote that speaks HTTP."""
    top = worked_on(folder)
    host = Host(folder)
    git(top, "remote", "set-url", "origin", f"{host.url}/origin.git")
    take(top, folder / "snapshot")
    return top, host


def test_the_captured_remote_is_asked(tmp_path: Path) -> None:
    top, host = served(tmp_path)
    with host:
        done = reprobuild("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again", env=ENV)
    assert done.returncode == 0, done.stderr
    assert f"  fetched from  {host.url}/origin.git\n" in done.stdout
    assert host.asked
    assert content(tmp_path / "again") == content(top)
    assert git(tmp_path / "again", "rev-parse", "origin/main") == git(top, "rev-parse", "origin/main")


@pytest.mark.parametrize("json_option", [(), ("--json",)], ids=["text", "json"])
def test_the_login_of_an_address_is_used_and_not_shown(json_option: tuple[str, ...], tmp_path: Path) -> None:
    _, host = served(tmp_path)
    address = f"{host.url.replace('://', '://ada:PwSecret77@')}/origin.git"
    words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again", *json_option)
    with host:
        done = reprobuild(*words, "--source", f"clone={address}", env=ENV)
        assert done.returncode == 0, done.stderr
        assert f"{host.url}/origin.git" in done.stdout
        assert "PwSecret77" not in done.stdout + done.stderr
        assert "PwSecret77" not in (tmp_path / "again/.git/config").read_text()


@pytest.mark.parametrize(
    "address", ["http://ada:PwSecret77@127.0.0.1:1/x.git", "ada:PwSecret77@127.0.0.1:x.git"]
)
def test_the_login_of_an_address_that_fails_is_not_shown(address: str, tmp_path: Path) -> None:
    take(worked_on(tmp_path), tmp_path / "snapshot")
    words = (
        "restore",
        tmp_path / "snapshot",
        "clone",
        "-o",
        tmp_path / "again",
        "--source",
        f"clone={address}",
    )
    done = reprobuild(*words, env=ENV)
    assert done.returncode != 0
    assert "127.0.0.1:" in done.stderr
    assert "PwSecret77" not in done.stdout + done.stderr


def test_offline_asks_no_remote(tmp_path: Path) -> None:
    top, host = served(tmp_path)
    with host:
        words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again", "--offline")
        done = reprobuild(*words, env=ENV)
        assert done.returncode == 3
        assert f"--source clone={top}" in done.stderr
        assert reprobuild(*words, "--source", f"clone={top}", env=ENV).returncode == 0
    assert host.asked == []


def test_a_remote_that_is_gone_is_named_with_its_answer(tmp_path: Path) -> None:
    top, host = served(tmp_path)
    with host:
        (tmp_path / "origin.git").rename(tmp_path / "gone")
        done = reprobuild("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again", env=ENV)
    assert done.returncode == 3
    assert f"\n  {host.url}/origin.git: could not fetch " in done.stderr
    assert not (tmp_path / "again").exists()
    assert top.exists()


def test_a_distribution_names_its_repository(snapshot: Path, said: Said) -> None:
    change(snapshot, lambda r: r.update(distributions=["My.Lib"]))
    words = ("restore", snapshot, "my-lib", "-o", snapshot.parent / "again")
    assert said(*words, "--source", f"clone={snapshot.parent / 'origin.git'}") == 0, said.err
    assert (snapshot.parent / "again" / "kept.py").read_bytes() == b"changed\n"


@pytest.mark.parametrize(
    ("option", "code", "error", "hint"),
    [
        ("other=/tmp", 2, "--source other: no repository of this name was captured", "there are: clone"),
        ("clone=/nonexistent/x", 2, "--source clone: `/nonexistent/x` does not exist",
         "name a clone, a bundle or an address"),
        ("clone=/tmp@v1", 2, "--source clone=/tmp@v1 names a revision",
         "leave the revision out: the captured commit is taken"),
        ("clone=ext::sh://x", 3, "git is not given the address ext::sh://x", "name a path, HOST:PATH"),
    ],
)  # fmt: skip
def test_words_that_name_no_place(
    option: str,
    code: int,
    error: str,
    hint: str,
    snapshot: Path,
    said: Said,
) -> None:
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again", "--source", option) == code
    assert said.err.startswith(f"error: {error}")
    assert f"\nhint: {hint}" in said.err
    assert not (snapshot.parent / "again").exists()


def test_no_program_of_the_repository_or_the_user_runs(tmp_path: Path) -> None:
    """Neither filters of `.gitattributes`, hooks of a template, fsmonitor, nor those of submodules."""
    ran = tmp_path / "ran"
    top = new_origin(tmp_path, {".gitattributes": b"* filter=evil\n", "kept.py": b"one\n"})
    write(top, "loose.py", b"new\n")
    take(top, tmp_path / "snapshot")
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    for name in ("post-checkout", "post-index-change", "reference-transaction", "post-merge"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        f'[filter "evil"]\n\tclean = touch {ran}; cat\n\tsmudge = touch {ran}; cat\n[core]\n\tfsmonitor = touch {ran}\n'
        f"\thooksPath = {hooks}\n[init]\n\ttemplateDir = {tmp_path / 'template'}\n"
        f'[hook "x"]\n\tevent = reference-transaction\n\tevent = post-index-change\n\tcommand = touch {ran}; :\n'
    )
    env = {"PATH": ENV["PATH"], "HOME": str(home)}
    words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again")
    done = reprobuild(*words, "--source", f"clone={tmp_path / 'origin.git'}", env=env)
    assert done.returncode == 0, done.stderr
    assert not ran.exists()
    assert not (tmp_path / "again" / ".git" / "hooks").exists()
    assert content(tmp_path / "again")[b"loose.py"] == ("file", b"new\n")
    subprocess.run(["git", "status"], cwd=tmp_path / "again", env=env, check=True, capture_output=True)
    assert ran.exists()  # the trap was one


def test_a_repository_within_the_files_is_named(snapshot: Path, said: Said) -> None:
    """git takes a directory with HEAD, objects and refs for a repository, and follows its `config`."""
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    bare_trees(snapshot, snapshot.parent / "evil.git", ["data/bare"])
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 0, said.err
    assert said.err == (
        f"{snapshot.parent / 'again' / 'data' / 'bare'} is itself a git repository: git follows its configuration, "
        "which may start programs, where a command runs in it; `git config --global safe.bareRepository explicit` "
        "prevents that\n"
    )


def test_many_repositories_within_the_files(snapshot: Path, said: Said) -> None:
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    bare_trees(snapshot, snapshot.parent / "evil.git", [f"d{number}" for number in range(20)])
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 0, said.err
    lines = said.err.splitlines()
    assert len(lines) == 13
    assert lines[-1] == "clone: 8 more such directories; all with --json"


def bare_trees(snapshot: Path, store: Path, folders: list[str]) -> None:
    """Let the snapshot hold directories that git takes for repositories."""
    blob = git(store, "hash-object", "-w", "--stdin", stdin=b"ref: refs/heads/x\n").decode().strip()
    names = ("HEAD", "config", "objects/x", "refs/x")
    rows = "".join(f"100644 {blob}\t{folder}/{name}\n" for folder in folders for name in names)
    git(store, "update-index", "--add", "--index-info", stdin=rows.encode())
    tree = git(store, "write-tree").decode().strip()
    commit = git(store, "commit-tree", "-m", "evil", tree).decode().strip()
    plant(snapshot, commit, tree, b"")


def test_a_bomb_is_refused_before_a_file_is_written(snapshot: Path, said: Said) -> None:
    """One blob of 2 MiB that a tree holds a thousand times."""
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    blob = b"\0" * (2 << 20)
    entries = [(b"100644", b"%05d" % number, blob) for number in range(1000)]
    plant(snapshot, *pack_of(snapshot.parent, entries))
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 3
    assert re.search(r"the captured repository clone: \d+ bytes of objects, and its tree \w+ unpacks to 1000 files of "
                     r"2097152000 bytes", said.err)  # fmt: skip
    assert not (snapshot.parent / "again").exists()


def with_inner(snapshot: Path, count: int) -> None:
    """Copy the record of the repository, as repositories inside it, each with the same bundle."""
    path = snapshot / "capture.json"
    document: dict[str, Any] = json.loads(path.read_text())
    (outer,) = document["repositories"]
    document["repositories"] += [
        {
            **outer,
            "name": f"inner{number}",
            "parent": "clone",
            "path": f"inner{number}",
            "diff": {**outer["diff"], "file": None},
        }
        for number in range(count)
    ]
    path.write_text(json.dumps(document))


def test_one_bundle_of_several_repositories(snapshot: Path, said: Said) -> None:
    with_inner(snapshot, 3)
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 3
    assert "capture.json: two repositories have one bundle or one diff" in said.err
    assert not (snapshot.parent / "again").exists()


def test_the_work_trees_of_a_restoration_have_one_allowance(snapshot: Path, said: Said) -> None:
    """Each is just within its own bounds."""
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    blob = b"\0" * (2 << 20)
    entries = [(b"100644", b"%05d" % number, blob) for number in range(70)]  # 140 MiB
    plant(snapshot, *pack_of(snapshot.parent, entries))
    with_inner(snapshot, 3)
    path = snapshot / "capture.json"
    document = json.loads(path.read_text())
    for repository in document["repositories"][1:]:
        name = f"{repository['name']}.bundle"
        shutil.copy(snapshot / "clone.bundle", snapshot / name)
        repository["bundle"] = {**repository["bundle"], "file": name}
    path.write_text(json.dumps(document))
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 3
    assert re.search(r"the captured repository inner\d: it and the work trees around it unpack to \d+ files and "
                     r"directories of \d+ bytes, from \d+ bytes of objects", said.err)  # fmt: skip
    assert not (snapshot.parent / "again").exists()


def test_a_disk_without_room_for_the_files(
    snapshot: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(snapshot)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=5))
    origin = f"clone={snapshot.parent / 'origin.git'}"
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again", "--source", origin) == 6
    assert re.search(r"the captured repository clone has files of \d+ bytes, and 5 are free", said.err)
    assert "make room, or name a directory on another disk with -o" in said.err
    assert not (snapshot.parent / "again").exists()


@pytest.mark.parametrize("leaf", [b"", b"100644 f"])
def test_a_bomb_of_directories_is_refused_before_one_is_written(
    leaf: bytes, snapshot: Path, said: Said
) -> None:
    """Found by an attacker: 16 names for one tree, level by level, which git lists for an hour."""
    store = snapshot.parent / "evil.git"
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    blob = git(store, "hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    tree = git(store, "mktree", stdin=f"100644 blob {blob}\tf\n".encode() if leaf else b"").decode().strip()
    for _ in range(5):
        rows = "".join(f"040000 tree {tree}\t{name}\n" for name in "abcdefghijklmnop")
        tree = git(store, "mktree", stdin=rows.encode()).decode().strip()
    commit = git(store, "commit-tree", "-m", "evil", tree).decode().strip()
    pack = git(store, "pack-objects", "--stdout", "--revs", "-q", stdin=f"{commit}\n".encode())
    plant(snapshot, commit, tree, pack)
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 3
    assert re.search(r"bytes of objects, and its tree \w+ unpacks to", said.err)
    assert not (snapshot.parent / "again").exists()


def test_a_link_without_end(snapshot: Path, said: Said) -> None:
    git(snapshot.parent, "init", "-q", "--bare", "evil.git")
    plant(snapshot, *pack_of(snapshot.parent, [(b"120000", b"link", b"x" * 5000)]))
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 3
    assert "b'link' is a link of 5000 bytes" in said.err


def test_a_file_larger_than_memory_takes(tmp_path: Path, said: Said) -> None:
    top = new_origin(tmp_path, {"kept.py": b"one\n"})
    with (top / "large").open("wb") as stream:
        stream.truncate(LARGE)
    (top / "large").chmod(0o755)
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "large")
    git(top, "push", "-q", "origin", "HEAD")
    take(top, tmp_path / "snapshot")
    words = ("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again")
    assert said(*words, "--source", f"clone={tmp_path / 'origin.git'}") == 0, said.err
    assert (tmp_path / "again" / "large").stat().st_size == LARGE
    assert os.access(tmp_path / "again" / "large", os.X_OK)
    assert status(tmp_path / "again") == status(top) == b""
    assert not (tmp_path / "again" / ".git" / "large").exists()


def test_a_document_that_is_a_pipe(snapshot: Path, said: Said) -> None:
    (snapshot / "capture.json").unlink()
    os.mkfifo(snapshot / "capture.json")
    assert said("restore", snapshot, "clone", "-o", snapshot.parent / "again") == 3
    assert "capture.json cannot be read: it is no plain file" in said.err


# --- snapshots of the recipe ------------------------------------------------------------------


def test_the_commands_for_a_recipe_work_as_written(tmp_path: Path) -> None:
    """The hint has no placeholder; what it makes has the captured files."""
    top = new_origin(tmp_path)
    write(top, "pushed-never.py", b"mine\n")
    git(top, "add", "-A")
    git(top, "commit", "-q", "-m", "mine")
    write(top, "kept.py", b"changed\n")
    out = tmp_path / "it's a snapshot"
    out.mkdir()
    head = git(top, "rev-parse", "HEAD").decode().strip()
    address = f"file://{tmp_path / 'origin.git'}"
    (out / "requirements.txt").write_text(f"-e git+{address}@{head}#egg=clone\n")
    (out / "env.txt").write_text("A=b\n")
    (out / "clone.diff").write_bytes(git(top, "diff", "HEAD", "--binary", "--full-index"))
    git(top, "bundle", "create", "-q", out / "clone.bundle", "HEAD", "--not", "--remotes")
    done = reprobuild("restore", out, "clone", "-o", tmp_path / "again")
    assert done.returncode == 3
    start = "hint: only snapshots of `reprobuild capture` hold whole repositories; with git: "
    assert f"has no capture.json\n\n{start}" in done.stderr
    commands = done.stderr.partition(start)[2]
    subprocess.run(["sh", "-ec", commands], check=True, capture_output=True, env=ENV, cwd=ROOT)
    assert content(tmp_path / "again") == content(top)
    assert git(tmp_path / "again", "rev-parse", "HEAD").decode().strip() == head


def test_a_recipe_without_the_repository(tmp_path: Path, said: Said) -> None:
    (tmp_path / "env.txt").write_text("A=b\n")
    assert said("restore", tmp_path, "clone", "-o", tmp_path / "again") == 3
    assert said.err.endswith("hint: only snapshots of `reprobuild capture` hold whole repositories\n")
    assert said("restore", tmp_path / "gone", "clone", "-o", tmp_path / "again") == 3
    assert "there is no directory" in said.err


def test_invented_commits_are_not_asked_without_end(tmp_path: Path) -> None:
    """Each one that a remote does not have takes a fetch of its own."""
    _, host = served(tmp_path)
    invented = [f"{number:040x}" for number in range(1, 200)]
    change(tmp_path / "snapshot", lambda found: found.update(prerequisites=invented, bundle=None))
    with host:
        done = reprobuild("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again", env=ENV)
    assert done.returncode == 3
    assert f"commit {invented[0][:12]} of clone is not in the snapshot: a remote had it" in done.stderr
    assert 20 < len(host.asked) < 100
    assert not (tmp_path / "again").exists()


def test_remotes_are_not_asked_without_end(
    tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = worked_on(tmp_path)
    take(top, tmp_path / "snapshot")
    many = [{"name": f"o{number}", "url": f"http://127.0.0.1:9/{number}"} for number in range(40)]
    change(tmp_path / "snapshot", lambda found: found.update(remotes=many))
    monkeypatch.setattr(remote_bounds, "MOST_SECONDS", 0)
    assert said("restore", tmp_path / "snapshot", "clone", "-o", tmp_path / "again") == 3
    assert "39 more were not asked after 0 s" in said.err
    assert "\n  http://127.0.0.1:9/0: could not" in said.err
    assert "\n  http://127.0.0.1:9/1: could not" not in said.err
