"""Collectives over all GPUs by NCCL, or four processes by gloo.

Their sums must be the same each time.

Two processes would not do: a sum of two is the same in either order.
"""

import hashlib
import json
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor

from reprobuild_runtime.probes import controlled, processes, ranks
from reprobuild_runtime.probes.gather import environ_of
from reprobuild_runtime.probes.judge import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

ONE_GPU = "one GPU: not covered"
TWO = "the order of a sum of two cannot show: not covered"
# NCCL's tuning log of each call, by name or by number (src/include/nccl_common.h).
_TUNING = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


def run(ask: "Dict[str, Any]", command: "List[str]", gpus: int) -> "Dict[str, Any]":
    """Return the document's part on collectives."""
    backend = "nccl" if ask["device"] == "cuda" else "gloo"
    world = gpus if backend == "nccl" else 4
    result: "Dict[str, Any]" = {
        "verdict": "SKIPPED",
        "why": "",
        "backend": backend,
        "world": world,
        "probes": [],
        "controls": [],
        "algorithms": [],
    }
    if world < 2:
        return {**result, "why": ONE_GPU}
    with _meeting_place() as folder:
        launches = [_launch(ask, command, backend, world, os.path.join(folder, str(n))) for n in range(2)]
        result["algorithms"] = algorithms(folder)
    absent = next((launch["absent"] for launch in launches if launch["absent"]), "")
    if absent:
        return {**result, "why": absent}
    why = next((launch["why"] for launch in launches if launch["why"]), "")
    names = list(dict.fromkeys(name for launch in launches for name in launch["told"]))
    result["probes"] = [
        _probe(name, [launch["told"].get(name) for launch in launches], why) for name in names
    ]
    if world > 2:
        result["controls"] = [_control(ask["device"], launches, why)]
    result["verdict"], result["why"] = _summarise_probes(result["probes"], why)
    if world == 2 and result["verdict"] == "IDENTICAL":
        result.update(verdict="SKIPPED", why=TWO)
    return result


def _meeting_place() -> "tempfile.TemporaryDirectory[str]":
    """Return a directory for the ranks' meeting files.

    In some images only shared memory is writable.
    """
    try:
        return tempfile.TemporaryDirectory()
    except OSError:
        return tempfile.TemporaryDirectory(dir="/dev/shm")


def _summarise_probes(probes: "List[Dict[str, Any]]", why: str) -> "tuple[str, str]":
    """Return one verdict on all probes, and its reason.

    `why` is the reason if a rank ended early.
    """
    if why:
        return "ERROR", why
    modes = [mode for probe in probes for mode in probe["modes"].values()]
    for verdict in ("ERROR", "DRIFT", "IDENTICAL", "SKIPPED"):
        for mode in modes:
            if mode["verdict"] == verdict:
                return verdict, str(mode["why"])
    return "ERROR", "no rank told anything"


def _control(device: str, launches: "List[Dict[str, Any]]", why: str) -> "Dict[str, Any]":
    """Judge the sum in order of arrival.

    It shows that the order of a sum is visible.
    """
    lost = {"error": why or "no rank told it"}
    modes = {
        mode: judge([launch["controls"].get(mode, lost) for launch in launches], "none", ())
        for mode in ("default", "cured")
    }
    return controlled.entry(ranks.CONTROL, device, modes)


def _launch(
    ask: "Dict[str, Any]", command: "List[str]", backend: str, world: int, folder: str
) -> "Dict[str, Any]":
    """Run all ranks once, and return their results.

    The result is {"told": {probe: its results}, "controls": {mode: its results}, "absent": why torch has no
    collectives, "why": why a rank ended early}.
    """
    os.mkdir(folder)
    environ = environ_for_ranks(ask["seed"])
    if backend == "nccl":
        environ.update(
            NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,TUNING", NCCL_DEBUG_FILE=folder + "/nccl-%p"
        )
    limit = min(ask["limit"], 120)
    task = {"task": "collective", "backend": backend, "world": world, "folder": folder, "limit": limit}
    task.update(rounds=2, repeats=3 if not ask["thorough"] else 50)

    def rank(number: int) -> "processes.ChildOutput":
        return processes.run_child([*command, json.dumps({**task, "rank": number})], environ, limit)

    with ThreadPoolExecutor(max_workers=world) as pool:
        answers = list(pool.map(rank, range(world)))
    whys = [(n, answer.said("no torch") or answer.why) for n, answer in enumerate(answers)]
    why = next((f"rank {n}: {text}" for n, text in whys if text), "")
    return {
        "told": _of_all(answers, "probe"),
        "controls": _of_all(answers, "control"),
        "absent": next((answer.said("absent") for answer in answers if answer.said("absent")), ""),
        "why": why,
    }


