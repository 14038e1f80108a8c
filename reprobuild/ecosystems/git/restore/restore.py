"""Restoration of a captured repository from its bundle or remote.

It is made on a clone of its remote, or only from its bundle. The files are written from git's objects one by
one, by checked names; there is no checkout, so no filter or hook runs and every byte is as it was captured.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.restore.bundle import damage_error, read_pack
from reprobuild.ecosystems.git.restore.files import TreeFile, bare_repositories, list_files, write_files
from reprobuild.ecosystems.git.restore.origins import (
    Address,
    display_address,
    format_remotes,
    list_addresses,
    missing_commit_error,
)
from reprobuild.ecosystems.git.restore.paths import check_path, inner_path
from reprobuild.ecosystems.git.restore.remote_bounds import MOST_FETCHES, RemoteAllowance, describe_unasked
from reprobuild.ecosystems.git.restore.room import RestoreAllowance
from reprobuild.errors import ReproError, SnapshotError
from reprobuild.infra import proc
from reprobuild.infra.display import escape_text
from reprobuild.infra.git import command as program
from reprobuild.snapshot.capture_model import CapturedRepository
from reprobuild.snapshot.parsers.capture_json import unquote_path

_QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
}
# The settings that map bytes on the disk to the repository; no other setting of a configuration is taken.
_SETTINGS = {
    "core.autocrlf": r"true|false|input",
    "core.eol": r"lf|crlf|native",
    "core.filemode": r"true|false",
    "core.symlinks": r"true|false",
    "core.ignorecase": r"true|false",
    "core.precomposeunicode": r"true|false",
}


class Restored(Struct, frozen=True, kw_only=True):
    """A restored work tree: its path, commit and remote address.

    `address` had the commits of the remote; it has neither user nor password, so it can be shown. `bare` has
    the directories in it that are git repositories of their own without a work tree: git follows their
    configuration if a command starts in them.
    """

    name: str
    folder: Path
    head: str | None
    branch: str | None
    address: str | None
    bare: tuple[str, ...]


def restore_repository(
    repositories: Sequence[CapturedRepository], name: str, folder: Path, target: Path, env: Mapping[str, str],
    origins: Mapping[str, str] | None = None, *, remotes: bool = False,
) -> tuple[Restored, ...]:  # fmt: skip
    """Restore a captured repository, and those inside it.

    Every file has its bytes, its executable bit or link text; HEAD, the index and the files not captured by
    git are as they were, so `git status` prints the same.

    Args:
        repositories: of `read_captured`.
        name: of the one to restore, or of a distribution that was installed from it.
        folder: the snapshot.
        target: the new work tree; it must not exist, or be empty.
        env: the user's environment, for git's credentials.
        origins: by name of a repository, the path or address of one that has the commits that a remote had;
            not needed for those whose bundle is complete.
        remotes: if no origin is named, use the captured remotes on other machines.

    Raises:
        SnapshotError: the capture is damaged, malicious or incomplete, or no address has a commit.
        EngineError: git is absent or failed.
    """
    work_trees, room, requests = [], RestoreAllowance(), RemoteAllowance()
    by_parent: dict[str | None, list[CapturedRepository]] = {}
    for repository in repositories:
        by_parent.setdefault(repository.parent, []).append(repository)
    outermost = _find_repository(repositories, name)
    todo = [(outermost, target)]
    while todo:
        repository, place = todo.pop()
        inner = {unquote_path(child.path): child for child in by_parent.get(repository.name, ())}
        for path in inner:
            check_path(path, repository.name)
        candidates = list_addresses(repository, (origins or {}).get(repository.name), remotes=remotes)
        work_tree = _Restored(repository, folder, place, env, room, requests)
        work_trees.append(work_tree.make(candidates, set(inner)))
        todo += [
            (child, inner_path(place, path, child.name))
            for path, child in sorted(inner.items(), reverse=True)
        ]
    return tuple(work_trees)


def _find_repository(repositories: Sequence[CapturedRepository], name: str) -> CapturedRepository:
    """Return the repository with a name, or of a distribution.

    The distribution was installed from it.
    """
    for repository in repositories:
        if repository.name == name:
            return repository
    project = canonicalize_name(name)
    for repository in repositories:
        if project in map(canonicalize_name, repository.distributions):
            return repository
    raise SnapshotError(
        f"no repository `{escape_text(name)}` was captured",
        hint=f"there are: {', '.join(repository.name for repository in repositories) or 'none'}",
    )


class _Restored:
    """A work tree in progress."""

    def __init__(
        self,
        repository: CapturedRepository,
        folder: Path,
        target: Path,
        env: Mapping[str, str],
        room: RestoreAllowance,
        requests: RemoteAllowance,
    ) -> None:
        self.room, self.requests = room, requests
        self.one = repository
        self.folder = folder
        self.target = target
        self.env = {"PATH": env.get("PATH", ""), **_QUIET}
        self.fetch_env = program.fetch_environment(env)

    def make(self, candidates: Sequence[Address], inner: set[bytes]) -> Restored:
        """Restore the work tree; see `restore_repository`."""
        pack = read_pack(self.one, self.folder)
        if self.target.is_symlink() or (self.target.exists() and any(self.target.iterdir())):
            raise SnapshotError(
                f"`{escape_text(str(self.target))}` is not empty",
                hint="name a directory that is not there yet",
            )
        self._init()
        address = self._fetch_commits(candidates)
        self._mark_shallow()
        if pack:
            self._unpack(pack)
        self._files(self.one.index, set())
        files = self._files(self.one.worktree, inner, self.room)
        write_files(self, files)
        self._index()
        self._head()
        branch = unquote_path(self.one.branch).decode("utf-8", "replace") if self.one.branch else None
        return Restored(
            name=self.one.name, folder=self.target, head=self.one.head, branch=branch,
            address=display_address(address.place) if address else None, bare=bare_repositories(files, inner),
        )  # fmt: skip

    def git(
        self, *words: str, purpose: str, stdin: bytes | None = None, most: int = proc.MOST_OUTPUT,
        output: Path | None = None,
    ) -> bytes:  # fmt: skip
        """Return the output of git in the new work tree."""
        argv = ["git", *program.OPTIONS, *words]
        return proc.run(
            argv, env=self.env, purpose=purpose, stdin=stdin, cwd=self.target, most=most, output=output
        )

    def refused(self, reason: str) -> SnapshotError:
        """Return the error that names this repository."""
        return damage_error(self.one, reason)

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
        with (self.target / ".git" / "config").open("a", encoding="utf-8") as stream:
            stream.write(format_remotes(self.one.remotes))

    def _fetch_commits(self, candidates: Sequence[Address]) -> Address | None:
        """Fetch the remote's commits; return the address with all."""
        refused: list[str] = []
        for number, address in enumerate(candidates):
            if self.requests.is_over and not address.named:
                refused.append(describe_unasked(len(candidates) - number))
                break
            try:
                self._fetch(address)
            except ReproError as err:
                if address.named:
                    raise
                refused.append(f"{display_address(address.place)}: {escape_text(str(err).splitlines()[0])}")
                continue
            if not self._missing_prerequisites():
                return address
            refused.append(f"{display_address(address.place)}: it does not have the commit")
        if absent := self._missing_prerequisites():
            raise missing_commit_error(self.one, absent[0], candidates, refused)
        return None

    def _missing_prerequisites(self) -> list[str]:
        return self._find_missing(self.one.prerequisites)

    def _fetch(self, address: Address) -> None:
        program.check_address(address.place, SnapshotError)
        spec = f"+refs/heads/*:refs/remotes/{address.remote}/*"
        began = time.monotonic()
        try:
            self._fetch_ref(address, spec, purpose=f"fetch {display_address(address.place)}")
        except ReproError:
            self.requests.spend(time.monotonic() - began)
            raise
        taken = time.monotonic() - began
        for oid in self._missing_prerequisites()[:MOST_FETCHES]:
            if self.requests.is_over and not address.named:
                break
            began = time.monotonic()
            try:
                self._fetch_ref(address, oid, purpose=f"fetch commit {oid[:12]}")
            except proc.ProcessFailedError:
                self.requests.spend(time.monotonic() - began)  # reported below, for all of them
        if self._missing_prerequisites():
            self.requests.spend(taken)

    def _fetch_ref(self, address: Address, ref: str, purpose: str) -> None:
        program.fetch(
            self.target / ".git",
            address.place,
            ref,
            env=self.fetch_env,
            purpose=purpose,
            configured=address.named,
        )

    def _find_missing(self, oids: Sequence[str]) -> list[str]:
        stdin, most = program.batch_check_input(oids)
        words = ("cat-file", "--batch-check=%(objectname)")
        return program.parse_missing(self.git(*words, purpose="look for commits", stdin=stdin, most=most))

    def _mark_shallow(self) -> None:
        if absent := self._find_missing(self.one.shallow):
            (self.target / ".git" / "shallow").write_text("".join(f"{oid}\n" for oid in absent))

    def _unpack(self, pack: bytes) -> None:
        assert self.one.bundle is not None
        refs = self.one.bundle.refs
        try:
            self.git("index-pack", "--stdin", "--fix-thin", purpose="unpack the bundle", stdin=pack)
            self.git("rev-list", "--objects", "--quiet", *refs.values(), purpose="look for missing objects")
            for ref in ("index", "worktree"):
                tree = (
                    self.git("rev-parse", f"{refs[ref]}^{{tree}}", purpose="read a commit").decode().strip()
                )
                if tree != getattr(self.one, ref):
                    raise self.refused(f"its {ref} is another one than capture.json says")
        except (proc.ProcessFailedError, KeyError):
            raise self.refused("its bundle is damaged or lacks objects") from None

    def _files(
        self, tree: str, inner: Collection[bytes], room: RestoreAllowance | None = None
    ) -> list[TreeFile]:
        """Return the files of a tree, with safe paths."""
        return list_files(self, tree, set(inner), room)

    def _index(self) -> None:
        self.git("read-tree", self.one.index, purpose="restore the index")
        rows = [
            f"{mode} {oid} {stage}\t".encode() + unquote_path(path)
            for mode, oid, stage, path in self.one.unmerged
        ]
        for _, _, _, path in self.one.unmerged:
            check_path(unquote_path(path), self.one.name)
        if rows:
            stdin = b"\0".join(rows) + b"\0"
            self.git("update-index", "-z", "--index-info", purpose="restore conflicts", stdin=stdin)
        for flag, paths in self.one.flags.items():
            for path in paths:
                check_path(unquote_path(path), self.one.name)
            names = b"".join(unquote_path(path) + b"\0" for path in paths)
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
        branch = unquote_path(self.one.branch).decode("utf-8", "surrogateescape")
        try:
            if not branch.startswith("refs/heads/"):
                raise ValueError
            self.git("check-ref-format", branch, purpose="check the branch")
        except (proc.ProcessFailedError, ValueError):
            raise self.refused(f"its branch {branch!r} is no name of a branch") from None
        self.git("symbolic-ref", "HEAD", branch, purpose="restore HEAD")
        if self.one.head is not None:
            self.git("update-ref", branch, self.one.head, purpose="restore the branch")
