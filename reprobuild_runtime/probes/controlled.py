"""Runs of the controls, in processes of their own.

Each is judged for whether the determinism tests can fail.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile

from reprobuild_runtime import settings
from reprobuild_runtime.probes import controls, processes
from reprobuild_runtime.probes.arrays import controls as arrays
from reprobuild_runtime.probes.gather import environ_of
from reprobuild_runtime.probes.judge import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

WHY = {
    "completion_order": "the order of the sum cures it; torch's switch cannot help, which `strict cannot help` shows",
    "empty_memory": "",
}
KERNELS = "measured_kernels"
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "measured_kernels.py")
_COMPILATION = 180  # seconds, for `run_child`; two processors take some 15


def run(ask: "Dict[str, Any]", command: "List[str]") -> "List[Dict[str, Any]]":
    """Return the controls on the CPU, and on the GPU if requested."""
    if ask["subject"] == "arrays":
        entries = _in_a_process("cpu", arrays.RACES, arrays.OTHERS, ask, command) + _fresh_controls(ask)
        return [
            {**control, "why": control["why"].partition("; torch")[0]} for control in entries
        ]  # without torch
    entries = _torch_controls("cpu", ask, command) + _fresh_controls(ask)
    entries += [_measured_kernels(ask)] if ask["compiled"] else []
    return entries + (_torch_controls("cuda", ask, command) if ask["device"] == "cuda" else [])


def _torch_controls(device: str, ask: "Dict[str, Any]", command: "List[str]") -> "List[Dict[str, Any]]":
    others = ("empty_memory", *(["completion_order"] if device == "cpu" else []))
    return _in_a_process(device, controls.RACES[device], others, ask, command)


def _in_a_process(
    device: str, races: "Sequence[str]", others: "Sequence[str]", ask: "Dict[str, Any]", command: "List[str]"
) -> "List[Dict[str, Any]]":
    """Return the controls of one process; races need several threads."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = device == "cuda" or cpus > 1
    mode = "profile" if ask["subject"] == "arrays" else "default"
    environ = {**environ_of(mode, ask["seed"]), "OMP_NUM_THREADS": str(max(2, min(cpus, 8)))}
    task = {"task": "controls", "device": device, "threads": threads}
    heard = processes.run_child([*command, json.dumps(task)], environ, ask["limit"])
    modes_by_name = {
        line["control"]: line["modes"] for line in heard.lines if "control" in line and "modes" in line
    }
    why = str(heard.absent or heard.why or "it said nothing")
    entries = []
    for name in (*races, *others):
        if name in races and not threads:
            few = "there is one processor: threads take turns, and a drift cannot be relied on"
            entries.append(entry(name, device, {}, few))
        else:
            modes = modes_by_name.get(name) or {
                mode: {"error": f"the process: {why}"} for mode in ("default", "strict")
            }
            entries.append(
                entry(name, device, {mode: judge([result], "none", ()) for mode, result in modes.items()})
            )
    return entries


def entry(name: str, device: str, modes: "Dict[str, Any]", why: str = "") -> "Dict[str, Any]":
    """Return a control with its verdict.

    An effective one drifts by default, stops drifting if cured, and is not the harness's own drift.
    """
    verdicts = {mode: judgement["verdict"] for mode, judgement in modes.items()}
    cure = "cured" if "cured" in modes else "strict"
    if not modes:
        pass
    elif verdicts["default"] != "DRIFT":
        why = _describe_blame("it did not drift by default", modes["default"])
    elif verdicts[cure] != "IDENTICAL":
        why = _describe_blame("it did not stop drifting when it was cured", modes[cure])
    elif verdicts.get("ones", "IDENTICAL") != "IDENTICAL":
        why = "adding ones drifts as well: the harness is at fault"
    else:
        return {
            "name": name,
            "device": device,
            "modes": modes,
            "verdict": "effective",
            "why": why or WHY.get(name, ""),
        }
    return {"name": name, "device": device, "modes": modes, "verdict": "CONTROL-INEFFECTIVE", "why": why}


def _describe_blame(problem: str, mode: "Dict[str, Any]") -> str:
    return problem + (f": {mode['why']}" if mode["why"] else f" in {mode['repeats']} runs")


def _fresh_controls(ask: "Dict[str, Any]") -> "List[Dict[str, Any]]":
    seed = str(ask["seed"])
    cured = {settings.SEED: seed, settings.EXPLICIT: "1", settings.HASH_SEED: seed}
    entries = []
    numpy = [arrays.make_fresh_control(cured)] if ask["subject"] == "arrays" else []
    for control in [*controls.list_fresh_controls(cured), *numpy]:
        modes = {
            mode: judge([_run_fresh_control(*control[mode]) for _ in range(4)], "none", ())
            for mode in ("default", "cured")
        }
        entries.append(entry(control["name"], "cpu", modes, control["why"]))
    return entries


def _run_fresh_control(command: "List[str]", environ: "Dict[str, str]") -> "Dict[str, Any]":
    try:
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError) as err:
        return {"error": f"{type(err).__name__}: {err}"}
    return {"digests": [hashlib.sha256(done.stdout).hexdigest()]}


def _measured_kernels(ask: "Dict[str, Any]") -> "Dict[str, Any]":
    """Return the control of a compiler that measures kernels.

    It drifts between processes with empty caches, if the measurements of one are inverted. The cache of the first
    process cures it.
    """
    device = ask["device"]
    runs: "Dict[str, List[Dict[str, Any]]]" = {"default": [], "cured": []}
    with tempfile.TemporaryDirectory() as folder:
        for cache, distortion, modes in (
            ("first", "", ("default", "cured")), ("second", "inverse", ("default",)),
            ("first", "inverse", ("cured",)), ("first", "random", ("cured",)),
        ):  # fmt: skip
            answer = _run_kernels(ask, os.path.join(folder, cache), distortion)
            if "absent" in answer:
                return entry(KERNELS, device, {}, f"not applicable here: {answer['absent']}")
            for mode in modes:
                runs[mode].append(answer)
    judged = {mode: judge(results, "none", ()) for mode, results in runs.items()}
    return entry(KERNELS, device, judged, "kept measurements cure it; torch's switch does not know of it")


def _run_kernels(ask: "Dict[str, Any]", cache: str, distortion: str) -> "Dict[str, Any]":
    """Return the answer of one process with a cache, and its measurements distorted."""
    environ = {
        **environ_of("default", ask["seed"]), "TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_FREEZING": "1",
        "TRITON_CACHE_DIR": os.path.join(cache, "triton"), "TRITON_CACHE_AUTOTUNING": "1",
        "TORCHINDUCTOR_DISTORT_BENCHMARKING_RESULT": distortion,
    }  # fmt: skip
    child = processes.run_child([sys.executable, _PROGRAM, ask["device"], distortion], environ, _COMPILATION)
    if child.absent or child.said("absent"):
        return {"absent": str(child.absent or child.said("absent"))}
    return {"digests": [str(child.said("digest"))]} if child.said("digest") else {"error": child.why}
