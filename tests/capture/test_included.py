"""`capture --include FILE`: loose scripts, and files that git ignores, by the rules of untracked files."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from reprobuild.ecosystems.git.restore.folder import restore_folder
from reprobuild.resolve import resolver
from reprobuild.resolve.environment.path_mapping import make_path_map, place_repositories
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from reprobuild_runtime import capture
from tests.capture.repositories import (
    ENV,
    LEAN,
    content,
    document,
    inside,
    locked,
    new_origin,
    run_program,
    source_files,
    status,
    untouched,
    write,
)
from tests.conftest import PROGRAM, ROOT
from tests.snapshot.samples import SECRETS

SECRET = next(iter(SECRETS.values()))


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job's directory that is no repository."""
    folder = tmp_path / "exp"
    write(folder, "train.py", b"#!/usr/bin/env python\nprint(1)\r\n")
    (folder / "train.py").chmod(0o755)
    write(folder, "conf/a.yaml", b"a: 1\n")
    write(folder, "data.bin", bytes(range(256)))
    (folder / "link").symlink_to("train.py")
    return folder


def include(
    folder: Path, out: Path, *names: str | Path, env: dict[str, str] = LEAN, words: tuple[str, ...] = ()
) -> str:
    """Capture in a directory, and return what the program says."""
    options = [word for name in names for word in ("--include", str(name))]
    done = run_program("-o", out, *options, *words, env=env, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stderr


def left_out(out: Path, number: int = 0) -> dict[str, str]:
    return {file["path"]: file["reason"] for file in document(out)["repositories"][number]["left_out"]}


def restored(out: Path, name: str, target: Path, origins: dict[str, str] | None = None) -> Path:
    restore_folder(out, name, target, ENV, origins or {}, remotes=False)
    return target


def test_loose_files_come_as_a_repository(job: Path, tmp_path: Path) -> None:
    before = untouched(job)
    out = tmp_path / "snapshot"
    include(job, out, "train.py", job / "conf" / "a.yaml", "./link")
    assert untouched(job) == before
    (one,) = document(out)["repositories"]
    assert (one["name"], one["folder"], one["head"], one["remotes"]) == ("exp", str(job), None, [])
    assert left_out(out) == {}
    assert content(restored(out, "exp", tmp_path / "again")) == {
        b"train.py": ("program", b"#!/usr/bin/env python\nprint(1)\r\n"),
        b"conf/a.yaml": ("file", b"a: 1\n"),
        b"link": ("link", b"train.py"),
    }


def test_they_are_the_working_directory_of_the_image(job: Path, tmp_path: Path) -> None:
    out = tmp_path / "snapshot"
    include(job, out, "train.py", "conf/a.yaml")
    assert sorted(source_files(out, tmp_path, {})) == [b"conf/a.yaml", b"train.py"]
    (source,), rulings = locked(out, Store(tmp_path / "store"), {})
    assert (source.name, source.path, source.installed, source.url) == ("exp", "/src/exp", False, "")
    assert [(ruling.subject, ruling.outcome) for ruling in rulings] == [("exp", "pinned")]
    snapshot = read_snapshot(out)
    placed = place_repositories(snapshot.captured, (), ())
    assert (
        resolver._choose_workdir(snapshot, make_path_map(snapshot.captured, placed), (source,)) == "/src/exp"
    )


def test_the_lock_has_their_digest(job: Path, tmp_path: Path) -> None:
    """The same bytes give the same source, and another byte another one."""
    sources = []
    for number, text in enumerate((b"1\n", b"1\n", b"2\n")):
        write(job, "train.py", text)
        out = tmp_path / str(number) / "snapshot"
        include(job, out, "train.py", "data.bin")
        (source,), _ = locked(out, Store(tmp_path / "store"), {})
        sources.append(source)
    assert sources[0] == sources[1]
    assert sources[0].tree != sources[2].tree
    assert sources[0].file.sha256 != sources[2].file.sha256


def test_what_is_no_file_is_said(job: Path, tmp_path: Path) -> None:
    os.mkfifo(job / "pipe")
    write(job, ".git-not/x", b"x")
    out = tmp_path / "snapshot"
    said = include(job, out, "train.py", "pipe", "conf", "gone.py", "train.py/x")
    assert left_out(out) == {
        "conf": "special-file", "gone.py": "not-there", "pipe": "special-file", "train.py/x": "not-there",
    }  # fmt: skip
    assert "exp: 4 files are not in the snapshot: " in said
    assert list(content(restored(out, "exp", tmp_path / "again"))) == [b"train.py"]


def test_budgets_are_those_of_untracked_files(job: Path, tmp_path: Path) -> None:
    for name in "abcd":
        write(job, name, name.encode() * (9 << 20))
    write(job, "large", b"x" * ((10 << 20) + 1))
    with (job / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    out = tmp_path / "snapshot"
    include(job, out, "train.py", "large", "huge", *"abcd")
    assert left_out(out) == {"d": "too-large", "huge": "too-large", "large": "too-large"}
    sizes = {file["path"]: file["bytes"] for file in document(out)["repositories"][0]["left_out"]}
    assert (sizes["huge"], sizes["large"]) == (1 << 40, (10 << 20) + 1)


def test_secrets_are_left_out_until_they_are_accepted(job: Path, tmp_path: Path) -> None:
    write(job, "config.py", f"token = '{SECRET}'\n".encode())
    write(job, ".env", b"A=1\n")
    said = include(job, tmp_path / "snapshot", "train.py", "config.py", ".env")
    assert left_out(tmp_path / "snapshot") == {".env": "secret", "config.py": "secret"}
    for path in (tmp_path / "snapshot").iterdir():
        assert SECRET.encode() not in path.read_bytes()
    assert SECRET not in said
    words = [word for option in re.findall("`(--accept [^`]+)`", said) for word in shlex.split(option)]
    assert words == ["--accept", "exp/.env", "--accept", "exp/config.py"]
    include(job, tmp_path / "more", "train.py", "config.py", ".env", words=tuple(words))
    assert set(content(restored(tmp_path / "more", "exp", tmp_path / "again"))) == {
        b"train.py",
        b"config.py",
        b".env",
    }


def test_an_ignored_file_comes_with_its_repository(tmp_path: Path) -> None:
    top = new_origin(tmp_path, {"kept.py": b"1\n", ".gitignore": b"*.yaml\nout/\n"})
    write(top, "local.yaml", b"a: 1\n")
    write(top, "out/log.txt", b"x\n")
    write(top, "out/other.txt", b"x\n")
    write(top, "new.py", b"2\n")
    before = untouched(top)
    out = tmp_path / "snapshot"
    include(
        top / "out", out, top / "local.yaml", "log.txt", top / "kept.py", top / "new.py", top / "gone.yaml"
    )
    assert untouched(top) == before
    (one,) = document(out)["repositories"]
    assert one["untracked"]["paths"] == ["local.yaml", "new.py", "out/log.txt"]
    assert left_out(out) == {"gone.yaml": "not-there"}
    again = restored(out, "clone", tmp_path / "again", {"clone": str(tmp_path / "origin.git")})
    assert (again / "local.yaml").read_bytes() == b"a: 1\n"
    assert (again / "out/log.txt").read_bytes() == b"x\n"
    assert not (again / "out/other.txt").exists()
    assert status(again) == status(top)


def test_a_file_elsewhere_comes_beside_the_repository(job: Path, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    top = new_origin(tmp_path / "here")
    other = tmp_path / "there"
    other.mkdir()
    elsewhere = new_origin(other)
    write(elsewhere, "tool.py", b"tool\n")
    out = tmp_path / "snapshot"
    include(top, out, job / "train.py", job / "conf" / "a.yaml", elsewhere / "tool.py")
    first, second = document(out)["repositories"]
    assert first["name"] == "clone"
    assert (second["folder"], second["parent"], second["distributions"]) == (str(tmp_path), None, [])
    again = restored(out, second["name"], tmp_path / "again")
    assert set(content(again)) == {b"exp/train.py", b"exp/conf/a.yaml", b"there/clone/tool.py"}


def test_nothing_of_git_s_configuration_is_run_or_counts(job: Path, tmp_path: Path) -> None:
    ran, home = tmp_path / "ran", tmp_path / "home"
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    home.mkdir()
    for name in ("post-checkout", "post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {ran}\n")
        (hooks / name).chmod(0o755)
    (home / "ignored").write_text("*\n")
    (home / ".gitconfig").write_text(
        f"[core]\n\texcludesFile = {home / 'ignored'}\n\tfsmonitor = touch {ran}\n\thooksPath = {hooks}\n"
        f"[init]\n\ttemplateDir = {tmp_path / 'template'}\n[core]\n\tautocrlf = true\n"
        f'[hook "x"]\n\tevent = reference-transaction\n\tevent = post-index-change\n\tcommand = touch {ran}; :\n'
    )
    env = {key: value for key, value in LEAN.items() if not key.startswith("GIT_")}
    git_dir = tmp_path / "git-dir-of-others"
    include(job, tmp_path / "snapshot", "train.py", env={**env, "HOME": str(home), "GIT_DIR": str(git_dir)})
    assert not ran.exists()
    assert not git_dir.exists()
    again = restored(tmp_path / "snapshot", "exp", tmp_path / "again")
    assert content(again)[b"train.py"] == ("program", b"#!/usr/bin/env python\nprint(1)\r\n")


def test_files_of_a_git_folder_are_no_loose_files(job: Path, tmp_path: Path) -> None:
    """They would become the configuration of the repository that the capture makes."""
    write(job, "sub/.GIT/config", b"[core]\n\tfsmonitor = evil\n")
    out = tmp_path / "snapshot"
    include(job, out, "train.py", "sub/.GIT/config")
    assert left_out(out) == {"sub/.GIT/config": "special-file"}


def test_a_link_is_not_followed(job: Path, tmp_path: Path) -> None:
    write(tmp_path, "private", b"private text\n")
    (job / "alias.py").symlink_to(tmp_path / "private")
    include(job, tmp_path / "snapshot", "alias.py")
    again = restored(tmp_path / "snapshot", "exp", tmp_path / "again")
    assert content(again) == {b"alias.py": ("link", os.fsencode(tmp_path / "private"))}


def test_a_machine_without_git_says_so(job: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    said = include(job, tmp_path / "snapshot", "train.py", env={**LEAN, "PATH": str(tmp_path / "bin")})
    assert "included exp: failed" in said
    assert document(tmp_path / "snapshot")["parts"]["included exp"]["why"] == "git is not on PATH"


def test_the_verb_hands_it_on(job: Path, tmp_path: Path) -> None:
    env = {**ENV, "PYTHONPATH": str(ROOT)}
    words = ["capture", "-o", str(tmp_path / "snapshot"), "--include", "train.py", "--include=conf/a.yaml"]
    done = subprocess.run([*PROGRAM, *words], cwd=job, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    names = [one["name"] for one in document(tmp_path / "snapshot")["repositories"]]
    assert "exp" in names


def test_the_call_in_a_script(job: Path, tmp_path: Path) -> None:
    with mock.patch.object(capture, "PARTS", ()), mock.patch.dict(os.environ, ENV, clear=True), inside(job):
        report: dict[str, Any] = capture.capture(str(tmp_path / "snapshot"), include=["train.py"])
    assert report["captured"], report
    assert set(content(restored(tmp_path / "snapshot", "exp", tmp_path / "again"))) == {b"train.py"}
    json.dumps(report)
