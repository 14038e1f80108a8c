"""Run the probes in this environment: JSON options in, one JSON document on standard output.

    python /opt/reprobuild/lib/reprobuild_runtime/probes.py '{"device": "cpu", "seed": 7}'

Options, as the argument or on standard input: `device` ("cpu" or "cuda"), `seed`, `repeats` (1; runs of each
probe in this process), `strict` (false; torch's deterministic mode), `control` (true: the control alone). Gives

    {"ran": true, "device", "seed", "strict", "repeats", "probes": {NAME: SHA-256},
     "unstable": {NAME: [SHA-256...]}, "failed": {NAME: WHY}, "start": {...}, "fingerprint": {...}, "seconds"}

or {"ran": true, "device", "control": {...}, ...}, or {"ran": false, "why"}. `start` has digests of draws made
before this program seeded anything: equal in two processes if and only if the start-up hook seeded them. Run it
without `-I`, which would switch PYTHONHASHSEED off.
"""

# ruff: noqa: TID251  what the environment says is part of the answer

import hashlib
import json
import os
import sys
import time

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
sys.path.insert(0, os.path.dirname(_HERE))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

DEFAULTS: "Dict[str, Any]" = {"device": "cpu", "seed": 0, "repeats": 1, "strict": False, "control": False}


def options(text: str) -> "Dict[str, Any]":
    """Return the options in full; raise ValueError where one is unknown or of the wrong kind."""
    from reprobuild_runtime import launch

    given = json.loads(text)
    if not isinstance(given, dict) or not set(given) <= set(DEFAULTS):
        raise ValueError(f"the options are an object with some of {', '.join(DEFAULTS)}")
    full = {**DEFAULTS, **given}
    if full["device"] not in ("cpu", "cuda"):
        raise ValueError(f"device is cpu or cuda, not {full['device']!r}")
    if type(full["repeats"]) is not int or full["repeats"] < 1:
        raise ValueError(f"repeats is a positive integer, not {full['repeats']!r}")
    launch.check(full["seed"])
    return full


def answer(text: str) -> "Dict[str, Any]":
    """Return the document for these options; it says why where nothing could be run."""
    from importlib import import_module

    from reprobuild_runtime.fingerprint import fingerprint

    began = time.monotonic()
    try:
        ask = options(text)
    except ValueError as err:
        return {"ran": False, "why": f"options: {err}"}
    try:
        torch = import_module("torch")
    except Exception as err:
        why = f"torch does not import: {type(err).__name__}: {err}"
        return {"ran": False, "why": why, "start": start(None), "fingerprint": fingerprint()}
    if ask["device"] == "cuda" and not torch.cuda.is_available():
        return {"ran": False, "why": "torch sees no CUDA device", "fingerprint": fingerprint(torch)}
    found: "Dict[str, Any]" = {"ran": True, "device": ask["device"], "start": start(torch)}
    if ask["control"]:
        from reprobuild_runtime.probecontrol import control

        found["control"] = control(torch, ask["device"])
    else:
        found.update(_run_all(torch, ask))
    found["fingerprint"] = fingerprint(torch)
    found["seconds"] = round(time.monotonic() - began, 3)
    return found


def start(torch: "Any") -> "Dict[str, Any]":
    """Return digests of draws that nothing here has seeded, and what the start-up hook says that it did."""
    import random

    def sha256(value: object) -> str:
        return hashlib.sha256(repr(value).encode()).hexdigest()

    found: "Dict[str, Any]" = {
        "random": sha256([random.random() for _ in range(8)]),
        "hash": sha256(hash("reprobuild")),
    }
    if torch is not None:
        found["torch"] = sha256(torch.rand(8).tolist())
    try:
        import numpy.random

        found["numpy"] = sha256([float(numpy.random.random()) for _ in range(8)])
    except Exception as err:
        found["numpy"] = None
        found["numpy_why"] = f"{type(err).__name__}: {err}"
    found["hook"] = None
    if "reprobuild_runtime.startup" in sys.modules:
        names = {
            "seed": "REPROBUILD_SEED",
            "explicit": "REPROBUILD_SEED_EXPLICIT",
            "hash_seed": "PYTHONHASHSEED",
        }
        found["hook"] = {key: os.environ.get(name) for key, name in names.items()}
    return found


def _run_all(torch: "Any", ask: "Dict[str, Any]") -> "Dict[str, Any]":
    from reprobuild_runtime import probeops

    if ask["strict"]:
        torch.use_deterministic_algorithms(True)
    bench = probeops.Bench(torch, ask["device"], ask["seed"])
    probes: "Dict[str, str]" = {}
    unstable: "Dict[str, List[str]]" = {}
    failed: "Dict[str, str]" = {}
    for name in probeops.PROBES:
        try:
            digests = [probeops.run(name, bench) for _ in range(ask["repeats"])]
        except Exception as err:
            failed[name] = f"{type(err).__name__}: {err}"
            continue
        probes[name] = digests[0]
        if len(set(digests)) > 1:
            unstable[name] = digests
    same = {name: ask[name] for name in ("seed", "strict", "repeats")}
    return {**same, "probes": probes, "unstable": unstable, "failed": failed}


def main(argv: "List[str]") -> int:
    """Print the document; always 0. What libraries print on standard output goes to standard error."""
    text = argv[0] if argv else sys.stdin.read()
    sys.stdout.flush()
    data = os.dup(1)
    os.dup2(2, 1)
    document = json.dumps(answer(text), indent=1) + "\n"
    sys.stdout.flush()
    with os.fdopen(data, "w", encoding="utf-8") as file:
        file.write(document)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
