"""Capture of a run of MLflow."""

from __future__ import annotations

import tempfile
from pathlib import Path

import mlflow

from reprobuild.integrations.directory import NAME
from reprobuild_portable.capture.snapshot import capture


def log_capture() -> str | None:
    """Log a snapshot as artifacts of the active run, below `reprobuild-snapshot`.

    It has the uncommitted changes of repositories.

    Returns:
        The address of the artifacts, as MLflow writes it; None if the capture failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / NAME
        if not capture(str(directory))["captured"]:
            return None
        mlflow.log_artifacts(str(directory), artifact_path=NAME)
    return str(mlflow.get_artifact_uri(NAME))
