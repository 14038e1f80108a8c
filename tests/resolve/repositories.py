"""Real repositories of git, made in a temporary directory."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reprobuild.lock.model import Resolution
from reprobuild.lock.python import Source
from reprobuild.resolve.sources import missing
from reprobuild.snapshot.model import Patch, Requirement
from reprobuild.snapshot.parsers import git_diff, pip_freeze

DATE = 1_700_000_000
ENV = {
    "PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_AUTHOR_DATE": f"{DATE - 5} +0000", "GIT_COMMITTER_DATE": f"{DATE} +0100",
}  # fmt: skip
FILES: dict[str, bytes] = {
    "mod.py": b"".join(b"line %d\n" % n for n in range(20)),
    "pkg/data.bin": bytes(range(256)) * 8,
    "pkg/tool.sh": b"#!/bin/sh\n",
    "crlf.txt": b"one\r\ntwo\r\n",
    "gr\u00fc\u00dfe \u4e2d.txt": "\u00fc\n".encode(),
}


def unreachable(found: tuple[Sequence[Source], Sequence[Resolution]]) -> str:
    """Return why the first source cannot be had; there is no other, and it stands in no lock."""
    sources, rulings = found
    assert sources == ()
    assert {(one.outcome, one.kind) for one in rulings} == {("unresolved", missing.KIND)}
    return rulings[0].reason


class Project:
    """A repository with a first commit of `FILES`, an executable and a link."""

    def __init__(self, path: Path, files: Mapping[str, bytes] = FILES) -> None:
        self.path = path
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        for name, content in files.items():
            self.write(name, content)
        if "pkg/tool.sh" in files:
            (path / "pkg/tool.sh").chmod(0o755)
            (path / "pkg/link").symlink_to("../mod.py")
        self.commit()

    def git(self, *arguments: str, env: Mapping[str, str] | None = None) -> bytes:
        return subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments], cwd=self.path, env={**ENV, **(env or {})},
            check=True, capture_output=True,
        ).stdout  # fmt: skip

    def ask(self, *arguments: str) -> str:
        return self.git(*arguments).decode().strip()

    def write(self, name: str, content: bytes) -> None:
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).write_bytes(content)

    def commit(self) -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", "more")
        return self.head

    @property
    def head(self) -> str:
        return self.ask("rev-parse", "HEAD")

    def worktree_id(self) -> str:
        """Return the tree id of the directory as it is now, by git's own way, in an index of its own."""
        env = {"GIT_INDEX_FILE": str(self.path.parent / f"{self.path.name}.index")}
        self.git("read-tree", "HEAD", env=env)
        self.git("add", "--all", env=env)
        return self.git("write-tree", env=env).decode().strip()

    def diff(self, *options: str) -> bytes:
        return self.git("diff", "--no-ext-diff", *options)

    def bundle(self, path: Path) -> Path:
        self.git("bundle", "create", "--quiet", str(path), "--all")
        return path

    def fingerprint(self) -> str:
        """Return a hash of every name, time and content in the directory, git's own included."""
        digest = hashlib.sha256()
        for path in sorted(self.path.rglob("*")):
            info = path.lstat()
            content = path.read_bytes() if path.is_file() else b""
            digest.update(f"{path} {info.st_mode} {info.st_mtime_ns} {len(content)}\n".encode() + content)
        return digest.hexdigest()


def edit(project: Project) -> None:
    """Change a line of a text file."""
    project.write("mod.py", FILES["mod.py"].replace(b"line 7\n", b"changed\n"))


def binary(project: Project) -> None:
    """Change a binary file."""
    project.write("pkg/data.bin", FILES["pkg/data.bin"][:-3] + b"\0\1\2new")


def requirement(text: str) -> Requirement:
    """Return what the reader of a freeze makes of one line."""
    (found,), _ = pip_freeze.parse(text.encode() + b"\n")
    return found


def patch(content: bytes, file: str = "proj.diff") -> Patch:
    """Return what the reader of diffs makes of one."""
    (found,), _ = git_diff.parse(content, file)
    return found
