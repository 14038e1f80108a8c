"""Restoration of a captured repository into a new directory.

The directory appears complete or not at all.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace
from packaging.utils import canonicalize_name

from reprobuild.ecosystems.git.restore.restore import Restored, restore_repository
from reprobuild.errors import SnapshotError, UsageError
from reprobuild.infra.atomic import PREFIX, private_directory
from reprobuild.infra.display import escape_text
from reprobuild.infra.git.command import is_safe
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers.capture_json import FILE, load_capture, select_facts
from reprobuild.snapshot.read import read_snapshot

_WHOLE = "only snapshots of `reprobuild capture` hold whole repositories"


def restore_folder(
    snapshot: Path, name: str, target: Path, env: Mapping[str, str], origins: Mapping[str, str], *, remotes: bool
) -> tuple[CaptureFacts, tuple[Restored, ...]]:  # fmt: skip
    """Restore a captured repository into a new directory.

    Args:
        snapshot: its directory.
        name: of the repository, or of a distribution that was installed from it.
        target: the new directory.
        env: the user's environment, for git's credentials.
        origins: by name of a repository, the path or address that has the commits of its remote.
        remotes: fetch the rest from the captured remotes on other machines.

    Returns:
        The repositories of the snapshot, and each work tree that was made, the outermost first.

    Raises:
        UsageError: `target` exists already.
        SnapshotError, EngineError: see `restore`; or the snapshot has no complete repositories.
    """
    _check_absent(target)
    if not os.path.lexists(snapshot / FILE):
        raise _no_capture_error(read_snapshot(snapshot), snapshot, name, target)
    captured = select_facts(load_capture(snapshot))
    _check_known(captured, origins)
    with private_directory(target.parent, f"{PREFIX}{target.name}.") as scratch:
        part = scratch / "new"
        work_trees = restore_repository(
            captured.repositories, name, snapshot, part, env, origins, remotes=remotes
        )
        _move_part(part, target)
    return captured, tuple(
        replace(work_tree, folder=target / work_tree.folder.relative_to(part)) for work_tree in work_trees
    )


def _check_absent(target: Path) -> None:
    if os.path.lexists(target):
        raise _target_exists_error(target)


def _target_exists_error(target: Path) -> UsageError:
    return UsageError(
        f"`{escape_text(str(target))}` is there already", hint="name a directory that is not there yet"
    )


def _move_part(part: Path, target: Path) -> None:
    """Rename a directory to its final name.

    mkdir(2) detects if the name has been taken meanwhile.
    """
    try:
        target.mkdir()
    except FileExistsError:
        raise _target_exists_error(target) from None
    try:
        part.rename(target)
    except OSError:
        target.rmdir()
        raise


def _check_known(captured: CaptureFacts, origins: Mapping[str, str]) -> None:
    """Refuse an origin for a repository that was not captured.

    It would have no effect.
    """
    known = [repository.name for repository in captured.repositories]
    for name in origins:
        if name not in known:
            raise UsageError(
                f"--source {escape_text(name)}: no repository of this name was captured",
                hint=f"there are: {', '.join(known) or 'none'}",
            )


def _no_capture_error(content: Snapshot, snapshot: Path, name: str, target: Path) -> SnapshotError:
    """Return the error for a recipe's snapshot, with git commands.

    The commands restore the repository by hand.
    """
    project = canonicalize_name(name)
    line = next(
        (line for line in content.requirements if line.name and canonicalize_name(line.name) == project), None
    )
    hint = _WHOLE
    if line and line.url and line.commit and is_safe(url := line.url.removeprefix("git+")):
        words = [["git", "clone", "--no-checkout", url, str(target)]]
        inside = ["git", "-C", str(target)]
        place = snapshot.absolute()
        bundle = next((p for p in place.glob("*.bundle") if canonicalize_name(p.stem) == project), None)
        if bundle:
            words.append([*inside, "fetch", str(bundle), "HEAD"])
        words.append([*inside, "checkout", line.commit])
        patch = next((patch for patch in content.patches if canonicalize_name(patch.name) == project), None)
        if patch:
            words.append([*inside, "apply", "--whitespace=nowarn", str(place / patch.file)])
        hint += f"; with git: {escape_text(' && '.join(map(shlex.join, words)))}"
    return SnapshotError(f"`{escape_text(str(snapshot))}` has no {FILE}", hint=hint)
