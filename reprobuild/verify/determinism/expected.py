"""Which probes an image must answer: known from the program that was put into it, never from its answer."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.infra.untrusted.strings import Line
from reprobuild.lock.distributions import distributions
from reprobuild.lock.model import Lock
from reprobuild.recipe.payload import read_runtime
from reprobuild.store.store import Store
from reprobuild.verify.determinism.document import Device

# In the runtime package; tests/verify/test_expected.py compares it with the program itself.
PLACE = "probes/expected.json"
# Of an image without torch and with NumPy.
ARRAYS = "probes/arrays/expected.json"


class Expected(Struct, frozen=True, kw_only=True):
    """What the smoke test on one device gives: probes, controls, and changes that its comparison tells apart.

    Attributes:
        probes, thorough: always answered, and answered where hundreds of repeats are asked for.
        optional: probes that not every torch and not every machine can run.
        informational: probes of what torch promises in no mode.
        alerting: probes that torch may refuse though its documentation does not say so.
        controls: named with their device; all must answer.
        races: the controls that show that a drift of this device's own threads is seen; one must be effective.
        collectives: those that every torch can do; others may be skipped.
        collective_controls: what shows that the order of a sum over ranks is seen, where there are three or more.
        between: collectives between nodes that every torch can do; none in an image of an older reprobuild.
        documented: for each probe the lines of torch's own text that concern it: a name, and words of the line.
        libraries: for each probe the distribution that it is of; none where all are of torch.
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
    between: tuple[Line, ...] = ()
    libraries: dict[Line, Line] = {}


def place_of(lock: Lock) -> str:
    """Return the file that says what the lock's images answer: torch where it is there, else NumPy."""
    names = distributions(lock)
    return ARRAYS if "numpy" in names and "torch" not in names else PLACE


def expected(lock: Lock, store: Store, say: Callable[[str], None]) -> dict[Device, Expected] | None:
    """Return what the program in the lock's images answers; None where it has no such smoke test.

    Without torch the program probes NumPy and what builds on it.

    The store may have let the program go; then what this reprobuild would put into an image counts.
    """
    place = place_of(lock)
    if lock.realised is not None and store.has(lock.realised.runtime):
        text = read_runtime(lock, store).get(place)
    else:
        say(
            "the store does not have the program that is in the image: the probes of this reprobuild are expected"
        )
        text = files("reprobuild_runtime").joinpath(*place.split("/")).read_bytes()
    try:
        return None if text is None else msgspec.json.decode(text, type=dict[Device, Expected])
    except msgspec.ValidationError:  # of another reprobuild
        return None
