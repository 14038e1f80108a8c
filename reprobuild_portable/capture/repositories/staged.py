"""Staged changes of a repository."""

from __future__ import annotations

import contextlib
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from reprobuild_portable.capture.model import GaveUpError
from reprobuild_portable.capture.repositories.objects import (
    _find_path_rule,
    _find_withholding_rule,
    _leave_file_out,
    _search_paths,
)
from reprobuild_portable.capture.repositories.repository import Entry, Files, Head, Repository
from reprobuild_portable.capture.repositories.search import _select_searchable

_SEARCHABLE = (b"10", b"12")  # the modes of files and links


class Staged(NamedTuple):
    """A staged change of one path.

    It changes the tree that is checked out. A mode of zeros means no entry there.
    """

    mode_before: bytes
    mode: bytes
    before: bytes
    oid: bytes
    path: bytes


def _list_staged(
    repository: Repository, head: Head, unmerged: Sequence[Tuple[bytes, bytes, bytes, bytes]]
) -> Optional[List[Staged]]:
    """Return the staged changes, or None if they are unknown.

    git cannot tell them before the first commit and amid conflicts.
    """
    if not (head.commit and head.tree) or unmerged:
        return None
    words = ("diff-index", "--cached", "--raw", "--no-abbrev", "-z", "--no-renames")
    fields = repository.git(*words, "--ignore-submodules=none", head.commit).split(b"\0")
    rows = ((row[1:].split(b" "), path) for row, path in zip(fields[::2], fields[1::2]))
    return [Staged(words[0], words[1], words[2], words[3], path) for words, path in rows]


def _remove_staged_secrets(
    repository: Repository, staged: Sequence[Staged], unborn: Mapping[bytes, Entry]
) -> Dict[bytes, str]:
    """Remove staged secrets from our own copy of the index.

    The file on the disk is then compared with the last commit, and searched like any other.

    Args:
        repository: the repository of the index.
        staged: the differences from the last commit.
        unborn: the entries of the index before the first commit; each is staged.

    Returns:
        The rule of each removed path.
    """
    rows = [row for row in staged if row.mode[:2] in _SEARCHABLE]
    none = b"0" * len(repository.id(b""))
    rows += [
        Staged(b"0", entry.mode, none, entry.oid, path)
        for path, entry in unborn.items()
        if entry.mode[:2] in _SEARCHABLE
    ]
    if not rows:
        return {}
    _search_paths(repository, [row.path for row in rows])
    rules = {row.path: rule for row in rows for rule in [_find_path_rule(repository, row.path)] if rule}
    paths: Dict[bytes, List[Staged]] = {}
    for row in rows:
        if row.path not in rules:
            paths.setdefault(row.oid, []).append(row)
    with contextlib.suppress(GaveUpError):  # files not searched here are counted later
        for oid, content in _select_searchable(repository, dict.fromkeys(paths, b""))[0]:
            for row in paths[oid]:
                rule = _find_withholding_rule(repository, row.path, oid, content)
                if rule:
                    rules[row.path] = rule
    undone = [b"%s %s\t%s\0" % (row.mode_before, row.before, row.path) for row in rows if row.path in rules]
    if undone:
        repository.write_index("update-index", "-z", "--index-info", stdin=b"".join(undone))
    return rules


def _name_unstaged(files: Files, hidden: Mapping[bytes, str]) -> None:
    """List the staged secrets among the files left out.

    A path that is listed already is not listed again.
    """
    named = {file["path"] for file in files.left_out}
    for path, rule in sorted(hidden.items()):
        if path not in named:
            _leave_file_out(files, path, "secret", rule=f"{rule}, staged")
