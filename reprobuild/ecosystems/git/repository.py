"""A private bare git repository for reading commits and trees.

It reads patches, too. There is never a checkout, so no hook, filter or attribute of an untrusted repository
runs; the user's repositories are never written to. Ids:
https://git-scm.com/book/en/v2/Git-Internals-Git-Objects
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from reprobuild.ecosystems.git.tree_listing import LISTING, Blob, Room
from reprobuild.errors import LockError
from reprobuild.infra import proc
from reprobuild.infra.display import escape_text
from reprobuild.infra.git import command as program
from reprobuild.infra.git.addresses import HEAD
from reprobuild.infra.untrusted.strings import Epoch, is_valid

_QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C.UTF-8",
    "HOME": "/nonexistent",
}
# A bundle or clone may belong to another user; it is only read. A file, since the git at the other end of a
# local fetch sees neither `-c` nor GIT_CONFIG_COUNT.
_CONFIG = "[safe]\n\tdirectory = *\n"
AT_ONCE = 64 << 20  # bytes of files in memory
_HEADER = 128  # git's line before each file, and the end of line after it
_COMMITS, _PATHS = 500, 50  # that are compared with a diff
_HEAD = "refs/from/HEAD"
_ID = re.compile(r"[0-9a-f]{4,64}")


class GitRepository:
    """A private bare repository in a scratch directory.

    Args:
        folder: an empty directory that the caller removes.
        env: the user's environment; used only for fetching (its credentials).
    """

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self._folder = folder
        config = folder / "gitconfig"
        config.write_text(_CONFIG)
        self._env = {"PATH": env.get("PATH", ""), **_QUIET, "GIT_CONFIG_GLOBAL": str(config)}
        self._fetch_env = program.fetch_environment(env)
        self._work = folder / "empty"
        self._work.mkdir()
        self._bare = folder / "git"
        self._git(
            "init", "--quiet", "--bare", str(folder / "git"), purpose="make a scratch repository", bare=False
        )

    def _git(
        self, *arguments: str, purpose: str, stdin: bytes | None = None, bare: bool = True,
        env: Mapping[str, str] | None = None, most: int = LISTING, output: Path | None = None,
    ) -> bytes:  # fmt: skip
        place = ("--git-dir", str(self._bare), "--work-tree", str(self._work)) if bare else ()
        return proc.run(
            ["git", *program.OPTIONS, *place, *arguments], env=env or self._env, purpose=purpose, stdin=stdin,
            cwd=self._work, missing=LockError, most=most, output=output,
        )  # fmt: skip

    def fetch_local(self, path: Path, *, head: bool = False) -> None:
        """Fetch every ref of a local bundle or repository, with `head` also its HEAD, which a bundle may lack."""
        place = str(path.absolute())
        program.fetch(self._bare, place, "+refs/*:refs/from/*", purpose=f"read {path}", env=self._env)
        if head:
            with contextlib.suppress(proc.ProcessFailedError):
                program.fetch(self._bare, place, f"+{HEAD}:{_HEAD}", purpose=f"read {path}", env=self._env)

    def fetch_remote(self, url: str, revision: str, *, configured: bool = False) -> None:
        """Fetch one commit from a remote, or all branches and tags if it refuses single commits.

        Args:
            url: its address.
            revision: the commit; empty for all refs.
            configured: the user named the address, not a snapshot.

        Raises:
            LockError: the address leads to a program that is not git's own.
            EngineError: it is not available, or the remote is silent.
        """
        program.check_address(url, LockError)
        if revision:
            try:
                program.fetch(
                    self._bare, url, f"+{revision}:refs/from/asked", depth=1,
                    purpose=f"fetch {revision[:12]} from {url}", env=self._fetch_env, configured=configured,
                )  # fmt: skip
            except proc.ProcessFailedError as err:
                if program.TOO_SLOW in err.stderr:  # another try would be as slow
                    raise
            else:
                return
        program.fetch(
            self._bare, url, "+refs/heads/*:refs/from/heads/*", "+refs/tags/*:refs/from/tags/*",
            purpose=f"fetch {url}", env=self._fetch_env, configured=configured,
        )  # fmt: skip

    def commit(self, revision: str, *, refs: bool = True) -> str | None:
        """Return the full id of a revision's commit; None if it is not there.

        Args:
            revision: a commit's id (may be abbreviated), a tag or a branch of the fetched refs, or HEAD.
            refs: it may be a tag or a branch.
        """
        names = [revision] if _ID.fullmatch(revision) else []
        if revision == HEAD:  # a clone has another one, of its remote: refs/remotes/origin/HEAD
            names = [_HEAD, "refs/from/asked"]
        elif refs:
            names += [f"refs/from/{kind}/{revision}" for kind in ("tags", "heads", "remotes/origin")]
            names += [] if _ID.fullmatch(revision) else ["refs/from/asked"]
        for name in names:
            try:
                out = self._git(
                    "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", purpose="x"
                )
            except proc.ProcessFailedError:
                continue
            return out.decode().strip()
        return None

    def has(self, revision: str) -> bool:
        """Return whether the repository has an object."""
        try:
            self._git("cat-file", "-e", revision, purpose="look for an object")
        except proc.ProcessFailedError:
            return False
        return True

    def lacking(self, oids: Sequence[str]) -> list[str]:
        """Return the missing objects among some."""
        stdin, most = program.batch_check_input(oids)
        words = ("cat-file", "--batch-check=%(objectname)")
        return program.parse_missing(self._git(*words, purpose="look for objects", stdin=stdin, most=most))

    def unpack(self, pack: bytes) -> None:
        """Add the objects of a bundle's pack.

        They may be deltas of objects that are here.
        """
        self._git("index-pack", "--stdin", "--fix-thin", purpose="unpack a bundle", stdin=pack)

    def mark_shallow(self, commits: Sequence[str]) -> None:
        """Record commits without available parents: https://git-scm.com/docs/shallow."""
        if commits:
            path = self._folder / "git" / "shallow"
            known = path.read_text() if path.exists() else ""
            path.write_text(known + "".join(f"{commit}\n" for commit in commits))

    def trees_of(self, revisions: Sequence[str]) -> list[str]:
        """Return the tree ids of commits, after a completeness check.

        Every object reachable from the commits must be here. Git walks each object once, however many commits
        lead to it.
        """
        request = "".join(f"{revision}\n" for revision in revisions).encode()
        purpose = "look for missing objects"
        self._git("rev-list", "--objects", "--quiet", "--stdin", purpose=purpose, stdin=request)
        request = "".join(f"{revision}^{{tree}}\n" for revision in revisions).encode()
        words = ("cat-file", "--batch-check=%(objectname)")
        return self._git(*words, purpose="read commits", stdin=request).decode().splitlines()

    def write_tree(self, blobs: Sequence[Blob]) -> str:
        """Return the id of a new tree of files, each with its own path."""
        env = {**self._env, "GIT_INDEX_FILE": str(self._folder / "index")}
        self._git("read-tree", "--empty", purpose="begin a tree", env=env)
        # Git appends a row that is last in its order, and moves all others for one that is not.
        named = [(blob.path.encode("utf-8", "surrogateescape"), blob) for blob in blobs]
        rows = sorted(named, key=itemgetter(0))
        request = b"".join(f"{blob.mode} {blob.id}\t".encode() + path + b"\0" for path, blob in rows)
        self._git("update-index", "-z", "--index-info", purpose="list the files", stdin=request, env=env)
        return self._git("write-tree", purpose="write a tree", env=env).decode().strip()

    def commit_time(self, commit: str) -> int | None:
        """Return the committer's date, in seconds since 1970; None without a valid one."""
        text = self._git(
            "show", "--no-patch", "--format=%ct", commit, purpose="read the commit's date"
        ).strip()
        return int(text) if re.fullmatch(rb"[0-9]{1,18}", text) and is_valid(int(text), Epoch) else None

    def blobs(self, tree: str, room: Room | None = None, above: str = "") -> list[Blob]:
        """Return every path of a commit or tree, sorted.

        Args:
            tree: its id.
            room: for this list among others; git is ended if it writes more, and too many rows are not read.
            above: a directory, with `/` at its end, prefixed to the paths.

        Raises:
            LockError: a bound of `room` is exceeded.
            EngineError: the list is too long.
        """
        # The directories are listed, too, since a small tree may have any number of empty ones.
        words = ("ls-tree", "-r", "-t", "-z", "--full-tree", tree)
        out = self._git(*words, purpose="list a tree", most=room.size if room else LISTING)
        if room:
            room.take(out, above)
        blobs = []
        for row in out.split(b"\0")[:-1]:
            head, _, path = row.partition(b"\t")
            mode, kind, oid = head.decode().split(" ")
            if kind != "tree":
                blobs.append(Blob(mode=mode, id=oid, path=above + path.decode("utf-8", "surrogateescape")))
        return sorted(blobs, key=lambda blob: blob.path)

    def with_sizes(self, blobs: Sequence[Blob]) -> list[Blob]:
        """Return blobs with their sizes.

        A submodule, whose commit is elsewhere, has size 0.
        """
        ids = dict.fromkeys(blob.id for blob in blobs if blob.mode != "160000")
        request = "".join(f"{id_}\n" for id_ in ids).encode()
        words = ("cat-file", "--batch-check=%(objectsize)", "--buffer")
        out = self._git(*words, purpose="read the sizes of a tree's files", stdin=request)
        sizes = dict(zip(ids, map(int, out.split()), strict=True))
        return [replace(blob, size=sizes.get(blob.id, 0)) for blob in blobs]

    def packed(self) -> int:
        """Return the size of the objects on disk, in bytes."""
        folder = self._bare / "objects"
        return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

    def apply(self, commit: str, patch: bytes, name: str, strip: int = 1) -> str:
        """Return the tree id of a commit with a patch.

        `strip` is the number of leading directories in the patch's paths that are not the repository's.

        Raises:
            LockError: the patch does not apply.
        """
        env = {**self._env, "GIT_INDEX_FILE": str(self._folder / "index")}
        self._git("read-tree", commit, purpose="read the commit", env=env)
        if patch:
            words = ("apply", "--cached", "--whitespace=nowarn", f"-p{strip}", "-")
            try:
                self._git(*words, purpose=f"apply {name}", stdin=patch, env=env)
            except proc.ProcessFailedError as err:
                complaint = escape_text(err.stderr.strip(), lines=True).replace("\n", "\n  git: ")
                raise LockError(
                    f"{name} does not apply to commit {commit[:12]}:\n  git: {complaint}",
                    hint="it was made on another commit, or by a git with diff.noprefix or diff.external set; "
                    "capture it again with `git diff HEAD --binary --full-index`",
                ) from None
        return self._git("write-tree", purpose="write the patched tree", env=env).decode().strip()

    def applies(self, commit: str, patch: bytes, strip: int, *options: str) -> bool:
        """Return whether a patch would apply under other rules.

        The result is discarded.
        """
        env = {**self._env, "GIT_INDEX_FILE": str(self._folder / "trial")}
        self._git("read-tree", commit, purpose="read the commit", env=env)
        words = ("apply", "--cached", "--check", f"-p{strip}", *options, "-")
        try:
            self._git(*words, purpose="try a patch", stdin=patch, env=env)
        except proc.ProcessFailedError:
            return False
        return True

    def find_commit(self, blob: str, path: str) -> str | None:
        """Return the newest commit with a blob at a path.

        Of the fetched commits, those that changed this blob at the path are searched, the newest first. The id
        may be abbreviated; None without such a commit.
        """
        if "\n" in path:
            return None
        try:
            words = ("rev-parse", "--verify", "--quiet", f"{blob}^{{blob}}")
            full = self._git(*words, purpose="look for a blob").decode().strip()
            options = ("log", "--all", "--format=%H", f"--max-count={_COMMITS}", f"--find-object={full}")
            commits = self._git(*options, "--", path, purpose="look for a blob").decode().split()
            # The log also has the commits that removed the blob.
            ids = self._ids_at_paths(f"{commit}:{path}\n" for commit in commits)
        except proc.ProcessFailedError:
            return None
        return next((commit for commit, id_ in zip(commits, ids, strict=True) if id_ == full), None)

    def find_commits(self, blobs: Mapping[str, str]) -> list[str]:
        """Return the newest commits with blobs at paths.

        Only fetched commits are searched, newest first. The ids may be abbreviated.
        """
        words = ("rev-list", "--all", "--date-order", f"--max-count={_COMMITS}")
        commits = self._git(*words, purpose="list the commits").decode().split()
        pairs = [(path, blob) for path, blob in blobs.items() if "\n" not in path][:_PATHS]
        ids = self._ids_at_paths(f"{commit}:{path}\n" for commit in commits for path, _ in pairs)
        fits = []
        for number, commit in enumerate(commits):
            objects = ids[number * len(pairs) : (number + 1) * len(pairs)]
            if pairs and all(id_.startswith(blob) for id_, (_, blob) in zip(objects, pairs, strict=True)):
                fits.append(commit)
        return fits

    def _ids_at_paths(self, rows: Iterable[str]) -> list[str]:
        """Return the objects of lines `COMMIT:PATH`; a missing one has the line in place of its id."""
        request = "".join(rows).encode("utf-8", "surrogateescape")
        output = self._git("cat-file", "--batch-check=%(objectname)", purpose="look for blobs", stdin=request)
        return output.decode("utf-8", "surrogateescape").split("\n")[:-1]

    def contents(self, blobs: list[Blob]) -> Iterator[tuple[Blob, IO[bytes]]]:
        """Yield each blob with its bytes, in the given order.

        Their sizes must be known; a stream is valid until the next.
        """
        start = 0
        while start < len(blobs):
            if blobs[start].size > AT_ONCE:
                yield from self._large(blobs[start])
                start += 1
                continue
            end, size = start, 0
            while end < len(blobs) and size + blobs[end].size <= AT_ONCE:
                size += blobs[end].size
                end += 1
            yield from self._small(blobs[start:end], size)
            start = end

    def _small(self, blobs: list[Blob], size: int) -> Iterator[tuple[Blob, IO[bytes]]]:
        request = "".join(f"{blob.id}\n" for blob in blobs).encode()
        most = size + _HEADER * len(blobs)
        out = self._git("cat-file", "--batch", purpose="read a tree's files", stdin=request, most=most)
        stream = io.BytesIO(out)
        for blob in blobs:
            header = stream.readline().decode().split()
            yield blob, io.BytesIO(stream.read(int(header[2])))
            stream.read(1)

    def _large(self, blob: Blob) -> Iterator[tuple[Blob, IO[bytes]]]:
        """Yield a blob that git writes to disk in pieces."""
        path = self._folder / "large"
        words = ("-c", f"core.bigFileThreshold={AT_ONCE}", "cat-file", "blob", blob.id)
        self._git(*words, purpose="read a large file", output=path)
        with path.open("rb") as stream:
            yield blob, stream
        path.unlink()
