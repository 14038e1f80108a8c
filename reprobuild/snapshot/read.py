"""Reading of a snapshot directory.

Every line becomes a value or a remark, values are not guessed, and no secret is kept.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from reprobuild.errors import SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.snapshot import text
from reprobuild.snapshot.file_kinds import (
    KINDS,
    RECIPE,
    FileKind,
    explicit_lock_kind,
    kind_of,
    repeated_kind_error,
)
from reprobuild.snapshot.import_facts import FILE, read_import_facts
from reprobuild.snapshot.merge import apply_conda_versions, last_line_number, merge_exact_variables
from reprobuild.snapshot.model import MachineReport, ParseNote, Snapshot
from reprobuild.snapshot.not_snapshot import RECIPE as NO_SNAPSHOT
from reprobuild.snapshot.not_snapshot import file_error, missing_error, nothing_error
from reprobuild.snapshot.parsers import capture_json, conda_list, env
from reprobuild.snapshot.parsers.apt_lists import read_apt_lists
from reprobuild.snapshot.unlisted import find_unfrozen, list_unlisted

__all__ = ["read_snapshot", "snapshot_digest"]

# Our files or files for people, which are not captured lines.
_BESIDE = re.compile(r"reprobuild\.yaml|import\.json|(?i:readme.*)|.*\.bundle|interpreter\.tar\.gz")
# Files of `reprobuild capture` and its recipe that an image cannot be made of: they are shown, and do not count as
# unknown.
_ASIDE = re.compile(r"(?P<changes>.*\.patch)|.*\.untracked")
# Fields that came later. They are left out of the digest if they are empty, so older snapshots keep theirs.
_LATER = (
    "captured", "conda", "rpms", "reports", "apt_lists", "unlisted", "unfrozen", "imported", "conda_requests",
)  # fmt: skip


def read_snapshot(folder: Path) -> Snapshot:
    """Return the snapshot in a directory.

    Args:
        folder: the directory that the chapter's recipe or `reprobuild capture` wrote; docs/snapshots.md has names
            of files.

    Raises:
        SnapshotError: there is no such directory or no captured file in it, or a file in it is damaged, contradicts
            itself or another one, leads out of the directory, or is a patch with a secret.
    """
    reader = _Held(folder)
    for path in _list_files(folder):
        reader.take(path)
    if not reader.first:
        raise nothing_error(folder, _find_subdirectory(folder))
    reader.join()
    names = {"env.txt" if name == "env.nul" else name for name in reader.first}
    captured = reader.first.get(capture_json.FILE)
    fields: dict[str, Any] = {field: tuple(values) for field, values in reader.found.items()}
    if (folder / FILE).is_file():
        fields["imported"] = read_import_facts(_read_file(folder / FILE, folder))
    if captured:
        fields |= _capture_fields(*captured, reader.names())
    snapshot = Snapshot(
        digest="",
        remarks=tuple(reader.remarks),
        absent=tuple(name for name in RECIPE if name not in names),
        **fields,
    )
    return replace(snapshot, digest=snapshot_digest(snapshot))


def _capture_fields(file: str, data: bytes, names: set[str]) -> dict[str, Any]:
    """Return the fields of a snapshot that capture.json gives."""
    document = capture_json.parse(data, file)
    return {
        "captured": capture_json.select_facts(document),
        "apt_lists": read_apt_lists(document),
        "unlisted": list_unlisted(document, names, file),
        "unfrozen": find_unfrozen(document, names),
    }


def snapshot_digest(snapshot: Snapshot) -> str:
    """Return the sha256 of a snapshot's content.

    Secrets have been dropped by now, so it does not depend on them.
    """
    fields = {name: getattr(snapshot, name) for name in snapshot.__struct_fields__}
    fields["reports"] = tuple(_drop_assumed_machine(report) for report in snapshot.reports)
    facts = snapshot.imported  # what a lock can depend on
    fields["imported"] = (facts.started, facts.started_from) if facts and facts.started else ()
    fields["remarks"] = tuple(_restore_former_remark(remark) for remark in snapshot.remarks)
    del fields["conda_beside"]  # a lock does not depend on them
    content = {name: value for name, value in fields.items() if value or name not in _LATER}
    return hashlib.sha256(msgspec.json.encode(content | {"digest": ""})).hexdigest()


def _drop_assumed_machine(report: MachineReport) -> MachineReport:
    """Return a report without the machine that older ones assumed."""
    return replace(report, machine=UNSET) if report.machine == "x86_64" else report


def _restore_former_remark(remark: ParseNote) -> ParseNote:
    """Return a remark in the form of older versions.

    Lines of functions were not recognised then; digests of older snapshots stay.
    """
    of_function = remark.reason == env.OF_FUNCTION
    return replace(remark, reason=env.PIECE, understood=False) if of_function else remark


class _Held:
    """The results of the files read so far.

    `first` is the first file of each kind, with its bytes.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[str, list[Any]] = {kind.field: [] for kind in KINDS}
        self.remarks: list[ParseNote] = []
        self.first: dict[str, tuple[str, bytes]] = {}

    def take(self, path: Path) -> None:
        """Read one file, or add a remark on it."""
        shown = escape_text(path.name)
        kind = kind_of(path.name)
        if kind is None and path.suffix == ".lock" and path.is_file() and not path.is_symlink():
            kind = explicit_lock_kind(path.name, _read_file(path, self.folder))
        if kind is not None:
            self._read(kind, shown, _read_file(path, self.folder))
        elif aside := _ASIDE.fullmatch(path.name):
            reason = "the changes of a repository" if aside["changes"] else "names of untracked files"
            self.remarks.append(text.remark(shown, 1, "", f"{reason}, for people: not read"))
        elif not _BESIDE.fullmatch(path.name):
            reason = "a directory: not read" if path.is_dir() else "a file of no known kind: not read"
            self.remarks.append(text.remark(shown, 1, "", reason, understood=False))

    def _read(self, kind: FileKind, shown: str, data: bytes) -> None:
        other, same = self.first.setdefault(kind.name, (shown, data))
        if other != shown and kind.name != "*.diff":
            if same != data:
                raise repeated_kind_error(other, shown, kind.name)
            reason = f"the same as {other}"
            self.remarks.append(text.remark(shown, 1, "", reason, lines=last_line_number(data)))
            return
        values, notes = kind.parse(data, shown)
        self.found[kind.field] += values
        self.remarks += notes

    def names(self) -> set[str]:
        """Return the names of the distributions and of conda's packages."""
        return {line.name for field in ("requirements", "conda") for line in self.found[field]}

    def join(self) -> None:
        """Merge the facts that several files have on one subject.

        Raises:
            SnapshotError: they contradict each other.
        """
        packages, repeated = conda_list.merge_duplicates(self.found["conda"])
        self.found["conda"] = list(packages)
        self.remarks += repeated
        if "environment.yml" in self.first and "requirements.txt" not in self.first:
            from reprobuild.snapshot.parsers import environment_yml_pip  # with the parser of YAML; see kinds

            file, data = self.first["environment.yml"]
            section = environment_yml_pip.read_pip_section(data, file, packages, self.remarks)
            packages = section.packages
            self.found["conda"] = list(packages)
            self.found["requirements"] += section.lines
            self.found["conda_requests"] = list(section.requests)
            self.remarks = list(section.remarks)
        elif "environment.yml" in self.first:
            from reprobuild.snapshot.parsers import environment_yml_pip

            file, data = self.first["environment.yml"]
            beside = environment_yml_pip.list_requests_beside(
                data, file, packages, self.found["requirements"]
            )
            self.found["conda_beside"] = list(beside)
        if packages and "requirements.txt" not in self.first:
            reason = "there is no freeze beside it: what was installed from directories and repositories is not known"
            self.remarks.append(text.remark(packages[0].place.file, 1, "", reason, understood=False))
        self.found["requirements"] = list(apply_conda_versions(self.found["requirements"], packages))
        if "env.nul" in self.first and "env.txt" in self.first:
            file, data = self.first["env.txt"]
            both = self.found["variables"]
            exact = [variable for variable in both if variable.place.file != file]
            text_variables = [variable for variable in both if variable.place.file == file]
            variables, notes = merge_exact_variables(exact, text_variables, file, last_line_number(data))
            self.found["variables"] = list(variables)
            self.remarks += notes


