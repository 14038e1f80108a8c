"""Capture of a run of Weights & Biases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from reprobuild.integrations.directory import NAME
from reprobuild_portable.capture.snapshot import capture


def capture_run(run: Any, *, upload: bool = False) -> Path:
    """Capture beside the files of a run, and return the directory.

    Args:
        run: the result of `wandb.init`.
        upload: log the directory as an artifact, too. It has the uncommitted changes of repositories.
    """
    directory = Path(run.dir).parent / NAME
    captured = capture(str(directory))["captured"]
    if upload and captured:
        run.log_artifact(str(directory), name=f"{NAME}-{run.id}", type=NAME)
    return directory
