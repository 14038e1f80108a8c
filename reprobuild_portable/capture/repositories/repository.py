"""Read access to one git repository."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import tempfile
import time
import zlib
from typing import (
    IO,
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Set,
    Tuple,
)

from reprobuild_portable.capture.files import quote
from reprobuild_portable.capture.limits import LISTED, SECONDS
from reprobuild_portable.capture.model import Context, GaveUpError
from reprobuild_portable.capture.processes import _program, _run
from reprobuild_portable.capture.repositories.configuration import (
    list_calm_options,
    list_filter_options,
    parse_settings,
)
from reprobuild_portable.capture.repositories.folders import _git_folders
from reprobuild_portable.capture.repositories.scratch import (
    NO_SETTINGS,
    is_sparse,
    make_git_directory,
)
from reprobuild_portable.capture.repositories.trust import (
    _check_borrowed,
    _check_links,
    _check_owner,
)
from reprobuild_portable.capture.scrub import _show_paths
from reprobuild_portable.host import host
from reprobuild_portable.secrets.redact import cut_tokens

#
# The content of a work tree is written as git objects into a directory of our own, unknown to the user's repository,
# and packed with the commits that no remote has into one bundle:
#
#     refs/reprobuild/head      the commit that was checked out
#     refs/reprobuild/index     a commit of the index, with the staged changes
#     refs/reprobuild/worktree  a commit of the files as they lie on the disk, byte for byte, untracked ones included
#     refs/reprobuild/unmerged  a commit of the blobs of conflicts
#
# git only reads: its index from a copy. No program that the repository's configuration names is run. A command that
# writes an index could run a hook of it (`post-index-change`), so it has a git directory of our own.
# Settings for the conversion between bytes on the disk and in the repository.
_SETTINGS = (
    "core.autocrlf",
    "core.eol",
    "core.filemode",
    "core.symlinks",
    "core.ignorecase",
    "core.precomposeunicode",
)
_PATHS = ("core.protecthfs", "core.protectntfs")

_REMOTE = re.compile(r"remote\.(.+)\.url", re.DOTALL)
_AUTHOR = b"reprobuild capture <capture@reprobuild.invalid> 0 +0000"


class Entry(NamedTuple):
    """One path of an index.

    It has git's mode, the object id, and the letter of `git ls-files -v`.
    """

    mode: bytes
    oid: bytes
    tag: bytes


class Files(NamedTuple):
    """Differences between a work tree and its index.

    They are (mode, id) by path, None for a deleted file. `products` are the beginnings of paths that a program made,
    and `environments` the directories of environments, each with a slash.
    """

    changed: Dict[bytes, Optional[Tuple[bytes, bytes]]]
    untracked: Dict[bytes, Tuple[bytes, bytes]]
    left_out: List[Dict[str, Any]]
    large: List[Dict[str, Any]]
    inner: Dict[bytes, str]
    intended: List[bytes]
    touched: Set[bytes]
    products: Set[bytes]
    environments: Set[bytes]


class Repository:
    """A work tree of the user, and new objects.

    The work tree is only read. The objects are in a directory of our own.
    """

    def __init__(self, top: str, context: Context) -> None:
        self.top = top
        self.context = context
        program = _program("git", context)
        if program is None:
            raise GaveUpError("failed", "git is not on PATH")
        self.program = program
        self.folder, self.common = _git_folders(top)
        _check_links(top, self.folder, self.common, program, context)
        _check_owner(top, self.folder, self.common, program, context)
        self.borrowed = _check_borrowed(top, self.common, program, context)
        self.clean: Set[bytes] = set()  # ids of new files without secrets
        self.searched = 0  # bytes
        self.path_rules: Dict[bytes, str] = {}  # of paths whose text holds a secret
        self.above: Optional[Tuple[bytes, int]] = None  # the directory of the last file, and its descriptor
        self.scratch = tempfile.mkdtemp(dir=context.scratch)
        self.objects = os.path.join(self.scratch, "objects")
        host.mkdir(self.objects)
        self.index = os.path.join(self.scratch, "index")
        with contextlib.suppress(FileNotFoundError):  # an unborn repository may have no index
            source = os.path.join(self.folder, "index")
            shutil.copyfile(source, self.index)
            times = host.stat(
                source
            )  # git compares them with the files': a younger copy would hide late changes
            host.utime(self.index, ns=(times.st_atime_ns, times.st_mtime_ns))
        alternate = quote(os.fsencode(os.path.join(self.common, "objects")))
        self.env = {name: value for name, value in context.environ.items() if not name.startswith("GIT_")}
        self.env.update(
            GIT_OPTIONAL_LOCKS="0", GIT_TERMINAL_PROMPT="0", GIT_NO_REPLACE_OBJECTS="1", GIT_NO_LAZY_FETCH="1",
            GIT_LITERAL_PATHSPECS="1", GIT_PAGER="cat", GIT_GRAFT_FILE="/dev/null", LC_ALL="C",
            GIT_INDEX_FILE=self.index, GIT_OBJECT_DIRECTORY=self.objects,
            GIT_ALLOW_PROTOCOL="none",  # it overrules `protocol.file.allow` of the repository
            GIT_ALTERNATE_OBJECT_DIRECTORIES=alternate if alternate.startswith('"') else f'"{alternate}"',
        )  # fmt: skip
        self.options: List[str] = [f"--git-dir={self.folder}", f"--work-tree={top}", "--no-pager"]
        self.options += list_calm_options()
        # An included file may be that of another repository, whose remotes are not those of this one.
        self.own_config = parse_settings(self.git("config", "--list", "-z", "--no-includes"))
        self.config = self.own_config
        if any(name.startswith(("include.", "includeif.")) for name in self.own_config):
            self.config = parse_settings(self.git("config", "--list", "-z", "--includes"))
        self.options += list_filter_options(self.config)
        self.hash = "sha256" if self.config.get("extensions.objectformat") == "sha256" else "sha1"
        self.paths = [  # which paths an index may have
            word for key in _PATHS if key in self.config for word in ("-c", f"{key}={self.config[key]}")
        ]

    def git(self, *words: str, stdin: bytes = b"", out: Optional[IO[bytes]] = None, most: int = 0,
            codes: Sequence[int] = (0,), seconds: float = SECONDS, **env: str) -> bytes:  # fmt: skip
        """Run a git command and return its output.

        `env` are variables for this command.
        """
        context = self.context._replace(deadline=min(self.context.deadline, time.monotonic() + seconds))
        with _naming(words):
            return _run(
                [self.program, *self.options, *words], context, env={**self.env, **env}, cwd=self.top,
                stdin=stdin, out=out, most=most, codes=codes,
            )  # fmt: skip

    def write_index(self, *words: str, stdin: bytes = b"", **env: str) -> bytes:
        """Run a git command that writes an index, and return its output.

        It has no configuration, neither the repository's nor the user's.
        """
        folder = os.path.join(self.scratch, "git")
        if not os.path.isdir(folder):
            make_git_directory(folder, self.hash, self.index, self.folder)
        argv = [self.program, f"--git-dir={folder}", f"--work-tree={folder}", *self.paths, *words]
        with _naming(words):
            return _run(
                argv, self.context, env={**self.env, **NO_SETTINGS, **env}, cwd=folder, stdin=stdin
            )  # fmt: skip

    def state(self, path: bytes) -> Optional[os.stat_result]:
        """Return the state of a path of the work tree.

        It is None if git would consider the path deleted.
        """
        try:
            folder, name = self._enter(path)
            return host.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, path: bytes) -> int:
        """Return the descriptor of a file of the work tree."""
        folder, name = self._enter(path)
        return host.open(name, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK, dir_fd=folder)

    def readlink(self, path: bytes) -> bytes:
        """Return the text of a link in the work tree."""
        folder, name = self._enter(path)
        return host.readlink(name, dir_fd=folder)

    def leave(self) -> None:
        """Close the directory of the last file."""
        if self.above:
            host.close(self.above[1])
        self.above = None

    def _enter(self, path: bytes) -> Tuple[int, bytes]:
        """Return the directory of a path, and its last name.

        An index may hold any path.

        Raises:
            FileNotFoundError: git does not write such a path. NotADirectoryError: it leads over a link.
        """
        above, _, name = path.rpartition(b"/")
        if self.above is None or self.above[0] != above:
            self.leave()
            folder = host.open(self.top, _FOLDER)
            for step in above.split(b"/") if above else ():
                outer = folder
                try:
                    folder = host.open(_check_name(step), _FOLDER | host.O_NOFOLLOW, dir_fd=outer)
                finally:
                    host.close(outer)
            self.above = (above, folder)
        return self.above[1], _check_name(name)

    def add(self, kind: bytes, content: bytes) -> bytes:
        """Write an object into our directory, and return its id."""
        whole = kind + b" %d\0" % len(content) + content
        name = self.id(whole)
        folder = os.path.join(self.objects, name[:2])
        path = os.path.join(folder, name[2:])
        if not os.path.exists(path):
            with contextlib.suppress(FileExistsError):
                host.mkdir(folder)  # not its parents: they are gone if the capture was stopped
            with open(path, "wb") as stream:
                stream.write(zlib.compress(whole, 1))
        return name.encode()

    def id(self, whole: bytes) -> str:
        """Return the id of an object with its header."""
        try:
            return str(hashlib.new(self.hash, whole, usedforsecurity=False).hexdigest())  # or FIPS refuses it
        except TypeError:  # Python 3.8
            return hashlib.new(self.hash, whole).hexdigest()

    def commit(self, tree: bytes, parents: Iterable[str]) -> bytes:
        """Write a commit with only a tree and parents.

        Equal commits have equal ids.
        """
        rows = [b"tree " + tree, *(b"parent " + parent.encode() for parent in parents)]
        return self.add(
            b"commit",
            b"\n".join([*rows, b"author " + _AUTHOR, b"committer " + _AUTHOR, b"", b"captured", b""]),
        )

    def tree(
        self, changes: Mapping[bytes, Optional[Tuple[bytes, bytes]]], name: str, empty: bool = False
    ) -> bytes:
        """Return the tree of the index with changes.

        `changes` has (mode, id) by path, None for a deletion.
        """
        index = os.path.join(self.scratch, name)
        if not empty and os.path.exists(self.index):
            shutil.copy2(self.index, index)
        return self.change_tree(index, changes)

    def change_tree(self, index: str, changes: Mapping[bytes, Optional[Tuple[bytes, bytes]]]) -> bytes:
        """Apply changes to an index of our own, and return its tree."""
        deletions = [path for path, entry in changes.items() if entry is None]
        none = b"0" * (64 if self.hash == "sha256" else 40)
        rows = [b"0 " + none + b"\t" + path for path in deletions]
        rows += [
            entry[0] + b" " + entry[1] + b"\t" + path for path, entry in changes.items() if entry is not None
        ]
        if rows:
            stdin = b"\0".join(rows) + b"\0"
            self.write_index("update-index", "-z", "--index-info", stdin=stdin, GIT_INDEX_FILE=index)
        elif is_sparse(index):  # write-tree has no objects to fill it
            self.write_index("update-index", "--force-write-index", GIT_INDEX_FILE=index)
        # If git sees that the user's repository has a tree already, it sets the time of that file.
        words = ("write-tree", "--missing-ok")
        return self.write_index(*words, GIT_INDEX_FILE=index, GIT_ALTERNATE_OBJECT_DIRECTORIES="").strip()


@contextlib.contextmanager
def _naming(words: Sequence[str]) -> Iterator[None]:
    """Name a command of git in errors of the body."""
    try:
        yield
    except GaveUpError as err:
        raise GaveUpError(err.reason, err.why.replace("`git`", f"`git {words[0]}`")) from None


_FOLDER = host.O_DIRECTORY | host.O_CLOEXEC | getattr(os, "O_PATH", host.O_RDONLY)


def _check_name(name: bytes) -> bytes:
    if name.lower() in (b"", b".", b"..", b".git"):
        raise FileNotFoundError(errno.ENOENT, "git has no such name", name)
    return name


def _names(paths: Iterable[bytes], context: Context) -> Dict[str, Any]:
    ordered = sorted(paths)
    return {"count": len(ordered), "paths": _show_paths(ordered[:LISTED], context.secrets)}


class Head(NamedTuple):
    """The commit that is checked out, with tree and branch.

    Commit and tree are None before the first commit. The branch is None if HEAD is detached. `pushed` tells
    whether a branch of a remote ends at this very commit.
    """

    commit: Optional[str]
    tree: Optional[str]
    branch: Optional[str]
    pushed: bool = False


def _make_unique_name(stem: str, used: Dict[str, int]) -> str:
    """Return a unique name for the files of a repository."""
    name = re.sub(r"[^A-Za-z0-9._-]", "_", cut_tokens(stem)).strip(".")[:80] or "repository"
    used[name] = used.get(name, 0) + 1
    return name if used[name] == 1 else _make_unique_name(f"{name}-{used[name]}", used)