def _list_files(folder: Path) -> list[Path]:
    shown = escape_text(str(folder))
    try:
        files = sorted(folder.iterdir())
    except FileNotFoundError:
        raise missing_error(folder) from None
    except NotADirectoryError:
        raise file_error(folder) from None
    except OSError as err:
        raise SnapshotError(f"`{shown}` cannot be read: {err.strerror}", hint="check who owns it") from None
    if not files:
        raise SnapshotError(f"`{shown}` is empty", hint=NO_SNAPSHOT)
    return files


def _read_file(path: Path, folder: Path) -> bytes:
    """Return the content of one captured file.

    Only a regular file of this directory is opened.
    """
    shown = escape_text(path.name)
    try:
        if not path.resolve().is_relative_to(folder.resolve()):
            raise SnapshotError(
                f"`{shown}` is a link that leaves the directory",
                hint="put the file itself into the directory",
            )
        if not path.is_file():
            raise SnapshotError(
                f"`{shown}` is not a regular file", hint="put the captured text there, or remove it"
            )
        text.check_size(path.stat().st_size, shown)
        return read_plain(path, text.LIMIT)
    except (OSError, RuntimeError) as err:  # RuntimeError: a loop of links, before Python 3.13
        reason = getattr(err, "strerror", None) or "a loop of links"
        raise SnapshotError(
            f"`{shown}` cannot be read: {reason}", hint="check who owns it, and what it links to"
        ) from None


def _find_subdirectory(folder: Path) -> Path | None:
    """Return the only subdirectory with a captured file, or None."""
    inside = [
        d
        for d in sorted(folder.iterdir())
        if d.is_dir() and any(kind_of(path.name) for path in _list_directory(d))
    ]
    return inside[0] if len(inside) == 1 else None


def _list_directory(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
