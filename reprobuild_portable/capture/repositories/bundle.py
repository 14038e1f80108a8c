"""The bundle of a repository."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

from reprobuild_portable.capture.files import _sha256
from reprobuild_portable.capture.limits import BUNDLE
from reprobuild_portable.capture.model import GaveUpError
from reprobuild_portable.capture.repositories.repository import Files, Repository
from reprobuild_portable.capture.repositories.staged import Staged


def _bundle(
    repository: Repository,
    facts: Dict[str, Any],
    unmerged: List[Tuple[bytes, bytes, bytes, bytes]],
    moved: Dict[str, str],
) -> Dict[str, Any]:
    """Write the bundle of a repository.

    https://git-scm.com/docs/gitformat-bundle
    """
    head = facts["head"]
    above = [head] if head else []
    refs = {name: repository.commit(facts[name].encode(), above).decode() for name in ("index", "worktree")}
    if head:
        refs["head"] = head
    if unmerged:
        blobs: Dict[bytes, Optional[Tuple[bytes, bytes]]] = {
            b"%d" % number: (mode, oid) for number, (_, mode, oid, _) in enumerate(unmerged)
        }
        refs["unmerged"] = repository.commit(repository.tree(blobs, "unmerged", empty=True), []).decode()
    path = os.path.join(repository.scratch, "bundle")
    prerequisites = facts["prerequisites"]
    with open(path, "w+b") as stream:
        stream.write(
            b"# v2 git bundle\n" if repository.hash == "sha1" else b"# v3 git bundle\n@object-format=sha256\n"
        )
        stream.writelines(f"-{prerequisite}\n".encode() for prerequisite in prerequisites)
        stream.writelines(f"{oid} refs/reprobuild/{name}\n".encode() for name, oid in sorted(refs.items()))
        stream.write(b"\n")
        stream.flush()
        revisions = "".join(f"{oid}\n" for oid in refs.values()) + "".join(
            f"^{prerequisite}\n" for prerequisite in prerequisites
        )
        words = ("pack-objects", "--revs", "--thin", "--delta-base-offset", "--stdout", "-q")
        try:
            repository.git(*words, stdin=revisions.encode(), out=stream, most=BUNDLE)
            if stream.seek(0, os.SEEK_END) > BUNDLE:
                raise GaveUpError("too-large")
        except GaveUpError as err:
            return {"file": None, "refs": refs, "reason": err.reason, "why": err.why}
    name = f"{facts['name']}.bundle"
    moved[name] = path
    return {
        "file": name,
        "sha256": _sha256(path, repository.context),
        "bytes": os.stat(path).st_size,
        "refs": refs,
    }


def _new_blobs(staged: Optional[Sequence[Staged]], files: Files) -> Optional[Dict[bytes, bytes]]:
    """Return path by id of the blobs in a bundle.

    It is for a repository with all commits at a remote. The result is None if the staged files are not
    known.
    """
    if staged is None:
        return None
    rows = [(row.path, (row.mode, row.oid)) for row in staged if row.mode.strip(b"0")]
    rows += [
        (path, entry) for path, entry in {**files.changed, **files.untracked}.items() if entry is not None
    ]
    return {oid: path for path, (mode, oid) in sorted(rows, reverse=True) if mode != b"160000"}
