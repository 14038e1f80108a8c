"""The snapshot that a callback of `reprobuild.integrations` left in the directory of a run.

It states more than the files of the tracker beside it, so it is read in their place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.snapshot.import_facts import FILE as IMPORT_FILE
from reprobuild.snapshot.parsers.capture_json import FILE

NAME = "reprobuild-snapshot"  # as `integrations/directory.py` has it
_WANDB_RUN = re.compile(r"(?:offline-)?run-[\w.-]+")
_MOST = 10_000  # names of a directory that are read


def find_own_snapshot(path: Path) -> Path | None:
    """Return the snapshot in the directory of a run, None without one.

    No step to it may be a link. A directory that is a snapshot itself is not a run.
    """
    try:
        if not path.is_dir() or is_captured(path):
            return None
        return next((top / place for top, place in _places(path) if _has_capture(top, place)), None)
    except OSError:  # of another user, or gone
        return None


def is_captured(directory: Path) -> bool:
    """Return whether a directory has a file that only a snapshot has."""
    return any((directory / name).is_file() for name in (IMPORT_FILE, FILE, "env.txt", "env.nul"))


def describe_own_snapshot(directory: Path) -> str:
    """Return the line for people on the use of such a snapshot."""
    return f"the run has its own snapshot: {display_text(str(directory))}"


def _places(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the places of the callbacks: a directory that the user named or that is above it, and the rest."""
    yield path, NAME  # W&B, Hydra, transformers, Lightning, and the artifacts of MLflow
    yield path, f"artifacts/{NAME}"  # the run of MLflow
    absolute = path.absolute()
    if absolute.name == "files" and any(absolute.parent.glob("run-*.wandb")):  # `run.dir` of W&B
        yield absolute.parent, NAME
    entries = itertools.islice(path.iterdir(), _MOST)
    runs = [entry for entry in entries if _WANDB_RUN.fullmatch(entry.name) and entry.is_dir()]
    if len(runs) == 1:  # the directory `wandb` with one run
        yield path, f"{runs[0].name}/{NAME}"


def _has_capture(top: Path, place: str) -> bool:
    """Return whether a complete snapshot is at a place below a directory."""
    try:
        stream, _ = open_within(top, f"{place}/{FILE}")
    except OSError:
        return False
    stream.close()
    return True
