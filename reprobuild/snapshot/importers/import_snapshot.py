"""Import of a path: recognise it, write a snapshot, and read it back."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import msgspec

from reprobuild.errors import SnapshotError, UsageError
from reprobuild.infra.atomic import atomic_directory
from reprobuild.infra.display import display_text, escape_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.snapshot.file_kinds import explicit_lock_kind, kind_of
from reprobuild.snapshot.import_facts import FILE, ImportFacts
from reprobuild.snapshot.importers.captured_content import put_captured
from reprobuild.snapshot.importers.draft import REQUIREMENTS, Draft
from reprobuild.snapshot.importers.formats import IMPORTERS, find_importer, find_supplements
from reprobuild.snapshot.importers.model import ImportedSnapshot
from reprobuild.snapshot.importers.own_snapshot import describe_own_snapshot, find_own_snapshot, is_captured
from reprobuild.snapshot.importers.project_requirements import ENVIRONMENT, EXPLICIT_HEAD, add_project_python
from reprobuild.snapshot.importers.repositories import has_secret
from reprobuild.snapshot.importers.requirement_files import add_lists, has_other_lists
from reprobuild.snapshot.importers.source import ARCHIVE, ImportSource, open_source
from reprobuild.snapshot.not_snapshot import (
    is_output,
    missing_error,
    nothing_error,
    output_error,
    refuse_unreadable,
)
from reprobuild.snapshot.read import read_snapshot
from reprobuild_portable.host import is_portable

# Files of a snapshot that are no captured lists: packed ones, and texts.
_OWN_LOCK = re.compile(rb'\{\s*"version": \d+,\s*"snapshot": "[0-9a-f]')
_MOST_ENTRIES = 10_000  # of a directory
_PACKED = re.compile(r".*\.bundle|interpreter\.tar\.gz")
_BESIDE = re.compile(r"import\.json|.*\.(?:patch|untracked)|(?i:readme.*)")


def import_into(path: Path, out: Path, *, replace: bool = False) -> ImportFacts:
    """Write a path of another tool as a snapshot directory.

    Args:
        path: a directory, a file, or an archive.
        out: the new directory.
        replace: replace a directory that an earlier import made.

    Returns:
        The facts on the import, which are in `import.json`, too.

    Raises:
        UsageError: `out` exists and has files.
        SnapshotError: the format is unknown, a file is damaged, or the result is no valid snapshot.
    """
    if os.path.lexists(out) and not (replace and (out / FILE).is_file()) and not _is_empty(out):
        raise UsageError(f"{escape_text(str(out))} exists", hint="name a new directory with -o")
    imported = _read(find_own_snapshot(path) or path)
    with atomic_directory(out) as part:
        _write(imported, part)
        read_snapshot(part)  # what it refuses is refused before it is written
    return imported.facts


@contextlib.contextmanager
def open_snapshot(path: Path, say: Callable[[str], None] = lambda text: None) -> Iterator[Path]:
    """Yield the snapshot directory of a path; that of an import is temporary.

    Args:
        path: a snapshot, a run, or another path that can be imported.
        say: called with a line if a run has its own snapshot.

    Raises:
        SnapshotError: see `import_into`; the errors of a directory without a snapshot are left to its reader.
    """
    if nested := find_own_snapshot(path):
        say(describe_own_snapshot(nested))
    if nested or not needs_import(path):
        yield nested or path
        return
    with tempfile.TemporaryDirectory(prefix="reprobuild-import-") as name:
        directory = Path(name) / "snapshot"
        import_into(path, directory)
        yield directory


def needs_import(path: Path) -> bool:
    """Return whether a path is a file, or a directory of a project or another tool without a snapshot of its own.

    Raises:
        SnapshotError: it is an output directory, whose own pylock.toml is no input, or is not readable.
    """
    refuse_unreadable(path)
    _refuse_output(path)
    if not path.is_dir() or is_captured(path):
        return path.is_file()
    return _is_project(path) or can_import(path)


def _is_project(directory: Path) -> bool:
    """Return whether a directory has a list of packages and a virtual environment, and no other captured file."""
    if not (directory / ENVIRONMENT).is_file():
        return False
    names = (entry.name for entry in itertools.islice(directory.iterdir(), _MOST_ENTRIES))
    return {kind.name for kind in map(kind_of, names) if kind} == {REQUIREMENTS}


def _refuse_output(path: Path) -> None:
    if is_output(path) and not is_captured(path):
        raise output_error(path)


def can_import(path: Path) -> bool:
    """Return whether an importer recognises a path that is no archive.

    A directory with facts for an importer, and without a captured file, counts: the importer says what is missing.
    """
    if path.is_file() and ARCHIVE.fullmatch(path.name):
        return False
    with tempfile.TemporaryDirectory() as scratch, open_source(path, Path(scratch)) as source:
        if find_importer(source):
            return True
        return not any(kind_of(name) for name in source.names) and bool(find_supplements(source))


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _read(path: Path) -> ImportedSnapshot:
    if not path.exists():
        raise missing_error(path)
    _refuse_output(path)
    with tempfile.TemporaryDirectory() as scratch, open_source(path, Path(scratch)) as source:
        importer, supplements = find_importer(source), find_supplements(source)
        draft = importer.read(source) if importer else _captured_files(source)
        if draft is None:
            raise _unknown_error(path, [supplement.name for supplement in supplements])
        main = draft.source
        for supplement in supplements:
            supplement.add(draft, source)
        _leave_lists(draft, source)
        for name, reason in source.skipped.items():
            draft.source = name
            draft.leave("the file", reason)
        draft.source = main
        return draft.finish()


def _leave_lists(draft: Draft, source: ImportSource) -> None:
    """Name each captured file at the top that the importer did not read."""
    for name in source.names:
        if "/" not in name and kind_of(name) and not draft.has_read(name):
            draft.source = name
            draft.leave("the file", "the other file is imported: to import this one, name it")


def _unknown_error(path: Path, supplements: list[str]) -> SnapshotError:
    """Return the error for a path that no importer reads.

    Args:
        path: the path.
        supplements: names of the formats in it that add facts to another one.
    """
    shown = escape_text(str(path))
    if supplements:
        return SnapshotError(
            f"`{shown}` has only facts that belong to a run ({', '.join(supplements)}), and names no package",
            hint="import a directory that has a run, a lock file or a requirements.txt, too",
        )
    if _is_own_lock(path):
        return SnapshotError(
            f"`{shown}` is a lock of reprobuild, and no snapshot",
            hint=f"build its image: `reprobuild build {quote_path(path)} -o OUT`",
        )
    names = ", ".join(importer.name for importer in IMPORTERS)
    return SnapshotError(
        f"`{shown}` is of no known format",
        hint=f"these are read: {names}, requirements*.txt, environment.yml, and the other files of a snapshot; "
        "or take a snapshot where the job runs: `reprobuild capture -o DIR`",
    )


def _is_own_lock(path: Path) -> bool:
    """Tell whether a file begins as the locks that `reprobuild lock` writes."""
    try:
        stream, _ = open_plain(path, links=True)
        with stream:
            return _OWN_LOCK.match(stream.read(64)) is not None
    except OSError:  # of a file of /proc, reading fails
        return False


def _captured_files(source: ImportSource) -> Draft | None:
    """Return the captured files of an archive, a directory or a single file, if it is a snapshot already."""
    if source.path.is_file() and len(source.names) == 1 and (name := _captured_name(source)):
        content = source.read(source.names[0])
        draft = Draft(f"a file ({name})", source.names[0])
        if name == REQUIREMENTS and has_other_lists(content, source.names[0]):
            add_lists(draft, source, source.names[0])
        else:
            put_captured(draft, name, _kind_name(name, content), content)
        if name == REQUIREMENTS:
            add_project_python(draft, source)
        return draft
    directories = {name.rpartition("/")[0] for name in source.names if kind_of(name.rpartition("/")[2])}
    if not directories:
        return None
    directory = _only_snapshot(source, directories)
    in_archive = source.path.is_file()
    inside = source.below(directory) if directory else source
    draft = Draft(f"a snapshot in {'an archive' if in_archive else 'a directory'}", source.path.name)
    whole = in_archive or inside.has("capture.json")  # it names bundles and other files
    for name in inside.names:
        if "/" not in name:
            _put_file(draft, name, inside, whole=whole)
    if set(draft.captured) == {REQUIREMENTS}:  # other files can state another Python
        add_project_python(draft, inside)
    return draft


def _only_snapshot(source: ImportSource, directories: Collection[str]) -> str:
    """Return the directory nearest to the top: in an archive the only one at its level, else the top itself.

    Raises:
        SnapshotError: there is no such directory.
    """
    least = min(map(_depth, directories))
    nearest = sorted(name for name in directories if _depth(name) == least)
    if least and not source.path.is_file():
        raise nothing_error(source.path, source.path / nearest[0] if len(nearest) == 1 else None)
    if len(nearest) > 1:
        raise SnapshotError(
            f"`{display_text(source.path.name)}` has {len(nearest)} snapshots, and one is needed",
            hint="unpack it, and name the directory of one",
        )
    return nearest[0]


def _depth(directory: str) -> int:
    return directory.count("/") + bool(directory)


def _put_file(draft: Draft, name: str, inside: ImportSource, *, whole: bool) -> None:
    """Copy one file of a snapshot; from an archive or a capture, also those that are no captured lists."""
    if kind_of(name) is None and not whole:
        return
    if not name.isprintable() or "\\" in name:  # of a directory: an archive with one is refused
        draft.leave("a file", "its name has control characters or backslashes")
        return
    if not is_portable(name):
        draft.leave("a file", "its name has another meaning on Windows")
        return
    kind = _kind_name(name, inside.head(name, EXPLICIT_HEAD))
    is_packed, is_text = _PACKED.fullmatch(name), _BESIDE.fullmatch(name)
    reason = ""
    if not kind and not is_packed and not is_text:
        reason = "a file of no known kind"
    else:
        content = inside.read(name)
        if kind == "*.diff" or (not kind and is_text):
            draft.count_changes(len(content))
        if kind:
            put_captured(draft, name, kind, content, place=name)
        elif is_packed:
            draft.count_packed(len(content))
            draft.put(name, content)
        elif has_secret(content):
            reason = "it holds a secret"
        else:
            draft.put(name, content)
    if reason:
        main, draft.source = draft.source, name
        draft.leave("the file", reason)
        draft.source = main


def _kind_name(name: str, content: bytes) -> str:
    """Return the name of the kind of a captured file; empty if it has none."""
    kind = kind_of(name) or explicit_lock_kind(name, content)
    return kind.name if kind else ""


def _captured_name(source: ImportSource) -> str:
    """Return the name in a snapshot for a single file; empty if its kind is unknown."""
    (name,) = source.names
    if kind := kind_of(name):
        return name if kind.name == "*.diff" else kind.name
    if re.search(r"requirements.*\.txt$|pip.?freeze.*\.txt$", name.lower()):
        return REQUIREMENTS
    if name.lower().endswith((".yml", ".yaml")) and re.search(rb"(?m)^dependencies:", source.read(name)):
        return "environment.yml"
    return ""


def _write(imported: ImportedSnapshot, directory: Path) -> None:
    for name, content in imported.files.items():
        write_below(directory, name, content)
    document = msgspec.json.format(msgspec.json.encode(imported.facts), indent=1) + b"\n"
    if FILE not in imported.files:
        write_below(directory, FILE, document)
