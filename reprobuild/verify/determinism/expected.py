"""The probes that an image must answer.

They come from the program that was put into it, never from its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.strings import Line
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock, SealedLock
from reprobuild.recipe.payload import read_runtime
from reprobuild.store.store import Store
from reprobuild.verify.determinism.document import Device

# In the runtime package; tests/verify/test_expected.py compares it with the program itself.
PLACE = "probes/expected.json"
# For an image without torch and with NumPy.
ARRAYS = "probes/arrays/expected.json"


class Expected(Struct, frozen=True, kw_only=True):
    """The expected answers of the determinism tests on one device.

    Attributes:
        probes, thorough: answered always, and answered if hundreds of repeats are requested or saved choices of torch's
            compiler are in use.
        optional: probes that not every torch and not every machine can run.
        informational: probes for which torch promises no determinism in any mode.
        alerting: probes that torch may refuse though its documentation does not state it.
        controls: named with their device; all must answer.
        compiled_controls: the controls that show that a compiler's measured choices are seen; they run if saved choices
            are in use. Empty in an image of an older reprobuild.
        races: the controls that show that a drift of this device's own threads is seen; one must be effective.
        collectives: those that every torch can do; others may be skipped.
        collective_controls: the controls that show that the order of a sum over ranks is seen, for three or more.
        between: collectives between nodes that every torch can do; empty in an image of an older reprobuild.
        documented: for each probe the lines of torch's own text about it: a name, and words of the line.
        libraries: the distribution of each probe; empty if all are of torch.
    """

    probes: tuple[Line, ...]
    thorough: tuple[Line, ...]
    optional: tuple[Line, ...]
    informational: tuple[Line, ...]
    alerting: tuple[Line, ...]
    controls: tuple[Line, ...]
    races: tuple[Line, ...]
    comparator: tuple[Line, ...]
    collectives: tuple[Line, ...]
    collective_controls: tuple[Line, ...]
    documented: dict[Line, tuple[tuple[Line, ...], ...]]
    compiled_controls: tuple[Line, ...] = ()
    between: tuple[Line, ...] = ()
    libraries: dict[Line, Line] = {}


def expectations_path(lock: Lock) -> str:
    """Return the file with the expected answers of a lock's images.

    It is the one for torch if the image has it, else for NumPy.
    """
    names = distributions(lock)
    return ARRAYS if "numpy" in names and "torch" not in names else PLACE


def read_expected(lock: Lock, store: Store, say: Callable[[str], None]) -> dict[Device, Expected] | None:
    """Return the expected answers of a lock's images, by device.

    Return None if the image has no such determinism tests.

    Without torch the program probes NumPy and libraries that build on it.

    If the store no longer has the program, the program of this reprobuild is used.
    """
    place = expectations_path(lock)
    if isinstance(lock, SealedLock) and store.has(lock.realised.runtime):
        text = read_runtime(lock, store).get(place)
    else:
        say(
            "the store does not have the program that is in the image: the probes of this reprobuild are expected"
        )
        text = files("reprobuild_runtime").joinpath(*place.split("/")).read_bytes()
    try:
        return None if text is None else decode_json(text, dict[Device, Expected])
    except msgspec.ValidationError:  # of another reprobuild
        return None
