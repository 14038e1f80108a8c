"""The diff of a repository, for people."""

from __future__ import annotations

import os
from typing import Any, Dict

from reprobuild_portable.capture.limits import DIFF
from reprobuild_portable.capture.model import GaveUpError
from reprobuild_portable.capture.repositories.repository import Repository


def _diff(repository: Repository, facts: Dict[str, Any], name: str, moved: Dict[str, str]) -> Dict[str, Any]:
    """Write the diff from a remote's commit to the files.

    It is for people, and for readers of the chapter's recipe. Without such a commit, it starts at the commit
    that is checked out, else at an empty tree.
    """
    start = facts["base"] or facts["head"]
    if start is None:
        start = repository.add(b"tree", b"").decode()
    path = os.path.join(repository.scratch, "diff")
    words = (
        "diff-tree", "-p", "--binary", "--full-index", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color",
        "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none", "-U3",
    )  # fmt: skip
    try:
        with open(path, "w+b") as stream:
            repository.git(
                *words,
                start + "^{tree}" if facts["head"] else start,
                facts["worktree"],
                out=stream,
                most=DIFF,
            )
    except GaveUpError as err:
        return {"file": None, "from": start, "reason": err.reason}
    size = os.stat(path).st_size
    if size > DIFF:
        return {"file": None, "from": start, "reason": "too-large", "bytes": size}
    if size:
        moved[name] = path
    return {"file": name if size else None, "from": start, "bytes": size, "reason": "done"}
