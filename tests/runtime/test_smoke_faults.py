"""Whatever a child process does, the determinism test says what it was and goes on with the other probes."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from reprobuild_runtime.probes import collectives, controlled, gather, processes, run, stress

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


def document(folder: Path, fault: str = "pass", **options: Any) -> dict[str, Any]:
    program = folder / "child.py"
    program.write_text(CHILD.format(fault=fault))
    ask = {"only": NAMES, "modes": ["strict"], "stress": False, "controls": False, "collectives": False}
    found = run.answer(json.dumps({**ask, **options}), child=[sys.executable, str(program)])
    assert found["ran"] is True
    return found


def smoke(folder: Path, fault: str, **options: Any) -> dict[str, Any]:
    found = document(folder, fault, **options)
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


def test_a_process_that_tells_no_result(tmp_path: Path) -> None:
    once = f"""if not os.path.exists({str(tmp_path / "mark")!r}):
            open({str(tmp_path / "mark")!r}, "w").close()
            say(probe=name)
            continue"""
    found = smoke(tmp_path, once)
    assert (found["layer_norm"]["verdict"], found["layer_norm"]["why"]) == ("ERROR", "no result")


def test_a_result_of_one_process_alone(tmp_path: Path) -> None:
    """The two processes agree with themselves, and not with each other."""
    found = smoke(tmp_path, "say(probe=name, digests=[str(os.getpid())] * 5); continue")
    assert (found["layer_norm"]["verdict"], found["layer_norm"]["distinct"]) == ("DRIFT", 2)
    assert found["index_add"]["verdict"] == "IDENTICAL"


def test_what_a_child_started_ends_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "pid"
    code = f"import os, time\npid = os.fork()\nif not pid: time.sleep(600)\nopen({str(mark)!r}, 'w').write(str(pid))\n"
    answer = processes.run_child([sys.executable, "-c", code + "time.sleep(600)"], {}, 0.4)
    assert answer.why == "it was silent for 2 s and was killed"
    with contextlib.suppress(
        FileNotFoundError, ProcessLookupError
    ):  # it is gone, also while its state is read
        for _ in range(100):  # the kernel ends a killed process when it next runs
            state = Path(f"/proc/{mark.read_text()}/stat").read_text()
            if state.rpartition(")")[2].split()[0] == "Z":
                return
            time.sleep(0.1)
        raise AssertionError("the child still runs")


def test_what_takes_long_is_named(tmp_path: Path) -> None:
    found = smoke(tmp_path, "pass", only=[])
    for name in ("compiled_gpt_block", "compiled_reduction", "compiled_flex_attention"):
        assert found[name]["verdict"] == "SKIPPED"
        assert found[name]["why"] == gather.NOT_ASKED["skipped"]
    assert found["layer_norm"]["verdict"] == "IDENTICAL"
    asked = smoke(tmp_path, "pass", only=[], compiled=True)
    for name in ("compiled_gpt_block", "compiled_reduction", "compiled_flex_attention"):
        assert asked[name]["verdict"] == "IDENTICAL"
    asked = smoke(tmp_path, "pass", only=["compiled_reduction"])
    assert list(asked) == ["compiled_reduction"]
    assert asked["compiled_reduction"]["verdict"] == "IDENTICAL"


def broken(*_arguments: object) -> None:
    raise FileNotFoundError(2, "No usable temporary directory")


def test_a_part_that_cannot_be_run_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controlled, "run", broken)
    monkeypatch.setattr(collectives, "run", broken)
    found = document(tmp_path, controls=True, collectives=True)
    assert {probe["modes"]["strict"]["verdict"] for probe in found["probes"]} == {"IDENTICAL"}
    assert [(each["verdict"], each["why"]) for each in found["controls"]] == [
        ("CONTROL-INEFFECTIVE", "FileNotFoundError: [Errno 2] No usable temporary directory")
    ]
    assert found["collectives"]["verdict"] == "ERROR"
    assert "No usable temporary directory" in found["collectives"]["why"]


def test_ranks_meet_where_nothing_but_shared_memory_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collectives.tempfile, "_candidate_tempdir_list", lambda: ["/proc/none"])
    monkeypatch.setattr(collectives.tempfile, "tempdir", None)
    with collectives._meeting_place() as folder:
        assert Path(folder).parent == Path("/dev/shm")


@pytest.mark.parametrize(
    ("code", "ran", "why"),
    [
        (stress.BUSY, True, ""),
        ("import sys; sys.exit(3)", False, "strict: it ended with exit code 3"),
        ("import os; os.kill(os.getpid(), 9)", False, "strict: it died by SIGKILL, as for too much memory"),
        ('print(\'{"failed": "out of memory"}\')', False, "strict: out of memory"),
        ("import time; time.sleep(60)", False, "strict: it had not begun when the other was done"),
    ],
)
def test_stress_that_ends_early_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, ran: bool, why: str
) -> None:
    monkeypatch.setattr(stress, "companion", lambda _device: [sys.executable, "-I", "-S", "-c", code, "1"])
    found = document(tmp_path, "time.sleep(0.5)", stress=True)
    assert found["stress"] == {"ran": ran, "why": why}


def test_stress_that_was_not_asked_for_is_not_told(tmp_path: Path) -> None:
    assert document(tmp_path)["stress"] is None


def test_a_stress_that_cannot_be_started(tmp_path: Path) -> None:
    assert processes.Companion([str(tmp_path / "none")], {}).end().startswith("it could not be started: ")


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    answer = processes.run_child([str(tmp_path / "none")], {}, 2)
    assert answer.why.startswith("it could not be started: ")
