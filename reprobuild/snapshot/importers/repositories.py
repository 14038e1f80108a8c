"""The job's own repository, as a tracker records it: address, commit and changes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from packaging.utils import canonicalize_name

from reprobuild.snapshot.importers.clean_lines import clean_line
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild_portable import secrets

_COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_SCP = re.compile(r"(?:[^@/\s]+@)?(?P<host>[A-Za-z0-9.-]+):(?P<path>[^\s:#]+)")
_HTTPS = re.compile(r"(?:https?|ssh|git)://[^\s#]+")
_LOGIN = re.compile(r"^(\w+://)(?!git@)[^/@]*@")
_HUNK = re.compile(rb"^(@{2,4}) -", re.MULTILINE)  # two or three parents: each number costs two searches
_NO_END = b"\\ No newline at end of file"
_LONGEST = 500  # characters of an address
_OWN = "the job's own repository: {}; mount a checkout of it (`reprobuild run OUT -v DIR:/work`)"


def add_repository(draft: Draft, remote: str, commit: str, field: str, changes: bytes = b"") -> None:
    """Add the repository of a run, with its uncommitted changes.

    If a distribution of its name is pinned, it was installed from the repository: the line becomes an editable one,
    and the changes its patch. Else the repository is named, and the changes are kept for people.

    Args:
        remote: its address, as git has it; empty if unknown.
        commit: the full commit; empty if unknown.
        changes: the output of `git diff`.
    """
    address = _address(remote)
    if not address or not _COMMIT.fullmatch(commit):
        if remote or commit:
            draft.leave(field, "it has no address with a full commit")
        _keep_changes(draft, "job", changes, field)
        return
    name = re.sub(r"\.git$", "", address.rstrip("/").rpartition("/")[2])
    line, reason = clean_line(f"-e git+{address}@{commit}#egg={name}")
    if reason or secrets.GONE in line:
        draft.leave(field, reason or "its address holds a secret")
        _keep_changes(draft, "job", changes, field)
    elif draft.replace_pin(REQUIREMENTS, str(canonicalize_name(name)), line, field):
        if changes:
            draft.put(f"{name}.diff", changes, field)
    else:
        draft.leave(field, _OWN.format(f"{address} at {commit}"))
        _keep_changes(draft, name, changes, field)


def _keep_changes(draft: Draft, name: str, changes: bytes, field: str) -> None:
    if has_secret(changes):
        draft.leave(f"{field}: changes", "a secret in the changes of the job's own repository")
    elif changes and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}", name):
        draft.put(f"{name}.patch", changes, f"{field}: changes")


def has_secret(diff: bytes) -> bool:
    """Return whether a diff, or a text of any kind, holds a secret.

    The files before and after are searched apart, too, without the signs of each line: a rule may look at the start of
    a line, or at the line after it.
    """
    return any(secrets.find(text, most=1) for text in (diff, *_sides(diff)))


def _sides(diff: bytes) -> Iterator[bytes]:
    """Yield the files before and after a change, for each number of signs that lines of the diff begin with.

    A diff of a merge has one sign for each parent: https://git-scm.com/docs/diff-format#_combined_diff_format
    """
    rows = [row for row in diff.split(b"\n") if not row.startswith(_NO_END)]
    for width in sorted({1, *(len(signs) - 1 for signs in _HUNK.findall(diff))}):
        for other in (b"-", b"+"):
            yield b"\n".join(row[width:] for row in rows if other not in row[:width])


def _address(remote: str) -> str:
    """Return an address that pip accepts after `git+`, without a person's login; empty if there is none."""
    if len(remote) > _LONGEST:  # a row of the freeze would be shortened
        return ""
    if _HTTPS.fullmatch(remote):
        return _LOGIN.sub(r"\1", remote)
    match = _SCP.fullmatch(remote)
    return f"ssh://git@{match['host']}/{match['path'].lstrip('/')}" if match else ""
