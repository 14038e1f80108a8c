"""Checks of captured repositories that need only the files of the snapshot.

`show` and the begin of `lock` make them before any network is asked, and each source is checked again when it is made.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from reprobuild.ecosystems.git.restore.bundle import check_bundle
from reprobuild.errors import LockError, SnapshotError
from reprobuild.resolve.environment.path_mapping import MappedRepository, place_repositories
from reprobuild.snapshot.capture_model import CapturedRepository, CaptureFacts
from reprobuild.snapshot.model import Patch, Snapshot
from reprobuild.snapshot.parsers.capture_json import FILE

FileError = LockError | SnapshotError


def list_file_errors(snapshot: Snapshot, folder: Path, drop: Collection[str]) -> tuple[FileError, ...]:
    """Return the errors of the captured repositories that become sources.

    Args:
        snapshot: the captured lines.
        folder: the snapshot, with its bundles.
        drop: names that the user leaves out.
    """
    return tuple(_find_errors(snapshot, folder, drop))


def _find_errors(snapshot: Snapshot, folder: Path, drop: Collection[str]) -> Iterator[FileError]:
    if snapshot.captured is None:
        return
    for placed in place_repositories(snapshot.captured, snapshot.requirements, drop):
        try:
            check_repository(placed, snapshot.patches, snapshot.captured, folder)
        except (LockError, SnapshotError) as err:
            yield err


def check_repository(
    placed: MappedRepository, patches: Sequence[Patch], captured: CaptureFacts, folder: Path
) -> None:
    """Refuse a captured repository that contradicts its diff, its line or its bundle.

    Raises:
        LockError: its objects have names that no lock can have.
        SnapshotError: a file was changed, is missing, or is of another moment.
    """
    _check_diff(placed.repository, patches)
    _check_commit(placed)
    parts = [placed.repository]
    for part in parts:
        _check_format(part)
        check_bundle(part, folder)
        parts.extend(captured.inside(part.name))


def _check_diff(repository: CapturedRepository, patches: Sequence[Patch]) -> None:
    patch = next((patch for patch in patches if patch.file == repository.diff.file), None)
    if patch and repository.diff.size != len(patch.content):
        raise SnapshotError(
            f"{patch.file} was changed after the capture: it has {len(patch.content)} bytes, "
            f"and had {repository.diff.size}",
            hint="what goes into the image is read from the bundle: make the change in the repository, and capture "
            "it again",
        )


def _check_commit(placed: MappedRepository) -> None:
    line, repository = placed.line, placed.repository
    known = {repository.diff.start, repository.base, repository.head}
    if line and line.commit and not any(oid and oid.startswith(line.commit) for oid in known):
        raise SnapshotError(
            f"{line.place}: commit {line.commit[:12]} of {line.name} is none that {FILE} knows",
            hint="the freeze and the capture are of two moments: capture again",
        )


def _check_format(repository: CapturedRepository) -> None:
    if repository.object_format != "sha1":
        raise LockError(
            f"{repository.name} is a repository of {repository.object_format}, and a lock names trees by sha1",
            hint=f"leave it out with --drop {shlex.quote(repository.name)}",
        )
