"""Untracked files of a work tree."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from typing import Any, Dict, List, Mapping, Set

from reprobuild_portable.capture.files import _relative, quote
from reprobuild_portable.capture.limits import LISTING, UNTRACKED_COUNT, UNTRACKED_FILE, UNTRACKED_TOTAL
from reprobuild_portable.capture.model import GaveUpError
from reprobuild_portable.capture.repositories.folders import find_top
from reprobuild_portable.capture.repositories.objects import (
    _find_filtered_paths,
    _leave_file_out,
    _search_paths,
    _write_object,
)
from reprobuild_portable.capture.repositories.repository import Entry, Files, Repository, _names

# The interpreter of an environment, and what a virtual environment consists of: people keep own files beside that.
_PYTHONS = (b"bin/python", b"Scripts/python.exe")
_VENV_PARTS = (
    b"pyvenv.cfg", b"bin/", b"lib/", b"lib64", b"include/", b"share/", b"etc/", b"Scripts/", b"Lib/", b"Include/",
    b".gitignore", b".lock", b"CACHEDIR.TAG",
)  # fmt: skip
_SNAPSHOT = re.compile(rb'\{\s*"capture":\s*\d')


def _look_untracked(repository: Repository, entries: Mapping[bytes, Entry], files: Files) -> None:
    """Capture untracked files, up to the budgets.

    Files are captured if git does not ignore them, or if they were named. The small ones come first.
    """
    waiting = []
    try:
        output = repository.git("ls-files", "-o", "-z", "--exclude-standard", seconds=LISTING)
    except GaveUpError as err:  # a home directory that is a repository
        files.left_out.append({"path": b".", "reason": err.reason})
        return
    paths = output.split(b"\0")[:-1]
    _find_products(repository, paths, files)
    paths = [path for path in paths if not path.startswith(tuple(files.products))]
    for path in [*paths, *_look_named(repository, {*paths, *entries}, files)]:
        if path.endswith(b"/"):  # a repository inside this one, but not its submodule
            files.inner[path[:-1]] = os.path.join(repository.top, os.fsdecode(path[:-1]))
            continue
        with contextlib.suppress(OSError):
            state = repository.state(path)
            if state is not None:
                waiting.append((state.st_size, path, stat.S_ISLNK(state.st_mode)))
    hidden = _find_filtered_paths(repository, [path for _, path, _ in waiting])
    _search_paths(repository, [path for _, path, _ in waiting])
    total = count = 0
    for size, path, linked in sorted(waiting):
        if path in hidden and not linked:
            _leave_file_out(files, path, "filtered", size)
        elif count >= UNTRACKED_COUNT:
            _leave_file_out(files, path, "too-many", size)
        elif total + size > UNTRACKED_TOTAL or size > UNTRACKED_FILE:
            _leave_file_out(files, path, "too-large", size)
        else:
            file_entry = _write_object(repository, path, None, files, UNTRACKED_FILE)
            if file_entry is not None:
                files.untracked[path] = file_entry
                total, count = total + size, count + 1


def _find_products(repository: Repository, paths: List[bytes], files: Files) -> None:
    """Add the untracked directories that a program made, which are no code of the job.

    They are snapshots and images of reprobuild, virtual environments, and those of conda.
    """
    known = set(paths)
    for path in paths:
        folder, _, name = path.rpartition(b"/")
        top = folder + b"/"
        if not folder:
            continue
        if (name == b"image.json" and top + b"reprobuild.lock" in known) or (
            name == b"capture.json" and _is_snapshot(repository, path)
        ):
            files.products.add(top)
        elif name == b"pyvenv.cfg" and not known.isdisjoint(top + python for python in _PYTHONS):
            files.environments.add(top)
            files.products.update(top + part for part in _VENV_PARTS)
        elif name == b"history" and folder.endswith(b"/conda-meta"):
            top = folder[: -len(b"conda-meta")]
            if top + _PYTHONS[0] in known:
                files.environments.add(top)
                files.products.add(top)


def _is_snapshot(repository: Repository, path: bytes) -> bool:
    try:
        state = repository.state(path)
        if state is None or not stat.S_ISREG(state.st_mode):
            return False
        with open(repository.open(path), "rb") as stream:
            return _SNAPSHOT.match(stream.read(64)) is not None
    except OSError:
        return False


def _look_named(repository: Repository, known: Set[bytes], files: Files) -> List[bytes]:
    """Return the named paths of a repository outside of `known`.

    A path that is not a file is listed with its reason.
    """
    paths: List[bytes] = []
    top = os.path.realpath(repository.top)
    for place in repository.context.include:
        path = os.fsencode(_relative(place, top))
        if find_top(os.path.dirname(place)) != top or path in known:
            continue
        reason = _find_file_obstacle(place)
        if reason:
            _leave_file_out(files, path, reason)
        else:
            paths.append(path)
    return paths


def _find_file_obstacle(place: str) -> str:
    """Return why a path cannot be captured as a file.

    The reason is empty for a file or a link.
    """
    try:
        mode = os.lstat(place).st_mode
    except OSError as err:
        return "not-there" if err.errno in (errno.ENOENT, errno.ENOTDIR) else "unreadable"
    return "" if stat.S_ISREG(mode) or stat.S_ISLNK(mode) else "special-file"


def _list_ignored(repository: Repository, files: Files) -> Dict[str, Any]:
    """Return the names of ignored files, with those of directories that a program made.

    A directory is one name. Their content is not captured here.
    """
    try:
        words = ("ls-files", "-o", "-i", "-z", "--exclude-standard", "--directory")
        rows = repository.git(*words, seconds=LISTING)
    except GaveUpError as err:
        return {"reason": err.reason}
    products = {path for path in files.products if not path.startswith(tuple(files.environments))}
    return _names({*rows.split(b"\0")[:-1], *products, *files.environments}, repository.context)


def _list_flagged(entries: Dict[bytes, Entry], files: Files) -> Dict[str, List[str]]:
    """Return the paths with a flag in the index.

    These flags change the output of `git status`.
    """
    return {
        "intent-to-add": sorted(map(quote, files.intended)),
        "skip-worktree": sorted(quote(path) for path, entry in entries.items() if entry.tag.upper() == b"S"),
        "assume-unchanged": sorted(quote(path) for path, entry in entries.items() if entry.tag.islower()),
    }
