"""Capture at the start of a training with Lightning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning.pytorch.callbacks import Callback

from reprobuild.integrations.directory import NAME
from reprobuild_portable.capture.snapshot import capture


class LightningCapture(Callback):
    """Captures into `LOG_DIR/reprobuild-snapshot`, by the main process.

    `Trainer(..., callbacks=[LightningCapture()])`
    """

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        """Capture before the first step of a training."""
        if stage == "fit" and trainer.is_global_zero:
            capture(str(Path(trainer.log_dir or trainer.default_root_dir) / NAME))
