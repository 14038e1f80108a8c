"""Whatever a child process does, the smoke test says what it was and goes on with the other probes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.probes import processes, run

# Speaks as child.py does, without torch: each probe of the mode gives the digest that it must, but one.
CHILD = """
import json, os, signal, sys, time
ask = json.loads(sys.argv[1])
def say(**line):
    print(json.dumps(line), flush=True)
if ask["task"] == "scout":
    say(start={{}}, fingerprint={{}}, cuda=False, gpus=0, comparator={{"order": True}},
        expectations={{"source": "", "deterministic": [], "refused": []}})
    say(done=True)
    sys.exit()
for name in ask["names"]:
    say(begin=name)
    if name == "layer_norm":
        {fault}
    say(probe=name, digests=["a" * 64] * ask["repeats"], milliseconds=[1.0], seconds=0.1)
say(done=True)
"""
NAMES = ["index_add", "layer_norm", "conv2d"]


def smoke(folder: Path, fault: str, **options: Any) -> dict[str, Any]:
    program = folder / "child.py"
    program.write_text(CHILD.format(fault=fault))
    ask = {"only": NAMES, "modes": ["strict"], "stress": False, "controls": False, "collectives": False}
    found = run.answer(json.dumps({**ask, **options}), child=[sys.executable, str(program)])
    assert found["ran"] is True
    return {probe["name"]: probe["modes"]["strict"] for probe in found["probes"]}


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "it died by SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "it died by SIGKILL, as for too much memory"),
        ("os._exit(3)", "it ended with exit code 3"),
        ("sys.exit()", "it ended before it was done"),
        ("print('Segmentation fault', flush=True)", "it said something that is no JSON object"),
        ("print('[' * 100000, flush=True)", "it said something that is no JSON object"),
        ("print('[1]', flush=True)", "it said something that is no JSON object"),
        (
            "sys.stdout.buffer.write(b'\\xff\\n'); sys.stdout.flush()",
            "it said something that is no JSON object",
        ),
        ("print('{{', end='', flush=True); os._exit(0)", "it said something that is no JSON object"),
        ("time.sleep(600)", "it was silent for 2 s and was killed"),
        ("say(failed='RuntimeError: CUDA error'); sys.exit()", "RuntimeError: CUDA error"),
    ],
)
def test_a_process_that_ends_early(tmp_path: Path, fault: str, why: str) -> None:
    found = smoke(tmp_path, fault.replace("{{", "{"), limit=2)
    assert found["layer_norm"]["verdict"] == "ERROR"
    assert found["layer_norm"]["why"] == f"the process: {why}"
    for name in ("index_add", "conv2d"):
        assert (found[name]["verdict"], found[name]["repeats"], found[name]["processes"]) == (
            "IDENTICAL",
            10,
            2,
        )


def test_a_process_that_answers_for_another_probe(tmp_path: Path) -> None:
    found = smoke(tmp_path, "say(probe='conv2d', digests=['b' * 64]); continue")
    assert found["layer_norm"]["verdict"] == "ERROR"
    assert (found["conv2d"]["verdict"], found["conv2d"]["digest"]) == ("IDENTICAL", "a" * 64)


def test_a_result_of_one_process_alone(tmp_path: Path) -> None:
    """The two processes agree with themselves, and not with each other."""
    found = smoke(tmp_path, "say(probe=name, digests=[str(os.getpid())] * 5); continue")
    assert (found["layer_norm"]["verdict"], found["layer_norm"]["distinct"]) == ("DRIFT", 2)
    assert found["index_add"]["verdict"] == "IDENTICAL"


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"import os, time\npid = os.fork()\nif not pid: time.sleep(600)\nopen({str(mark)!r}, 'w').write(str(pid))\n"
    answer = processes.listen([sys.executable, "-c", code + "time.sleep(600)"], {}, 2)
    assert answer.why == "it was silent for 2 s and was killed"
    state = Path(f"/proc/{mark.read_text()}/stat")
    assert not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    answer = processes.listen([str(tmp_path / "none")], {}, 2)
    assert answer.why.startswith("it could not be started: ")
