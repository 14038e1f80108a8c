"""A seeder for each library, called right after its import, or by `enforce_reproducibility`."""

# ruff: noqa: TID251  variables are how CuPy is told

import os
import sys

from reprobuild_runtime import launch
from reprobuild_runtime.seeding import entropy, place, streams, torches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List


def seed_random(random: "Any", seed: int) -> None:
    """Seed Python's global generator, also in children that are forked later, and steady `random.Random()`.

    Python itself seeds it from the system's entropy in each forked child (`random.py`, its last lines).
    """
    entropy.steady_random(random)
    random.seed(seed)
    _left[:] = [place.here(), random.getstate()]
    place.in_forked_children(_seed_forked)


_left: "List[Any]" = []  # for which process `random` was seeded, and the state that this left


def _seed_forked() -> None:
    """Seed `random` for the process that this is now."""
    random: "Any" = sys.modules.get("random")
    seed = streams.seed_in_force()
    if random is not None and seed is not None and _left:
        where = place.here()
        random.seed(f"{seed}/{where}")
        _left[:] = [where, random.getstate()]


def watch_workers(util: "Any", seed: int) -> None:
    """Seed `random` once more in a worker of multiprocessing when its number is known, if nobody has used it yet.

    A forked worker, and one of loky, has `random` before it has its number.
    """
    util.register_after_fork(_seed_worker, _call)


def _seed_worker() -> None:
    random: "Any" = sys.modules.get("random")
    if random is not None and _left and _left[0] != place.here() and _left[1] == random.getstate():
        _seed_forked()


def _call(action: "Callable[[], None]") -> None:
    action()


def seed_numpy(numpy_random: "Any", seed: int) -> None:
    """Seed NumPy's global generator, and steady those that are made without a seed."""
    numpy_random.seed(seed)
    if not entropy.steady_numpy(numpy_random):
        launch.say(
            "reprobuild: this NumPy's generators cannot be told a seed: default_rng() is not reproducible"
        )


def seed_torch(torch: "Any", seed: int) -> None:
    """Seed torch on every device."""
    torches.seed_torch(torch, seed)


def seed_accelerator(module: "Any", seed: int) -> None:
    """Seed an accelerator that a package has just added to torch."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torches.seed_accelerators(torch, seed)


def seed_tensorflow(tensorflow: "Any", seed: int) -> None:
    """Set TensorFlow's global seed, of which each operation's is made. Keras draws its seeds from `random`.

    https://www.tensorflow.org/api_docs/python/tf/random/set_seed
    """
    tensorflow.random.set_seed(seed)


def seed_cupy(cupy: "Any", seed: int) -> None:
    """Seed CuPy on all devices: those in use now, and by CUPY_SEED, which it reads for each device, those used later.

    `cupy.random.seed` itself would initialise CUDA. https://docs.cupy.dev/en/stable/reference/environment.html
    """
    os.environ["CUPY_SEED"] = str(seed)
    generator = sys.modules.get("cupy.random._generator")
    for state in list(getattr(generator, "_random_states", {}).values()):
        state.seed(seed)


def seed_numba(numba: "Any", seed: int) -> None:
    """Seed numba's two generators in this thread: each thread has its own, and others keep the system's entropy.

    https://numba.readthedocs.io/en/stable/reference/pysupported.html#random
    """
    helper: "Any" = sys.modules.get("numba._helperlib") or numba._helperlib
    for pointer in (helper.rnd_get_py_state_ptr, helper.rnd_get_np_state_ptr):
        helper.rnd_seed(pointer(), seed)


def seed_cv2(cv2: "Any", seed: int) -> None:
    """Seed OpenCV's generator in this thread; it takes a signed 32-bit number."""
    cv2.setRNGSeed(seed - 2**32 if seed >= 2**31 else seed)


def leave_jax(jax: "Any", seed: int) -> None:
    """Do nothing: JAX has no global state. A program makes each key itself, from a seed of its own.

    https://docs.jax.dev/en/latest/random-numbers.html
    """


SEEDERS: "Dict[str, Callable[[Any, int], None]]" = {
    "random": seed_random,
    "multiprocessing.util": watch_workers,
    "numpy.random": seed_numpy,
    "torch": seed_torch,
    "tensorflow": seed_tensorflow,
    "jax": leave_jax,
    "cupy": seed_cupy,
    "numba": seed_numba,
    "cv2": seed_cv2,
    "torch_npu": seed_accelerator,
    "torch_mlu": seed_accelerator,
    "torch_musa": seed_accelerator,
    "habana_frameworks.torch": seed_accelerator,
}

# The global generators of these differ between the processes of a program that has not seeded them; the others' have
# the one seed everywhere, as the frameworks do it, which add their own offsets.
EACH_ITS_OWN = ("random", "numpy.random")


def after_import(name: str, module: "Any", seed: int) -> None:
    """Seed a library that a program has just imported; one that has no seeder is left as it is."""
    streams.begin(seed)
    if name in SEEDERS:
        SEEDERS[name](module, streams.own_seed(seed) if name in EACH_ITS_OWN else seed)
