"""Checks of this machine before a build."""

from __future__ import annotations

from pathlib import Path

from reprobuild.builders.registry import find_builder
from reprobuild.context import RunContext
from reprobuild.doctor.preflight.gpus import check_gpus
from reprobuild.doctor.preflight.preflight import TargetMachine, inspect_machine, preflight
from reprobuild.image.formats.squashfs_write import find_program
from reprobuild.image.model import NATIVE
from reprobuild.lock.model import Lock
from reprobuild.pipeline.build import BuildOptions


class MachineCheck:
    """The risks of a build on this machine, each reported once."""

    def __init__(self, context: RunContext, gpus: str) -> None:
        """Inspect the machine.

        `gpus` are those that the image is to run on here: "auto", "all", "none", or ids.
        """
        self._context = context
        self._gpus = gpus
        self._machine: TargetMachine = inspect_machine(context.env)
        self._reported: set[str] = set()

    def before_fetch(self, lock: Lock, out: Path, options: BuildOptions) -> None:
        """Check programs, disks and hardware before hours of fetching.

        Raises:
            EngineError: the builder or a program for the single files is missing.
            ReproError: as `preflight` has them.
        """
        if options.singles:
            find_program(self._context.env)
        if options.builder != NATIVE:
            find_builder(options.builder, self._context.env)
        self._report(preflight(lock, self._context.store, out, self._machine, self._gpus))

    def after_fetch(self, lock: Lock) -> None:
        """Check the GPUs that torch was compiled for.

        Its wheel lists them, and may only now be in the store.
        """
        self._report(check_gpus(lock, self._context.store, self._machine.gpus, self._gpus))

    def _report(self, warnings: list[str]) -> None:
        for warning in warnings:
            if warning not in self._reported:
                self._context.say(f"warning: {warning}")
        self._reported.update(warnings)
