"""Environments named on the command line.

An argument is a snapshot, a lock, an output directory, an image, or `here`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.capture.launch import capture
from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.compare.environments.evidence import hash_diffs
from reprobuild.compare.environments.image import from_image
from reprobuild.compare.environments.lock import from_lock, with_choices
from reprobuild.compare.environments.model import Environment
from reprobuild.compare.environments.sides import compare_sides
from reprobuild.compare.environments.snapshot import from_snapshot
from reprobuild.compare.images.explain import IMAGE_FILES, LOCK, is_text_file, open_image
from reprobuild.errors import EngineError, InconclusiveError, SnapshotError, UsageError
from reprobuild.image.formats.squashfs_read import is_squashed
from reprobuild.infra.suggest import did_you_mean, suggest_path
from reprobuild.snapshot.importers.import_snapshot import can_import, import_into, open_snapshot

HERE = "here"
GIVE = (
    "give a snapshot, a lock, an output directory, an image, or the word `here`; "
    "`reprobuild compare --help` says which images"
)


class Running(Struct, frozen=True, kw_only=True):
    """The meaning of `here`: an interpreter, and its environment."""

    python: str
    env: Mapping[str, str]


def compare(
    first: str, second: str, running: Running, env: Mapping[str, str], say: Callable[[str], None]
) -> EnvironmentComparison:
    """Compare two environments.

    Args:
        first: a path, the name of an image of the engine, or `here`.
        second: likewise.
        running: the meaning of `here`.
        env: the user's environment, for the engine's address and PATH.
        say: called with each step.

    Raises:
        UsageError: there is nothing with that name.
        SnapshotError, LockError, BuildError: it is damaged.
        EngineError: it is not a path, and no engine has it; or a program that reads it is absent.
        InconclusiveError: the two sides have no kind of facts in common.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-compare-") as folder:
        sides = []
        for index, name in enumerate((first, second)):
            scratch = Path(folder) / str(index)
            scratch.mkdir()
            sides.append(open_side(name, scratch, running, env, say))
    if not sides[0].known.keys() & sides[1].known.keys():
        raise InconclusiveError(
            f"nothing is known of both: {first} ({sides[0].form}) and {second} ({sides[1].form})",
            hint="take a whole snapshot with `reprobuild capture`",
        )
    return compare_sides(sides[0], sides[1])


def open_side(
    name: str, scratch: Path, running: Running, env: Mapping[str, str], say: Callable[[str], None]
) -> Environment:
    """Return the facts of one side.

    `scratch` is an empty directory. `compare` describes the other arguments and the errors.
    """
    if name == HERE:
        say("capturing the running environment")
        captured = scratch / "captured"
        capture_here(running, captured)
        diffs = hash_diffs(
            captured, [path.name for path in captured.iterdir() if path.suffix in (".diff", ".patch")]
        )
        for diff in captured.glob("*.diff"):  # one with a secret would be refused
            diff.unlink()
        return from_snapshot(captured, HERE, "the running environment", diffs)
    path = Path(name)
    if name.startswith(("/", ".", "~")) and not path.exists():
        raise UsageError(f"there is nothing at {name}", hint=GIVE)
    if name and path.is_dir():
        if (path / LOCK).is_file():
            return with_choices(from_lock(path / LOCK, name), path)
        if not any((path / file).is_file() for file in IMAGE_FILES):
            with open_snapshot(path, say) as captured:
                return from_snapshot(captured, name)
    elif path.is_file() and is_text_file(path) and not is_squashed(path):
        if can_import(path):
            import_into(path, scratch / "imported")
            return from_snapshot(scratch / "imported", name)
        return from_lock(path, name)
    opened, read = scratch / "opened", scratch / "read"
    opened.mkdir()
    read.mkdir()
    try:
        image = open_image(name, opened, env, say)
    except EngineError as err:
        if path.exists():
            raise
        if close := did_you_mean(name, [HERE]):
            raise UsageError(
                f"there is no directory or file {name!r}", hint=f"{close} Otherwise {GIVE}"
            ) from None
        # It may be the name of a directory, misspelt.
        raise EngineError(str(err), hint=suggest_path(path) or GIVE) from None
    say(f"reading {name}: {image.form}, {len(image.layers)} layers")
    return from_image(image, read)


def capture_here(running: Running, folder: Path) -> None:
    """Take a snapshot of the running environment into a directory.

    Raises:
        SnapshotError: the capture did not end well.
    """
    output: list[bytes] = []
    code = capture(
        running.python, folder, env=running.env, sink=lambda stream, data: output.append(data), as_json=False
    )
    if code:
        lines = b"".join(output).decode("utf-8", "replace").strip().splitlines()
        raise SnapshotError(
            f"the running environment could not be captured: {lines[-1] if lines else f'exit code {code}'}",
            hint="`reprobuild capture -o DIR` tells more; name DIR in place of `here`",
        )
