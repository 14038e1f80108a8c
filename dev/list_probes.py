"""The probes and controls of the determinism test, as `expected.json`.

    python dev/list_probes.py > reprobuild_runtime/probes/expected.json
    python dev/list_probes.py arrays > reprobuild_runtime/probes/arrays/expected.json

The second command is for an image without torch. The host expects these answers of an image, whatever the image
reports. tests/verify/test_expected.py compares the two files with the output of this program.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reprobuild_runtime.probes import bench, child, controlled, controls, ranks
from reprobuild_runtime.probes.arrays import child as arrays_child
from reprobuild_runtime.probes.arrays import controls as arrays_controls

# With these a probe reports that it is not applicable here.
NOT_HERE = re.compile(r"\bb\.(need|package|unseeded)\(|NotHereError")
CHANGES = (
    "lowest bit", "sign of zero", "payload of NaN", "order", "one element more", "type", "shape", "stride",
    "conjugate view", "negative view",
)  # fmt: skip
# Probes of operations in reprobuild_runtime/probes/alerts.json: torch refuses them on a GPU, and its documentation does
# not mention it.
ALERTING = ("index_reduce_mean", "kthvalue", "interpolate_antialias", "sdpa_cudnn")
EVERYWHERE = ("empty_memory",)
FRESH = ("set_order", "unseeded", "unseeded_numpy")  # of an image without torch
ON_CPU = ("completion_order", "set_order", "unseeded")


def may_be_absent(function: Any, module: ModuleType) -> bool:
    """Return whether a probe can report that it is not applicable.

    The helpers of its file that it calls are read too.
    """
    source = inspect.getsource(function)
    helpers = [
        name for name in re.findall(r"\b(\w+)\(", source) if inspect.isfunction(vars(module).get(name))
    ]
    return any(
        NOT_HERE.search(text) for text in (source, *(inspect.getsource(vars(module)[n]) for n in helpers))
    )


def listed(device: str) -> dict[str, Any]:
    """Return the expected answers of the determinism test on a device."""
    known = child.register()
    devices = ("cpu", "cuda") if device == "cuda" else ("cpu",)
    return {
        "probes": [name for name, probe in known.items() if not probe.thorough],
        "thorough": [name for name, probe in known.items() if probe.thorough],
        "optional": [name for name, probe in known.items() if device not in probe.devices or absent(probe)],
        "informational": [name for name, probe in known.items() if device in probe.informational],
        "alerting": [name for name in known if device == "cuda" and name in ALERTING],
        "controls": [
            f"{each} {name}"
            for each in devices
            for name in (*controls.RACES[each], *EVERYWHERE, *(ON_CPU if each == "cpu" else ()))
        ],
        "races": [f"{device} {name}" for name in controls.RACES[device]],
        "comparator": list(CHANGES),
        "documented": {name: list(probe.documented) for name, probe in known.items() if probe.documented},
        "collectives": [name for name in ranks.names(device) if name not in ranks.optional(device)],
        "collective_controls": [ranks.CONTROL],
        "compiled_controls": [f"{device} {controlled.KERNELS}"],
        "between": ranks.list_node_probes(device),
    }


def arrays() -> dict[str, Any]:
    """Return the expected answers of an image without torch."""
    known = arrays_child.register()
    races = [f"cpu {name}" for name in arrays_controls.RACES]
    return {
        "probes": list(known),
        "thorough": [],
        "optional": [name for name, probe in known.items() if absent(probe)],
        "informational": [name for name, probe in known.items() if probe.informational],
        "alerting": [],
        "controls": [*races, *(f"cpu {name}" for name in (*arrays_controls.OTHERS, *FRESH))],
        "races": races,
        "comparator": [*CHANGES[:8], "byte order"],
        "documented": {},
        "collectives": [],
        "collective_controls": [],
        "libraries": {name: probe.library for name, probe in known.items()},
    }


def absent(probe: bench.RuntimeProbe) -> bool:
    return may_be_absent(probe.function, sys.modules[probe.function.__module__])


def main() -> None:
    of_torch = {device: listed(device) for device in ("cpu", "cuda")}
    print(json.dumps({"cpu": arrays()} if sys.argv[1:] == ["arrays"] else of_torch, indent=1))


if __name__ == "__main__":
    main()
