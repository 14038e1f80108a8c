"""The main pipeline: snapshot, lock, sealed lock, recipe, image, verdict."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.engines.registry import HINT
from reprobuild.errors import UsageError
from reprobuild.image.layers.layers import layers_ahead
from reprobuild.image.layers.plan import LayerPlan, plan_large_wheels
from reprobuild.image.model import NATIVE, Image
from reprobuild.infra.display import display_text
from reprobuild.infra.shell_words import quote_path
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.output.directory import LOCK, SNAPSHOT
from reprobuild.output.occupied import refuse_files_of_others
from reprobuild.output.times import write_times
from reprobuild.pipeline.build import BuildOptions, build
from reprobuild.pipeline.choose_lock import choose_lock
from reprobuild.pipeline.fetch_inputs import fetch_inputs
from reprobuild.pipeline.machine_check import MachineCheck
from reprobuild.pipeline.render import render
from reprobuild.pipeline.verify import ReadNodes, choose_engine, verify
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.realise.realise import is_realised, realise
from reprobuild.snapshot.importers.import_snapshot import import_into, needs_import
from reprobuild.snapshot.importers.own_snapshot import describe_own_snapshot, find_own_snapshot
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.roots import BUILD, gc_root, is_lock_of_here, remember_lock
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


def build_from_lock(
    lock: Lock, out: Path, context: RunContext, options: BuildOptions, gpus: str = "auto", *, exact: bool = True
) -> tuple[SealedLock, Image]:  # fmt: skip
    """Seal a lock and write its recipe, context and image.

    The sealed lock goes into `out`, too, with the single files of `options.singles`.

    Args:
        gpus: the GPUs that the image is to run on here: "auto", "all", "none", or ids.
        exact: outputs that are realised again must match a sealed lock; else another lock is returned.
    """
    refuse_files_of_others(out)
    machine = MachineCheck(context, gpus)
    machine.before_fetch(lock, out, options)
    out.mkdir(parents=True, exist_ok=True)
    with context.clock.measure("fetch"):
        fetch_inputs(lock, context)
    machine.after_fetch(lock)
    with context.clock.measure("realise"), layers_ahead(_plan_ahead(lock, context, options), context.store):
        sealed = realise(lock, context.store, context.say, exact=exact)
    recipe = render(sealed, context.store)
    _write_sealed(sealed, lock, out, context)
    root = gc_root(sealed, out / LOCK, context.store, f"{BUILD}{options.builder}")
    with root, context.clock.measure("image"):
        image = build(sealed, recipe, out, context, options)
    write_times(out, image, context.clock.seconds)
    return sealed, image


def _plan_ahead(lock: Lock, context: RunContext, options: BuildOptions) -> list[LayerPlan]:
    """Return the layers to make while programs run."""
    if options.builder != NATIVE or options.afresh or is_realised(lock, context.store):
        return []
    return plan_large_wheels(lock, context.store)


def _report_unknown_lines(snapshot: Snapshot, captured: Path, context: RunContext) -> None:
    unknown = [remark for remark in snapshot.remarks if not remark.understood]
    if unknown:
        context.say(
            f"left out: {len(unknown)} lines that are not understood, the first {unknown[0].place}; "
            f"`reprobuild show {quote_path(captured)}` lists them"
        )


def _write_sealed(sealed: SealedLock, lock: Lock, out: Path, context: RunContext) -> None:
    """Write the sealed lock; it is of this user if the lock was."""
    if is_lock_of_here(lock, context.store):
        remember_lock(sealed, context.store)
    write_lock(sealed, out / LOCK)
