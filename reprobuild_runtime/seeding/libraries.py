"""Seeders of libraries.

They are called right after an import, or by `enforce_reproducibility`.
"""

# ruff: noqa: TID251  variables are how CuPy is told

import os
import sys

from reprobuild_runtime import settings
from reprobuild_runtime.seeding import entropy, process_id, seed_streams, torch_devices

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple


def seed_random(random: "Any", seed: int) -> None:
    """Seed Python's global generator, and steady `random.Random()`.

    Children that are forked later are seeded, too.

    Python itself seeds it from the system's entropy in each forked child (`random.py`, its last lines).
    """
    entropy.steady_random(random)
    random.seed(seed)
    _left["random"] = (process_id.name_process(), process_id.count_forks(), random.getstate())
    process_id.in_forked_children(_seed_forked, getattr(random, "_inst", random))


# The process that each was seeded for, its depth of forks, and the resulting state.
_left: "Dict[str, Tuple[str, int, object]]" = {}
_PROGRAM = "the program"  # no process has this name


def _seed_forked() -> None:
    """Seed `random` for the current process."""
    random: "Any" = sys.modules.get("random")
    seed = seed_streams.seed_in_force()
    if random is not None and seed is not None and "random" in _left:
        where = process_id.name_process()
        random.seed(f"{seed}/{where}")
        _left["random"] = (where, process_id.count_forks(), random.getstate())


def watch_workers(util: "Any", seed: int) -> None:
    """Seed a multiprocessing worker again, once its number is known.

    Only generators that the program has not used or seeded yet are seeded.

    A forked worker, and one of loky, has `random` before it has its number; so has a spawned one the modules imported
    at interpreter start, or by the main module. Those of Python itself are recognised by a method that only they have
    (`multiprocessing.context.SpawnProcess._after_fork`); loky's by a registered function.
    """
    util.register_after_fork(_seed_worker, _call)
    spawned: "Any" = getattr(sys.modules.get("multiprocessing.context"), "SpawnProcess", None)
    original = vars(spawned).get("_after_fork") if spawned is not None else None
    if isinstance(original, staticmethod) and not getattr(original.__func__, "steady", False):

        def _after_fork() -> None:
            original.__func__()
            _seed_worker()

        vars(_after_fork)["steady"] = True
        spawned._after_fork = staticmethod(_after_fork)


def _seed_worker() -> None:
    try:
        where = process_id.name_process()
        random: "Any" = sys.modules.get("random")
        if random is not None and _has_inherited_seed("random", where, random.getstate):
            _seed_forked()
        numpy_random: "Any" = sys.modules.get("numpy.random")
        seed = seed_streams.seed_in_force()
        if numpy_random is not None and seed is not None:
            in_this_process = (
                _left.get("numpy.random", ("", -1, None))[1] == process_id.count_forks()
            )  # else copied by a fork
            if in_this_process and _has_inherited_seed(
                "numpy.random", where, lambda: _numpy_state(numpy_random)
            ):
                seed_numpy(numpy_random, seed_streams.process_seed(seed))
    except Exception as err:
        settings.print_line(f"reprobuild: this worker is not seeded: {type(err).__name__}: {err}")


def _has_inherited_seed(name: str, where: str, state: "Callable[[], object]") -> bool:
    """Return whether a library has its seed of another process.

    It was not used or seeded since.
    """
    record = _left.get(name)
    return record is not None and record[0] not in (where, _PROGRAM) and record[2] == state()


def record_state_read() -> None:
    """Record that the program asked for the generators' state.

    A worker that it made keeps that.
    """
    for name, (_, depth, state) in list(_left.items()):
        _left[name] = (_PROGRAM, depth, state)


def _call(action: "Callable[[], None]") -> None:
    action()


def seed_numpy(numpy_random: "Any", seed: int) -> None:
    """Seed NumPy's global generator, and steady unseeded ones."""
    numpy_random.seed(seed)
    _left["numpy.random"] = (process_id.name_process(), process_id.count_forks(), _numpy_state(numpy_random))
    if not entropy.steady_numpy(numpy_random):
        settings.print_line(
            "reprobuild: this NumPy's generators cannot be told a seed: default_rng() is not reproducible"
        )


