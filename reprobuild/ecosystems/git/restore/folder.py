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

from reprobuild.ecosystems.git.restore.restore import Restored, restore
from reprobuild.errors import SnapshotError, UsageError
from reprobuild.infra.atomic import PREFIX, private_folder
from reprobuild.infra.display import escaped
from reprobuild.infra.git.command import is_safe
from reprobuild.snapshot.capture_model import CaptureFacts
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers.capture_json import FILE, read_captured
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
        raise _without_capture(read_snapshot(snapshot), snapshot, name, target)
    captured = read_captured(snapshot)
    _check_known(captured, origins)
    with private_folder(target.parent, f"{PREFIX}{target.name}.") as scratch:
        part = scratch / "new"
        work_trees = restore(captured.repositories, name, snapshot, part, env, origins, remotes=remotes)
        _move(part, target)
    return captured, tuple(
        replace(work_tree, folder=target / work_tree.folder.relative_to(part)) for work_tree in work_trees
    )


def _check_absent(target: Path) -> None:
    if os.path.lexists(target):
        raise _taken(target)


def _taken(target: Path) -> UsageError:
    return UsageError(
        f"`{escaped(str(target))}` is there already", hint="name a directory that is not there yet"
    )


def _move(part: Path, target: Path) -> None:
    """Rename a directory to its final name.

    mkdir(2) detects if the name has been taken meanwhile.
    """
    try:
        target.mkdir()
    except FileExistsError:
        raise _taken(target) from None
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
                f"--source {escaped(name)}: no repository of this name was captured",
                hint=f"there are: {', '.join(known) or 'none'}",
            )


def _without_capture(content: Snapshot, snapshot: Path, name: str, target: Path) -> SnapshotError:
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
        hint += f"; with git: {escaped(' && '.join(map(shlex.join, words)))}"
    return SnapshotError(f"`{escaped(str(snapshot))}` has no {FILE}", hint=hint)
