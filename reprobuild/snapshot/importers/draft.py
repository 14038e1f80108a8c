"""A snapshot in the making: lines with their origins, without secrets and without names of people."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot import text
from reprobuild.snapshot.import_facts import DataFingerprint, ImportFacts, UnusedField, ValueOrigin
from reprobuild.snapshot.importers.clean_lines import LONGEST_ROW, clean_line, clean_row
from reprobuild.snapshot.importers.list_allowance import ListAllowance
from reprobuild.snapshot.importers.model import ImportedSnapshot
from reprobuild.snapshot.importers.moments import to_iso
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.requirement_rows import (
    LONGEST,
    comparable_hashes,
    continued,
    hash_row,
    names_other_list,
    split_row,
)
from reprobuild_portable import secrets

REQUIREMENTS, PYTHON = "requirements.txt", "python.txt"
_OF_PACKAGES = (REQUIREMENTS, "conda-explicit.txt")
_COMMENT = re.compile(r"#(?! Editable\b)")  # a note of pip on an editable install names a package
NO_HASH = "none of its hashes has a form that can be compared"
OTHER_LIST = "it names another list, which is not read"
_LONGEST_NAME = 500  # characters of a field or a reason: the rules need milliseconds for longer ones
_LONGEST_VERSION = 200  # characters of what names a Python or its platform: the patterns need quadratic time
_MOST_PACKED = 16 * text.LIMIT  # bytes of all bundles
_VERSION = re.compile(r"(?:.*\s)?(?P<version>3\.\d{1,3}\.\d{1,3})\+?(?:\s.*)?")
_MINOR = re.compile(r"(?:CPython |Python )?(?P<version>3\.\d{1,3})")
_CARET = re.compile(r"\^(3(?:\.\d{1,3}){0,2})")
_RANGE = re.compile(r"(?:(?:~=|[=!<>]=|[<>])\d[0-9.*]{0,20},?){1,10}")
_MACHINE = re.compile(r"(?P<system>Linux|linux)-.*?(?P<machine>x86_64|aarch64|ppc64le|s390x).*")
PIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9._,-]*\])?===?[A-Za-z0-9][A-Za-z0-9.+!*_-]*")
_MD5 = re.compile(r"(?P<md5>[0-9a-f]{32})(?P<directory>\.dir)?")


class Draft:
    """The lines of a snapshot as an importer adds them.

    `captured` has the name and the content of the captured file of each kind; `lists` the bounds on all of them;
    `requires_python` the range of Python.
    """

    def __init__(self, format_name: str, source: str) -> None:
        """Begin a snapshot of a format, with its name for people; `source` is the file that later calls refer to."""
        self.source = source
        self._format = format_name
        self._lines: dict[str, list[str]] = {}
        self._files: dict[str, bytes] = {}
        self._origins: list[ValueOrigin] = []
        self._unused: list[UnusedField] = []
        self._data: list[DataFingerprint] = []
        self._count = 0
        self._sources: set[str] = set()  # those that gave a line or a file, or are named as not used
        self._size_of_variables = self._size_of_changes = self._size_of_packed = 0
        self.captured: dict[str, tuple[str, bytes]] = {}
        self.lists = ListAllowance()
        self._started = ("", "")
        self.requires_python = ""

    def add(self, file: str, line: str, field: str, more: Iterable[str] = ()) -> bool:
        """Add a line to a list of the snapshot, with continuation lines below it; return whether it was added.

        A line of packages that must stay out becomes one that a lock asks for.
        """
        clean, reason = clean_line(line)
        if not reason:
            return self.add_exact(file, clean, field, more)
        if file in _OF_PACKAGES and not _COMMENT.match(line):
            self.leave_requirement(field, reason)
        else:
            self.leave(field, reason)
        return False

    def add_exact(self, file: str, line: str, field: str, more: Iterable[str] = ()) -> bool:
        """Add a line that the caller has checked for secrets and control characters; return whether it was added."""
        if file in self._files:
            self.leave(field, f"the snapshot has its own {file}")
            return False
        self._count_entry()
        rows = self._lines.setdefault(file, [])
        self._add_origin(file, len(rows) + 1, field)
        rows += [line, *more]
        return True

    def leave_requirement(self, field: str, reason: str) -> None:
        """Name a field that may have named packages, and add a line that no list has: a lock asks for it."""
        self.leave(field, reason)
        place = _shown(field).replace(")", "]")  # `(x) $ y` is a prompt, for which no lock asks
        row = f"({place} of {_shown(self.source)} is not imported: {_shown(reason)})"
        self.add_exact(REQUIREMENTS, display_text(clean_row(row[:LONGEST])), field)

    def add_requirements(self, data: bytes, file: str) -> None:
        """Add the lines of a tracker's list of requirements, without empty lines and a byte order mark.

        Raises:
            SnapshotError: it is not text.
        """
        self.source = file
        for number, row in enumerate(text.decode_lines(data, file), 1):
            if row.strip():
                self.add_row(row, f"line {number}")

    def add_row(self, row: str, field: str) -> None:
        """Add a requirement as a tracker recorded it, without the name of a person in its paths."""
        head, *hashes = split_row(row)
        if len(head) <= LONGEST_ROW and names_other_list(head):
            self.leave_requirement(field, OTHER_LIST)
        else:
            self.add(REQUIREMENTS, without_home(head) if len(head) <= LONGEST_ROW else head, field, hashes)

    def extend(self, file: str, row: str) -> None:
        """Add a row that continues the line above, such as one of its hashes."""
        self._lines.setdefault(file, []).append(display_text(row))

    def lines(self, file: str) -> tuple[str, ...]:
        """Return the lines of a file as they were added."""
        return tuple(self._lines.get(file, ()))

    def has(self, file: str) -> bool:
        """Return whether the snapshot has a file, or a line of it."""
        return file in self._files or bool(self._lines.get(file))

    def has_read(self, source: str) -> bool:
        """Return whether a file gave a line or a file of the snapshot, or is named as not used."""
        return source in self._files or _shown(source) in self._sources

    @property
    def has_conda(self) -> bool:
        """Whether a file lists packages of conda."""
        return self.has("environment.yml") or self.has("conda-explicit.txt")

    def has_distribution(self, name: str) -> bool:
        """Return whether a line of the requirements is a pin of a distribution, by its canonical name."""
        names = (re.split(r"[=<>!~;@ \[]", row, maxsplit=1)[0] for row in self._lines.get(REQUIREMENTS, ()))
        return any(canonicalize_name(row) == name for row in names)

    def replace_pin(self, file: str, name: str, line: str, field: str) -> bool:
        """Replace the pin of a distribution, by its canonical name; return whether there was one.

        `line` is a result of `clean_line`.
        """
        for number, row in enumerate(self._lines.get(file, ())):
            if canonicalize_name(row.partition("==")[0].strip()) == name and "==" in row:
                self._lines[file][number] = line
                self._add_origin(file, number + 1, field)
                return True
        return False

    def put(self, file: str, content: bytes, field: str = "") -> None:
        """Copy a whole file into the snapshot, of which the caller has checked that it holds no secret."""
        self._files[file] = content
        self._add_origin(file, 0, field)

    def add_pin(
        self, name: str, version: str, field: str, *, marker: str = "", hashes: Iterable[str] = ()
    ) -> None:
        """Add a pinned distribution, with the hashes of its files: each `ALGORITHM:HEX`.

        Where no file has a sha256, the other hashes are added: a lock asks for them.
        """
        if not PIN.fullmatch(f"{name}=={version}"):
            self.leave_requirement(field, "it has no valid name and version")
            return
        stated = list(hashes)
        known = comparable_hashes(stated)
        if stated and not known:
            self.leave_requirement(field, NO_HASH)
            return
        line = f"{name}=={version}" + f" ; {marker}" * bool(marker)
        head, *rows = continued([line, *map(hash_row, known)])
        self.add(REQUIREMENTS, head, field, rows)

    def add_python(self, version: object, field: str, platform: object = "") -> None:
        """Add the version of Python and its platform, as a report of `python -VV`.

        Args:
            version: as the format has it, such as `3.10.11` or `CPython 3.12.11`; without three numbers
                it is an open question, and is named as not used.
            platform: as `platform.platform()` gives it.
        """
        stated = str(version)
        if len(stated) > _LONGEST_VERSION:
            self.leave(field, f"it has more than {_LONGEST_VERSION} characters")
            return
        match = _VERSION.fullmatch(stated)
        if match is None:
            if minor := _MINOR.fullmatch(stated):
                self.limit_python(f"=={minor['version']}.*")
            self.leave(field, f"Python {display_text(stated)} lacks its third number: `--python` gives it")
            return
        if PYTHON in self._lines:
            return
        self.add(PYTHON, f"Python {match['version']}", field)
        machine = _MACHINE.fullmatch(str(platform)[: _LONGEST_VERSION + 1])
        if machine:
            self.add(PYTHON, f"linux-{machine['machine']}", field)

    def limit_python(self, requires: str) -> None:
        """Keep a range of Python, by which a version is proposed; `^3.9` of poetry is `>=3.9,<4`."""
        specifier = _CARET.sub(r">=\1,<4", requires.replace(" ", ""))
        if _RANGE.fullmatch(specifier):
            with contextlib.suppress(InvalidSpecifier):
                SpecifierSet(specifier)  # `==3.1*` has the form of a range, and is none
                self.requires_python = specifier

    def leave(self, field: str, reason: str) -> None:
        """Name a field that gives nothing to the snapshot."""
        self._count_entry()
        self._unused.append(UnusedField(source=self._note(), field=_shown(field), reason=_shown(reason)))

    def leave_rest(self, content: Mapping[str, Any], used: Iterable[str], reasons: Mapping[str, str]) -> None:
        """Name each field of a mapping that is not used, with its reason."""
        known = set(used)
        for field in content:
            if field not in known:
                self.leave(str(field), reasons.get(str(field), "it says nothing about the environment"))

    def add_data(self, path: str, md5: str, field: str, *, size: object = None, files: object = None) -> None:
        """Add the fingerprint of data.

        Args:
            path: relative to the project.
            md5: hex; `.dir` after it says that it is the one of DVC's list of a directory.
            size: in bytes, if known.
            files: the number of files, if known.
        """
        match = _MD5.fullmatch(md5)
        if match is None:
            self.leave(field, "it has no md5")
            return
        if clean_row(path[:LONGEST_ROW]) != path:
            self.leave(field, "its path looks like a secret, or is too long")
            return
        self._count_entry()
        self._data.append(
            DataFingerprint(
                path=display_text(without_home(path)), md5=match["md5"], directory=bool(match["directory"]),
                size=_amount(size), files=_amount(files), source=_shown(self.source), field=_shown(field),
            )
        )  # fmt: skip

    def start(self, moment: object, field: str) -> None:
        """Keep the start of the run: ISO 8601, or seconds or milliseconds since 1970."""
        if stated := to_iso(moment):
            self._started = (stated, f"{_shown(self.source)}: {_shown(field)}")

    def finish(self) -> ImportedSnapshot:
        """Return the snapshot.

        Raises:
            SnapshotError: the import found nothing that an image can be made of.
        """
        files = self._files | {name: _join(rows) for name, rows in self._lines.items()}
        if not files:
            raise SnapshotError(
                f"{self._format}: `{_shown(self.source)}` names no package",
                hint="take a snapshot where the job runs: `reprobuild capture -o DIR`",
            )
        started, started_from = self._started
        return ImportedSnapshot(
            files=files,
            facts=ImportFacts(
                format=self._format, started=started, started_from=started_from,
                origins=tuple(self._origins), unused=tuple(self._unused), data=tuple(self._data),
                requires_python=self.requires_python,
            ),
        )  # fmt: skip

    def count_variables(self, size: int) -> None:
        """Refuse more variables, of all files together, than a job can have: the rules need seconds for each MiB."""
        self._size_of_variables += size
        text.check_environment(self._size_of_variables, _shown(self.source))

    def count_changes(self, size: int) -> None:
        """Refuse more changes and texts, of all files together, than one file may have: they are searched."""
        self._size_of_changes += size
        if self._size_of_changes > text.LIMIT:
            raise SnapshotError(
                f"{_shown(self.source)}: its diffs and texts have more than {text.LIMIT >> 20} MiB",
                hint="unpack it, and import it without the large ones: an image depends only on `*.diff`",
            )

    def count_packed(self, size: int) -> None:
        """Refuse more bundles, of all files together, than an import holds in memory."""
        self._size_of_packed += size
        if self._size_of_packed > _MOST_PACKED:
            raise SnapshotError(
                f"{_shown(self.source)}: its bundles have more than {_MOST_PACKED >> 20} MiB",
                hint="an import copies them: unpack it, and name the directory in the command that reads the snapshot",
            )

    def _add_origin(self, file: str, line: int, field: str) -> None:
        self._origins.append(ValueOrigin(file=file, line=line, source=self._note(), field=_shown(field)))

    def _note(self) -> str:
        """Return the name of the source for display, and keep it as one that was read."""
        shown = _shown(self.source)
        self._sources.add(shown)
        return shown

    def _count_entry(self) -> None:
        """Refuse more entries than a captured list may have lines: each costs up to a millisecond."""
        self._count += 1
        text.check_lines(self._count, _shown(self.source))


def hides_login(line: str) -> bool:
    """Return whether a line keeps a login after its address was cleaned, as `https:\\\\me:password@host` does."""
    stripped = secrets.strip_credentials(line)[0]
    return secrets.without_logins(stripped) != stripped


@lru_cache(maxsize=1024)
def _shown(name: str) -> str:
    """Return a name or a reason for display; most of them come again and again."""
    if len(name) > _LONGEST_NAME:
        return f"({len(name)} characters: too long to show)"
    return display_text(clean_row(name))


def _join(rows: list[str]) -> bytes:
    return "".join(f"{row}\n" for row in rows).encode()


def _amount(value: object) -> int | None:
    """Return a number of bytes or files; None if it is not one."""
    return value if isinstance(value, int) and 0 <= value <= 1 << 62 else None
