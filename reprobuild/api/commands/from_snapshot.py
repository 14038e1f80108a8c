"""Build a verified image from a snapshot."""

from __future__ import annotations

from pathlib import Path

from reprobuild.api.context import open_context
from reprobuild.api.results import BuildResult
from reprobuild.cluster.report import read_nodes
from reprobuild.config.argument_forms import check_decisions
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.from_snapshot import build_from_snapshot
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.resolve.environment.mentions import describe_mentions

NO_DECISIONS = Decisions()
BUILD_OPTIONS, VERIFY_OPTIONS = BuildOptions(), VerifyOptions()


def from_snapshot(
    folder: Path | str,
    out: Path | str,
    decisions: Decisions = NO_DECISIONS,
    *,
    lock_path: Path | str | None = None,
    options: BuildOptions = BUILD_OPTIONS,
    check: VerifyOptions | None = VERIFY_OPTIONS,
    context: RunContext | None = None,
) -> BuildResult:
    """Build a verified image from a snapshot.

    Args:
        folder: the directory of the snapshot, or a path that can be imported.
        out: the output directory.
        decisions: answers that evidence does not give.
        lock_path: a lock to build from, instead of a new one.
        options: how the image is made.
        check: the parts of the check; None for no check.
        context: the store and the network; by default the user's.

    Raises:
        UsageError: a decision has another form.
        LockError: a line cannot be pinned.
        FetchError: a file is unavailable.
        BuildError: the build failed.
        EngineError: no engine can run the check.
    """
    decisions, context = check_decisions(decisions), context or open_context()
    sealed, image, verdict = build_from_snapshot(
        Path(folder), Path(out), decisions, context, options, checks=check, nodes=read_nodes,
        lock_path=None if lock_path is None else Path(lock_path),
    )  # fmt: skip
    warnings = tuple(describe_mentions(sealed.rulings, sealed.sources, context.store))
    return BuildResult(lock=sealed, image=image, verdict=verdict, out=Path(out), warnings=warnings)
