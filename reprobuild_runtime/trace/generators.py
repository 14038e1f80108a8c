"""Digests of the states of random number generators.

Reading a state does not change it. The functions that programs call to read states are not used, because the hooks
of `seeding` count such calls as the program's own.
"""

import sys
from array import array

from reprobuild_runtime.trace.digests import digest_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Tuple


def list_states() -> "List[Tuple[str, object]]":
    """Return (name, digest or tensor) for each global generator of the imported libraries."""
    states: "List[Tuple[str, object]]" = []
    for name, module, read in (
        ("random", "random", _read_random),
        ("numpy.random", "numpy.random", _read_numpy),
    ):
        if module in sys.modules:
            states.append((name, _read(read, sys.modules[module])))
    torch: "Any" = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "default_generator"):
        states.append(("torch", _read(lambda module: module.default_generator.get_state(), torch)))
        states += _list_device_states(torch)
    return states


def _read(read: "Callable[[Any], object]", module: "Any") -> object:
    try:
        return read(module)
    except Exception as err:  # the program replaced it
        return digest_bytes(b"", f"unreadable: {type(err).__name__}")


def _read_random(random: "Any") -> str:
    words = super(random.Random, random._inst).getstate()
    return digest_bytes(array("I", words).tobytes(), f"random {random._inst.gauss_next!r}")


def _read_numpy(numpy_random: "Any") -> str:
    state: "Dict[str, Any]" = numpy_random.mtrand._rand._bit_generator.state
    key = state["state"].get("key")
    rest = {name: value for name, value in state["state"].items() if name != "key"}
    about = f"{state['bit_generator']} {sorted(rest.items())} {state.get('has_gauss')} {state.get('gauss')!r}"
    return digest_bytes(b"" if key is None else key.tobytes(), about)


def _list_device_states(torch: "Any") -> "List[Tuple[str, object]]":
    """Return the states of the generators of devices that are in use."""
    states = []
    for kind in ("cuda", "xpu"):
        device = getattr(torch, kind, None)
        if device is None or not getattr(device, "is_initialized", bool)():
            continue
        for number, generator in enumerate(getattr(device, "default_generators", ())):
            states.append((f"torch {kind}:{number}", _read(lambda source: source.get_state(), generator)))
    return states
