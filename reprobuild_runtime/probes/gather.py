"""Processes of each mode, and their collected output."""

# ruff: noqa: TID251  a child gets the environment, with a few changes

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor

from reprobuild_runtime import settings
from reprobuild_runtime.probes import child, expectations, processes, stress
from reprobuild_runtime.probes.judge import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

# Variables that a profile sets before an interpreter starts; the mode `default` is torch without it.
PROFILE_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "NCCL_ALGO",
    "NVTE_ALLOW_NONDETERMINISTIC_ALGO",
    "FLASH_ATTENTION_DETERMINISTIC",
)
# The thread counts of an image's libraries without torch: one in `strict`.
THREADS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
)
NOT_ASKED = {"skipped": "not applicable here: it takes long: only with thorough, or with saved choices"}
AS_STRICT = {"skipped": "not applicable here: no other mode fails, so torch refuses nothing"}
RESTARTS = 3  # of a process that died or hung, for the probes after the failed one


def gather(ask: "Dict[str, Any]", command: "List[str]", halt: "threading.Event") -> "List[ProcessRun]":
    """Run the processes of each mode, and return their results.

    After `halt` no process is started.
    """
    names = _names(ask)
    modes = [mode for mode in ask["modes"] if mode != "warn"]
    tasks = [(mode, number) for mode in modes for number in range(ask["processes"])]
    with ThreadPoolExecutor(max_workers=_at_once(ask, len(tasks))) as pool:
        ran = list(pool.map(lambda task: _run_process(ask, command, names, task[0], task[1], halt), tasks))
    if "warn" in ask["modes"]:  # only reported: one process is enough
        refused = [name for name in names if not modes or any("error" in run.told[name] for run in ran)]
        ran.append(_run_process(ask, command, refused, "warn", 0, halt))
    return ran


def summarise(ask: "Dict[str, Any]", ran: "List[ProcessRun]", table: "Dict[str, Any]") -> "Dict[str, Any]":
    """Return the document's part with the observations.

    Args:
        table: torch's documentation of its operations.
    """
    known, selection = register(ask["subject"]), _selection(ask)
    by_mode: "Dict[str, List[Dict[str, Dict[str, Any]]]]" = {mode: [] for mode in ask["modes"]}
    for run in ran:
        rest = {**dict.fromkeys(selection, NOT_ASKED), **dict.fromkeys(_names(ask), AS_STRICT)}
        by_mode[run.mode].append({**rest, **run.told})
    probes = [_probe(known[name], by_mode, table, ask["device"]) for name in selection]
    threads = {run.mode: run.threads for run in ran if run.threads}
    return {"probes": probes, "bound": bound(probes), "stress": _summarise_stress(ran), "threads": threads}


def _selection(ask: "Dict[str, Any]") -> "List[str]":
    return [name for name in register(ask["subject"]) if not ask["only"] or name in ask["only"]]


def _names(ask: "Dict[str, Any]") -> "List[str]":
    """Return the names of the probes to run; the thorough ones are those of compiled code."""
    known = register(ask["subject"])
    every = ask["only"] or ask["thorough"] or ask["compiled"]
    return [name for name in _selection(ask) if every or not known[name].thorough]


