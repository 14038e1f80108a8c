"""A list of requirements with the lists that it names: `-r other.txt`.

Format: https://pip.pypa.io/en/stable/reference/requirements-file-format/
"""

from __future__ import annotations

import posixpath
import re

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.source import ImportSource

_OTHER = re.compile(r"(?:-r|--requirement)(?:\s+|=|(?<=-r))(?P<name>[^\s#]+)(?:\s+#.*)?")
_MOST = 100  # lists


def names_other_list(data: bytes, file: str) -> bool:
    """Return whether a list of requirements names another list.

    Raises:
        SnapshotError: it is not text.
    """
    return any(_OTHER.fullmatch(row.strip()) for row in text.decode_lines(data, file))


def add_lists(draft: Draft, source: ImportSource, file: str) -> None:
    """Add the lines of a list, and those of each list that it names, in their places.

    A list is followed once, and only below the directory of the first. A row that cannot be followed is named.

    Args:
        draft: the snapshot.
        source: the source of the first list.
        file: the name of the first list.

    Raises:
        SnapshotError: a list is not text, or there are too many.
    """
    _add_list(draft, source, file, [])


def _add_list(draft: Draft, source: ImportSource, file: str, above: list[str]) -> None:
    above.append(file)
    if len(above) > _MOST:
        raise SnapshotError(
            f"{display_text(above[0])} leads to more than {_MOST} lists",
            hint="write one list: `pip freeze > requirements.txt` where the job runs",
        )
    for number, row in enumerate(text.decode_lines(source.read(file), file), 1):
        draft.source, line = file, row.strip()
        match = _OTHER.fullmatch(line)
        if match is None:
            if line:
                draft.add(REQUIREMENTS, line, f"line {number}")
            continue
        other = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["name"]))
        if other in above:
            draft.leave(f"line {number}", "the list is already read")
        elif source.adopt(other):
            _add_list(draft, source, other, above)
        else:
            draft.leave(f"line {number}", f"there is no list {match['name']} beside it")
