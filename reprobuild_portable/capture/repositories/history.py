"""The commit of a remote below the one checked out."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Optional, Tuple

from reprobuild_portable.capture.files import _path, _read, quote
from reprobuild_portable.capture.limits import MOST_COMMITS, REMOTES
from reprobuild_portable.capture.model import GaveUpError
from reprobuild_portable.capture.repositories.bundle import _bundle
from reprobuild_portable.capture.repositories.repository import _REMOTE, Head, Repository
from reprobuild_portable.secrets.redact import strip_credentials


def _read_head(repository: Repository) -> Head:
    content = _read(os.path.join(repository.folder, "HEAD"), 1 << 14).rstrip(b"\n")
    if content == b"ref: refs/heads/.invalid":  # https://git-scm.com/docs/reftable
        content = b"ref: " + repository.git("symbolic-ref", "-q", "HEAD", codes=(0, 1)).rstrip(b"\n")
    branch = quote(content[5:]) if content[:5] == b"ref: " and len(content) > 5 else None
    words = ("rev-parse", "HEAD^{commit}", "HEAD^{tree}", "--remotes")
    rows = repository.git(*words, codes=(0, 128)).decode().split("\n")
    if len(rows) < 3:  # the first row repeats words that git cannot resolve
        return Head(None, None, branch)
    return Head(rows[0], rows[1], branch, pushed=rows[0] in rows[2:])


def _remotes(repository: Repository) -> List[Dict[str, str]]:
    remotes = []
    for key, url in repository.own_config.items():
        match = _REMOTE.fullmatch(key)
        if match:
            remotes.append({"name": _path(match.group(1)), "url": _path(_strip_remote_login(url))})
    return remotes


def _limit_remotes(remotes: List[Dict[str, str]], base: Optional[str]) -> List[Dict[str, str]]:
    """Return the first remotes; the one with the base is kept."""
    if len(remotes) <= REMOTES:
        return remotes
    return sorted(remotes, key=lambda remote: remote["name"] != base)[:REMOTES]


def _strip_remote_login(url: str) -> str:
    """Return a remote's address without credentials.

    `user:password@host:path` is an address of ssh's short form.
    """
    short = re.match(r"[^/@]*:[^/@]*@(?=[^/:]+:)", url) if "://" not in url else None
    return strip_credentials(url[short.end() :] if short else url)[0]


def _base(repository: Repository, head: Head) -> Dict[str, Any]:
    """Return a remote's commits, and the number of the others.

    The keys are `base`, `base_remote`, `prerequisites` and `unpushed`, as far as this repository knows. Only
    refs/remotes count: a tag may never have been pushed.
    """
    none: Dict[str, Any] = {"base": None, "base_remote": None, "prerequisites": [], "unpushed": 0}
    if head.commit is None:
        return none
    rows = []
    if not head.pushed:
        rows = repository.git("rev-list", "--boundary", head.commit, "--not", "--remotes").decode().split()
    boundary = [row[1:] for row in rows if row.startswith("-")]
    unpushed = len(rows) - len(boundary)
    if unpushed == 0:
        boundary = [head.commit]
    if not boundary:
        return dict(none, unpushed=unpushed)
    remote = _find_holder(repository, boundary[0])
    return {
        "base": boundary[0],
        "base_remote": _path(remote),
        "prerequisites": sorted(boundary),
        "unpushed": unpushed,
    }


# Branches that others are merged into. A remote deletes those others after the merge.
_LASTING = ("HEAD", "main", "master", "trunk", "develop", "default")


def _list_lasting_commits(repository: Repository, head: Head) -> Optional[List[str]]:
    """Return the commits of lasting remote branches below HEAD.

    The commits since then rest on them. The result is None if no such branch is known, or too many commits
    came since.
    """
    names = (f"refs/remotes/*/{name}" for name in _LASTING)
    ends = set(repository.git("for-each-ref", "--format=%(objectname)", *names).decode().split())
    if head.commit is None or not ends:
        return None
    words = ("rev-list", "--boundary", f"--max-count={MOST_COMMITS + 1}", head.commit, "--not", *sorted(ends))
    rows = repository.git(*words).decode().split()
    boundary = sorted(row[1:] for row in rows if row.startswith("-"))
    commits = len(rows) - len(boundary)
    if commits > MOST_COMMITS:
        return None
    return boundary if commits else [head.commit]


def _bundle_branch(
    repository: Repository,
    head: Head,
    facts: Dict[str, Any],
    unmerged: List[Tuple[bytes, bytes, bytes, bytes]],
    moved: Dict[str, str],
) -> bool:
    """Bundle the commits of a pushed branch before its merge.

    The branch is merged into no lasting one. Half of the time left is for it: the bundle of the commits that
    no remote has comes after, and matters more.

    Returns:
        Whether the bundle was written.
    """
    context = repository.context
    repository.context = context._replace(deadline=context.deadline - context.left() / 2)
    try:
        rest = _list_lasting_commits(repository, head)
        if rest is None or rest == facts["prerequisites"]:
            return False
        bundle = _bundle(repository, dict(facts, prerequisites=rest), unmerged, moved)
        if bundle["file"]:
            facts.update(prerequisites=rest, bundle=bundle)
        return bool(bundle["file"])
    except GaveUpError:
        return False
    finally:
        repository.context = context


def _find_holder(repository: Repository, commit: str) -> str:
    """Return the name of a remote that has the commit.

    It is `origin` if that is one of several, or if no remote is known to have it.
    """
    holders = _list_holders(repository, commit)
    return "origin" if "origin" in holders or not holders else holders[0]


def _remote_names(repository: Repository) -> List[str]:
    return sorted(match.group(1) for match in map(_REMOTE.fullmatch, repository.own_config) if match)


def _list_holders(repository: Repository, commit: str) -> List[str]:
    """Return the names of the remotes that have the commit.

    A single remote is assumed to have it.
    """
    remotes = _remote_names(repository)
    if len(remotes) < 2:
        return remotes
    refs = repository.git("for-each-ref", "--contains", commit, "--format=%(refname)", "refs/remotes")
    names = refs.decode("utf-8", "surrogateescape").split("\n")
    return [remote for remote in remotes if any(name.startswith(f"refs/remotes/{remote}/") for name in names)]


def _find_only_local_remote(repository: Repository, base: Optional[str]) -> Optional[str]:
    """Return the local directory that alone has `base`, or None.

    A remote may be a directory of this machine.
    """
    urls = {name: repository.own_config.get(f"remote.{name}.url", "") for name in _remote_names(repository)}
    local = {name: url for name, url in urls.items() if re.match(r"file://|[./]", url)}
    if base is None or not local:
        return None
    holders = _list_holders(repository, base)
    return _path(_strip_remote_login(local[holders[0]])) if holders and set(holders) <= set(local) else None
