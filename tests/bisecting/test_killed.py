"""The command: a search that is killed goes on, and two searches with one store do not disturb each other."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from reprobuild.lock.file import write_lock
from tests.bisecting.small import PROLOGUE, Bench
from tests.conftest import PROGRAM

# Each run leaves a line that identifies its mixture.
SCRIPT = (
    PROLOGUE + "versions = alpha, beta, delta, v('gamma'), v('epsilon')\n"
    "files = [(n, open('/src/tool/' + n).read()) for n in sorted(os.listdir('/src/tool'))]\n"
    "times = os.stat('/opt/env/bin').st_mtime\n"
    "line = repr((sys.argv[1], versions, files, sorted(os.environ.items()), os.getcwd(), times))\n"
    "open('/log/runs', 'a').write(line + chr(10))\n"
    "import time; time.sleep(0.2)\n"
    "sys.exit(alpha == 2 and omp == '4')\n"
)


def start(bench: Bench, folder: Path, mark: str = "") -> subprocess.Popen[str]:
    """Start a search; each trial writes into `folder`."""
    for name, lock in (("a.lock", bench.first), ("b.lock", bench.second)):
        if not (folder / name).exists():
            write_lock(lock, folder / name)
    (folder / "log").mkdir(exist_ok=True)
    return subprocess.Popen(
        [
            *PROGRAM, "bisect", str(folder / "a.lock"), str(folder / "b.lock"), "--json", "--store", str(bench.store),
            "--offline", "--engine", "builtin", "-v", f"{folder / 'log'}:/log:rw", "--", "python", "-c", SCRIPT, mark,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> dict[str, Any]:
    output, errors = process.communicate(timeout=600)
    assert process.returncode == 0, errors + output
    document: dict[str, Any] = json.loads(output)
    return document


def logged(folder: Path) -> list[str]:
    path = folder / "log" / "runs"
    return path.read_text().splitlines() if path.exists() else []


def guilty(document: dict[str, Any]) -> list[str]:
    return sorted(document["differences"][number]["name"] for number in document["guilty"])


@pytest.mark.skipif(sys.platform != "linux", reason="needs the built-in engine")
@pytest.mark.long
def test_a_killed_search_goes_on(bench: Bench, tmp_path: Path) -> None:
    mark = f"{time.time_ns()}"  # of this search: an earlier one is remembered
    for kill in (2, 5, 8):
        process = start(bench, tmp_path, mark)
        deadline = time.monotonic() + 300
        while len(logged(tmp_path)) < kill and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        process.communicate()
    document = finish(start(bench, tmp_path, mark))
    assert guilty(document) == ["OMP_NUM_THREADS", "alpha"]
    assert document["remembered"] >= 3
    runs = Counter(logged(tmp_path))
    sides = 2  # A and B run twice
    again = sum(max(0, count - 1) for count in runs.values()) - sides
    assert again <= 3  # only the trial that each kill cut off is run again


def test_two_searches_of_one_store(bench: Bench, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    processes = []
    for folder in folders:
        folder.mkdir()
        processes.append(start(bench, folder, f"{os.fspath(folder)}"))
    assert [guilty(finish(process)) for process in processes] == [["OMP_NUM_THREADS", "alpha"]] * 2
