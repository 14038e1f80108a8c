"""Tracked files of a work tree."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from typing import Dict, List, Match, Optional, Set, Tuple

from reprobuild_portable.capture.files import _sha256
from reprobuild_portable.capture.limits import CHANGED_FILE
from reprobuild_portable.capture.model import GaveUpError
from reprobuild_portable.capture.repositories.history import _read_head
from reprobuild_portable.capture.repositories.objects import (
    _find_filtered_paths,
    _leave_file_out,
    _list_own_filters,
    _search_paths,
    _write_object,
)
from reprobuild_portable.capture.repositories.repository import Entry, Files, Repository
from reprobuild_portable.capture.repositories.search import _read_blobs
from reprobuild_portable.capture.repositories.untracked import _look_untracked

_LFS = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n.*?oid sha256:([0-9a-f]{64})\nsize (\d{1,19})\n",
    re.DOTALL,
)


def _entries(
    repository: Repository,
) -> Tuple[Dict[bytes, Entry], List[Tuple[bytes, bytes, bytes, bytes]]]:
    """Read the index of a repository.

    Returns:
        Entries by path, and (path, mode, id, stage) of conflicts.
    """
    entries: Dict[bytes, Entry] = {}
    unmerged = []
    for row in repository.git("ls-files", "-s", "-v", "-z").split(b"\0")[:-1]:
        head, _, path = row.partition(b"\t")
        tag, mode, oid, stage = head.split(b" ")
        if stage == b"0":
            entries[path] = Entry(mode, oid, tag)
        else:
            unmerged.append((path, mode, oid, stage))
    return entries, unmerged


def _look(
    repository: Repository, entries: Dict[bytes, Entry], unmerged: List[Tuple[bytes, bytes, bytes, bytes]]
) -> Files:
    """Find the differences between work tree and index."""
    rows = repository.git("diff-files", "--raw", "-z", "--no-renames", "--ignore-submodules=all").split(b"\0")
    intended = [path for row, path in zip(rows[::2], rows[1::2]) if row.endswith(b" A")]
    touched = set(rows[1::2]) | {path for path, *_ in unmerged}
    files = Files({}, {}, [], [], {}, intended, touched, set(), set())
    converted, filtered = _find_converted(repository, entries)
    large = {path for path, name in filtered.items() if name == b"lfs"}
    pointers = dict(_read_blobs(repository, sorted({entries[path].oid for path in large})))
    filters = _list_own_filters(repository)
    strange = {path for path, name in filtered.items() if name.decode("utf-8", "replace") in filters} - large
    flagged = {path for path, entry in entries.items() if entry.tag not in (b"H", b"M")}
    _search_paths(repository, touched | converted | set(filtered) | flagged)
    for path, entry in entries.items():
        if entry.mode == b"160000":
            _look_inside(repository, path, entry, files)
        elif path in large or path in strange:
            pointer = pointers.get(entry.oid, b"") if path in large else None
            _look_filtered(repository, path, entry, path in touched, pointer, files)
        elif path in touched or path in converted or path in flagged:
            _look_at(repository, path, entry, files, CHANGED_FILE)
    torn = {path for path, *_ in unmerged} - set(entries)
    hidden = _find_filtered_paths(repository, torn)
    for path in torn:
        if path in hidden:
            _look_filtered(repository, path, None, True, None, files)
        else:
            _look_at(repository, path, None, files, CHANGED_FILE)
    _look_untracked(repository, entries, files)
    return files


def _find_converted(
    repository: Repository, entries: Dict[bytes, Entry]
) -> Tuple[Set[bytes], Dict[bytes, bytes]]:
    """Return the paths that git may convert, and filtered ones.

    git converts line ends and encodings, so that the bytes on the disk differ.
    """
    auto = repository.config.get("core.autocrlf", "false").lower() not in ("false", "no", "off", "0")
    places = [os.path.join(repository.common, "info", "attributes")]
    places.append(os.path.expanduser(repository.config.get("core.attributesfile", "")))
    home = repository.env.get("XDG_CONFIG_HOME") or os.path.join(repository.env.get("HOME", ""), ".config")
    places += [os.path.join(home, "git", "attributes"), "/etc/gitattributes"]
    named = any(path.endswith(b".gitattributes") for path in entries) or any(
        map(os.path.exists, filter(None, places))
    )
    named = named or os.path.exists(os.path.join(repository.top, ".gitattributes"))
    if not (auto or named):
        return set(), {}
    paths = [path for path, entry in entries.items() if entry.mode not in (b"120000", b"160000")]
    kinds = ("text", "crlf", "eol", "filter", "ident", "working-tree-encoding")
    fields = repository.git("check-attr", "-z", "--stdin", *kinds, stdin=b"\0".join(paths) + b"\0").split(
        b"\0"
    )
    converted, filtered = set(), {}
    for path, kind, value in zip(fields[0::3], fields[1::3], fields[2::3]):
        if value in (b"unset", b"unspecified") and not (auto and kind == b"text" and value == b"unspecified"):
            continue
        if kind == b"filter":
            filtered[path] = value
        else:
            converted.add(path)
    return converted - set(filtered), filtered


def _look_at(repository: Repository, path: bytes, entry: Optional[Entry], files: Files, most: int) -> None:
    """Compare one path with its index entry, byte for byte."""
    file_entry = _write_object(repository, path, entry, files, most)
    # Of a path that is only intended to be added the index has an empty file, and no tree has it.
    if entry is not None and file_entry == (entry.mode, entry.oid) and path not in files.intended:
        return
    with contextlib.suppress(OSError):
        if file_entry is not None or repository.state(path) is None:
            files.changed[path] = file_entry


def _look_inside(repository: Repository, path: bytes, entry: Entry, files: Files) -> None:
    """Record the commit of a submodule.

    The commit goes into our tree. The submodule's work tree is a repository of its own.
    """
    full = os.path.join(repository.top, os.fsdecode(path))
    state = None
    with contextlib.suppress(OSError):
        state = repository.state(path)
    is_folder = state is not None and stat.S_ISDIR(state.st_mode)
    if is_folder and os.path.exists(os.path.join(full, ".git")):
        files.inner[path] = full
        with contextlib.suppress(GaveUpError, OSError):
            head = _read_head(Repository(full, repository.context)).commit
            if head and head.encode() != entry.oid:
                files.changed[path] = (b"160000", head.encode())
    elif not is_folder:
        _look_at(repository, path, entry, files, CHANGED_FILE)
    elif any(names for _, _, names in os.walk(full)):
        _leave_file_out(files, path + b"/", "not-initialised")


def _look_filtered(
    repository: Repository,
    path: bytes,
    entry: Optional[Entry],
    touched: bool,
    pointer: Optional[bytes],
    files: Files,
) -> None:
    """Record a file behind a filter.

    The bytes on the disk are not those that git keeps (LFS), or must not be (git-crypt). `pointer` is the
    blob of the index if the filter is LFS, None for other filters.
    """
    try:
        state = repository.state(path)
    except OSError:
        _leave_file_out(files, path, "unreadable")
        return
    if state is None:
        files.changed[path] = None
        return
    size = state.st_size
    large = _LFS.match(pointer or b"")
    if pointer is None:
        _leave_file_out(files, path, "filtered", size)
    elif (
        large is None or size != int(large.group(2)) or (touched and not _is_content(repository, path, large))
    ):
        _look_at(repository, path, entry, files, CHANGED_FILE)
    else:
        files.large.append({"path": path, "sha256": large.group(1).decode(), "bytes": size})


def _is_content(repository: Repository, path: bytes, pointer: Match[bytes]) -> bool:
    """Return whether a file has the content of a pointer.

    The pointer is that of LFS. git does not know the answer without LFS's filter.
    """
    try:
        return _sha256(repository.open(path), repository.context) == pointer.group(1).decode()
    except OSError:
        return False
