"""Runs of a workload under disturbances: each changes its own part of a run, and is named if a result depends on it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from reprobuild.errors import UsageError
from reprobuild.verify.verdict import V, WorkComparison
from reprobuild.verify.workload.conditions import Conditions
from reprobuild.verify.workload.container import PROGRAMS, WorkloadRun
from reprobuild.verify.workload.disturbances import (
    AHEAD,
    DISTURBANCES,
    compare_disturbed,
    select_disturbances,
)
from reprobuild.verify.workload.run import compare_work
from reprobuild.verify.workload.work import Work
from reprobuild_runtime import disturbed
from reprobuild_runtime.artefacts import disturb
from tests.conftest import ROOT, Built, reprobuild
from tests.verify.samples import PreparedEngine, done

FOLDER = Path(__file__).parent / "disturbed"
NEAR = ("load", "memory")  # other programs of the machine can do the same where a container sees them


def copy(built: Built, folder: Path) -> Path:
    """Return a copy of the output directory without a verdict, so that a part of a check writes one."""
    out = built.copy(folder / "out")
    (out / "verdict.json").unlink()
    return out


def verify(built: Built, out: Path, line: str, *words: object) -> CompletedProcess[str]:
    work = ("--runs", "2", "--workload", line, "-v", f"{FOLDER}:/scripts")
    return reprobuild("verify", out, "--store", built.store, "--only", "workload", *work, *words)


def answers(out: Path) -> dict[str, WorkComparison]:
    found = json.loads((out / "verdict.json").read_text())["comparisons"]
    return {
        each["name"].removeprefix("disturbance "): each for each in found if each["condition"] == "disturbed"
    }


def test_host_and_image_have_the_same_names() -> None:
    assert tuple(DISTURBANCES) == tuple(disturb.DISTURBANCES)
    assert AHEAD == disturbed.AHEAD


QUICK = ("threads", "hash-seed", "clock")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in DISTURBANCES]
)
def test_each_disturbance_changes_its_own_part(name: str, built_example: Built, tmp_path: Path) -> None:
    out = copy(built_example, tmp_path)
    names = [*(other for other in DISTURBANCES if other != name), name]  # the first file that differs is told
    files = [word for other in names for word in ("--output-file", f"{{out}}/{other}.json")]
    done = verify(built_example, out, "python /scripts/facts.py {out}", *files, "--disturb", name)
    assert done.returncode == 8, done.stderr
    assert f"your work once more, {DISTURBANCES[name]}\n" in done.stderr
    (answer,) = answers(out).values()
    assert answer["verdict"] == "drift"
    assert answer["detail"].startswith(
        f"two such runs are the same, so the result depends on the disturbance: artefact {{out}}/{name}.json: "
    ), answer
    assert f"  disturbance {name}: drift: two such runs are the same" in done.stdout
    assert json.loads((out / "verdict.json").read_text())["trace"] is None  # no run drifts without it


def test_a_result_that_depends_on_nothing(built_example: Built, tmp_path: Path) -> None:
    out = copy(built_example, tmp_path)
    done = verify(
        built_example, out, "python -c 'print(1)' >{out}/a", "--output-file", "{out}/a", "--disturb", "all"
    )
    assert done.returncode == 0, done.stderr
    assert {name: answer["verdict"] for name, answer in answers(out).items()} == dict.fromkeys(
        DISTURBANCES, "identical"
    )
    assert "your work: 8 of 8 comparisons identical\n" in done.stdout
    assert "(your work, 2 runs and 7 disturbed)" in done.stdout
    again = verify(built_example, out, "python -c 'print(1)' >{out}/a", "--output-file", "{out}/a")
    assert again.returncode == 0, again.stderr


def test_a_result_that_drifts_under_a_disturbance_alone(built_example: Built, tmp_path: Path) -> None:
    out = copy(built_example, tmp_path)
    line = "[ $OMP_NUM_THREADS != 1 ] && echo 1 >{out}/a || cat /proc/sys/kernel/random/uuid >{out}/a"
    done = verify(
        built_example, out, line, "--output-file", "{out}/a", "--disturb", "threads", "--disturb", "load"
    )
    assert done.returncode == 8, done.stderr
    found = answers(out)
    assert found["threads"]["detail"].startswith(
        "two such runs differ, too, so the result drifts: artefact {out}/a: "
    )
    assert found["load"]["verdict"] == "identical"


def test_a_drift_without_a_disturbance(built_example: Built, tmp_path: Path) -> None:
    out = copy(built_example, tmp_path)
    line = "cat /proc/sys/kernel/random/uuid >{out}/a"
    words = ("--output-file", "{out}/a", "--trace", "off", "--disturb", "load")
    done = verify(built_example, out, line, *words)
    assert done.returncode == 8, done.stderr
    assert "it runs under no disturbance\n" in done.stderr
    assert not answers(out)


def test_one_processor_cannot_be_halved(built_example: Built, tmp_path: Path) -> None:
    out = copy(built_example, tmp_path)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # the containers of the built-in engine inherit it
    try:
        words = ("--output-file", "{out}/a", "--disturb", "processors", "--engine", "builtin")
        done = verify(built_example, out, "echo 1 >{out}/a", *words)
    finally:
        os.sched_setaffinity(0, allowed)
    assert done.returncode == 0, done.stderr
    assert answers(out)["processors"]["verdict"] == "not-applicable"
    assert "your work: 1 of 1 comparisons identical\n" in done.stdout
    assert "  disturbance processors: not-applicable: the container has one processor\n" in done.stdout


def test_no_helper_outlives_the_command() -> None:
    """They end with it, and the command has no child that it did not start."""
    code = "import os\ntry: os.waitpid(-1, 0)\nexcept ChildProcessError: print(os.getpid())"
    program = ROOT / "reprobuild_runtime" / "artefacts" / "disturb.py"
    for name in NEAR:
        argv = [sys.executable, "-I", "-S", program, name, "--", sys.executable, "-c", code]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=True)
        assert int(done.stdout)
        assert not done.stderr
    for path in Path("/proc").glob("[1-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended
            assert f"{program}\0load".encode() not in path.read_bytes()


@pytest.mark.parametrize("version", [sys.executable])
def test_dates_of_another_day_are_ordinary(version: str) -> None:
    code = """
