"""Run a command in the image of an output directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reprobuild.api.context import open_context
from reprobuild.api.results import RunResult
from reprobuild.config.argument_forms import check_command
from reprobuild.context import RunContext
from reprobuild.run import run as runs
from reprobuild.run.options import RunOptions

RUN_OPTIONS = RunOptions()


def run(
    out: Path | str,
    command: Sequence[str],
    *,
    options: RunOptions = RUN_OPTIONS,
    context: RunContext | None = None,
) -> RunResult:
    """Run a command in the image of an output directory, and return its exit code and output.

    Of standard output, the first 32 MiB are kept, and one byte more if there was more. Of standard error, the last
    32 MiB are kept. The command itself runs on.

    Raises:
        UsageError: an option is not valid, the command is one text, or the directory holds no image.
        EngineError: the engine fails.
    """
    check_command(command)
    code, stdout, stderr = runs.run_silently(Path(out), command, context or open_context(), options)
    return RunResult(code=code, stdout=stdout, stderr=stderr)
