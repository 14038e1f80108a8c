"""The record of one repository."""

from __future__ import annotations

import os
from typing import Any, Dict

from reprobuild_portable.capture.files import _path, _text, quote
from reprobuild_portable.capture.limits import LISTED
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.capture.repositories.bundle import _bundle, _new_blobs
from reprobuild_portable.capture.repositories.commits import _search_commits
from reprobuild_portable.capture.repositories.diff import _diff
from reprobuild_portable.capture.repositories.history import (
    _base,
    _bundle_branch,
    _find_only_local_remote,
    _limit_remotes,
    _read_head,
    _remotes,
)
from reprobuild_portable.capture.repositories.objects import _list_files
from reprobuild_portable.capture.repositories.repository import _SETTINGS, Repository, _names
from reprobuild_portable.capture.repositories.search import _search
from reprobuild_portable.capture.repositories.staged import (
    _list_staged,
    _name_unstaged,
    _remove_staged_secrets,
)
from reprobuild_portable.capture.repositories.trees import _trees
from reprobuild_portable.capture.repositories.untracked import _list_flagged, _list_ignored
from reprobuild_portable.capture.repositories.worktree import _entries, _look


def take_repository(context: Context, top: str, name: str, installed: bool) -> Taken:
    """Capture the state of one work tree.

    It can be restored on a fresh clone.

    Args:
        context: of this part.
        top: the work tree.
        name: of its files.
        installed: whether a distribution is installed from it: its diff is then a `.diff`, as in the
            chapter's recipe, else a `.patch`.
    """
    repository = Repository(top, context)
    head = _read_head(repository)
    base = _base(repository, head)
    remotes = _remotes(repository)
    entries, unmerged = _entries(repository)
    staged = _list_staged(repository, head, unmerged)
    hidden = _remove_staged_secrets(repository, staged or [], {} if head.commit or unmerged else entries)
    if hidden:
        entries, unmerged = _entries(repository)
        staged = _list_staged(repository, head, unmerged)
    try:
        files = _look(repository, entries, unmerged)
    finally:
        repository.leave()
    _name_unstaged(files, hidden)
    index, work = _trees(repository, head, staged, entries, files, [path for path, *_ in unmerged])
    facts: Dict[str, Any] = {
        "name": name, "folder": _path(top), "head": head.commit, "branch": head.branch,
        "object_format": repository.hash,
        "remotes": _limit_remotes(remotes, base.get("base_remote")), "remote_count": len(remotes),
        **base, "only_here": _find_only_local_remote(repository, base["base"]),
        "index": index.decode(), "worktree": work.decode(),
        "changed": _names((path for path, entry in files.changed.items() if entry is not None), context),
        "deleted": _names((path for path, entry in files.changed.items() if entry is None), context),
        "untracked": _names(files.untracked, context), "left_out": _list_files(files.left_out, context),
        "lfs": _list_files(files.large, context),
        "left_out_count": len(files.left_out), "secrets": [], "unsearched": 0,
        "unmerged": [[mode.decode(), oid.decode(), stage.decode(), quote(path)] for path, mode, oid, stage in unmerged],
        "flags": _list_flagged(entries, files),
        "settings": {key: repository.config[key] for key in _SETTINGS if key in repository.config},
        "attributes": _text(os.path.join(repository.common, "info", "attributes"), 1 << 16),
        "shallow": _text(os.path.join(repository.common, "shallow")).split(),
        "ignored": _list_ignored(repository, files), "inner": files.inner,
        "environments": _names(files.environments, context),
        # A worktree has the commits of a repository that lies elsewhere.
        "elsewhere": None if repository.common == repository.folder else _path(repository.common),
        "borrowed": [_path(folder) for folder in repository.borrowed[:LISTED]],
    }  # fmt: skip
    moved: Dict[str, str] = {}
    facts["bundle"] = None  # if a remote has all content
    searched = _bundle_branch(repository, head, facts, unmerged, moved)
    differs = unmerged or not head.commit or {head.tree} != {facts["index"], facts["worktree"]}
    if not searched and (differs or facts["unpushed"]):
        facts["bundle"] = _bundle(repository, facts, unmerged, moved)
        searched = True
    if facts["base"] == head.commit and facts["worktree"] == head.tree:
        facts["diff"] = {"file": None, "from": head.commit, "bytes": 0, "reason": "done"}
    else:
        facts["diff"] = _diff(repository, facts, name + (".diff" if installed else ".patch"), moved)
    if searched:  # last of all: without time for it, all else is kept
        new = _new_blobs(staged, files) if facts["prerequisites"] == [head.commit] else None
        facts.update(_search(repository, facts, new))
        try:
            facts["secrets"] = [*facts["secrets"], *_search_commits(repository, facts)][:LISTED]
        except GaveUpError:
            facts["unsearched"] += 1  # all messages together
    return Taken(facts, files=moved)
