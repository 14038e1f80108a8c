"""Lines of a snapshot without a meaning, and requests for packages without the installed versions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from reprobuild.compare.environments.model import UnreadLine, normalise_name
from reprobuild.snapshot.file_kinds import is_environment
from reprobuild.snapshot.model import CondaRequest, ParseNote, Snapshot, SourceLocation
from reprobuild.snapshot.parsers.conda_list import ASKED, VARIABLES, VARIABLES_CUT
from reprobuild_portable import secrets

_EXTRAS = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)\s*\[(?P<extras>[^\]]*)\]")


def list_unread(
    snapshot: Snapshot, files: Mapping[str, str], cut: Mapping[SourceLocation, tuple[str, ...]]
) -> Iterator[UnreadLine]:
    """Yield the lines that were not understood, open requests, and variables.

    A list on one line has several requests, so these are compared, and not the remark on the line. Variables are equal
    only in equal files.

    Args:
        snapshot: with its remarks.
        files: the sha256 of each file with variables.
        cut: the result of `hash_cut_lines`.
    """
    yield from (
        _parse_note(remark, cut.get(remark.place, ()))
        for remark in snapshot.remarks
        if not remark.understood and remark.reason != ASKED
    )
    requests = (*snapshot.conda_requests, *snapshot.conda_beside)
    yield from _list_requests([request for request in requests if request.is_open])
    yield from _list_extras(snapshot)
    for file in sorted({remark.place.file for remark in snapshot.remarks if remark.reason == VARIABLES}):
        yield UnreadLine(f"{file}: variables", files.get(file, ""), "variables")
    for entry in snapshot.imported.unused if snapshot.imported else ():
        if entry.reason == VARIABLES_CUT:
            yield UnreadLine(f"{entry.source}: variables", "", "variables")


def is_whole(text: str) -> bool:
    """Return whether a text for display has its whole original."""
    return secrets.GONE not in text and not text.endswith(("…", "characters: too long to show)"))


def _parse_note(remark: ParseNote, digests: tuple[str, ...]) -> UnreadLine:
    """Return a line that was not understood, with the digests of what its text does not show.

    A file that was not read equals no other.
    """
    text = remark.text or remark.reason
    alone = not is_whole(text) or text.endswith(": not read") or not all(digests)
    return UnreadLine(str(remark.place), "" if alone else "\n".join((text, *digests)))


def _list_requests(requests: list[CondaRequest]) -> Iterator[UnreadLine]:
    """Yield requests for conda by the digests of their whole texts, and their channels."""
    yield from (UnreadLine(str(request.place), request.digest, "request") for request in requests)
    lists = {(request.place.file, request.channels, request.nodefaults) for request in requests}
    for file, names, nodefaults in sorted(lists):
        yield UnreadLine(f"{file}: channels", json.dumps([nodefaults, *names]), "channels")


def _list_extras(snapshot: Snapshot) -> Iterator[UnreadLine]:
    """Yield the extras of lines for pip: their packages are unknown."""
    for line in snapshot.requirements:
        match = _EXTRAS.match(line.text)
        if match and is_environment(line.place.file):
            extras = sorted(normalise_name(extra.strip()) for extra in match["extras"].split(","))
            yield UnreadLine(
                str(line.place), f"{normalise_name(match['name'])}[{','.join(extras)}]", "extras"
            )
