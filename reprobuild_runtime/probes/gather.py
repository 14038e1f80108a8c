"""Start the processes of each mode, and put what they say together."""

# ruff: noqa: TID251  a child gets the environment, with a few changes

import json
import os
from concurrent.futures import ThreadPoolExecutor

from reprobuild_runtime import launch
from reprobuild_runtime.probes import child, expectations, processes, stress
from reprobuild_runtime.probes.judge import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List

# What a profile sets before an interpreter starts; the mode `default` is torch without it.
PROFILE_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "NCCL_ALGO",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
    "FLASH_ATTENTION_DETERMINISTIC",
)
RESTARTS = 3  # of a process that died or hung, for the probes after the one that did it


def gather(ask: "Dict[str, Any]", command: "List[str]", table: "Dict[str, Any]") -> "Dict[str, Any]":
    """Return the part of the document that says what was observed."""
    known = child.register()
    names = [
        name for name, probe in known.items()
        if (name in ask["only"] if ask["only"] else ask["thorough"] or not probe.thorough)
    ]  # fmt: skip
    tasks = [(mode, number) for mode in ask["modes"] for number in range(ask["processes"])]
    if "warn" in ask["modes"]:  # only reported: one process will do
        tasks = [task for task in tasks if task[0] != "warn" or task[1] == 0]
    together = 2 if ask["stress"] or ask["quick"] else 1
    with ThreadPoolExecutor(max_workers=together) as pool:
        told = list(pool.map(lambda task: _one(ask, command, names, *task), tasks))
    by_mode: "Dict[str, List[Dict[str, Dict[str, Any]]]]" = {mode: [] for mode in ask["modes"]}
    for (mode, _), each in zip(tasks, told):  # noqa: B905  Python 3.8
        by_mode[mode].append(each)
    found = [_probe(known[name], by_mode, table, ask["device"]) for name in names]
    return {"probes": found, "bound": bound(found)}


def _one(
    ask: "Dict[str, Any]", command: "List[str]", names: "List[str]", mode: str, number: int
) -> "Dict[str, Dict[str, Any]]":
    """Run one process of a mode, and others for what comes after a probe that ended it."""
    stressed = bool(ask["stress"] and number)
    environ = environ_of(mode, ask["seed"])
    beside = processes.start(stress.companion(ask["device"]), environ) if stressed else None
    found: "Dict[str, Dict[str, Any]]" = {}
    why = ""
    try:
        for _ in range(1 + RESTARTS):
            left = [name for name in names if name not in found]
            if not left:
                break
            task = {
                "task": "probes",
                "mode": mode,
                "device": ask["device"],
                "seed": ask["seed"],
                "names": left,
            }
            task.update(repeats=ask["repeats"], stress=stressed)
            heard = processes.listen([*command, json.dumps(task)], environ, ask["limit"])
            why = _take(heard, left, found)
    finally:
        if beside is not None:
            processes.kill(beside)
    return {name: found.get(name, {"error": f"the process did not come so far: {why}"}) for name in names}


def _take(heard: "processes.Answer", left: "List[str]", found: "Dict[str, Dict[str, Any]]") -> str:
    """Take what a process said of the probes that it was asked for, and return why it ended early."""
    begun = ""
    for line in heard.lines:
        if line.get("begin") in left:
            begun = line["begin"]
        if line.get("probe") in left and line["probe"] == begun:
            found[begun] = line
    why = str(heard.said("no torch") or heard.why)
    if why:
        failed = (
            begun if begun and begun not in found else next((name for name in left if name not in found), "")
        )
        if failed:
            found[failed] = {"error": f"the process: {why}"}
    return why


def environ_of(mode: str, seed: int) -> "Dict[str, str]":
    """Return the environment of a child: the seed is chosen, and `default` has no profile."""
    environ = dict(os.environ)
    environ[launch.SEED], environ[launch.EXPLICIT] = str(seed), "1"
    if mode == "default":
        environ["REPROBUILD_PROFILE"] = "log-only"
        for name in PROFILE_VARIABLES:
            environ.pop(name, None)
    environ["REPROBUILD_RECORD"] = "0"  # the record is of the user's own work
    # Threads that wait do not spin: where processors are shared that takes many times as long. No result changes.
    environ.setdefault("OMP_WAIT_POLICY", "passive")
    return environ


def _probe(
    probe: "Any", by_mode: "Dict[str, List[Dict[str, Dict[str, Any]]]]", table: "Dict[str, Any]", device: str
) -> "Dict[str, Any]":
    documented = expectations.documented(table, probe.documented, device)
    alerts = expectations.undocumented()["alerts"]
    told = [each[probe.name] for mode in by_mode.values() for each in mode]
    facts = {key: next((line[key] for line in told if line.get(key)), "") for key in ("dtype", "shape")}
    modes = {
        mode: judge([each[probe.name] for each in answers], documented, alerts)
        for mode, answers in by_mode.items()
    }
    about = {"name": probe.name, "kind": probe.kind, **facts, "informational": probe.informational}
    return {**about, "documented": documented, "modes": modes}


def bound(probes: "List[Dict[str, Any]]") -> "Dict[str, Any]":
    """Return the least number of runs of an identical probe, whose it is, and what it bounds; and of a typical one.

    No difference in N runs means, at 95 %, that fewer than 3 in N would differ: the rule of three.
    https://doi.org/10.1001/jama.1983.03330370053031
    """
    runs = sorted(
        (mode["repeats"], probe["name"]) for probe in probes for name, mode in probe["modes"].items()
        if mode["verdict"] == "IDENTICAL" and name in ("strict", "profile")
    )  # fmt: skip
    if not runs:
        return {"runs": 0, "upper": 1.0, "probe": "", "typical": {"runs": 0, "upper": 1.0}}
    (least, name), typical = runs[0], runs[len(runs) // 2][0]
    middle = {"runs": typical, "upper": _upper(typical)}
    return {"runs": least, "upper": _upper(least), "probe": name, "typical": middle}


def _upper(runs: int) -> float:
    return round(min(1.0, 3 / runs), 6)
