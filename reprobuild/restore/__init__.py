"""A captured repository, made again: on a clone of its remote, or from its bundle alone.

The files are written from git's objects one by one, by names that have been checked; nothing is checked out, so
that no filter or hook runs and every byte is as it was captured.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from reprobuild import proc
from reprobuild.errors import BuildError, SnapshotError
from reprobuild.guard.below import make_below, open_below, symlink_below
from reprobuild.guard.names import check_target
from reprobuild.restore import git as program
from reprobuild.restore.bundle import damaged, read_pack
from reprobuild.restore.paths import check_path, check_paths, inside
from reprobuild.snapshot.captured import unquoted
from reprobuild.snapshot.repositories import Repository
from reprobuild.snapshot.text import escaped

_QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
}
# What decides how bytes on the disk and in the repository belong together; nothing else of a configuration is taken.
_SETTINGS = {
    "core.autocrlf": r"true|false|input",
    "core.eol": r"lf|crlf|native",
    "core.filemode": r"true|false",
    "core.symlinks": r"true|false",
    "core.ignorecase": r"true|false",
    "core.precomposeunicode": r"true|false",
}
_AT_ONCE = 64 << 20  # bytes of files in memory
_HEADER = 128  # git's line before each of them, and the end of line behind it


class _File(Struct, frozen=True):
    mode: bytes
    oid: bytes
    size: int
    path: bytes


def restore(
    repositories: Sequence[Repository], name: str, folder: Path, target: Path, env: Mapping[str, str],
    origins: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Make a captured repository, and those inside of it, again.

    Every file has its bytes, its executable bit or link text; HEAD, the index and the files not captured by git are
    as they were, so `git status` says what it said.

    Args:
        repositories: of `read_captured`.
        name: of the one to make.
        folder: the snapshot.
        target: where; it must not be there yet, or be empty.
        env: the user's environment, for git's credentials.
        origins: by name of a repository, the path or address of one that has the commits that a remote had; not
            needed for those whose bundle is complete.

    Raises:
        SnapshotError: the capture is damaged, hostile or incomplete, or the origin does not have a commit.
        EngineError: git is absent or failed.
    """
    one = next((one for one in repositories if one.name == name), None)
    if one is None:
        raise SnapshotError(
            f"no repository `{escaped(name)}` was captured",
            hint=f"there are: {', '.join(one.name for one in repositories) or 'none'}",
        )
    inner = {unquoted(child.path): child for child in repositories if child.parent == name}
    for path in inner:
        check_path(path, one.name)
    _Restored(one, folder, target, env).make((origins or {}).get(name), set(inner))
    for path, child in sorted(inner.items()):
        place = inside(target, path, child.name)
        restore([c for c in repositories if c is not one], child.name, folder, place, env, origins)


