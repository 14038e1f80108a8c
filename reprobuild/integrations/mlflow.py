"""Capture of a run of MLflow."""

from __future__ import annotations

import tempfile
from pathlib import Path

import mlflow

from reprobuild.integrations.directory import NAME
from reprobuild_portable.capture.snapshot import capture


def log_capture() -> None:
    """Log a snapshot as artifacts of the active run, below `reprobuild-snapshot`.

    It has the uncommitted changes of repositories.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / NAME
        if capture(str(directory))["captured"]:
            mlflow.log_artifacts(str(directory), artifact_path=NAME)
