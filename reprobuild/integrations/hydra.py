"""Capture at the start of each job of Hydra."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hydra.experimental.callback import Callback

from reprobuild.integrations.directory import NAME
from reprobuild_portable.capture.snapshot import capture


class HydraCapture(Callback):
    """Captures into the output directory of the job, `reprobuild-snapshot`.

    `hydra.callbacks.reprobuild._target_=reprobuild.integrations.hydra.HydraCapture`
    """

    def on_job_start(self, config: Any, **more: Any) -> None:
        """Capture before the function of the job runs."""
        capture(str(Path(config.hydra.runtime.output_dir) / NAME))
