"""Search for secrets in the files of a repository."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Set, Tuple

from reprobuild_portable.capture.limits import LISTED, SEARCHED, SPARE
from reprobuild_portable.capture.model import Context, GaveUpError
from reprobuild_portable.capture.repositories.repository import Repository
from reprobuild_portable.capture.scrub import _show_paths
from reprobuild_portable.secrets.search import find


def _search(
    repository: Repository, facts: Dict[str, Any], new: Optional[Dict[bytes, bytes]]
) -> Dict[str, Any]:
    """Search the whole content of the bundle for secrets.

    The result has file, line and rule, never the text. The line is 0 if the path itself is the secret. The content
    is kept: a build from it is refused, and no content is lost. `unsearched` counts the files that were too many to
    be searched, the largest ones, and those without time left; it is at least 1 if not even their number is known.
    `new` has path by id, if it is known.
    """
    context = repository.context._replace(deadline=repository.context.deadline - SPARE)
    repository.context = context
    by_place: Dict[Tuple[bytes, int, str], bytes] = {}
    try:
        new = _list_bundle_content(repository, facts) if new is None else new
        named = _find_secret_paths(new.values(), context)
        for oid, path in new.items():
            if path in named and not any(other.startswith(path + b"/") for other in named):
                by_place[path, 0, named[path]] = oid
        new = {oid: path for oid, path in new.items() if oid not in repository.clean}
        contents, unsearched = _select_searchable(repository, new)
    except GaveUpError:
        return {"secrets": [], "unsearched": max(1, len(new or ()))}
    for oid, content in contents:
        try:
            places = _places(content, context)
        except GaveUpError:
            unsearched += 1
            continue
        by_place.update(((new[oid], line, rule), oid) for line, rule in places)
    listing = sorted(by_place)[:LISTED]
    commits = _commits(repository, facts, {by_place[place] for place in listing})
    secrets = [
        {"file": shown, "line": place[1], "rule": place[2], "commit": commits.get(by_place[place], "")}
        for place, shown in zip(listing, _show_paths([path for path, _, _ in listing], context.secrets))
    ]
    for secret in secrets:
        if not secret["line"]:
            secret["part"] = "path"
    return {"secrets": secrets, "unsearched": unsearched}


def _commits(repository: Repository, facts: Mapping[str, Any], oids: Set[bytes]) -> Dict[bytes, str]:
    """Return the first unpushed commit with each of these blobs.

    It returns as many as there is time for. `git log` would do it alone, and start a program of the
    repository's configuration for each signature.
    """
    by_oid: Dict[bytes, str] = {}
    if not facts["head"] or not oids:
        return by_oid
    above = [facts["head"], *(f"^{prerequisite}" for prerequisite in facts["prerequisites"])]
    with contextlib.suppress(GaveUpError):
        commits = repository.git("rev-list", "--reverse", *above, "--", most=SEARCHED)
        words = (
            "diff-tree",
            "--stdin",
            "--root",
            "-r",
            "--raw",
            "--no-abbrev",
            "--no-renames",
            "--no-ext-diff",
        )
        options = (f"--find-object={oid.decode()}" for oid in sorted(oids))
        commit = ""
        for row in repository.git(*words, *options, stdin=commits, most=SEARCHED).split(b"\n"):
            if not row.startswith(b":"):
                commit = row.decode("ascii", "replace")
                continue
            for oid in row.split(b" ", 4)[2:4]:
                if oid in oids:
                    by_oid.setdefault(oid, commit)
    return by_oid


def _list_bundle_content(repository: Repository, facts: Dict[str, Any]) -> Dict[bytes, bytes]:
    """Return path by id of all content of a bundle."""
    excluded = [f"^{prerequisite}" for prerequisite in facts["prerequisites"]]
    output = repository.git("rev-list", "--objects", *facts["bundle"]["refs"].values(), *excluded)
    return dict(row.split(b" ", 1) for row in output.split(b"\n") if b" " in row)


def _select_searchable(
    repository: Repository, new: Mapping[bytes, bytes]
) -> Tuple[List[Tuple[bytes, bytes]], int]:
    """Return the blobs to search, and the number of others.

    A blob is given by id and content.
    """
    try:
        return list(_read_blobs(repository, list(new), SEARCHED)), 0
    except GaveUpError as err:
        if err.reason != "too-large":
            raise
    chosen, unsearched = _select_smallest(repository, new)
    return list(_read_blobs(repository, chosen)), unsearched


def _places(content: bytes, context: Context, most: int = LISTED) -> List[Tuple[int, str]]:
    """Return line and rule of the secrets in one file.

    Rules give at most `most` of them.

    Raises:
        GaveUpError: no time is left.
    """
    context.left()
    places = find(content, most, context.left)
    for value in context.secrets:
        at = content.find(value)
        if at >= 0:
            places.append((content.count(b"\n", 0, at) + 1, "variable"))
    return places


def _find_secret_paths(paths: Iterable[bytes], context: Context) -> Dict[bytes, str]:
    """Return the rule of each path whose text holds a secret.

    Raises:
        GaveUpError: no time is left.
    """
    distinct = sorted(set(paths))
    if not _places(b"\n".join(distinct), context, 1):  # ten times as fast as a search for each
        return {}
    places = ((path, _places(path, context, 1)) for path in distinct)
    return {path: rows[0][1] for path, rows in places if rows}


def _select_smallest(repository: Repository, oids: Iterable[bytes]) -> Tuple[List[bytes], int]:
    """Return the smallest blobs, and the number of the others.

    Together they have at most `SEARCHED` bytes.
    """
    stdin = b"".join(oid + b"\n" for oid in oids)
    output = repository.git(
        "cat-file", "--batch-check=%(objecttype) %(objectsize) %(objectname)", stdin=stdin
    )
    rows = [row.split(b" ") for row in output.split(b"\n") if row.startswith(b"blob ")]
    blobs = sorted((int(size), oid) for _, size, oid in rows)
    chosen, total = [], 0
    for size, oid in blobs:
        total += size
        if total <= SEARCHED:
            chosen.append(oid)
    return chosen, len(blobs) - len(chosen)


def _read_blobs(
    repository: Repository, oids: Sequence[bytes], most: int = 0, kind: bytes = b"blob"
) -> Iterator[Tuple[bytes, bytes]]:
    """Return an iterator of id and content of existing blobs, or of the objects of another kind.

    Raises:
        GaveUpError: together they have more than `most` bytes, if that is not 0.
    """
    if not oids:
        return iter(())
    stdin = b"".join(oid + b"\n" for oid in oids)
    return _objects(repository.git("cat-file", "--batch", stdin=stdin, most=most), repository.context, kind)


def _objects(output: bytes, context: Context, kind: bytes) -> Iterator[Tuple[bytes, bytes]]:
    at = 0
    while at < len(output):
        context.left()
        end = output.index(b"\n", at)
        words = output[at:end].split(b" ")
        at = end + 1
        if words[-1] != b"missing":
            if words[1] == kind:
                yield words[0], output[at : at + int(words[2])]
            at += int(words[2]) + 1
