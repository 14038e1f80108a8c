"""Requirements as a project states them in its own files, for the importers of such files."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import display_text
from reprobuild.snapshot.file_kinds import explicit_lock_kind, kind_of
from reprobuild.snapshot.importers.clean_lines import A_LOGIN
from reprobuild.snapshot.importers.draft import NO_HASH, PIN, REQUIREMENTS, Draft, hides_login
from reprobuild.snapshot.importers.people import without_home
from reprobuild.snapshot.importers.requirement_rows import continued, hash_row, valid_hashes
from reprobuild.snapshot.importers.source import MOST_CANDIDATES, ImportSource

PROJECT = "the project itself is not installed: mount a checkout of it (`reprobuild run OUT -v DIR:/work`)"
RANGE = "a range of Python; `--python` gives the one that ran"
NOT_HERE = (
    "import the file that has them, such as setup.cfg or requirements.txt; "
    "or take a snapshot where the job runs: `reprobuild capture -o DIR`"
)
DESCRIPTION = "it describes the project"
EXTRA = "an extra of the project, which is installed only on demand: write its requirements into a requirements.txt"
GROUP = "a group for development, which pip does not install: write its requirements into a requirements.txt"
LARGEST = 1 << 20  # bytes of a file: the requirements in one need some seconds
_NOT_VALID = "its name, its version, its address or its marker is not valid"
_COMMENT = re.compile(r"(?:^|\s)#")
_MOST = 2000  # requirements: the largest projects name some hundred, and each takes milliseconds
_HASHES = ("sha256", "sha512", "sha384", "sha224", "sha1", "md5")
NO_MARKER = "an editable install has no marker: write a line for it, or leave it out"
_LONGEST = 1000  # characters of a requirement: `Draft.add` refuses longer ones
_CAPTURED = {"import.json", "capture.json", "env.txt", "env.nul"}  # files that only a snapshot has
_PIN, ENVIRONMENT = ".python-version", ".venv/pyvenv.cfg"
_EXACT = re.compile(r"3\.\d{1,3}\.\d{1,3}")
_MOST_SETTINGS = 1 << 14  # bytes of a pyvenv.cfg, which has some hundred
EXPLICIT_HEAD = 64 << 10  # bytes of a file in which its mark is looked for


def find_project_file(source: ImportSource, name: str) -> str | None:
    """Return the file of this name, or with a name that ends in it, at the top; None without one."""
    top = [other for other in source.names if "/" not in other]
    return next((other for other in top if other == name or other.endswith(f"-{name}")), None)


def read_project_file(source: ImportSource, file: str) -> bytes:
    """Return the content of a file that people write.

    Raises:
        SnapshotError: it cannot be read, or is too large.
    """
    data = source.read(file)
    if len(data) > LARGEST:
        raise SnapshotError(
            f"{display_text(file)}: {len(data)} bytes are more than the {LARGEST >> 20} MiB that it may have",
            hint="look at what wrote it; people write a few kilobytes",
        )
    return data


def check_count(count: int, file: str) -> None:
    """Refuse more requirements than a project has.

    Raises:
        SnapshotError: there are more.
    """
    if count > _MOST:
        raise SnapshotError(
            f"{display_text(file)} has {count} requirements, more than the {_MOST} that a project may have",
            hint="import a lock of the project, or a requirements.txt",
        )


def is_alone(source: ImportSource) -> bool:
    """Return whether the path is one file."""
    return source.path.is_file() and source.home is not None


def has_captured_list(source: ImportSource) -> bool:
    """Return whether the path has a list of packages at its top, or a snapshot below: both say more."""
    names = source.names
    top = [name for name in names if "/" not in name]
    if any(map(kind_of, top)) or any(name.rpartition("/")[2] in _CAPTURED for name in names):
        return True
    locks = [name for name in top if name.endswith(".lock")][:MOST_CANDIDATES]
    return any(explicit_lock_kind(name, source.head(name, EXPLICIT_HEAD)) for name in locks)


def parse_requirement(row: str) -> Requirement | None:
    """Return a requirement of PEP 508, or None for another or a too long text."""
    if len(row) > _LONGEST:
        return None
    try:
        return Requirement(row)
    except (InvalidRequirement, RecursionError):  # nested brackets in a marker
        return None


def add_requirement(draft: Draft, row: object, field: str) -> None:
    """Add a requirement, or a line that a lock asks for if it cannot be read."""
    stated = row.strip() if isinstance(row, str) else ""
    if not parse_requirement(stated) or not is_plain(stated):
        leave_requirement(draft, field, "it is no requirement")
    elif hides_login(stated):
        leave_requirement(draft, field, A_LOGIN)
    else:
        draft.add(REQUIREMENTS, without_home(stated), field)


def add_direct(
    draft: Draft, name: str, address: str, field: str, *, marker: str = "", editable: bool = False,
    hashes: Iterable[str] = (), subdirectory: str = "",
) -> None:  # fmt: skip
    """Add a distribution with its address, or a line that a lock asks for if a part of it is not valid.

    Args:
        address: of an archive, a directory or a repository.
        marker: of the environments that have it; empty for all.
        editable: whether it is an editable install, which has no marker.
        hashes: of the archive, each `ALGORITHM:HEX`.
        subdirectory: the directory of the project in the archive or the repository.
    """
    stated = list(hashes)
    known = sorted((value for value in valid_hashes(stated) if _kind(value) in _HASHES), key=_by_kind)
    is_one_file = len({_kind(value) for value in known}) == len(known)
    facts = [f"egg={name}"] * editable + [f"subdirectory={quote(subdirectory)}"] * bool(subdirectory)
    facts += [value.replace(":", "=") for value in known] * is_one_file
    facts = [fact for fact in facts if fact not in address]
    place = address + ("&" if "#" in address else "#") * bool(facts) + "&".join(facts)
    line = f"{name} @ {place}" + f" ; {marker}" * bool(marker)
    parsed = parse_requirement(line)
    if editable and marker:
        leave_requirement(draft, field, NO_MARKER)
    elif stated and not known:
        leave_requirement(draft, field, NO_HASH)
    elif len(line) > _LONGEST:
        leave_requirement(draft, field, f"it has more than {_LONGEST} characters")
    elif parsed is None or (parsed.name, parsed.url) != (name, place) or not is_plain(line):
        leave_requirement(draft, field, _NOT_VALID)
    else:
        rows = [hash_row(value) for value in known] * (not is_one_file)
        head, *more = continued([f"-e {place}" if editable else line, *rows])
        draft.add(REQUIREMENTS, head, field, more)


def _kind(value: str) -> str:
    return value.partition(":")[0]


def _by_kind(value: str) -> int:
    return _HASHES.index(_kind(value))


def add_pinned(
    draft: Draft, name: str, version: str, field: str, *, marker: str = "", hashes: Iterable[str] = ()
) -> None:
    """Add a distribution with its version, or a line that a lock asks for if a part of it is not valid."""
    condition = f" ; {marker}" * bool(marker)
    is_short = len(name) + len(condition) < _LONGEST  # `Draft.add` refuses longer ones
    parsed = parse_requirement(f"{name}==0{condition}")
    if PIN.fullmatch(f"{name}=={version}") and (not is_short or (parsed and is_plain(condition))):
        draft.add_pin(name, version, field, marker=marker, hashes=hashes)
    else:
        leave_requirement(draft, field, _NOT_VALID)


def is_plain(line: str) -> bool:
    """Return whether no part of a line is a comment or another line to pip."""
    return line.isprintable() and not _COMMENT.search(line)


def leave_requirement(draft: Draft, field: str, reason: str) -> None:
    """Name a field that may have named packages, and add a line that no list has: a lock asks for it."""
    draft.leave_requirement(field, reason)


def add_project_python(draft: Draft, source: ImportSource) -> None:
    """Add the version of Python of a project: that of its `.python-version`, else that of its `.venv`."""
    file = draft.source
    if source.adopt(_PIN):
        draft.source = _PIN
        first = source.head(_PIN, _MOST_SETTINGS).decode(errors="replace").strip().partition("\n")[0]
        draft.add_python(first.strip(), "line 1")
    if source.adopt(ENVIRONMENT):
        draft.source = ENVIRONMENT
        _add_environment_python(draft, source.head(ENVIRONMENT, _MOST_SETTINGS).decode(errors="replace"))
    draft.source = file


def _add_environment_python(draft: Draft, text: str) -> None:
    """Add the version of Python of a virtual environment, if the files of the project allow it."""
    rows = (row.partition("=") for row in text.splitlines())
    settings = {name.strip(): value.strip() for name, _, value in rows}
    # Python's own `venv` writes `version`; uv and virtualenv write `version_info`, the latter with `.final.0`.
    field = "version_info" if "version_info" in settings else "version"
    version = settings.get(field, "").removesuffix(".final.0")
    if settings.get("implementation", "CPython") != "CPython":
        draft.leave(field, "it is no CPython")
    elif _EXACT.fullmatch(version) and not SpecifierSet(draft.requires_python).contains(version):
        draft.leave(
            field, "the requirement of the project excludes this Python: the environment is of another time"
        )
    else:
        draft.add_python(version, field)