def _at_once(ask: "Dict[str, Any]", tasks: int) -> int:
    """Return the number of processes to run at the same time.

    At least two meet, so that they disturb each other; more have four processors and 2 GiB each.
    """
    if not ask["stress"] and not ask["quick"]:
        return 1
    if ask["device"] != "cpu":
        return 2
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(2, min(tasks, cpus // 4, _available_memory() >> 31))


def _available_memory() -> int:
    """Return the bytes of memory that programs can still have, or 0 if unknown."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            rows = dict(line.split(":", 1) for line in file)
        return int(rows["MemAvailable"].split()[0]) << 10
    except (OSError, KeyError, ValueError):
        return 0


def register(subject: str) -> "Dict[str, Any]":
    """Return all probes of a subject."""
    if subject == "arrays":
        from reprobuild_runtime.probes.arrays import child as arrays

        return dict(arrays.register())
    return dict(child.register())


class ProcessRun:
    """The results of one process of a mode, its threads, and load.

    `stress` is None without a load.
    """

    def __init__(self, mode: str) -> None:
        self.mode, self.threads = mode, 0
        self.told: "Dict[str, Dict[str, Any]]" = {}
        self.stress: "Optional[str]" = None


def _summarise_stress(ran: "List[ProcessRun]") -> "Optional[Dict[str, Any]]":
    """Return whether each process had its load.

    Return None if no process had one.
    """
    whys = [f"{run.mode}: {run.stress}" for run in ran if run.stress]
    if all(run.stress is None for run in ran):
        return None
    return {"ran": not whys, "why": "; ".join(whys)[:2000]}


def _run_process(
    ask: "Dict[str, Any]", command: "List[str]", names: "List[str]", mode: str, number: int, halt: "threading.Event"
) -> ProcessRun:  # fmt: skip
    """Run one process of a mode; restart it after a failed probe."""
    stressed = bool(ask["stress"] and number)
    environ = environ_of(mode, ask["seed"], ask["subject"])
    beside = processes.Companion(stress.companion(ask["device"]), environ) if stressed else None
    ran = ProcessRun(mode)
    results, why = ran.told, ""
    try:
        for _ in range(1 + RESTARTS):
            rest = [name for name in names if name not in results]
            if not rest or halt.is_set():
                break
            task = {
                "task": "probes",
                "mode": mode,
                "device": ask["device"],
                "seed": ask["seed"],
                "names": rest,
            }
            task.update(repeats=ask["repeats"], stress=stressed)
            heard = processes.run_child([*command, json.dumps(task)], environ, ask["limit"])
            why = _take(heard, rest, results)
            ran.threads = ran.threads or int(heard.said("threads") or 0)
    finally:
        if beside is not None:
            ran.stress = beside.end()
    lost = {"error": f"the process did not come so far: {why}"}
    ran.told = {name: results.get(name, lost) for name in names}
    return ran


def _take(heard: "processes.ChildOutput", names: "List[str]", results: "Dict[str, Dict[str, Any]]") -> str:
    """Record a process's results of its probes.

    Return the reason if it ended early.
    """
    begun = ""
    for line in heard.lines:
        if line.get("begin") in names:
            begun = line["begin"]
        if line.get("probe") in names and line["probe"] == begun:
            results[begun] = line
    why = str(heard.absent or heard.why)
    if why:
        failed = (
            begun
            if begun and begun not in results
            else next((name for name in names if name not in results), "")
        )
        if failed:
            results[failed] = {"error": f"the process: {why}"}
    return why


def environ_of(mode: str, seed: int, subject: str = "torch") -> "Dict[str, str]":
    """Return the environment of a child.

    The seed is chosen, and `default` has no profile.
    """
    environ = dict(os.environ)
    environ[settings.SEED], environ[settings.EXPLICIT] = str(seed), "1"
    if mode == "default":
        environ["REPROBUILD_PROFILE"] = "log-only"
        for name in PROFILE_VARIABLES:
            environ.pop(name, None)
    if subject == "arrays" and mode == "strict":
        environ.update(dict.fromkeys(THREADS, "1"))
    elif mode in ("strict", "warn") and not environ.get("CUBLAS_WORKSPACE_CONFIG"):
        environ["CUBLAS_WORKSPACE_CONFIG"] = (
            ":4096:8"  # without it torch before 2.10 raises in each product on a GPU
        )
    environ["REPROBUILD_RECORD"] = "0"  # the record is for the workload
    # Waiting threads do not spin: on shared processors that takes many times as long. Results do not change.
    environ.setdefault("OMP_WAIT_POLICY", "passive")
    return environ


def _probe(
    probe: "Any", by_mode: "Dict[str, List[Dict[str, Dict[str, Any]]]]", table: "Dict[str, Any]", device: str
) -> "Dict[str, Any]":
    documented = expectations.find_documentation(table, probe.documented, device)
    alerts = expectations.undocumented()["alerts"]
    results = [answer[probe.name] for mode in by_mode.values() for answer in mode]
    facts = {key: next((line[key] for line in results if line.get(key)), "") for key in ("dtype", "shape")}
    modes = {
        mode: judge([answer[probe.name] for answer in answers], documented, alerts)
        for mode, answers in by_mode.items()
    }
    about = {"name": probe.name, "kind": probe.kind, **facts, "informational": device in probe.informational}
    if probe.library:
        about["library"] = probe.library
    return {**about, "documented": documented, "modes": modes}


def bound(probes: "List[Dict[str, Any]]") -> "Dict[str, Any]":
    """Return the least and the typical runs of identical probes.

    The least has its probe and its bound, and the typical its bound.

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
    middle = {"runs": typical, "upper": _upper_bound(typical)}
    return {"runs": least, "upper": _upper_bound(least), "probe": name, "typical": middle}


def _upper_bound(runs: int) -> float:
    return round(min(1.0, 3 / runs), 6)
