"""The program of the determinism tests: JSON in, JSON out.

It reads JSON options, prints one JSON document to standard output, and exits with 0.

    python /opt/reprobuild/lib/reprobuild_runtime/probes/run.py '{"device": "cpu", "seed": 7}'

This process only starts others and collects their output, so it answers even if torch fails. docs/probes.md has the
options and the document. Run it without `-I`, which would switch PYTHONHASHSEED off.
"""

# ruff: noqa: TID251  what the environment says is part of the answer

import json
import os
import sys
import time

_HERE = os.path.dirname(os.path.abspath(__file__))
if sys.path and os.path.abspath(sys.path[0]) == _HERE:  # run by its path: our file names must hide no module
    del sys.path[0]
if os.path.dirname(os.path.dirname(_HERE)) not in sys.path:
    sys.path.insert(0, os.path.dirname(os.path.dirname(_HERE)))

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

FORMAT = 2


def answer(text: str, child: "Optional[List[str]]" = None) -> "Dict[str, Any]":
    """Return the document for these options, with any error.

    Args:
        child: the command of a child process; `child.py` with this interpreter otherwise.
    """
    from reprobuild_runtime.probes import options, processes

    began = time.monotonic()
    document: "Dict[str, Any]" = {"format": FORMAT, "ran": False, "why": ""}
    try:
        ask = options.read(text)
    except (ValueError, RecursionError) as err:
        return {**document, "why": f"options: {err}"}
    from concurrent.futures import ThreadPoolExecutor
    from threading import Event

    from reprobuild_runtime.probes import gather

    command, halt = child or processes.CHILDREN[ask["subject"]], Event()
    with ThreadPoolExecutor(1) as pool:
        # The probes begin while the scout imports. A GPU would be shared, so there the scout ends first.
        early = pool.submit(gather.gather, ask, command, halt) if ask["device"] == "cpu" else None
        task = json.dumps({"task": "scout", "device": ask["device"]})
        scout = processes.run_child([*command, task], _scout_environ(), ask["limit"])
        document.update(_first_facts(ask, scout))
        if document["why"]:
            halt.set()
            return {**document, "seconds": round(time.monotonic() - began, 3)}
        ran = early.result() if early else gather.gather(ask, command, halt)
    document.update(ran=True, expectations=scout.said("expectations"), comparator=scout.said("comparator"))
    document.update(gather.summarise(ask, ran, document["expectations"]))
    document["controls"] = _controls(ask, command) if ask["controls"] else []
    gpus = int(scout.said("gpus") or 0)
    document["collectives"] = _collectives(ask, command, gpus) if ask["collectives"] else None
    document["seconds"] = round(time.monotonic() - began, 3)
    return document


def _first_facts(ask: "Dict[str, Any]", scout: "Any") -> "Dict[str, Any]":
    """Return the document's first part, with the reason if nothing can be probed."""
    from reprobuild_runtime.fingerprint import fingerprint
    from reprobuild_runtime.probes import start

    library = "numpy" if ask["subject"] == "arrays" else "torch"
    why = scout.absent or (f"the process that imports {library}: {scout.why}" if scout.why else "")
    if not why and ask["device"] == "cuda" and not scout.said("cuda"):
        why = "torch sees no CUDA device"
    return {
        "options": ask, "device": ask["device"], "why": why,
        "start": scout.said("start") or start.start(numpy=library == "torch"),
        "fingerprint": scout.said("fingerprint") or fingerprint(),
    }  # fmt: skip


def _controls(ask: "Dict[str, Any]", command: "List[str]") -> "List[Dict[str, Any]]":
    """Return the controls, or one with the reason for a failure.

    The probes are valid without them.
    """
    from reprobuild_runtime.probes import controlled

    try:
        return controlled.run(ask, command)
    except Exception as err:
        return [controlled.entry("controls", ask["device"], {}, f"{type(err).__name__}: {err}"[:2000])]


def _collectives(ask: "Dict[str, Any]", command: "List[str]", gpus: int) -> "Dict[str, Any]":
    """Return the collectives; ERROR with its reason after a failure."""
    from reprobuild_runtime.probes import collectives

    try:
        return collectives.run(ask, command, gpus)
    except Exception as err:
        return {"verdict": "ERROR", "why": f"{type(err).__name__}: {err}"[:2000], "probes": []}


def _scout_environ() -> "Dict[str, str]":
    """Return the environment without variables that strip documentation."""
    return {key: value for key, value in os.environ.items() if key != "PYTHONOPTIMIZE"}


def main(argv: "List[str]") -> int:
    """Print the document; always return 0.

    Other output goes to standard error.
    """
    text = argv[0] if argv else sys.stdin.read()
    sys.stdout.flush()
    data = os.dup(1)
    os.dup2(2, 1)
    try:
        document = answer(text)
    except Exception as err:  # a document in any case
        document = {"format": FORMAT, "ran": False, "why": f"{type(err).__name__}: {err}"}
    sys.stdout.flush()
    with os.fdopen(data, "w", encoding="utf-8") as file:
        file.write(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
