"""Which probes an image must answer: known from the program that was put into it, never from its answer."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files

import msgspec
from msgspec import Struct

from reprobuild.lock import Lock
from reprobuild.payload import read_runtime
from reprobuild.store import Store
from reprobuild.verify.document import Device

# In the runtime package; tests/verify/test_expected.py compares it with the program itself.
PLACE = "probes/expected.json"


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the smoke test on one device gives: probes, controls, and changes that its comparison tells apart.

    `optional` are the probes that not every torch and not every machine can run, and `alerting` those that torch
    may refuse though its documentation does not say so; of `informational` ones torch promises nothing in any mode. Of
    the controls, named with their device, all must answer;
    one of `races` must be effective: they show that a drift of this device's own threads is seen.
    """

    probes: tuple[str, ...]
    optional: tuple[str, ...]
    alerting: tuple[str, ...]
    informational: tuple[str, ...] = ()  # images made before there were some
    controls: tuple[str, ...]
    races: tuple[str, ...]
    comparator: tuple[str, ...]
    collectives: tuple[str, ...]


def expected(lock: Lock, store: Store, say: Callable[[str], None]) -> dict[Device, Expected] | None:
    """Return what the program in the lock's images answers; None where it has no such smoke test.

    The store may have let the program go; then what this reprobuild would put into an image counts.
    """
    if lock.realised is not None and store.has(lock.realised.runtime):
        text = read_runtime(lock, store).get(PLACE)
    else:
        say("the store has not the programs of the image: it is asked for the probes of this reprobuild")
        text = files("reprobuild_runtime").joinpath(*PLACE.split("/")).read_bytes()
    return None if text is None else msgspec.json.decode(text, type=dict[Device, Expected])
