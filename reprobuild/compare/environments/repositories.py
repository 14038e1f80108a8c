"""Captured repositories as facts, and their files without content.

A capture leaves out the content of some files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from reprobuild.compare.environments.evidence import repository_evidence
from reprobuild.compare.environments.freeze import add_commits
from reprobuild.compare.environments.model import Aspect, EnvironmentBuilder, Kind, normalise_name
from reprobuild.snapshot.capture_model import CapturedRepository, CaptureFacts
from reprobuild.snapshot.model import Snapshot

NONE = "none"
_OUTERMOST = "."
OTHER_BUNDLE = "{} has a bundle that is not the one of its capture.json"
LEFT_OUT = "{} leaves the content of files out"


def add_sources(
    gathered: EnvironmentBuilder, snapshot: Snapshot, bundles: Mapping[str, str], diffs: Mapping[str, str]
) -> None:
    """Add the repositories of a snapshot.

    They are complete work trees if captured, else commits of the freeze and digests of diffs.
    """
    if "requirements.txt" not in snapshot.absent or snapshot.patches or snapshot.captured:
        gathered.begin("source")
    add_commits(gathered, snapshot)
    whole = {repository.name for repository in snapshot.captured.repositories} if snapshot.captured else set()
    for patch in snapshot.patches:
        if patch.name not in whole:
            digest = hashlib.sha256(patch.content).hexdigest()
            gathered.add("source", normalise_name(patch.name), {"changes": f"sha256:{digest}"})
    for remark in snapshot.remarks:  # an empty diff is no patch: there were no changes
        name = normalise_name(remark.place.file.removesuffix(".diff"))
        if remark.understood and remark.place.file.endswith(".diff") and name in gathered.begin("source"):
            gathered.known["source"][name].setdefault("changes", NONE)
    if snapshot.captured:
        _add_repositories(gathered, snapshot.captured, bundles, diffs)


def _add_repositories(
    gathered: EnvironmentBuilder, captured: CaptureFacts, bundles: Mapping[str, str], diffs: Mapping[str, str]
) -> None:
    """Add the captured work trees.

    A work tree inside another one is a part of it.
    """
    gathered.begin("job")
    for repository in captured.repositories:
        _doubt_left_out(gathered, repository)
        inside = sorted(
            (_describe_nested(child, repository), child) for child in _list_nested(captured, repository)
        )
        proofs = tuple(
            repository_evidence(part, bundles, diffs)
            for part in (repository, *(child for _, child in inside))
        )
        if not all(proof.stated for proof in proofs):
            gathered.doubt(
                "source" if repository.distributions else "job", OTHER_BUNDLE, repository.name, "hidden"
            )
        clean = repository.diff.file is None and repository.diff.reason == "done"
        inner = [line for line, _ in inside]
        aspects: dict[Aspect, str | None] = {
            "changes": NONE if clean and not inner else None,
        }
        if inner:  # a lock has the tree of all together, and only git can compute that
            together = "\n".join([repository.worktree, *inner]).encode()
            aspects["trees"] = f"sha256:{hashlib.sha256(together).hexdigest()}"
        else:
            aspects["tree"] = repository.worktree
        for owner in map(normalise_name, repository.distributions):
            gathered.add("source", owner, aspects)
            gathered.evidence["source", owner] = proofs
            if repository.head:  # the freeze has the newest commit of a remote, and a lock names that one
                gathered.known["source"][owner].setdefault("commit", repository.head)
        if not repository.distributions and repository.parent is None:
            gathered.add("job", repository.name, {**aspects, "commit": repository.head})
            gathered.evidence["job", repository.name] = proofs


def _doubt_left_out(gathered: EnvironmentBuilder, repository: CapturedRepository) -> None:
    """Add the files that are in no tree and diff.

    Their content may differ without any other sign.
    """
    kind: Kind = "source" if repository.distributions else "job"
    for file in repository.left_out:
        gathered.doubt(kind, LEFT_OUT, f"{repository.name}/{file.path}", "hidden")
    if repository.left_out_count > len(repository.left_out):
        more = repository.left_out_count - len(repository.left_out)
        gathered.doubt(kind, LEFT_OUT, f"{repository.name}: {more} more, which are not named", "hidden")


def _list_nested(captured: CaptureFacts, repository: CapturedRepository) -> Iterator[CapturedRepository]:
    """Yield each repository inside another, at any depth, once."""
    waiting, names = [repository.name], {repository.name}
    while waiting:
        for child in captured.inside(waiting.pop()):
            if child.name not in names:
                names.add(child.name)
                waiting.append(child.name)
                yield child


def _describe_nested(child: CapturedRepository, outermost: CapturedRepository) -> str:
    """Return the place and tree of a repository inside another.

    The lines of all parents make the complete path. No repository is named `.`, which stands for the
    outermost.
    """
    parent = _OUTERMOST if child.parent == outermost.name else child.parent
    return f"{child.name} {parent} {child.path} {child.worktree}"
