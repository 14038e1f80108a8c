"""Searches that are killed ten times, and two searches with one store."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from proof.bisection.differences import PROLOGUE, World, ordinary
from reprobuild.lock.file import write_lock

KILLS = 10
LONGEST = 2.0  # seconds until a kill
_GUILTY = ordinary("version", 1), ordinary("variable", 3)
# Each run leaves a line that identifies its mixture, and ends a moment later.
_SCRIPT = (
    f"{PROLOGUE}state = [v(f'v{{n:03}}') for n in range(4)], sorted(os.environ.items())\n"
    "import time; time.sleep(0.1)\nopen('/log/runs', 'a').write(repr(state) + chr(10))\n"
    f"sys.exit(int(({_GUILTY[0].test}) and ({_GUILTY[1].test})))\n"
)


def measure(world: World, work: Path) -> dict[str, Any]:
    """Return the facts of both cases."""
    differences = [*(ordinary("version", n) for n in range(4)), *(ordinary("variable", n) for n in range(12))]
    work.mkdir(parents=True, exist_ok=True)
    locks = [work / "a.lock", work / "b.lock"]
    for path, lock in zip(locks, world.pair(differences), strict=True):
        write_lock(lock, path)
    return {**_killed(world, locks, work), **_side_by_side(world, locks, work)}


def _killed(world: World, locks: list[Path], work: Path) -> dict[str, Any]:
    """Kill searches ten times in all; each search goes on until it ends, and another one begins."""
    rng = random.Random(KILLS)
    killed, again, runs = 0, 0, 0
    answers: list[list[str]] = []
    while killed < KILLS:
        mark, log = (
            f"{time.time_ns()}",
            _log(work / f"killed{len(answers)}"),
        )  # an earlier search is remembered
        while killed < KILLS:
            process = _start(world, locks, log, mark)
            try:
                process.communicate(timeout=1 + rng.random() * LONGEST)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                killed += 1
            else:
                break
        result = _finish(_start(world, locks, log, mark))
        counts = Counter((log / "runs").read_text().splitlines())
        again += sum(count - 1 for count in counts.values()) - 2  # A and B run twice
        runs += result["runs"]
        answers.append(result["names"])
    return {"kills": killed, "answers after kills": answers, "runs again": again, "runs": runs}


def _side_by_side(world: World, locks: list[Path], work: Path) -> dict[str, Any]:
    processes = [
        _start(world, locks, _log(work / name), name + f"{time.time_ns()}") for name in ("one", "two")
    ]
    return {"answers side by side": [_finish(process)["names"] for process in processes]}


def _log(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs").unlink(missing_ok=True)
    return folder


def _start(world: World, locks: list[Path], log: Path, mark: str) -> subprocess.Popen[bytes]:
    argv = [
        *(sys.executable, "-m", "reprobuild.cli", "bisect", *map(str, locks), "--json", "--offline"),
        *("--store", str(world.store.root), "--engine", "builtin", "-v", f"{log}:/log:rw"),
        *("--", "python", "-c", _SCRIPT, mark),
    ]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def _finish(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    result = json.loads(process.communicate()[0])
    names = sorted(result["differences"][number]["name"] for number in result["guilty"])
    return {"names": names, "runs": result["runs"]}


def held(found: dict[str, Any]) -> bool:
    """Return whether every search has the right answer, and at most the trials that were cut off ran again."""
    names = sorted(item.name for item in _GUILTY)
    return bool(
        found["kills"] == KILLS
        and all(answer == names for answer in found["answers after kills"])
        and found["answers side by side"] == [names, names]
        and found["runs again"] <= found["kills"]
    )
