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
from reprobuild.snapshot.importers.project_requirements import leave_requirement, parse_requirement
from reprobuild.snapshot.importers.source import ImportSource
from reprobuild_portable import secrets

# A list can come from another person, and the files beside it are the user's own: only what looks like a list is read.
_LIST = re.compile(r"(?i)[^/]*\.(?:txt|in)|[^/]*(?:requirements|constraints)[^/]*")
_HIDDEN = re.compile(r"(?:^|/)\.(?!\.?(?:/|$))")
_OPTION = re.compile(
    r"(?:-[rcefi]|--(?:requirement|constraint|editable|find-links|index-url|extra-index-url|no-index|no-binary"
    r"|only-binary|prefer-binary|require-hashes|pre|trusted-host|use-feature|hash|global-option|config-settings?))"
    r"(?:[\s=].*|(?<=^-[rcefi]).+)?"
)
_ADDRESS = re.compile(r"(?:[a-z]{2,6}\+)?(?:https?|ssh|file|git)://\S+(?:\s.*)?")
_BESIDE = re.compile(
    r"\s+(?:#.*|\\$|--[a-z].*)"
)  # a comment, a line that goes on, options of one requirement
_LONGEST = 1000  # characters of a row: `Draft.add` refuses longer ones
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
    _add_list(draft, source, file, [], {})


def _add_list(
    draft: Draft, source: ImportSource, file: str, above: list[str], refusals: dict[str, str]
) -> None:
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
            if line and (len(above) == 1 or _is_row(line)):
                draft.add(REQUIREMENTS, line, f"line {number}")
            elif line:
                leave_requirement(draft, f"line {number}", "it is no requirement, no option and no comment")
            continue
        other = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["name"]))
        if other in above:
            draft.leave(f"line {number}", "the list is already read")
            continue
        if other not in refusals:  # the search for secrets takes seconds, and many rows can name the list
            refusals[other] = _refusal(source, other)
        if reason := refusals[other]:
            leave_requirement(draft, f"line {number}", reason.format(match["name"]))
        else:
            _add_list(draft, source, other, above, refusals)


def _refusal(source: ImportSource, name: str) -> str:
    """Return why a list is not followed, with `{}` for its name; empty if it is."""
    if not _LIST.fullmatch(name.rpartition("/")[2]) or _HIDDEN.search(name):
        return "{} has no name of a list: to import it, name it in the command"
    if not source.adopt(name):
        return "there is no list {} beside it"
    rows = secrets.without_logins(source.read(name).decode("utf-8", "replace"))
    if secrets.secret_name_of_file(name) or secrets.find(rows.encode("utf-8", "replace"), most=1):
        return "{} holds a secret, which must be taken out of it first"
    return ""


def _is_row(line: str) -> bool:
    """Return whether a row has a form that pip reads."""
    if line.startswith("#") or _OPTION.fullmatch(line) or _ADDRESS.fullmatch(line):
        return True
    if len(line) > _LONGEST:
        return False
    return parse_requirement(_BESIDE.split(line, maxsplit=1)[0].removesuffix("\\").strip()) is not None
