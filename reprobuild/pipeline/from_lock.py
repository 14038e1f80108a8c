"""The pipeline from a lock: fetched files, sealed lock, recipe, image."""

from __future__ import annotations

from pathlib import Path

from reprobuild.context import RunContext
from reprobuild.image.layers.layers import layers_ahead
from reprobuild.image.layers.plan import LayerPlan, plan_large_wheels
from reprobuild.image.model import NATIVE, Image
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.output.directory import LOCK
from reprobuild.output.occupied import refuse_files_of_others
from reprobuild.output.times import write_times
from reprobuild.pipeline.build import BuildOptions, build
from reprobuild.pipeline.fetch_inputs import fetch_inputs
from reprobuild.pipeline.machine_check import MachineCheck
from reprobuild.pipeline.render import render
from reprobuild.realise.realise import is_realised, realise
from reprobuild.store.roots import BUILD, gc_root, is_lock_of_here, remember_lock


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


def _write_sealed(sealed: SealedLock, lock: Lock, out: Path, context: RunContext) -> None:
    """Write the sealed lock; it is of this user if the lock was."""
    if is_lock_of_here(lock, context.store):
        remember_lock(sealed, context.store)
    write_lock(sealed, out / LOCK)