def _numpy_state(numpy_random: "Any") -> object:
    """Return the state of NumPy's global generator.

    It is a different object each time if it cannot be read.
    """
    try:
        state = numpy_random.get_state(legacy=False)
        return state["state"]["key"].tobytes(), state["state"]["pos"], state["has_gauss"], state["gauss"]
    except Exception:  # a generator that the program chose
        return object()


def seed_torch(torch: "Any", seed: int) -> None:
    """Seed torch on every device."""
    torch_devices.seed_torch(torch, seed)


def seed_accelerator(module: "Any", seed: int) -> None:
    """Seed an accelerator that a package has just added to torch."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch_devices.seed_accelerators(torch, seed)


def seed_tensorflow(tensorflow: "Any", seed: int) -> None:
    """Set TensorFlow's global seed.

    Each operation's seed is derived from it. Keras draws its seeds from `random`.

    https://www.tensorflow.org/api_docs/python/tf/random/set_seed
    """
    tensorflow.random.set_seed(seed)


def seed_cupy(cupy: "Any", seed: int) -> None:
    """Seed CuPy on all devices.

    Those in use now are seeded directly, and those used later by CUPY_SEED, which CuPy reads for each device.

    A CUPY_SEED of the user stays in force, and this is printed. `cupy.random.seed` itself would initialise CUDA.
    https://docs.cupy.dev/en/stable/reference/environment.html
    """
    before = os.environ.get("CUPY_SEED", "")
    if before not in ("", str(seed), *_cupy):
        settings.print_line(f"reprobuild: CuPy is not seeded: CUPY_SEED={before[:80]!r} was set before")
        return
    _cupy[:] = [str(seed)]
    os.environ["CUPY_SEED"] = str(seed)
    generator = sys.modules.get("cupy.random._generator")
    for state in list(getattr(generator, "_random_states", {}).values()):
        state.seed(seed)


_cupy: "List[str]" = []  # the CUPY_SEED that we set


def seed_numba(numba: "Any", seed: int) -> None:
    """Seed numba's two generators in this thread.

    Each thread has its own, and others keep the system's entropy.

    https://numba.readthedocs.io/en/stable/reference/pysupported.html#random
    """
    helper: "Any" = sys.modules.get("numba._helperlib") or numba._helperlib
    for pointer in (helper.rnd_get_py_state_ptr, helper.rnd_get_np_state_ptr):
        helper.rnd_seed(pointer(), seed)


def seed_cv2(cv2: "Any", seed: int) -> None:
    """Seed OpenCV's generator in this thread.

    It takes a signed 32-bit number.
    """
    cv2.setRNGSeed(seed - 2**32 if seed >= 2**31 else seed)


def leave_jax(jax: "Any", seed: int) -> None:
    """Do nothing: JAX has no global state.

    A program makes each key itself, from a seed of its own.

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

# The global generators of these differ between the processes of a program that has not seeded them; the others have the
# one seed everywhere, as in the frameworks, which add their own offsets.
EACH_ITS_OWN = ("random", "numpy.random")


def after_import(name: str, module: "Any", seed: int) -> None:
    """Seed a just imported library, if it has a seeder.

    A library that is loaded a second time and has kept its generator, as compiled modules do, is left alone, too.
    """
    seed_streams.begin(seed)
    if name in SEEDERS and _is_new(name, module):
        SEEDERS[name](module, seed_streams.process_seed(seed) if name in EACH_ITS_OWN else seed)


# The global generator of a library; for the others, the module itself counts.
_KEPT = {"random": "_inst", "numpy.random": "mtrand._rand", "torch": "default_generator"}
_seeded: "Dict[str, object]" = {}


def _is_new(name: str, module: "Any") -> bool:
    """Return whether a module's generator was not seeded before."""
    generator: "Any" = module
    for part in filter(None, _KEPT.get(name, "").split(".")):
        generator = getattr(generator, part, None)
    generator = module if generator is None else generator
    is_new = _seeded.get(name) is not generator
    _seeded[name] = generator
    return is_new
