"""Capture at the start of a training with the Trainer of Hugging Face's transformers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from reprobuild.integrations.directory import NAME
from reprobuild_portable.capture.snapshot import capture


class HuggingFaceCapture(TrainerCallback):
    """Captures into `OUTPUT_DIR/reprobuild-snapshot`, by the main process.

    `Trainer(..., callbacks=[HuggingFaceCapture()])`
    """

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Capture before the first step."""
        if state.is_world_process_zero:
            capture(str(Path(args.output_dir) / NAME))
