"""`verify` looks for the cause of a drifting workload."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from reprobuild.api.context import open_context
from reprobuild.engines.model import Engine
from reprobuild.errors import InconclusiveError, UsageError
from reprobuild.pipeline.drift_trace import LONGEST, make_trace, summarise
from reprobuild.pipeline.recorded_work import RecordedWork
from reprobuild.pipeline.verify_options import VerifyOptions
from reprobuild.report.determinism import verdict_lines
from reprobuild.report.drift_trace import trace_lines
from reprobuild.trace.cause import DriftCause
from reprobuild.trace.rounds import Findings
from reprobuild.verify.verdict import DriftTrace, Verdict, WorkComparison
from reprobuild.verify.workload.conditions import WorkRecord
from reprobuild.verify.workload.run import ComparedWork
from reprobuild.verify.workload.work import Work
from tests.conftest import Built, reprobuild
from tests.determinism.planted import FAULTS_FOLDER
from tests.verify.samples import make_verdict

LINE = "uuid_split.py:7  train = [number for number in range(64) if uuid.uuid4().int % 5]"
WORK = Work(command=("python", "fit.py"), artefacts=("weights.json",), text="python fit.py")
CAUSE = DriftCause(kind="kernel", subject="aten.sum", place="fit.py:3", reason="r", remedy="m", cure="strict")


def verify(built: Built, out: Path, line: str, *words: object) -> Any:
    work = ("--workload", line, "--output-file", "weights.json", "-v", f"{FAULTS_FOLDER}:/scripts")
    return reprobuild("verify", out, "--store", built.store, "--only", "workload", *work, *words)


def test_the_cause_is_in_answer_certificate_and_report(built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    done = verify(built_example, out, "python /scripts/uuid_split.py")
    assert done.returncode == 8, done.stderr
    assert "your work drifts: runs with a recorder look for the cause\n" in done.stderr
    assert (
        "  where the runs part:\n    cause   random numbers of the operating system (generator)"
        in done.stdout
    )
    assert f"    place   /scripts/{LINE}\n" in done.stdout
    assert "find where it drifts" not in done.stdout
    found = json.loads((out / "verdict.json").read_text())["trace"]
    assert (found["kind"], found["place"]) == ("generator", f"/scripts/{LINE}")
    assert found["runs"] >= 3
    page = (out / "report.html").read_text()
    assert "<h3>Where the runs part</h3>" in page
    assert "Your work drifts by random numbers of the operating system (generator)." in page


def test_a_trace_that_is_off(built_example: Built, tmp_path: Path) -> None:
    """The report then ends with the command that finds the place."""
    out = built_example.copy(tmp_path / "out")
    done = verify(built_example, out, "python /scripts/uuid_split.py", "--trace", "off")
    assert done.returncode == 8, done.stderr
    assert "find where it drifts: reprobuild trace" in done.stdout
    assert json.loads((out / "verdict.json").read_text())["trace"] is None


def test_a_workload_without_python_keeps_its_answer(built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    done = verify(built_example, out, "head -c 9 /dev/urandom | od >weights.json", "--json")
    assert done.returncode == 8, done.stderr
    work = json.loads(done.stdout)["verdict"]["work"]
    assert [each["verdict"] for each in work["artefacts"]] == ["drift"]
    assert "left no record: no process of it is Python's" in work["trace"]["why"]
    assert work["trace"]["kind"] == ""


FORGED = """
import os
open("weights.json", "w").write(os.urandom(8).hex())
if os.environ.get("REPROBUILD_TRACE"):
    os.makedirs("/tmp/reprobuild-trace", exist_ok=True)
    open("/tmp/reprobuild-trace/a.records", "w").write("{}")
    os.link("/tmp/reprobuild-trace/a.records", "/tmp/reprobuild-trace/b.records")
