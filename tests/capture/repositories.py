"""Git repositories in every state that people leave them in, and what must be equal after a restore."""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.restore.restore import restore_repository
from reprobuild.infra.git.addresses import read_origin
from reprobuild.infra.tar.reading import read_tar
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.resolve.sources.trees import SourceInputs, resolve_sources
from reprobuild.snapshot.capture_model import CapturedRepository
from reprobuild.snapshot.parsers.capture_json import load_capture
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.store import Store
from reprobuild_runtime import capture

ROOT = Path(__file__).parent.parent.parent
PROGRAM = ROOT / "reprobuild_runtime" / "capture.py"
# Not the environment that the tests run in, whose editable install is this very checkout.
BASE = str(getattr(sys, "_base_executable", sys.executable))
WHO = "Ada Example"
# Nothing of this machine's configuration, and dates that make equal commits equal.
ENV = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": WHO,
    "GIT_AUTHOR_EMAIL": "ada@example.test",
    "GIT_COMMITTER_NAME": WHO,
    "GIT_COMMITTER_EMAIL": "ada@example.test",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05Z",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05Z",
    "LC_ALL": "C.UTF-8",
}
Name = str | bytes | Path


def _few_programs() -> str:
    """Return a PATH with git and little else; it goes away with this process."""
    folder = tempfile.mkdtemp(prefix="reprobuild-path-")
    atexit.register(shutil.rmtree, folder)
    for name in ("env", "git", "mkdir", "mv", "sh", "sleep"):
        Path(folder, name).symlink_to(shutil.which(name) or name)
    return folder


# A machine without apt and dpkg, for tests that ask nothing about packages: to list them is most of a capture's work.
LEAN = {**ENV, "PATH": _few_programs()}


