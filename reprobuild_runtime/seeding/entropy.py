"""Numbers for generators that were made without a seed.

They are numbers of `seed_streams` instead of the system's entropy.

`random.Random()` and NumPy's `default_rng()`, `PCG64()`, `RandomState()`, `SeedSequence()` are then the same each time,
and distinct in each process. The system's entropy itself (`os.urandom`, `secrets`, `uuid`, `SystemRandom`) is left
alone: keys and names that must be unique come from it. For that reason `tempfile` keeps its own, though it uses
`random.Random()`: names in a shared /tmp, and those of multiprocessing's semaphores, must differ between ranks.
"""

import sys

from reprobuild_runtime import settings
from reprobuild_runtime.seeding import seed_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List

UNIQUE_NAMES = ("tempfile",)  # modules with generators that keep the system's entropy


def steady_random(random: "Any") -> None:
    """Let `random.Random()` and `seed()` use the seed in force.

    This is for calls without a number.

    Only the method `seed` changes: subclasses, copies and pickles are as they were.
    """
    original = random.Random.seed
    if getattr(original, "steady", False):
        return

    def seed(self: "Any", a: "Any" = None, version: int = 2) -> "Any":
        if a is None:
            try:
                if seed_streams.seed_in_force() is not None and not _is_for_names():
                    a = seed_streams.next_bits("random", 512)
            except Exception as err:
                _say_once(err)
        return original(self, a, version)

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(seed, name, getattr(original, name))
    seed.__annotations__.clear()
    vars(seed)["steady"] = True
    random.Random.seed = seed
    # The module's function is a bound method. numba identifies it by the one at its import.
    if getattr(getattr(random, "seed", None), "__func__", None) is original and "numba" not in sys.modules:
        random.seed = random._inst.seed


def _is_for_names() -> bool:
    """Return whether `seed` was called by a generator for names.

    The frames are seed, __init__, and the maker, in a module of UNIQUE_NAMES.
    """
    try:
        return sys._getframe(3).f_globals.get("__name__") in UNIQUE_NAMES
    except ValueError:  # there is no caller above
        return False


_said: "List[str]" = []


def _say_once(err: Exception) -> None:
    """Report once that a generator keeps the system's entropy.

    Without us there would be no exception, so none is raised.
    """
    if not _said:
        _said.append(str(err))
        settings.print_line(f"reprobuild: a generator is not seeded: {type(err).__name__}: {err}")


def steady_numpy(numpy_random: "Any") -> bool:
    """Let NumPy's generators use the seed in force.

    Return whether this NumPy supports it.

    All of them ask one function of `numpy.random.bit_generator` (NumPy 1.17 and newer).
    """
    module = getattr(numpy_random, "bit_generator", None)
    original = getattr(module, "randbits", None)
    if original is None:
        return False
    if not getattr(original, "steady", False):

        def randbits(k: int) -> int:
            try:
                if seed_streams.seed_in_force() is not None:
                    return seed_streams.next_bits("numpy", k)
            except Exception as err:
                _say_once(err)
            return int(original(k))

        vars(randbits)["steady"] = True
        module.randbits = randbits  # type: ignore[union-attr]  # it has the one that it had
    return True