def environ_for_ranks(seed: int) -> "Dict[str, str]":
    """Return the environment of a rank.

    All ranks are on this machine, which may have only a network of its own.

    The image's variables on the network of its original machine are not valid here.
    """
    environ = environ_of("profile", seed)
    for name in list(environ):
        if name.startswith(("NCCL_IB_", "NCCL_NET")):
            del environ[name]
    environ.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo", TORCH_NCCL_ASYNC_ERROR_HANDLING="1")
    return environ


def _of_all(answers: "List[processes.ChildOutput]", key: str) -> "Dict[str, Dict[str, Any]]":
    """Return all ranks' results of each probe, or each control mode."""
    per_rank = [_group_by_name(answer, key) for answer in answers]
    names = dict.fromkeys(name for results in per_rank for name in results)
    return {name: _joined([results.get(name, []) for results in per_rank]) for name in names}


def _group_by_name(answer: "processes.ChildOutput", key: str) -> "Dict[str, List[Dict[str, Any]]]":
    """Return a rank's results of each probe, round by round."""
    results: "Dict[str, List[Dict[str, Any]]]" = {}
    for line in answer.lines:
        if key in line:
            results.setdefault(str(line[key]), []).append(line)
    return results


def _joined(results: "List[List[Dict[str, Any]]]") -> "Dict[str, Any]":
    """Join the results of all ranks and rounds.

    The digest of a run is that of the ranks' digests.
    """
    missing = next((n for n, lines in enumerate(results) if not lines), None)
    if missing is not None:
        return {"error": f"rank {missing} said nothing of it"}
    every = [line for lines in results for line in lines]
    failed = next((line for line in every if "error" in line), None)
    if failed is not None:
        return failed
    skipped = [line for line in every if "skipped" in line]
    if skipped:
        why = f"it could be run by one rank or in one round, and not in another: {skipped[0]['skipped']}"
        return skipped[0] if len(skipped) == len(every) else {"error": why}
    per_rank = [[digest for line in lines for digest in line.get("digests", ())] for lines in results]
    if len({len(digests) for digests in per_rank}) > 1:
        return {"error": "the ranks told unequal numbers of results"}
    runs = zip(*per_rank)  # noqa: B905  Python 3.8
    digests = [hashlib.sha256(" ".join(run).encode()).hexdigest() for run in runs]
    return {**every[0], "digests": digests}


def _probe(name: str, results: "List[Optional[Dict[str, Any]]]", why: str) -> "Dict[str, Any]":
    lines = [result if result is not None else {"error": why or "it was not run"} for result in results]
    facts = {key: next((line[key] for line in lines if line.get(key)), "") for key in ("dtype", "shape")}
    modes = {"strict": judge(lines, "none", ())}
    return {
        "name": name,
        "kind": "collectives",
        **facts,
        "informational": False,
        "documented": "none",
        "modes": modes,
    }


def algorithms(folder: str) -> "List[str]":
    """Return NCCL's algorithms and protocols, from its logs.

    The logs are below a directory.
    """
    matches = set()
    for above, _, names in os.walk(folder):
        for name in names:
            if name.startswith("nccl-"):
                with open(os.path.join(above, name), encoding="utf-8", errors="replace") as file:
                    matches.update(_TUNING.findall(file.read()))
    return sorted({f"{call} {_format_names(algorithm, _ALGORITHMS)} {_format_names(protocol, _PROTOCOLS)}"
                   for call, _, algorithm, protocol in matches})  # fmt: skip


def _format_names(word: str, names: "Any") -> str:
    return names[int(word)] if word.isdigit() and int(word) < len(names) else word
