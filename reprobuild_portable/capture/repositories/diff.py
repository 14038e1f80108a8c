"""The diff of a repository, for people."""

from __future__ import annotations

import os
from typing import IO, Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from reprobuild_portable.capture.files import quote
from reprobuild_portable.capture.limits import DIFF, LISTED
from reprobuild_portable.capture.model import Context, GaveUpError
from reprobuild_portable.capture.repositories.objects import IN_PATH, UNSEARCHED, _find_rule
from reprobuild_portable.capture.repositories.repository import Repository
from reprobuild_portable.capture.repositories.search import _find_secret_paths, _select_searchable
from reprobuild_portable.capture.scrub import _show_paths


class ChangedFile(NamedTuple):
    """A file in one of the two trees that a diff compares."""

    mode: bytes
    oid: bytes
    path: bytes


def _diff(repository: Repository, facts: Dict[str, Any], name: str, moved: Dict[str, str]) -> Dict[str, Any]:
    """Write the diff from a remote's commit to the files.

    It is for people, and for readers of the chapter's recipe. Without such a commit, it starts at the commit
    that is checked out, else at an empty tree. There is no diff if an unpushed commit added a secret, or if it would
    name a path that is one: no reader of a snapshot takes such a diff, and the bundle has the content.
    """
    start = facts["base"] or facts["head"]
    if start is None:
        start = repository.add(b"tree", b"").decode()
    tree = start + "^{tree}" if facts["head"] else start
    path = os.path.join(repository.scratch, "diff")
    words = (
        "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
        "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none", "-U3",
    )  # fmt: skip
    try:
        before, after = _list_changed(repository, tree, facts["worktree"])
        named = _find_secret_paths((file.path for file in (*before, *after)), repository.context)
        if named:
            rows = _list_rules(
                {path: f"{rule} {IN_PATH}" for path, rule in named.items()}, repository.context
            )
            return {"file": None, "from": start, "reason": "secret", "named": rows}
        rules = _find_secrets(repository, [file for file in after if file.oid not in repository.clean])
        added = {file.path: rule for file, rule in rules.items() if rule != UNSEARCHED}
        if added:
            rows = _list_rules(added, repository.context)
            return {"file": None, "from": start, "reason": "secret", "secrets": rows}
        rules = _find_secrets(repository, before)
        with open(path, "w+b") as stream:
            if rules:
                tree = _write_deletions(repository, tree, list(rules), stream)
            repository.git(*words, tree, facts["worktree"], out=stream, most=DIFF)
    except GaveUpError as err:
        return {"file": None, "from": start, "reason": err.reason}
    size = os.stat(path).st_size
    if size > DIFF:
        return {"file": None, "from": start, "reason": "too-large", "bytes": size}
    if size:
        moved[name] = path
    return {
        "file": name if size else None,
        "from": start,
        "bytes": size,
        "reason": "done",
        "removed": _list_rules({file.path: rule for file, rule in rules.items()}, repository.context),
    }


def _list_rules(rules: Mapping[bytes, str], context: Context) -> List[Dict[str, str]]:
    """Return the first paths with their rules. No secret of a path is in its text."""
    paths = list(rules)[:LISTED]
    return [
        {"path": shown, "rule": rules[path]}
        for path, shown in zip(paths, _show_paths(paths, context.secrets))
    ]


def _list_changed(
    repository: Repository, tree: str, worktree: str
) -> Tuple[List[ChangedFile], List[ChangedFile]]:
    """Return the changed files and links with their old content, and those with their new content."""
    words = ("diff-tree", "-r", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-ext-diff")
    fields = repository.git(*words, "--ignore-submodules=all", tree, worktree).split(b"\0")
    rows = [(row[1:].split(b" "), path) for row, path in zip(fields[::2], fields[1::2])]
    before, after = (
        [
            ChangedFile(head[side], head[side + 2], path)
            for head, path in rows
            if head[side][:2] in (b"10", b"12")
        ]
        for side in (0, 1)
    )
    return before, after


def _find_secrets(repository: Repository, files: Sequence[ChangedFile]) -> Dict[ChangedFile, str]:
    """Return the rule of each file whose content must not be in a diff.

    A diff has added and removed lines, and lines around a change. A file that cannot be searched counts as a secret.
    """
    contents = dict(_select_searchable(repository, {file.oid: file.path for file in files})[0])
    rules = {file: _find_rule(repository, file.path, contents.get(file.oid)) for file in files}
    return {file: rule for file, rule in rules.items() if rule}


def _write_deletions(
    repository: Repository, tree: str, files: Sequence[ChangedFile], stream: IO[bytes]
) -> str:
    """Write that a diff deletes these files, and return the tree without them.

    git applies such an entry, and compares the id with the file. The diff from that tree adds a changed file as a
    whole.
    """
    none = "0" * len(repository.id(b""))
    for file in files:
        old, new = (_prefix(side, file.path) for side in ("a/", "b/"))
        rows = (
            " ".join(("diff --git", old, new)),
            f"deleted file mode {file.mode.decode()}",
            f"index {file.oid.decode()}..{none}",
            f"Binary files {old} and /dev/null differ",
        )
        stream.write("".join(f"{row}\n" for row in rows).encode())
    stream.flush()
    index = os.path.join(repository.scratch, "index-without-secrets")
    repository.write_index("read-tree", tree, GIT_INDEX_FILE=index)
    changes: Mapping[bytes, None] = {file.path: None for file in files}
    return repository.change_tree(index, changes).decode()


def _prefix(side: str, path: bytes) -> str:
    """Return a path of a diff as git writes it."""
    text = quote(path)
    return f'"{side}{text[1:]}' if text.startswith('"') else side + text
