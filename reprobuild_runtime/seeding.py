"""Seeding of the random number generators, for user code and for the start-up hook."""

# ruff: noqa: TID251  the environment is what it reads and writes

import os
import sys

from reprobuild_runtime import forks, launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional


def seed_random(random: "Any", seed: int, explicit: bool) -> None:
    """Seed Python's global generator, also in children that are forked later."""
    random.seed(seed)
    if hasattr(os, "register_at_fork"):
        forks.seed_children(random, seed)


def seed_numpy(numpy_random: "Any", seed: int, explicit: bool) -> None:
    """Seed NumPy's global generator; a Generator made without a seed stays unseeded."""
    numpy_random.seed(seed)


def seed_torch(torch: "Any", seed: int, explicit: bool) -> None:
    """Seed torch on every device.

    No device is initialised: seeds given before that are queued.
    https://docs.pytorch.org/docs/stable/notes/randomness.html
    """
    torch.manual_seed(seed)  # the CPU, and CUDA, XPU and MPS in the releases that know them
    for name in ("cuda", "xpu", "npu"):
        seed_all = getattr(getattr(torch, name, None), "manual_seed_all", None)
        if seed_all is not None:
            seed_all(seed)


def seed_tensorflow(tensorflow: "Any", seed: int, explicit: bool) -> None:
    """Set TensorFlow's global seed."""
    tensorflow.random.set_seed(seed)


SEEDERS = {
    "random": seed_random,
    "numpy.random": seed_numpy,
    "torch": seed_torch,
    "tensorflow": seed_tensorflow,
}


def enforce_reproducibility(seed: "Optional[int]" = None) -> int:
    """Seed Python, NumPy, torch (all devices) and TensorFlow where it is loaded; return the seed and log it.

    A given seed (0 is one) also puts the profile in force, which can be slower; what comes too late for that is
    said. Without one, the seed that the process was explicitly launched with is used, else one is drawn and no flag is
    set. Raises ValueError unless the seed is an integer from 0 to 2**32 - 1. Child processes find the seed in
    REPROBUILD_SEED. The hash order of this process is not covered: PYTHONHASHSEED counts at interpreter start.
    """
    launched = _launched()
    if seed is not None:
        chosen, explicit = launch.check(seed), True
    elif launched is not None:
        chosen, explicit = launched, True
    else:
        chosen, explicit = launch.draw(), False
    launch.announce(chosen)
    launch.export(os.environ, chosen, explicit)
    for name, seeder in SEEDERS.items():
        module = sys.modules.get(name) if name == "tensorflow" else _import(name)
        if module is not None:
            seeder(module, chosen, explicit)
    from reprobuild_runtime import profiles

    for late in profiles.enforce(explicit):
        launch.say(f"reprobuild: too late for this process: {late}")
    return chosen


def seed_worker(worker_id: int) -> None:
    """Seed Python and NumPy in a DataLoader worker from torch's seed there.

    Use: `DataLoader(worker_init_fn=seed_worker)`.
    https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader
    """
    torch = _import("torch")
    if torch is None:
        raise RuntimeError("seed_worker is for the workers of torch's DataLoader, and torch does not import")
    seed = torch.initial_seed() % launch.LIMIT
    for name in ("random", "numpy.random"):
        module = _import(name)
        if module is not None:
            SEEDERS[name](module, seed, False)


def generator(seed: int) -> "Any":
    """Return a torch.Generator with this seed, for `DataLoader(generator=...)`."""
    checked = launch.check(seed)
    torch = _import("torch")
    if torch is None:
        raise RuntimeError("generator makes a torch.Generator, and torch does not import")
    made = torch.Generator()
    made.manual_seed(checked)
    return made


_launches: "List[Optional[int]]" = []


def _launched() -> "Optional[int]":
    """Return the seed that this process was explicitly launched with: the environment's, before we write there."""
    if not _launches:
        try:
            given = launch.read(os.environ)
        except ValueError:
            given = None  # the start-up hook has complained
        _launches.append(given[0] if given is not None and given[1] else None)
    return _launches[0]


def _import(name: str) -> "Any":
    """Return the module; None where it is not installed or (with a line saying so) is broken."""
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name != name.partition(".")[0]:
            launch.say(f"reprobuild: {name} is not seeded: {err}")
    except Exception as err:
        launch.say(f"reprobuild: {name} is not seeded: {type(err).__name__}: {err}")
    return None
