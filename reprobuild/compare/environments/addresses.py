"""Addresses of which a side states only a part, since a login or a token was cut out of them.

A snapshot may be untrusted: it can hide another origin in a directory that looks like a token. So the whole addresses
are compared, too, in the memory of this process alone.
"""

from __future__ import annotations

import hashlib
import secrets as random
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from reprobuild.compare.environments.channel import channels
from reprobuild.compare.environments.comparison import NotCompared
from reprobuild.compare.environments.model import (
    HASHES,
    Aspect,
    Aspects,
    CutPlace,
    Environment,
    Kind,
    normalise_name,
    same_statement,
)
from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.snapshot import text
from reprobuild.snapshot.file_kinds import field_of, is_environment
from reprobuild.snapshot.model import CapturedCondaPackage, Requirement, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import PYPI, find_channel
from reprobuild.snapshot.parsers.environment_yml import read_requests
from reprobuild.snapshot.parsers.environment_yml_nodes import compose, list_channels
from reprobuild.snapshot.parsers.pip_freeze_forms import find_address
from reprobuild_portable import secrets

CUT = (
    "a login or a token was cut out of their addresses, which may differ there; no hash or commit decides it"
)
# Of this process: nobody can guess a password by its digest, and no digest is of use elsewhere.
_KEY = random.token_bytes(32)
_COMMITS = (40, 64)  # characters of a complete id: it determines the content in any repository


def hash_cut_address(address: str) -> str | None:
    """Return a digest of a whole address if a part of it is not shown, else None.

    It is "" if the address was cut before, so that nobody knows the whole one. A percent-encoded part is not shown
    either if its reader decodes the address first.
    """
    forms = {address, unquote(address)}
    if any(secrets.GONE in form for form in forms):
        return ""
    if all(secrets.redact(form) == form and not secrets.strip_credentials(form)[1] for form in forms):
        return None
    return hashlib.blake2b(address.encode("utf-8", "surrogatepass"), key=_KEY).hexdigest()


def hash_cut_lines(snapshot: Snapshot, folder: Path) -> dict[SourceLocation, tuple[str, ...]]:
    """Return `hash_cut_address` of the addresses for pip and conda in the files of a snapshot, by their places.

    A place can have several addresses: conda has several channels, and a list on one line several packages. A line
    that was not understood counts as one address.
    """
    digests: dict[SourceLocation, tuple[str, ...]] = {}
    for place, address in chain(
        _read_addresses(snapshot, folder), _read_channels(snapshot, folder), _read_unread(snapshot, folder)
    ):
        if (digest := hash_cut_address(address)) is not None:
            digests[place] = (*digests.get(place, ()), digest)
    return digests


def _read_addresses(snapshot: Snapshot, folder: Path) -> Iterator[tuple[SourceLocation, str]]:
    """Yield the addresses of the lines for pip."""
    for file in {line.place.file for line in snapshot.requirements if line.url or line.path}:
        for number, row in _read_rows(folder, file).items():
            if address := find_address(row):
                yield SourceLocation(file, number), address


def _read_unread(snapshot: Snapshot, folder: Path) -> Iterator[tuple[SourceLocation, str]]:
    """Yield the lines that were not understood."""
    places: dict[str, set[int]] = {}
    for remark in snapshot.remarks:
        if not remark.understood and remark.place.line:
            places.setdefault(remark.place.file, set()).add(remark.place.line)
    for file, numbers in places.items():
        try:
            rows = text.decode_lines(read_plain(folder / file, text.LIMIT), file)
        except (OSError, SnapshotError):  # of a name that is not shown as it is, or no text
            rows = []
        for number in sorted(numbers):
            yield SourceLocation(file, number), rows[number - 1] if number <= len(rows) else secrets.GONE


