"""Check the image of an output directory."""

from __future__ import annotations

from pathlib import Path

from reprobuild.api.context import open_context
from reprobuild.api.results import BuildResult
from reprobuild.cluster.report import read_nodes
from reprobuild.context import RunContext
from reprobuild.output import directory
from reprobuild.pipeline import verify as checks
from reprobuild.pipeline.verify_options import VerifyOptions

VERIFY_OPTIONS = VerifyOptions()


def verify(
    out: Path | str, *, check: VerifyOptions = VERIFY_OPTIONS, context: RunContext | None = None
) -> BuildResult:
    """Check the image of an output directory on this machine, and write verdict and report.

    Raises:
        UsageError: the directory holds no image.
        EngineError: no engine answers.
    """
    sealed, image = directory.read_image(Path(out))
    verdict = checks.verify(sealed, image, Path(out), context or open_context(), check, read_nodes)
    return BuildResult(lock=sealed, image=image, verdict=verdict, out=Path(out))