"""


def test_a_workload_that_forges_its_logs_keeps_its_answer(built_example: Built, tmp_path: Path) -> None:
    out = built_example.copy(tmp_path / "out")
    done = verify(built_example, out, f"python -c {shlex.quote(FORGED)}", "--json")
    assert done.returncode == 8, done.stderr
    work = json.loads(done.stdout)["verdict"]["work"]
    assert [each["verdict"] for each in work["artefacts"]] == ["drift"]
    assert work["trace"]["why"] == "the log b.records is not valid: it is a file that has another name, too"
    assert json.loads((out / "verdict.json").read_text())["determinism"]["cpu"] == "drift"


def test_a_long_run_is_traced_on_request(tmp_path: Path) -> None:
    said: list[str] = []
    context = msgspec.structs.replace(open_context(tmp_path, offline=True, caches=False), say=said.append)
    long = ComparedWork(comparisons=[], runs=2, seconds=LONGEST + 1)
    auto = make(context, "auto")
    assert auto is not None
    assert auto("", long) is None
    assert said == ["your work drifts; one run took 61 s, so its cause is looked for with --trace on"]
    requested = make(context, "on")
    assert requested is not None
    answer = requested("", long)
    assert answer is not None
    assert answer.why == "the engine is asked"
    assert make(context, "off") is None


def make(context: Any, mode: str) -> Any:
    """Return the function of a mode; its engine refuses each task."""

    class _Engine:
        def run(self, *_: object) -> None:
            raise InconclusiveError("the engine is asked")

    engine = cast("Engine", _Engine())  # only `run` is called
    recorded = RecordedWork(
        work=WORK, seed=1, context=context, engine=engine, name="name", wrap=contextlib.nullcontext
    )
    return make_trace(recorded, mode)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(UsageError, match="VerifyOptions: trace: 'always' is no mode of a trace") as failed:
        VerifyOptions(trace="always")
    assert failed.value.hint == "the modes are: auto, on, off"
    for mode in failed.value.hint.removeprefix("the modes are: ").split(", "):
        assert VerifyOptions(trace=mode).trace == mode


def test_findings_become_a_summary_without_secrets() -> None:
    same = Findings(steps=3, processes=1, runs=2)
    assert summarise(same) == DriftTrace(runs=2, why="the runs with the recorder had no difference")
    unknown = Findings(steps=3, processes=1, runs=6, differs=True)
    assert summarise(unknown).why == "no line of the program differs before the result does"
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    leaking = msgspec.structs.replace(CAUSE, text=f'token = "{secret}"')
    found = summarise(Findings(steps=3, processes=1, runs=9, differs=True, cause=leaking, cured=True))
    assert secret not in repr(found)
    assert found.place.startswith("fit.py:3  ")
    assert found.tested == "with the profile strict, two runs are the same"


def test_the_seed_of_equal_runs_is_named() -> None:
    """The order of hashes begins with it, too, unless the user gave another value."""
    same = WorkComparison(name="artefact weights.json", verdict="identical", detail="x")
    for variables, words in (({}, ", also for the order of hashes"), ({"PYTHONHASHSEED": "random"}, "")):
        work = WorkRecord(command="python fit.py", seed=7, variables=variables)
        lines = verdict_lines(make_verdict(work=work, comparisons=(same,)))
        assert f"  each run had the seed 7{words}" in lines


def test_the_lines_of_a_verdict() -> None:
    comparison = WorkComparison(name="artefact weights.json", verdict="drift", detail="x")
    work = WorkRecord(command="python fit.py", seed=7)
    verdict: Verdict = make_verdict(cpu="drift", work=work, comparisons=(comparison,))
    named = msgspec.structs.replace(
        verdict, trace=DriftTrace(runs=7, kind="kernel", subject="aten.sum\x1b", place="fit.py:3")
    )
    assert trace_lines(named, Path("out")) == []
    lines = verdict_lines(named)
    assert lines[lines.index("  where the runs part:") + 1 :][:2] == [
        "    cause  aten.sum\\x1b (kernel)",
        "    place  fit.py:3",
    ]
    unnamed = msgspec.structs.replace(verdict, trace=DriftTrace(why="no record"))
    assert len(trace_lines(unnamed, Path("out"))) == 1
    assert "    cause  not found: no record" in verdict_lines(unnamed)
