"""Print which probes and controls the smoke test has: the content of reprobuild_runtime/probes/expected.json.

    python dev/list_probes.py > reprobuild_runtime/probes/expected.json

The host expects these answers of an image, whatever the image says. tests/verify/test_expected.py compares the file
with what this program prints.
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

from reprobuild_runtime.probes import bench, child, controls, ranks

# What says in a probe that it is not applicable here.
NOT_HERE = re.compile(r"\bb\.need\(|NotHereError")
CHANGES = (
    "lowest bit", "sign of zero", "payload of NaN", "order", "one element more", "type", "shape", "stride",
    "conjugate view", "negative view",
)  # fmt: skip
# Probes of what stands in reprobuild_runtime/probes/alerts.json: torch refuses it on a GPU, and its documentation does
# not say so.
ALERTING = ("index_reduce_mean", "kthvalue", "interpolate_antialias", "sdpa_cudnn")
EVERYWHERE = ("empty_memory",)
ON_CPU = ("completion_order", "set_order", "unseeded")


def may_be_absent(function: Any, module: ModuleType) -> bool:
    """Return whether a probe, or a helper of its file that it calls, can say that it is not applicable."""
    source = inspect.getsource(function)
    helpers = [
        name for name in re.findall(r"\b(\w+)\(", source) if inspect.isfunction(vars(module).get(name))
    ]
    return any(
        NOT_HERE.search(text) for text in (source, *(inspect.getsource(vars(module)[n]) for n in helpers))
    )


def listed(device: str) -> dict[str, Any]:
    """Return what the smoke test on a device must answer."""
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
        "between": ranks.between(device),
    }


def absent(probe: bench.Probe) -> bool:
    return may_be_absent(probe.function, sys.modules[probe.function.__module__])


def main() -> None:
    print(json.dumps({device: listed(device) for device in ("cpu", "cuda")}, indent=1))


if __name__ == "__main__":
    main()