import datetime, pickle, time
moment = datetime.datetime.now()
values = [moment, moment.date(), datetime.datetime.min, datetime.date.today()]
assert pickle.loads(pickle.dumps(values)) == values
assert repr(moment).startswith("datetime.datetime(") and repr(moment.date()).startswith("datetime.date(")
assert isinstance(moment, datetime.date) and isinstance(datetime.datetime.max, datetime.datetime)
assert not isinstance(moment.date(), datetime.datetime)
assert abs(moment.timestamp() - time.time()) < 5
assert time.strftime("%Y", time.gmtime(0)) == "1970"
print(time.time())
"""
    env = {**os.environ, disturbed.VARIABLE: disturbed.CLOCK, "PYTHONPATH": str(ROOT)}
    begin = "from reprobuild_runtime import disturbed; disturbed.begin()\n"
    done = subprocess.run([version, "-c", begin + code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    now = subprocess.run(["date", "+%s"], capture_output=True, text=True, check=True).stdout
    assert abs(float(done.stdout) - AHEAD - float(now)) < 60


def test_a_disturbance_needs_a_workload(built_example: Built, tmp_path: Path) -> None:
    out = copy(built_example, tmp_path)
    done = reprobuild(
        "verify", out, "--store", built_example.store, "--only", "round-trip", "--disturb", "load"
    )
    assert done.returncode == 2
    assert "error: --disturb is given, and there is no workload to disturb\n" in done.stderr
    assert "--workload 'python train.py --steps 20'" in done.stderr


def test_names_of_disturbances() -> None:
    assert select_disturbances(["clock", "load"]) == ("load", "clock")
    assert select_disturbances(["all", "load"]) == tuple(DISTURBANCES)
    with pytest.raises(UsageError) as caught:
        select_disturbances(["laod"])
    assert str(caught.value) == "'laod' is no disturbance"
    assert caught.value.hint == f"they are: {', '.join(('all', *DISTURBANCES))}"


def test_an_image_without_disturbances(tmp_path: Path) -> None:
    tail = f"python: can't open file '{PROGRAMS}/disturb.py': [Errno 2] No such file or directory"

    def run(before: object) -> WorkloadRun:
        (folder := tmp_path / "run").mkdir()
        return WorkloadRun(code=2, folder=folder, index=None, tail=tail)

    def compare(first: WorkloadRun, second: WorkloadRun) -> list[WorkComparison]:
        raise AssertionError("no run to compare")

    first = WorkloadRun(code=0, folder=tmp_path, index=None, tail="")
    (answer,) = compare_disturbed(["load"], first, run, run, compare, lambda _: None)
    assert (answer.name, answer.verdict, answer.condition) == (
        "disturbance load",
        "inconclusive",
        "disturbed",
    )
    assert "build it again from its lock" in answer.detail


SAID = "reprobuild: not possible: the container has one processor"


@pytest.mark.parametrize(
    ("probed", "verdict", "detail"),
    [
        ((125, SAID), "not-applicable", "the container has one processor"),
        ((125, "what else"), "drift", "exit code: 0 and 125"),
        ((0, SAID), "drift", "exit code: 0 and 125"),
        ((1, SAID), "drift", "exit code: 0 and 125"),
    ],
)
def test_the_workload_cannot_say_that_its_disturbance_is_not_possible(
    probed: tuple[int, str], verdict: str, detail: str, tmp_path: Path
) -> None:
    probes: list[Sequence[str]] = []

    def make(code: int, tail: str) -> WorkloadRun:
        return WorkloadRun(code=code, folder=Path(tempfile.mkdtemp(dir=tmp_path)), index=None, tail=tail)

    def probe(before: Sequence[str]) -> WorkloadRun:
        probes.append(before)
        return make(*probed)

    def compare(first: WorkloadRun, second: WorkloadRun) -> list[WorkComparison]:
        codes = first.code, second.code
        equal: V = "identical" if codes[0] == codes[1] else "drift"
        return [WorkComparison(name="exit code", verdict=equal, detail="{} and {}".format(*codes))]

    def run(_: Sequence[str]) -> WorkloadRun:
        return make(125, SAID)

    (answer,) = compare_disturbed(["processors"], make(0, ""), run, probe, compare, lambda _: None)
    assert answer.verdict == verdict
    assert answer.detail.endswith(detail)
    assert [before[-2:] for before in probes] == [["processors", "--"]]
    assert len(list(tmp_path.iterdir())) == 1  # that of the first run


def test_the_probe_of_a_disturbance_has_no_word_and_no_mount_of_the_workload() -> None:
    sound = done(**{"model.pt": b"one"})
    same = {"name": "/reprobuild-out/model.pt", "verdict": "identical"}
    conditions = Conditions(variables={"OMP_NUM_THREADS": "1"}, volumes=(("/data", "/data"),))
    work = Work(
        command=("train",), artefacts=("{out}/model.pt",), text="train", disturbances=("load",), conditions=conditions
    )  # fmt: skip
    failed = done(code=125, stderr=SAID.encode())
    workload = [sound, sound, failed, failed]
    engine = PreparedEngine({"workload": workload, "compare": [done({"ran": True, "files": [same]})]})
    (_, answer) = compare_work(work, 7, "image:1", engine, {}).comparisons
    assert (answer.verdict, answer.detail) == ("not-applicable", "the container has one processor")
    *_, (_, probe) = engine.tasks
    assert "train" not in probe.arguments
    assert probe.arguments[-8:-5] == (f"{PROGRAMS}/disturb.py", "load", "--")
    assert (probe.volumes, probe.environment["OMP_NUM_THREADS"]) == ((), "1")
