"""Addresses of which a side states only a part, since a login or a token was cut out of them.

A snapshot may be untrusted: it can hide another origin in a directory that looks like a token. So the whole addresses
are compared, too, in the memory of this process alone.
"""

from __future__ import annotations

import hashlib
import secrets as random
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from reprobuild.compare.environments.comparison import NotCompared
from reprobuild.compare.environments.model import Aspects, Environment, Kind, normalise_name, same_statement
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.snapshot import text
from reprobuild.snapshot.file_kinds import field_of, is_environment
from reprobuild.snapshot.model import Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.environment_yml import read_requests
from reprobuild.snapshot.parsers.pip_freeze_forms import find_address
from reprobuild_portable import secrets

CUT = "a login or a token was cut out of their addresses, which may differ there; no sha256 or commit decides it"
# Of this process: nobody can guess a password by its digest, and no digest is of use elsewhere.
_KEY = random.token_bytes(32)
_COMMITS = (40, 64)  # characters of a complete id: it determines the content in any repository


def hash_cut_address(address: str) -> str | None:
    """Return a digest of a whole address if a part of it is not shown, else None.

    It is "" if the address was cut before, so that nobody knows the whole one.
    """
    if secrets.GONE in address:
        return ""
    if secrets.redact(address) == address and not secrets.strip_credentials(address)[1]:
        return None
    return hashlib.blake2b(address.encode("utf-8", "surrogatepass"), key=_KEY).hexdigest()


def hash_cut_lines(snapshot: Snapshot, folder: Path) -> dict[SourceLocation, str]:
    """Return `hash_cut_address` of the lines for pip in the files of a snapshot, by their places."""
    digests: dict[SourceLocation, str] = {}
    for file in {line.place.file for line in snapshot.requirements if line.url or line.path}:
        for number, row in _read_rows(folder, file).items():
            address = find_address(row)
            if address and (digest := hash_cut_address(address)) is not None:
                digests[SourceLocation(file, number)] = digest
    return digests


def _read_rows(folder: Path, file: str) -> dict[int, str]:
    """Return the lines for pip of a captured file, by their numbers, as the parsers read them."""
    data = read_plain(folder / file, text.LIMIT)
    if field_of(file) == "requirements":
        return dict(enumerate(text.decode_lines(data, file), 1))
    rows: dict[int, str] = {}
    for line in read_requests(data, file).pip if is_environment(file) else ():
        rows.setdefault(line.line, line.text)
    return rows


def name_cut_lines(
    lines: Iterable[Requirement], digests: Mapping[SourceLocation, str]
) -> dict[tuple[Kind, str], str]:
    """Return the digests of a snapshot's addresses by kind and name.

    The first line of a name counts. A local directory says nothing elsewhere, so its path is not compared.
    """
    cut: dict[tuple[Kind, str], str] = {}
    named: set[tuple[Kind, str]] = set()
    for line in lines:
        kind: Kind = "source" if line.kind in ("vcs", "editable") else "python"
        key = kind, normalise_name(line.name)
        if line.kind == "leftover" or key in named:
            continue
        named.add(key)
        if line.place in digests and (line.kind == "archive" or (kind == "source" and line.url)):
            cut[key] = digests[line.place]
    return cut


def find_cut_addresses(
    first: Environment, second: Environment, reported: Collection[tuple[str, str]]
) -> Iterator[NotCompared]:
    """Yield the things whose whole addresses are not known to be one.

    Args:
        first: a side.
        second: the other one.
        reported: kind and name of the differences that are shown.
    """
    doubted: dict[Kind, list[str]] = {}
    for key in sorted((first.cut.keys() | second.cut.keys()) - set(reported)):
        kind, name = key
        first_aspects, second_aspects = (side.known.get(kind, {}).get(name) for side in (first, second))
        if first_aspects is None or second_aspects is None:
            continue
        if first.cut.get(key) and first.cut.get(key) == second.cut.get(key):
            continue
        # A side without an address contradicts none.
        stated = all(
            key in side.cut or "origin" in aspects
            for side, aspects in ((first, first_aspects), (second, second_aspects))
        )
        if stated and not _is_proven(kind, first_aspects, second_aspects):
            doubted.setdefault(kind, []).append(name)
    for kind, names in doubted.items():
        yield NotCompared(kind=kind, reason=CUT, names=tuple(names), grave=True)


def _is_proven(kind: Kind, first: Aspects, second: Aspects) -> bool:
    """Return whether two things are one file or commit, of which the same project is installed."""
    if any(secrets.GONE in side.get("subdirectory", "") for side in (first, second)):
        return False
    commits = first.get("commit", ""), second.get("commit", "")
    if kind == "source":
        return commits[0] == commits[1] and len(commits[0]) in _COMMITS
    hashes = first.get("sha256", ""), second.get("sha256", "")
    return all(hashes) and same_statement(kind, "sha256", hashes[0], hashes[1])
