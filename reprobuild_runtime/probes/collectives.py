"""Collectives over all GPUs with NCCL, or between two processes with gloo: are their sums the same each time?"""

import hashlib
import json
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor

from reprobuild_runtime.probes import processes
from reprobuild_runtime.probes.gather import environ_of
from reprobuild_runtime.probes.judge import judge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

ONE_GPU = "one GPU: not covered"
# What NCCL's tuning says of each call, by name or by number (src/include/nccl_common.h).
_TUNING = re.compile(r"(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+)")
_ALGORITHMS = ("TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT")
_PROTOCOLS = ("LL", "LL128", "SIMPLE")


def run(ask: "Dict[str, Any]", command: "List[str]", gpus: int) -> "Dict[str, Any]":
    """Return the document's part on collectives."""
    backend = "nccl" if ask["device"] == "cuda" else "gloo"
    world = gpus if backend == "nccl" else 2
    found: "Dict[str, Any]" = {
        "verdict": "SKIPPED",
        "why": "",
        "backend": backend,
        "world": world,
        "probes": [],
    }
    if world < 2:
        return {**found, "why": ONE_GPU}
    with tempfile.TemporaryDirectory() as folder:
        launches = [_launch(ask, command, backend, world, os.path.join(folder, str(n))) for n in range(2)]
        found["algorithms"] = algorithms(folder)
    why = next((each["why"] for each in launches if each["why"]), "")
    names = list(dict.fromkeys(name for each in launches for name in each["told"]))
    found["probes"] = [_probe(name, [each["told"].get(name) for each in launches], why) for name in names]
    verdicts = {mode["verdict"] for each in found["probes"] for mode in each["modes"].values()}
    worst = next((name for name in ("ERROR", "DRIFT", "IDENTICAL", "SKIPPED") if name in verdicts), "ERROR")
    found["verdict"] = "ERROR" if why else worst
    found["why"] = why or next(
        (
            mode["why"]
            for each in found["probes"]
            for mode in each["modes"].values()
            if mode["verdict"] == worst
        ),
        "",
    )
    return found


def _launch(
    ask: "Dict[str, Any]", command: "List[str]", backend: str, world: int, folder: str
) -> "Dict[str, Any]":
    """Run all ranks once; return {"told": {probe: what was told}, "why": why a rank ended early}."""
    os.mkdir(folder)
    environ = environ_of("profile", ask["seed"])
    # All ranks are on this machine, which may have no network but its own.
    environ.update(GLOO_SOCKET_IFNAME="lo", TORCH_NCCL_ASYNC_ERROR_HANDLING="1")
    environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    if backend == "nccl":
        environ.update(
            NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="INIT,TUNING", NCCL_DEBUG_FILE=folder + "/nccl-%p"
        )
    limit = min(ask["limit"], 120)
    task = {"task": "collective", "backend": backend, "world": world, "folder": folder, "limit": limit}
    task.update(rounds=2, repeats=3 if not ask["thorough"] else 50)

    def rank(number: int) -> "processes.Answer":
        return processes.listen([*command, json.dumps({**task, "rank": number})], environ, limit)

    with ThreadPoolExecutor(max_workers=world) as pool:
        answers = list(pool.map(rank, range(world)))
    whys = [(n, each.said("no torch") or each.why) for n, each in enumerate(answers)]
    why = next((f"rank {n}: {text}" for n, text in whys if text), "")
    per_rank = [_by_name(each) for each in answers]
    return {
        "told": {name: _joined([each.get(name) for each in per_rank]) for name in per_rank[0]},
        "why": why,
    }


def _by_name(answer: "processes.Answer") -> "Dict[str, Dict[str, Any]]":
    """Return what a rank told of each probe, its rounds put together."""
    found: "Dict[str, Dict[str, Any]]" = {}
    for line in answer.lines:
        if "probe" in line:
            before = found.setdefault(str(line["probe"]), {**line, "digests": []})
            before["digests"] = before["digests"] + line.get("digests", [])
    return found


def _joined(told: "List[Optional[Dict[str, Any]]]") -> "Dict[str, Any]":
    """Return what all ranks told as one: the digest of a run is that of the ranks' digests."""
    missing = next((n for n, each in enumerate(told) if each is None), None)
    if missing is not None:
        return {"error": f"rank {missing} said nothing of it"}
    there = [each for each in told if each is not None]
    fault = next((each for each in there if "error" in each or "skipped" in each), None)
    if fault is not None:
        return fault
    runs = zip(*(each["digests"] for each in there))  # noqa: B905  Python 3.8
    digests = [hashlib.sha256(" ".join(run).encode()).hexdigest() for run in runs]
    return {**there[0], "digests": digests}


def _probe(name: str, told: "List[Optional[Dict[str, Any]]]", why: str) -> "Dict[str, Any]":
    lines = [each if each is not None else {"error": why or "it was not run"} for each in told]
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
    """Return which algorithms and protocols NCCL says that it used, from its logs below a folder."""
    found = set()
    for above, _, names in os.walk(folder):
        for name in names:
            if name.startswith("nccl-"):
                with open(os.path.join(above, name), encoding="utf-8", errors="replace") as file:
                    found.update(_TUNING.findall(file.read()))
    return sorted({f"{call} {_named(algorithm, _ALGORITHMS)} {_named(protocol, _PROTOCOLS)}"
                   for call, _, algorithm, protocol in found})  # fmt: skip


def _named(word: str, names: "Any") -> str:
    return names[int(word)] if word.isdigit() and int(word) < len(names) else word
