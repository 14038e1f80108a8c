"""Refusal of untrusted repositories.

Such a repository belongs to another user, or its files lie elsewhere.
"""

from __future__ import annotations

import os
import shlex
from typing import Iterator, List, Tuple

from reprobuild_portable.capture.files import _path, _read, _scan
from reprobuild_portable.capture.model import Context, GaveUpError
from reprobuild_portable.capture.processes import _run
from reprobuild_portable.host import host

# Files of a git directory that go into a capture, or name commits that do, and others that git reads.
_READ = (
    "HEAD", "commondir", "config", "config.worktree", "gitdir", "index", "info", "info/attributes", "packed-refs",
    "shallow", "info/exclude", "info/sparse-checkout",
)  # fmt: skip
_LEADS_OUT, _NOT_REGULAR = "a link out of the git directory", "no regular file"
_SHARED_INDEX = "sharedindex."  # begins the names of further files of an index
_MOST_ALTERNATES = 1 << 16  # bytes of a list


def _check_links(top: str, folder: str, common: str, program: str, context: Context) -> None:
    """Refuse a `.git` that leads to another directory's repository.

    That repository may be private. A repository lists its own directories itself: a worktree in
    `worktrees/NAME/gitdir`, a submodule in `core.worktree` (gitrepository-layout, git-config).
    """
    here = os.path.join(os.path.realpath(top), ".git")
    for git_folder in dict.fromkeys((folder, common)):
        odd = next(_list_odd_files(git_folder, common, context), None)
        if odd is not None:
            raise GaveUpError("untrusted", f"{_path(odd[0])} is {odd[1]}")
    if common != folder:
        named = os.fsdecode(_read(os.path.join(folder, "gitdir"), 1 << 14).rstrip(b"\r\n"))
        is_listed = os.path.dirname(folder) == os.path.join(common, "worktrees")
        if not is_listed or os.path.realpath(os.path.join(folder, named)) != here:
            raise GaveUpError(
                "untrusted", f"{_path(common)} has no worktree here: `git worktree repair` there adds one"
            )
    elif folder != here and not _has_work_tree(folder, top, program, context):
        raise GaveUpError(
            "untrusted",
            f"{_path(folder)} is the git directory of another directory: "
            f"`git config core.worktree {shlex.quote(_path(top))}` in that repository makes it that of this one",
        )


def _list_odd_files(folder: str, common: str, context: Context) -> Iterator[Tuple[str, str]]:
    """Yield the files of a git directory that are no files of it, each with the reason.

    They are links that lead out, except into the shared git directory, and pipes and devices, which git would wait
    for.
    """
    inside = (folder + os.sep, common + os.sep)
    places = [os.path.join(folder, name) for name in _READ]
    places += [entry.path for entry in _scan(folder) if entry.name.startswith(_SHARED_INDEX)]
    waiting = [os.path.join(folder, name) for name in ("refs", "reftable", "objects")]
    for place in (*places, *waiting):
        if os.path.islink(place) and not os.path.realpath(place).startswith(inside):
            yield place, _LEADS_OUT
        if os.path.exists(place) and not (os.path.isfile(place) or os.path.isdir(place)):
            yield place, _NOT_REGULAR
    visited = set()
    while waiting:
        context.left()
        for entry in _scan(waiting.pop()):
            if not entry.is_symlink():
                if entry.is_dir():
                    waiting.append(entry.path)
                elif not entry.is_file():
                    yield entry.path, _NOT_REGULAR
                continue
            target = os.path.realpath(entry.path)
            if not target.startswith(inside):
                yield entry.path, _LEADS_OUT
            elif os.path.isdir(target) and target not in visited:
                visited.add(target)
                waiting.append(target)
            elif os.path.exists(target) and not (os.path.isfile(target) or os.path.isdir(target)):
                yield entry.path, _NOT_REGULAR


def _check_borrowed(top: str, common: str, program: str, context: Context) -> List[str]:
    """Refuse objects of another repository, which may be private, if the user does not trust this one.

    Returns:
        The directories of such objects.
    """
    borrowed = list(_list_borrowed(common, context))
    if borrowed and not _is_safe(os.path.realpath(top), program, context):
        raise GaveUpError(
            "untrusted",
            f"its `objects/info/alternates` leads to {_path(borrowed[0])}, objects of another repository: "
            f"`git config --global --add safe.directory {shlex.quote(_path(top))}` admits them",
        )
    return borrowed


def _list_borrowed(common: str, context: Context) -> Iterator[str]:
    """Yield the directories of objects outside of a repository (gitrepository-layout, `alternates`).

    A list that no git writes is one of them.
    """
    objects = os.path.realpath(os.path.join(common, "objects"))
    waiting, visited = [objects], {objects}
    while waiting:
        context.left()
        folder = waiting.pop()
        place = os.path.join(folder, "info", "alternates")
        content = _read(place, _MOST_ALTERNATES)
        if len(content) == _MOST_ALTERNATES or b"\0" in content:
            yield place
            continue
        for line in content.split(b"\n"):
            if not line or line.startswith(b"#"):
                continue
            target = os.path.realpath(os.path.join(folder, os.fsdecode(line)))
            if line.startswith(b'"') or not (target + os.sep).startswith(
                objects + os.sep
            ):  # git reads quotes, too
                yield target
            elif target not in visited:
                visited.add(target)
                waiting.append(target)


def _has_work_tree(folder: str, top: str, program: str, context: Context) -> bool:
    """Return whether a git directory has `top` as work tree."""
    for name in ("config.worktree", "config"):
        place = os.path.join(folder, name)
        words = (program, "config", "--file", place, "-z", "--get", "core.worktree")
        value = _run(words, context, cwd="/", codes=(0, 1)) if os.path.isfile(place) else b""
        if value:
            named = os.path.join(folder, os.fsdecode(value.rstrip(b"\0")))
            return os.path.realpath(named) == os.path.realpath(top)
    return False


def _check_owner(top: str, folder: str, common: str, program: str, context: Context) -> None:
    """Refuse a repository of another user, as git does.

    An explicit `--git-dir` skips git's own check. A repository of root is accepted: a site may have
    installed it for all.
    """
    owners = {0, host.geteuid()}
    if host.geteuid() == 0 and context.environ.get("SUDO_UID", "").isdigit():
        owners.add(int(context.environ["SUDO_UID"]))
    places = (top, os.path.join(top, ".git"), folder, common)
    if all(host.lstat(place).st_uid in owners for place in places):
        return
    if not _is_safe(os.path.realpath(top), program, context):
        raise GaveUpError(
            "untrusted",
            "it belongs to another user: "
            f"`git config --global --add safe.directory {shlex.quote(_path(top))}` trusts it",
        )


def _is_safe(top: str, program: str, context: Context) -> bool:
    """Return whether `safe.directory` lists a directory.

    The configurations of the user and the system count (git-config).
    """
    named: List[str] = []
    for scope in ("--system", "--global"):
        words = (program, "config", scope, "-z", "--type=path", "--get-all", "safe.directory")
        # Without a configuration file, git of some versions ends with 128.
        output = _run(words, context, cwd="/", codes=(0, 1, 128))
        for value in os.fsdecode(output).split("\0")[:-1]:
            named = [*named, value] if value else []
    within = any(
        place.endswith("/*") and top.startswith(os.path.realpath(place[:-2]) + os.sep) for place in named
    )
    return within or "*" in named or any(place and os.path.realpath(place) == top for place in named)