def git(folder: Path, *words: Name, fails: bool = False, stdin: bytes = b"") -> bytes:
    """Run git as a user does; protocol.file is for submodules on the disk."""
    argv = ["git", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main", *words]
    done = subprocess.run(argv, cwd=folder, env=ENV, input=stdin, capture_output=True, check=False)
    assert fails or done.returncode == 0, (words, done.stderr)
    return done.stdout


PROJECT = "setup.py"  # without a name: `built` makes it the source of any distribution


def built(project: Path, name: str) -> None:
    """Leave the directory of metadata that setuptools leaves in a project; git sees no empty directory."""
    if project.is_dir():
        (project / f"{name}.egg-info").mkdir(exist_ok=True)


def new_origin(folder: Path, files: dict[Name, bytes] | None = None, *, project: bool = False) -> Path:
    """Make a repository with one commit, and a clone of it called `clone`; return the clone.

    With `project`, distributions can be installed from it, after `built`.
    """
    source = folder / "source"
    source.mkdir()
    git(source, "init", "-q", ".")
    for name, content in (
        files or {"kept.py": b"one\n", "dir/inner.py": b"two\n" * 20, "run.sh": b"#!/bin/sh\n"}
    ).items():
        write(source, name, content)
    if project:
        write(source, PROJECT, b"")
    git(source, "add", "-A")
    git(source, "commit", "-q", "-m", "first")
    git(folder, "clone", "-q", "--bare", source, folder / "origin.git")
    git(folder, "clone", "-q", folder / "origin.git", folder / "clone")
    return folder / "clone"


def place(top: Path, name: Name) -> Path:
    return top / os.fsdecode(name)


def write(top: Path, name: Name, content: bytes) -> None:
    path = place(top, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def status(top: Path) -> bytes:
    """Return what `git status` says of every file; it writes nothing."""
    words = ("--no-optional-locks", "status", "--porcelain=v2", "-z", "-uall")
    return git(top, *words)


def content(top: Path) -> dict[bytes, tuple[str, bytes]]:
    """Return kind and bytes of every file that git does not ignore, those of inner repositories included."""
    ignored = set(git(top, "ls-files", "-o", "-i", "--exclude-standard", "-z").split(b"\0"))
    found = {}
    for path in top.rglob("*"):
        inside = os.fsencode(path.relative_to(top))
        if b".git" in inside.split(b"/") or inside in ignored or (path.is_dir() and not path.is_symlink()):
            continue
        if path.is_symlink():
            found[inside] = ("link", os.fsencode(path.readlink()))
        else:
            found[inside] = ("program" if os.access(path, os.X_OK) else "file", path.read_bytes())
    return found


def untouched(folder: Path, times: bool = True) -> dict[str, Any]:
    """Return what must not change: each file's state, and the bytes of everything in git's directories."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path)] = (state.st_mode, state.st_ino, state.st_size)
        if times:
            found[str(path)] += (state.st_mtime_ns, state.st_ctime_ns)
        if path.is_file() and not path.is_symlink() and ".git" in str(path):
            found[str(path)] += (hashlib.sha256(path.read_bytes()).hexdigest(),)
    return found


@contextlib.contextmanager
def inside(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def take(top: Path, out: Path) -> tuple[CapturedRepository, ...]:
    """Capture the repository of a working directory, and nothing else of this machine."""
    with mock.patch.object(capture, "PARTS", ()), mock.patch.dict(os.environ, ENV, clear=True), inside(top):
        report = capture.capture(str(out))
    assert report["captured"], report
    assert set(report["parts"].values()) <= {"done"}, (out / "capture.json").read_text()
    return load_capture(out).repositories


def document(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((out / "capture.json").read_text())
    return found


def proved(
    top: Path, folder: Path, origin: Path | None, origins: dict[str, str] | None = None, times: bool = True
) -> Path:
    """Capture and restore a repository; everything must be equal, and the original untouched. Return the snapshot."""
    before = untouched(top, times)
    out = folder / "snapshot"
    repositories = take(top, out)
    assert untouched(top, times) == before
    name = repositories[0].name
    asked = {**(origins or {}), **({name: str(origin)} if origin else {})}
    restore_repository(repositories, name, out, folder / "again", ENV, asked)
    assert content(folder / "again") == content(top)
    assert status(folder / "again") == status(top)
    if repositories[0].object_format == "sha1":  # the only one that a lock can name
        assert source_files(out, folder, {**own(out), **asked}) == content(top)
    return out


def own(out: Path) -> dict[str, str]:
    """Return the user's word for each captured repository: its directory, or its remote where the directory is gone."""
    found = document(out)["repositories"]
    places = {one["name"]: [one["folder"], *(remote["url"] for remote in one["remotes"])] for one in found}
    there = {name: [place for place in several if Path(place).exists()] for name, several in places.items()}
    return {canonicalize_name(name): several[0] for name, several in there.items() if several}


def locked(
    out: Path, store: Store, origins: dict[str, str], **more: Any
) -> tuple[tuple[Source, ...], tuple[Resolution, ...]]:
    """Lock the sources of a snapshot."""
    snapshot = read_snapshot(out)
    lines = tuple(line for line in snapshot.requirements if line.kind == "editable")
    places = {name: read_origin(place, out) for name, place in origins.items()}
    given = SourceInputs(
        patches=snapshot.patches, origins=places, store=store, env=ENV, captured=snapshot.captured, folder=out, **more
    )  # fmt: skip
    return resolve_sources(lines, given)


def source_files(out: Path, folder: Path, origins: dict[str, str]) -> dict[bytes, tuple[str, bytes]]:
    """Return kind and bytes of every file in the source tree that a lock makes of the job's directory."""
    store = Store(folder / "store")
    (source,), rulings = locked(out, store, origins)
    assert {ruling.outcome for ruling in rulings} == {"pinned"}
    assert not source.installed
    found: dict[bytes, tuple[str, bytes]] = {}
    with store.verified(source.file.sha256, source.name).open("rb") as stream:
        for entry, read in read_tar(stream):
            if entry.type == "symlink":
                found[os.fsencode(entry.path)] = ("link", os.fsencode(entry.target))
            elif entry.type == "file":
                found[os.fsencode(entry.path)] = ("program" if entry.mode & 0o111 else "file", read())
    return found


def run_program(
    *words: str | Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run capture.py as a file of its own."""
    argv = [BASE, str(PROGRAM), *map(str, words)]
    return subprocess.run(argv, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=100)