def _read_rows(folder: Path, file: str) -> dict[int, str]:
    """Return the lines for pip of a captured file, by their numbers, as the parsers read them."""
    data = read_plain(folder / file, text.LIMIT)
    if field_of(file) == "requirements":
        return dict(enumerate(text.decode_lines(data, file), 1))
    rows: dict[int, str] = {}
    for line in read_requests(data, file).pip if is_environment(file) else ():
        rows.setdefault(line.line, line.text)
    return rows


def _read_channels(snapshot: Snapshot, folder: Path) -> Iterator[tuple[SourceLocation, str]]:
    """Yield the channels of conda's packages."""
    packages: dict[str, list[CapturedCondaPackage]] = {}
    for package in snapshot.conda:
        if package.channel != PYPI and channels(package):
            packages.setdefault(package.place.file, []).append(package)
    for path in sorted(folder.iterdir()):
        shown = escape_text(path.name)  # of a lock, whose name may be any
        if shown not in packages or not path.is_file():
            continue
        data = read_plain(path, text.LIMIT)
        if is_environment(shown):
            by_name = list_channels(compose(data, shown))
            for package in packages[shown]:
                for channel in by_name.get("" if package.channel is None else package.name, ()):
                    yield package.place, channel
        else:
            rows = text.decode_lines(data, shown)
            for package in packages[shown]:  # two locks can be shown by one name
                number = package.place.line
                yield from ((package.place, find_channel(row)) for row in rows[number - 1 : number])


def name_cut_lines(
    lines: Iterable[Requirement], digests: Mapping[SourceLocation, tuple[str, ...]]
) -> dict[CutPlace, tuple[str, ...]]:
    """Return the digests of a snapshot's addresses by kind and name.

    The first line of a name counts. A local directory says nothing elsewhere, so its path is not compared.
    """
    cut: dict[CutPlace, tuple[str, ...]] = {}
    named: set[CutPlace] = set()
    for line in lines:
        kind: Kind = "source" if line.kind in ("vcs", "editable") else "python"
        key: CutPlace = kind, normalise_name(line.name), "origin"
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
    doubted: dict[Kind, dict[str, None]] = {}
    for key in sorted(first.cut.keys() | second.cut.keys()):
        kind, name, aspect = key
        first_aspects, second_aspects = (side.known.get(kind, {}).get(name) for side in (first, second))
        if (kind, name) in reported or first_aspects is None or second_aspects is None:
            continue
        digests = first.cut.get(key, ())
        if digests == second.cut.get(key) and all(digests):
            continue
        # A side without an address contradicts none.
        stated = all(
            key in side.cut or _states_address(aspect, aspects)
            for side, aspects in ((first, first_aspects), (second, second_aspects))
        )
        if stated and not _is_proven(kind, aspect, first_aspects, second_aspects):
            doubted.setdefault(kind, {})[name] = None
    for kind, names in doubted.items():
        yield NotCompared(kind=kind, reason=CUT, names=tuple(names), grave=True)


def _states_address(aspect: Aspect, aspects: Aspects) -> bool:
    """Return whether an aspect is stated, and for a channel by more than its name, which any address may end in."""
    return aspect in aspects and (aspect != "channel" or "://" in aspects[aspect])


def _is_proven(kind: Kind, aspect: Aspect, first: Aspects, second: Aspects) -> bool:
    """Return whether two things are one file or commit, of which the same project is installed."""
    if aspect == "channel":  # one file is the same from any channel
        shared = [name for name in HASHES if name in first and name in second]
        return any(same_statement(kind, name, first[name], second[name]) for name in shared)
    if any(secrets.GONE in side.get("subdirectory", "") for side in (first, second)):
        return False
    commits = first.get("commit", ""), second.get("commit", "")
    if kind == "source":
        return commits[0] == commits[1] and len(commits[0]) in _COMMITS
    hashes = first.get("sha256", ""), second.get("sha256", "")
    return all(hashes) and same_statement(kind, "sha256", hashes[0], hashes[1])
