"""A list of requirements with the lists that it names: `-r other.txt`.

Format: https://pip.pypa.io/en/stable/reference/requirements-file-format/
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Mapping

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.importers.clean_lines import LONGEST_ROW
from reprobuild.snapshot.importers.draft import OTHER_LIST, REQUIREMENTS, Draft
from reprobuild.snapshot.importers.project_requirements import leave_requirement, parse_requirement
from reprobuild.snapshot.importers.requirement_rows import LONGEST, names_other_list, split_row
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
_PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)(?:\[[^\]]*\])?===?(?P<version>[a-z0-9][a-z0-9.+!_-]*)")
_OTHER = re.compile(
    r"(?:-(?P<kind>[rc])(?:\s+|=|)|--(?P<word>requirement|constraint)(?:\s+|=))(?P<name>[^\s#=]\S*)(?:\s+#.*)?"
)
_MOST = 100  # lists


def has_other_lists(data: bytes, file: str) -> bool:
    """Return whether a list of requirements names another list.

    Raises:
        SnapshotError: it is not text.
    """
    rows = (row.strip() for row in text.decode_lines(data, file))
    return any(names_other_list(row) for row in rows if len(row) <= LONGEST_ROW)


def add_lists(
    draft: Draft, source: ImportSource, file: str, clean: Callable[[str], str] = str
) -> frozenset[str]:
    """Add the lines of a list, and those of each list that it names, in their places.

    A list is followed once, and only below the directory of the first. A row that cannot be followed is asked for, and
    so are constraints that no line states: a list of packages has no others.

    Args:
        draft: the snapshot.
        source: the source of the first list.
        file: the name of the first list.
        clean: takes out of a line what must not travel.

    Returns:
        The names of all lists, with those of the constraints.

    Raises:
        SnapshotError: a list is not text, or there are too many.
    """
    reader = _Reader(draft, source, clean)
    reader.add_list(file)
    for number, (origin, field, name, stated) in enumerate(reader.constraints):
        draft.source = origin
        if number < _MOST:
            _check_constraints(draft, source, name, stated, field)
        else:
            leave_requirement(draft, field, f"a list with more than {_MOST} constraints")
    draft.source = file
    return frozenset([*reader.above, *(name for _, _, name, _ in reader.constraints)])


def add_constraints(draft: Draft, source: ImportSource, name: str) -> None:
    """Explain constraints by the lines of the list, or ask for them; the source of the snapshot is their file."""
    _check_constraints(draft, source, name, name, "the file")


def unstated_rows(draft: Draft, rows: Iterable[str]) -> list[str]:
    """Return the rows of another list that say more than the lines of the snapshot."""
    lines = {_bare(row) for row in draft.lines(REQUIREMENTS)}
    pins = [match for match in map(_PIN.match, lines) if match]
    versions = {str(canonicalize_name(match["name"])): match["version"] for match in pins}
    return [row for row in rows if _bare(row) not in lines and not _allows(row, versions)]


class _Reader:
    """The lists that are read, and the constraints that they name: list, field, name and the name as stated."""

    def __init__(self, draft: Draft, source: ImportSource, clean: Callable[[str], str]) -> None:
        self.above: list[str] = []
        self.constraints: list[tuple[str, str, str, str]] = []
        self._draft, self._source, self._clean = draft, source, clean
        self._refusals: dict[str, str] = {}

    def add_list(self, file: str) -> None:
        self.above.append(file)
        if len(self.above) > _MOST:
            raise SnapshotError(
                f"{display_text(self.above[0])} leads to more than {_MOST} lists",
                hint="write one list: `pip freeze > requirements.txt` where the job runs",
            )
        is_first = len(self.above) == 1
        for number, row in enumerate(text.decode_lines(self._source.read(file), file), 1):
            self._draft.source = file
            line, *hashes = split_row(row)
            if line:
                self._add_row(line, hashes, file, f"line {number}", is_first=is_first)

    def _add_row(self, line: str, hashes: list[str], file: str, field: str, *, is_first: bool) -> None:
        is_long = len(line) > LONGEST_ROW
        if is_long or not names_other_list(line):
            if is_first or _is_row(line):
                self._draft.add(REQUIREMENTS, line if is_long else self._clean(line), field, hashes)
            else:
                leave_requirement(self._draft, field, "it is no requirement, no option and no comment")
            return
        match = _OTHER.fullmatch(line)
        if match is None:
            leave_requirement(self._draft, field, OTHER_LIST)
            return
        other = posixpath.normpath(posixpath.join(posixpath.dirname(file), match["name"]))
        if "c" in (match["kind"], (match["word"] or "")[:1]):
            self.constraints.append((file, field, other, match["name"]))
        elif other in self.above:
            self._draft.leave(field, "the list is already read")
        else:
            self._follow(other, match["name"], field)

    def _follow(self, other: str, name: str, field: str) -> None:
        if (
            other not in self._refusals
        ):  # the search for secrets takes seconds, and many rows can name the list
            self._refusals[other] = _refusal(self._source, other)
        if reason := self._refusals[other]:
            leave_requirement(self._draft, field, reason.format(name))
        else:
            self.add_list(other)


def _check_constraints(draft: Draft, source: ImportSource, name: str, stated: str, field: str) -> None:
    reason = _refusal(source, name).format(stated)
    if not reason:
        rows = (row.strip() for row in text.decode_lines(source.read(name), name))
        unstated = unstated_rows(draft, (row for row in rows if row and not row.startswith(("#", "--hash"))))
        if not unstated:
            draft.leave(field, f"the lines of the list are within the constraints of {stated}")
            return
        reason = f"{stated} has {len(unstated)} constraints that no line states"
    leave_requirement(draft, field, reason)


def _bare(row: str) -> str:
    """Return a row without hashes, comment and blanks, to compare it."""
    return re.sub(r"\s+", "", _BESIDE.split(row[:LONGEST_ROW], maxsplit=1)[0]).removesuffix("\\").lower()


def _allows(row: str, versions: Mapping[str, str]) -> bool:
    """Return whether a pin of the list is of a version that a row allows."""
    requirement = parse_requirement(_BESIDE.split(row, maxsplit=1)[0].removesuffix("\\").strip())
    if requirement is None or requirement.url:
        return False
    version = versions.get(str(canonicalize_name(requirement.name)), "")
    try:
        return bool(version) and requirement.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


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
    if len(line) > LONGEST:
        return False
    return parse_requirement(_BESIDE.split(line, maxsplit=1)[0].removesuffix("\\").strip()) is not None