class _Restored:
    """One work tree in the making."""

    def __init__(self, one: Repository, folder: Path, target: Path, env: Mapping[str, str]) -> None:
        self.one = one
        self.folder = folder
        self.target = target
        self.env = {"PATH": env.get("PATH", ""), **_QUIET}
        self.fetch_env = program.fetching(env)

    def make(self, origin: str | None, inner: set[bytes]) -> None:
        """Do all of it; see `restore`."""
        pack = read_pack(self.one, self.folder)
        if self.target.is_symlink() or (self.target.exists() and any(self.target.iterdir())):
            raise SnapshotError(
                f"`{escaped(str(self.target))}` is not empty", hint="name a folder that is not there yet"
            )
        self._init()
        if origin is not None:
            self._fetch(origin)
        self._check_prerequisites(origin)
        if pack:
            self._unpack(pack)
        files = self._files(self.one.worktree, inner)
        self._files(self.one.index, set())
        self._write(files)
        self._index()
        self._head()

    def git(
        self, *words: str, purpose: str, stdin: bytes | None = None, most: int = proc.MOST_OUTPUT
    ) -> bytes:
        """Return the output of git in the new work tree."""
        argv = ["git", *program.OPTIONS, *words]
        return proc.run(argv, env=self.env, purpose=purpose, stdin=stdin, cwd=self.target, most=most)

    def refused(self, what: str) -> SnapshotError:
        """Return the error that names this repository; the caller raises it."""
        return damaged(self.one, what)

    def _init(self) -> None:
        self.target.mkdir(parents=True, exist_ok=True)
        words = ("init", "--quiet", "--template=", f"--object-format={self.one.object_format}", ".")
        self.git(*words, purpose=f"make {self.target}")
        for key, value in self.one.settings.items():
            if not re.fullmatch(_SETTINGS.get(key, r"(?!)"), value):
                raise self.refused(f"the setting {key}={value} is not one that a capture takes")
            self.git("config", key, value, purpose="set what decides about line ends")
        if self.one.attributes:
            (self.target / ".git" / "info").mkdir(exist_ok=True)
            (self.target / ".git" / "info" / "attributes").write_text(self.one.attributes + "\n")
        for remote in self.one.remotes:
            if re.fullmatch(r"[A-Za-z0-9][\w.-]*", remote.name) and program.is_safe(remote.url):
                self.git("config", f"remote.{remote.name}.url", remote.url, purpose="note a remote")
                spec = f"+refs/heads/*:refs/remotes/{remote.name}/*"
                self.git("config", f"remote.{remote.name}.fetch", spec, purpose="note a remote")

    def _fetch(self, origin: str) -> None:
        program.check_address(origin, SnapshotError)
        self._take(origin, "+refs/heads/*:refs/remotes/origin/*", purpose=f"fetch {origin}")
        for oid in self.one.prerequisites:
            if not self._has(oid):
                try:
                    self._take(origin, oid, purpose=f"fetch commit {oid[:12]}")
                except proc.Failed:
                    continue  # said below, for all of them

    def _take(self, origin: str, ref: str, purpose: str) -> None:
        program.fetch(self.target / ".git", origin, ref, env=self.fetch_env, purpose=purpose, configured=True)

    def _has(self, oid: str) -> bool:
        try:
            self.git("cat-file", "-e", oid, purpose="look for a commit")
        except proc.Failed:
            return False
        return True

    def _check_prerequisites(self, origin: str | None) -> None:
        for oid in self.one.prerequisites:
            if not self._has(oid):
                where = f"not in {escaped(origin)}" if origin else "not in the snapshot: a remote had it"
                known = ", ".join(remote.url for remote in self.one.remotes)
                raise SnapshotError(
                    f"commit {oid[:12]} of {self.one.name} is {where}",
                    hint=f"name a clone or an address that has it; the remotes were: {escaped(known) or 'none'}",
                )
        missing = [oid for oid in self.one.shallow if not self._has(oid)]
        if missing:
            (self.target / ".git" / "shallow").write_text("".join(f"{oid}\n" for oid in missing))

    def _unpack(self, pack: bytes) -> None:
        assert self.one.bundle is not None
        refs = self.one.bundle.refs
        try:
            self.git("index-pack", "--stdin", "--fix-thin", purpose="unpack the bundle", stdin=pack)
            self.git("rev-list", "--objects", "--quiet", *refs.values(), purpose="look for missing objects")
            for ref in ("index", "worktree"):
                found = (
                    self.git("rev-parse", f"{refs[ref]}^{{tree}}", purpose="read a commit").decode().strip()
                )
                if found != getattr(self.one, ref):
                    raise self.refused(f"its {ref} is another one than capture.json says")
        except (proc.Failed, KeyError):
            raise self.refused("its bundle is damaged or lacks objects") from None

    def _files(self, tree: str, inner: set[bytes]) -> list[_File]:
        """Return the files of a tree, whose paths have been found to be harmless; git gives but four modes."""
        try:
            out = self.git("ls-tree", "-r", "-l", "-z", "--full-tree", tree, purpose="list a tree")
        except proc.Failed:
            raise self.refused(f"the tree {tree} is missing") from None
        files = []
        for row in out.split(b"\0")[:-1]:
            head, _, path = row.partition(b"\t")
            mode, _, oid, size = head.split()
            files.append(_File(mode, oid, 0 if size == b"-" else int(size), path))
        among = inner - {file.path for file in files if file.mode == b"160000"}
        check_paths([file.path for file in files], among, self.one.name)
        return files

    def _write(self, files: list[_File]) -> None:
        for file, content in self._contents([file for file in files if file.mode != b"160000"]):
            try:
                self._place(file, content)
            except BuildError as err:
                raise self.refused(str(err)) from None
        for file in files:
            if file.mode == b"160000":
                make_below(self.target, file.path.decode("utf-8", "surrogateescape"))

    def _place(self, file: _File, content: bytes) -> None:
        name = file.path.decode("utf-8", "surrogateescape")
        if file.mode == b"120000":
            text = content.decode("utf-8", "surrogateescape")
            check_target(text, str(self.target / name), self.one.name)
            symlink_below(text, self.target, name)
            return
        with open_below(self.target, name) as stream:
            stream.write(content)
            if file.mode == b"100755":
                mode = os.fstat(stream.fileno()).st_mode
                os.fchmod(stream.fileno(), mode | (mode & 0o444) >> 2)

    def _contents(self, files: list[_File]) -> Iterator[tuple[_File, bytes]]:
        """Yield each file with its bytes, some files at a time."""
        start = 0
        while start < len(files):
            end, size = start + 1, files[start].size
            while end < len(files) and size + files[end].size <= _AT_ONCE:
                size += files[end].size
                end += 1
            request = b"".join(file.oid + b"\n" for file in files[start:end])
            most = size + _HEADER * (end - start)
            out = self.git(
                "cat-file", "--batch", purpose="read the files of a tree", stdin=request, most=most
            )
            at = 0
            for file in files[start:end]:
                words = out[at : out.index(b"\n", at)].split(b" ")
                if words[1:2] != [b"blob"]:
                    raise self.refused(f"{file.path!r} is missing")
                at += sum(map(len, words)) + len(words)
                yield file, out[at : at + int(words[2])]
                at += int(words[2]) + 1
            start = end

    def _index(self) -> None:
        self.git("read-tree", self.one.index, purpose="restore the index")
        rows = [
            f"{mode} {oid} {stage}\t".encode() + unquoted(path)
            for mode, oid, stage, path in self.one.unmerged
        ]
        for _, _, _, path in self.one.unmerged:
            check_path(unquoted(path), self.one.name)
        if rows:
            stdin = b"\0".join(rows) + b"\0"
            self.git("update-index", "-z", "--index-info", purpose="restore conflicts", stdin=stdin)
        for flag, paths in self.one.flags.items():
            for path in paths:
                check_path(unquoted(path), self.one.name)
            names = b"".join(unquoted(path) + b"\0" for path in paths)
            if not names:
                continue
            words: tuple[str, ...] = ("update-index", f"--{flag}", "-z", "--stdin")
            if flag == "intent-to-add":
                words = ("add", "-f", "-N", "--pathspec-from-file=-", "--pathspec-file-nul")
            self.git(*words, purpose="restore marks of the index", stdin=names)

    def _head(self) -> None:
        if self.one.branch is None:
            if self.one.head is None:
                raise self.refused("it has neither a commit nor a branch")
            self.git("update-ref", "--no-deref", "HEAD", self.one.head, purpose="restore HEAD")
            return
        branch = unquoted(self.one.branch).decode("utf-8", "surrogateescape")
        try:
            if not branch.startswith("refs/heads/"):
                raise ValueError
            self.git("check-ref-format", branch, purpose="check the branch")
        except (proc.Failed, ValueError):
            raise self.refused(f"its branch {branch!r} is no name of a branch") from None
        self.git("symbolic-ref", "HEAD", branch, purpose="restore HEAD")
        if self.one.head is not None:
            self.git("update-ref", branch, self.one.head, purpose="restore the branch")
