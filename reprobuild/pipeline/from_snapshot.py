"""The main pipeline: snapshot, lock, sealed lock, recipe, image, verdict."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.engines.registry import HINT
from reprobuild.errors import UsageError
from reprobuild.image.model import Image
from reprobuild.infra.display import display_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.model import SealedLock
from reprobuild.output.directory import LOCK, SNAPSHOT
from reprobuild.output.occupied import refuse_files_of_others
from reprobuild.pipeline.build import BuildOptions
from reprobuild.pipeline.choose_lock import choose_lock
from reprobuild.pipeline.from_lock import build_from_lock
from reprobuild.pipeline.verify import ReadNodes, choose_engine, verify
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.snapshot.importers.import_snapshot import import_into, needs_import
from reprobuild.snapshot.importers.own_snapshot import describe_own_snapshot, find_own_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.roots import gc_root
from reprobuild.verify.verdict import Verdict
from reprobuild.verify.workload.conditions import RUNS


def build_from_snapshot(
    captured: Path, out: Path, decisions: Decisions, context: RunContext, options: BuildOptions, *,
    lock_path: Path | None = None, checks: VerifyOptions | None, nodes: ReadNodes | None = None,
) -> tuple[SealedLock, Image, Verdict | None]:  # fmt: skip
    """Build and check an image from a snapshot directory.

    Args:
        captured: the directory of the snapshot; any other path is imported into `out`.
        out: the output directory, made if it is missing.
        options: how the image is made.
        lock_path: a lock to use; else that of `out` if it was made here and still fits, else a new one.
        checks: None leaves the verdict out.
        nodes: reads the cluster's part of the report.

    Returns:
        The sealed lock, the image, and the verdict if checks were given.

    Raises:
        UsageError: `out` has files of the user that the output would replace.
    """
    refuse_files_of_others(out)
    if out.exists() and captured.exists() and out.samefile(captured):
        raise UsageError(
            f"{display_text(str(out))} is the snapshot, and the image would be written into it",
            hint=f"name another directory: -o {quote_path(display_text(str(out)))}-frozen",
        )
    if nested := find_own_snapshot(captured):
        context.say(describe_own_snapshot(nested))
        captured = nested
    elif needs_import(captured):
        import_into(captured, out / SNAPSHOT, replace=True)
        context.say(f"imported {quote_path(captured)} to {quote_path(out / SNAPSHOT)}")
        captured = out / SNAPSHOT
    snapshot = read_snapshot(captured)
    _report_unknown_lines(snapshot, captured, context)
    if checks:  # fail before minutes of locking and hours of fetching
        choose_engine(checks, context, hint=f"{HINT}; or leave the checks out with --no-verify")
    out.mkdir(parents=True, exist_ok=True)
    with context.clock.measure("lock"):
        lock = choose_lock(snapshot, captured, out, decisions, context, lock_path)
    with gc_root(lock, lock_path or out / LOCK, context.store, "build"):
        sealed, image = build_from_lock(lock, out, context, options, checks.gpus if checks else "auto")
    if checks and sealed.workload:  # two runs are enough here; `verify` repeats a short workload
        checks = msgspec.structs.replace(checks, runs=checks.runs or RUNS)
    verdict = verify(sealed, image, out, context, checks, nodes) if checks else None
    return sealed, image, verdict


def _report_unknown_lines(snapshot: Snapshot, captured: Path, context: RunContext) -> None:
    unknown = [remark for remark in snapshot.remarks if not remark.understood]
    if unknown:
        context.say(
            f"left out: {len(unknown)} lines that are not understood, the first {unknown[0].place}; "
            f"`reprobuild show {quote_path(captured)}` lists them"
        )
