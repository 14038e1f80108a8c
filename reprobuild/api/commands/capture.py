"""Capture this process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from reprobuild.api.commands.read import read_snapshot
from reprobuild.api.context import process_environment
from reprobuild.capture import launch
from reprobuild.config.argument_forms import refuse_text
from reprobuild.snapshot.model import Snapshot


def capture(
    out: Path | str, *, python: str = sys.executable, accept: Sequence[str] = (), include: Sequence[str] = ()
) -> Snapshot:
    """Capture this process's environment into a directory, and return the snapshot.

    Args:
        out: the directory.
        python: the interpreter whose distributions are captured.
        accept: files of repositories that look like secrets and are to be captured.
        include: files outside of all repositories, or that git ignores, which are to be captured.

    Raises:
        UsageError: `accept` or `include` is one text.
        SnapshotError: the capture did not end well; the message has its last lines.
    """
    refuse_text("capture: accept", accept)
    refuse_text("capture: include", include)
    launch.capture_into(Path(out), python, env=process_environment(), accept=accept, include=include)
    return read_snapshot(out)
