"""The function that a user's program calls."""

# ruff: noqa: TID251  the environment is what it reads and writes

import os
import sys

from reprobuild_runtime import profiles, settings
from reprobuild_runtime.seeding import libraries, ranks, seed_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, List, Optional, Tuple

IMPORTED = ("random", "numpy.random", "torch")  # always imported; the others only if they are loaded


def enforce_reproducibility(
    seed: "Optional[int]" = None, profile: "Optional[str]" = None, *, use_seed: "Optional[int]" = None
) -> int:
    """Seed Python, NumPy, torch and each loaded library; log the seed.

    torch is seeded on all devices. The libraries are those of `libraries`.

    With a seed (0 is one), the profile's settings are applied, which can be slower. Without one, the seed that the
    process was explicitly launched with counts; else the one that was drawn for the launch, so that all ranks have the
    same, and each further call draws another; the program is not slowed down then. Settings that are too late to take
    effect in this process are printed to stderr. Generators that were made before keep their state.

    Args:
        seed: an integer from 0 to 2**32 - 1, or None.
        profile: names of profiles, comma separated; None for the one in force (REPROBUILD_PROFILE, else torch).
        use_seed: another name of `seed`, as in the function of the reproducibility chapter.

    Returns:
        The seed. Child processes find it in REPROBUILD_SEED.

    Raises:
        TypeError: both `seed` and `use_seed` are given.
        ValueError: the seed or the profile is not valid.
    """
    if use_seed is not None:
        if seed is not None:
            raise TypeError("give either seed or use_seed: they are two names of one parameter")
        seed = use_seed
    if profile is not None:
        from reprobuild_runtime.profiles import choose

        choose.names(profile)  # a wrong one changes no settings
    chosen, explicit, lines = _choose(seed)
    settings.log_seed(chosen)
    for line in lines:
        settings.print_line("reprobuild: " + line)
    settings.export(os.environ, chosen, explicit)
    seed_streams.begin(chosen, enforced=True)
    for name, seeder in libraries.SEEDERS.items():
        module = import_or_say(name) if name in IMPORTED else sys.modules.get(name)
        if module is not None:
            seeder(module, chosen)
    libraries.record_state_read()
    for late in profiles.enforce(explicit, profile):
        settings.print_line(f"reprobuild: too late for this process: {late}")
    return chosen


_launches: "List[Optional[Tuple[int, bool]]]" = []
_draws: "List[int]" = []


def _choose(seed: "Optional[int]") -> "Tuple[int, bool, List[str]]":
    """Return the seed, whether the user chose it, and messages."""
    launched = _launched()
    if seed is not None:
        return settings.check(seed), True, []
    if launched is not None and launched[1]:
        return launched[0], True, []
    _draws.append(len(_draws))
    if launched is None:
        drawn, _, lines = ranks.settle(os.environ, None, settings.draw)
        _launches[:] = [(drawn, False)]
        return drawn, False, lines
    return launched[0] if len(_draws) == 1 else seed_streams.further_seed(launched[0], len(_draws)), False, []


def _launched() -> "Optional[Tuple[int, bool]]":
    """Return the seed that this process was launched with.

    It is read from the environment before we write there.
    """
    if not _launches:
        try:
            _launches.append(settings.read(os.environ))
        except ValueError:
            _launches.append(None)  # the start-up hook has complained
    return _launches[0]


def import_or_say(name: str) -> "Any":
    """Return the module; None if it is not installed or is broken.

    A broken one is reported in a line.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as err:
        if err.name != name.partition(".")[0]:
            settings.print_line(f"reprobuild: {name} is not seeded: {err}")
    except Exception as err:
        settings.print_line(f"reprobuild: {name} is not seeded: {type(err).__name__}: {err}")
    return None
