"""The start-up hook, which seeds every interpreter of an image.

Importing this module runs the hook.

A file in site-packages, say `reprobuild.pth`, does it at interpreter start:

    /opt/reprobuild/lib
    import reprobuild_runtime.startup

and `reprobuild.start` beside it, `reprobuild_runtime.startup:start`, from Python 3.15 on (PEP 829). Libraries are not
imported for it: each library of `WATCHED` is seeded right after the program imports it, with the seed of
REPROBUILD_SEED. A process that was started around the entrypoint (`docker exec`, `apptainer exec`) finds the seed of a
process above it or draws one, logs it and passes it to its children. docs/seeds.md has the coverage.
"""

# ruff: noqa: TID251  the environment is what it reads

import os
import sys

from reprobuild_runtime.importhook import Finder

# Modules with an action after their import: those of `seeding.libraries`, of `profiles` and `record`, and venv, whose
# environments get the hook. The names are repeated here, so that starting an interpreter imports none of those modules.
WATCHED = (
    "random", "numpy.random", "torch", "tensorflow", "jax", "cupy", "numba", "cv2", "torch_npu", "torch_mlu",
    "torch_musa", "habana_frameworks.torch", "megatron.core", "multiprocessing.util", "venv",
)  # fmt: skip

# The initial values of the variables that show whether hash order follows the seed.
GIVEN: "dict[str, str]" = {}


def start() -> None:
    """Seed this interpreter, once; an error is one line on stderr."""
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    try:
        for name in ("PYTHONHASHSEED", "REPROBUILD_SEED", "REPROBUILD_SEED_EXPLICIT", "REPROBUILD_SETTLED"):
            GIVEN[name] = os.environ.get(name, "")
        if not _is_settled():
            from reprobuild_runtime import settings

            settings.settle_late(os.environ)
        finder = Finder(WATCHED, _handle_import)
        for name in WATCHED:
            if name in sys.modules:
                finder.done(name, sys.modules[name])
        sys.meta_path.insert(0, finder)
        if "REPROBUILD_DISTURB" in os.environ:
            from reprobuild_runtime import disturbed

            disturbed.begin()
        if "REPROBUILD_TRACE" in os.environ:
            from reprobuild_runtime import trace

            trace.begin()
    except Exception as err:
        _handle_failure(err)


def _is_settled() -> bool:
    """Return whether only seeding is left to do.

    A parent or the entrypoint has done the rest: the common and fast case.

    A seed that was drawn is not that of other nodes' ranks, and such a variable shows such ranks. Under -E and -I
    Python ignores variables, but these are still set.
    """
    env = os.environ
    if "REPROBUILD_ENVIRON" not in env:
        return False
    explicit = env.get("REPROBUILD_SEED_EXPLICIT")
    if explicit == "0" and "REPROBUILD_SEED_FROM" not in env:
        if "GROUP_WORLD_SIZE" in env or "OMPI_COMM_WORLD_SIZE" in env or "PMI_SIZE" in env:
            return False
    elif explicit not in ("0", "1"):
        return False
    seed, hash_seed = env.get("REPROBUILD_SEED", ""), env.get("PYTHONHASHSEED", "")
    if not (seed.isdigit() and (hash_seed.isdigit() or hash_seed == "random")):
        return False
    return "REPROBUILD_SEED=" + seed in env.get("REPROBUILD_SETTLED", "").split()  # else it was chosen since


def _handle_import(name: str, module: object) -> None:
    try:  # imports only here: most interpreters do not reach this
        if name == "venv":
            from reprobuild_runtime.seeding import venv_hook

            venv_hook.hook_into(module)
            return
        from reprobuild_runtime import profiles, record, settings
        from reprobuild_runtime.seeding import libraries

        in_force = settings.read(os.environ)
        if in_force is not None:
            libraries.after_import(name, module, in_force[0])
            if name in profiles.WATCHED:
                profiles.after_import(name, module, in_force[1])
            if name in record.RECORDED:
                record.watch(name, module)
        if "REPROBUILD_TRACE" in os.environ:
            from reprobuild_runtime import trace

            if name in trace.RECORDED:
                trace.watch(name, module)
    except Exception as err:
        _handle_failure(err, name + ": ")


def _handle_failure(err: Exception, where: str = "") -> None:
    from reprobuild_runtime import settings

    settings.print_line(f"reprobuild: seeding hook failed: {where}{type(err).__name__}: {err}")


start()
