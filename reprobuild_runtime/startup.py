"""Seed every interpreter of an image: importing this module is the hook.

A file in site-packages, say `reprobuild.pth`, does it at interpreter start:

    /opt/reprobuild/lib
    import reprobuild_runtime.startup

(`start` also serves as the entry point of a `.start` file, PEP 829.) Nothing is imported for it: `random`, NumPy,
torch and TensorFlow are seeded right after the program imports them, with the seed of REPROBUILD_SEED. A process
that was started around the entrypoint (`docker exec`, `apptainer exec`) draws a seed, logs it and hands it to its
children.

Not covered: interpreters under `-S`, which read no `.pth`; the hash order under `-E` and `-I`, which ignore
PYTHONHASHSEED, and in a process started around the entrypoint; NumPy Generators and `random.Random()` made
without a seed; `secrets`, `uuid`, `os.urandom`; a seeded module that is reloaded or is built in or frozen.
Spawned children of one process start with the same streams; forked ones inherit NumPy's and torch's and get their
own of `random`; DataLoader workers are seeded by torch after this hook.
"""

# ruff: noqa: TID251  the environment is what it reads

import os
import sys

from reprobuild_runtime.importhook import Finder

# What is seeded after its import: the names of `seeding.SEEDERS`.
SEEDED = ("random", "numpy.random", "torch", "tensorflow")
WATCHED = (*SEEDED, "jax", "megatron.core")  # and those of profiles.WATCHED and record.RECORDED


def start() -> None:
    """Seed this interpreter, once; a fault is one line on stderr and never more."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    try:
        if not _settled():
            from reprobuild_runtime import launch

            launch.settle_late(os.environ)
        finder = Finder(WATCHED, _seed)
        for name in WATCHED:
            if name in sys.modules:
                finder.done(name, sys.modules[name])
        sys.meta_path.insert(0, finder)
    except Exception as err:
        _failed(err)


def _settled() -> bool:
    """Return whether a parent, or the entrypoint, has left nothing to do but to seed: the common and fast case."""
    env = os.environ
    if sys.flags.ignore_environment or "REPROBUILD_ENVIRON" not in env:
        return False
    numbers = env.get("REPROBUILD_SEED", "").isdigit() and env.get("PYTHONHASHSEED", "").isdigit()
    return numbers and env.get("REPROBUILD_SEED_EXPLICIT") in ("0", "1")


def _seed(name: str, module: object) -> None:
    try:
        from reprobuild_runtime import (
            launch,
            profiles,
            record,
            seeding,
        )  # only now: most interpreters never come here

        in_force = launch.read(os.environ)
        if in_force is not None:
            if name in seeding.SEEDERS:
                seeding.SEEDERS[name](module, *in_force)
            if name in profiles.WATCHED:
                profiles.after_import(name, module, in_force[1])
            if name in record.RECORDED:
                record.watch(name, module)
    except Exception as err:
        _failed(err, name + ": ")


def _failed(err: Exception, where: str = "") -> None:
    from reprobuild_runtime import launch

    launch.say(f"reprobuild: seeding hook failed: {where}{type(err).__name__}: {err}")


start()
