"""Search for secrets in the messages and names of the commits in a bundle."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Tuple

from reprobuild_portable.capture.limits import LISTED, SEARCHED
from reprobuild_portable.capture.repositories.repository import Repository
from reprobuild_portable.capture.repositories.search import _places, _read_blobs

# Headers that people write. A merge has the whole signed tag that it merged in `mergetag`.
_PARTS = {b"author": "author", b"committer": "committer", b"mergetag": "tag"}
_AT_ONCE = 200  # commits that are searched as one text


def _search_commits(repository: Repository, facts: Mapping[str, Any]) -> List[Dict[str, Any]]:
    """Return part, line and rule of each secret in the commits that no remote has, never the text.

    The commit is kept: its id would change without the text.

    Raises:
        GaveUpError: no time is left, or the commits are too large.
    """
    if not facts["head"] or facts["prerequisites"] == [facts["head"]]:
        return []
    above = [facts["head"], *(f"^{prerequisite}" for prerequisite in facts["prerequisites"])]
    oids = repository.git("rev-list", "--reverse", *above, "--", most=SEARCHED).split()
    commits = list(_read_blobs(repository, oids, SEARCHED, b"commit"))
    places: List[Dict[str, Any]] = []
    for start in range(0, len(commits), _AT_ONCE):
        some = [(oid, list(_parts(content))) for oid, content in commits[start : start + _AT_ONCE]]
        whole = b"\n\n".join(text for _, parts in some for _, text in parts)
        if not _places(whole, repository.context, 1):  # ten times as fast as a search for each
            continue
        places += [
            {"file": "", "line": line, "rule": rule, "commit": oid.decode(), "part": part}
            for oid, parts in some
            for part, text in parts
            for line, rule in _places(text, repository.context)
        ]
    return places[:LISTED]


def _parts(commit: bytes) -> Iterator[Tuple[str, bytes]]:
    """Yield the name and text of each part of a commit that people write.

    A signature is none: it is public, and has any shape.
    """
    headers, _, message = commit.partition(b"\n\n")
    # A blank continues a header, and no commit has a NUL.
    for header in headers.replace(b"\n ", b"\0").split(b"\n"):
        name, _, text = header.partition(b" ")
        if name in _PARTS:
            yield _PARTS[name], text.replace(b"\0", b"\n")
    yield "message", message
