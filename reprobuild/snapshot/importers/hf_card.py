"""Importer of model cards of Hugging Face: the versions below `Framework versions` of a `README.md`.

Formats: `modelcard.py` of transformers (`- Pytorch 2.4.1+cu121`), the templates of TRL and sentence-transformers
(`- PyTorch: 2.5.1+cu124`, `- Python: 3.11.10`).
"""

from __future__ import annotations

import re

from reprobuild.errors import SnapshotError
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.draft import Draft
from reprobuild.snapshot.importers.project_requirements import has_captured_list
from reprobuild.snapshot.importers.source import MOST_CANDIDATES, ImportSource

_HEADING = re.compile(r"#{1,6}\s+Framework versions\s*", re.IGNORECASE)
_ROW = re.compile(
    r"[-*]\s+(?P<name>[A-Za-z][A-Za-z0-9 ._-]{0,60}?)(?::\s*|\s+)(?P<version>\d[A-Za-z0-9.+!_-]{0,60})\s*"
)
# Names of a card that are not those of the distribution.
_NAMES = {"pytorch": "torch", "spanmarker": "span-marker"}
_LONGEST = 1000  # characters of a row that are looked at
_HEAD = 1 << 20  # bytes of a file in which the heading is looked for; a long card has some 100 KB


def recognises(source: ImportSource) -> bool:
    """Return whether the path is a card with versions, or has one at its top, without a list that says more."""
    return not has_captured_list(source) and _file(source) is not None


def read(source: ImportSource) -> Draft:
    """Import the versions of a card."""
    file = _file(source)
    assert file is not None
    draft = Draft("Hugging Face model card", file)
    draft.leave("the text", "a description of the model; its hyperparameters are for people")
    for number, row in _version_rows(source, file):
        match = _ROW.fullmatch(row)
        field = f"line {number}"
        if match is None:
            draft.leave(field, "it has no name and version")
        elif match["name"].lower() == "python":
            draft.add_python(match["version"], field)
        else:
            name = match["name"].lower().replace(" ", "-")
            draft.add_pin(_NAMES.get(name, name), match["version"], field)
    return draft


def _file(source: ImportSource) -> str | None:
    """Return the card with versions: of several, the one with the shortest name."""
    top = [name for name in source.names if "/" not in name and name.lower().endswith("readme.md")]
    nearest = sorted(top, key=lambda name: (len(name), name))[:MOST_CANDIDATES]
    return next((name for name in nearest if _version_rows(source, name)), None)


def _version_rows(source: ImportSource, name: str) -> list[tuple[int, str]]:
    """Return the list items below the heading, with their line numbers; none if the head of the file is no text."""
    head = source.head(name, _HEAD)
    if len(head) == _HEAD:
        head = head[: head.rfind(b"\n") + 1]  # the last row may be cut within a character
    try:
        rows = text.decode_lines(head, name)
    except SnapshotError:
        return []
    start = next((number for number, row in enumerate(rows) if _HEADING.fullmatch(row[:_LONGEST])), len(rows))
    items = []
    for number, row in enumerate(rows[start + 1 :], start + 2):
        if row.lstrip().startswith("#"):
            break
        if row.startswith(("- ", "* ")):
            items.append((number, row[:_LONGEST].strip()))
    return items
