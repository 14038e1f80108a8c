"""The component that a resumed run lost, from logs; and the words of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from reprobuild.errors import InconclusiveError
from reprobuild.trace.components import PROCESSES, REMEDIES, ResumeFindings, compare_resumed
from reprobuild.trace.containers import TracedContainers
from reprobuild.trace.log import read_logs
from reprobuild.trace.resume import check_resume
from reprobuild.trace.traced_run import ResumedRun, TracedRun, TraceSettings
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.container import WorkloadRun
from tests.tracing.test_divergence import digests, write

STEPS = 8
Step = list[dict[str, Any]]


def record(kind: str, name: str, value: object) -> dict[str, Any]:
    return {"kind": kind, "name": name, "outputs": digests(str(value))}


def step(number: int, **changes: object) -> Step:
    """Return the records of a step; each component has a value of its own unless a test changes it."""
    values = {
        name: f"{name}{number}"
        for name in ("input", "loss", "model", "optimizer", "scheduler", "scaler", "torch", "random")
    }
    values |= {name: str(value) for name, value in changes.items()}
    return [
        record("batch", "DataLoader", values["input"]), record("loss", "loss", values["loss"]),
        *(record("component", name, values[name]) for name in ("model", "optimizer", "scheduler", "scaler")),
        *(record("component", f"generator {name}", values[name]) for name in ("torch", "random")),
        record("parameters", "SGD", "x"),
    ]  # fmt: skip


WHOLE = [step(number) for number in range(STEPS)]
END: Step = [record("generator", "torch", "end")]  # the end of a process writes one more step


def compare(tmp_path: Path, stopped: Sequence[Step], resumed: Sequence[Step]) -> ResumeFindings:
    logs = [
        read_logs(write(tmp_path / name, steps))
        for name, steps in (("whole", [*WHOLE, END]), ("stopped", stopped), ("resumed", [*resumed, END]))
    ]
    return compare_resumed(*logs, 5)


def test_an_exact_resume(tmp_path: Path) -> None:
    findings = compare(tmp_path, WHOLE[:5], WHOLE[5:])
    assert findings == ResumeFindings(steps=STEPS, stopped=5, began=5, resumed=3)


def test_steps_may_be_made_again(tmp_path: Path) -> None:
    findings = compare(tmp_path, WHOLE[:5], WHOLE[4:])
    assert (findings.began, findings.difference) == (4, None)


@pytest.mark.parametrize(
    ("name", "component", "subject"),
    [
        ("model", "model", ""), ("optimizer", "optimizer", ""), ("scheduler", "scheduler", ""),
        ("scaler", "scaler", ""), ("torch", "generator", "torch"), ("random", "generator", "random"),
        ("input", "data order", ""), ("loss", "other state", ""),
    ],
)  # fmt: skip
@pytest.mark.parametrize("place", [5, 7])
def test_the_component_is_named(name: str, component: str, subject: str, place: int, tmp_path: Path) -> None:
    changes = {name: "x"} if component != "generator" else {name: "x", "loss": "x"}
    resumed = [step(number, **(changes if number >= place else {})) for number in range(5, STEPS)]
    difference = compare(tmp_path, WHOLE[:5], resumed).difference
    assert difference is not None
    assert (difference.step, difference.components[0], difference.subject) == (place, component, subject)
    assert len(difference.components) == len(changes)
    assert set(difference.components) | set(difference.same) == set(REMEDIES) - {"step counter"}


def test_the_first_of_several_is_the_cause(tmp_path: Path) -> None:
    resumed = [step(number, input="x", torch="x", loss="x") for number in range(5, STEPS)]
    difference = compare(tmp_path, WHOLE[:5], resumed).difference
    assert difference is not None
    assert difference.components == ("generator", "data order", "other state")


def test_batches_that_are_left_out_do_not_count(tmp_path: Path) -> None:
    skipped = [record("batch", "DataLoader", number) for number in range(5)]
    assert compare(tmp_path, WHOLE[:5], [skipped + WHOLE[5], *WHOLE[6:]]).difference is None


@pytest.mark.parametrize("steps", [2, 4])
def test_another_number_of_steps(steps: int, tmp_path: Path) -> None:
    resumed = [*WHOLE[5:], step(8), step(9)][:steps]
    difference = compare(tmp_path, WHOLE[:5], resumed).difference
    assert difference is not None
    assert (difference.components, difference.step) == (("step counter",), 5 + min(steps, 3))


def test_a_new_begin_and_a_model_that_was_not_loaded(tmp_path: Path) -> None:
    assert compare(tmp_path / "a", WHOLE[:5], WHOLE).began == 0
    resumed = [step(5, model="model0"), *WHOLE[6:]]
    findings = compare(tmp_path / "b", WHOLE[:5], resumed)
    assert findings.began == 5
    assert findings.difference is not None
    assert findings.difference.components == ("model",)


def test_a_stopped_run_that_differs_before_the_stop(tmp_path: Path) -> None:
    assert compare(tmp_path, [*WHOLE[:3], step(3, loss="x")], WHOLE[4:]).early


def test_no_step_is_left(tmp_path: Path) -> None:
    findings = compare(tmp_path, WHOLE[:5], [])
    assert (findings.resumed, findings.began) == (0, STEPS)


def test_a_generator_that_draws_for_nothing_does_not_count(tmp_path: Path) -> None:
    difference = compare(
        tmp_path, WHOLE[:5], [step(number, torch="x") for number in range(5, STEPS)]
    ).difference
    assert difference is not None
    assert not difference.counts


def test_a_generator_that_shuffles_later_is_the_cause(tmp_path: Path) -> None:
    resumed = [step(5, torch="x"), step(6, torch="x"), step(7, torch="x", input="x")]
    difference = compare(tmp_path, WHOLE[:5], resumed).difference
    assert difference is not None
    assert (difference.step, difference.later, difference.components) == (5, 7, ("generator", "data order"))
    assert "data order" not in difference.same


def test_a_model_that_stays_as_it_is(tmp_path: Path) -> None:
    """The rate is 0 in the first steps: each has the model of the first."""
    still = [step(number, **({"model": "model0"} if number < 4 else {})) for number in range(STEPS)]
    logs = [read_logs(write(tmp_path / name, steps)) for name, steps in (("a", still), ("b", still[:5]))]
    anew = read_logs(write(tmp_path / "c", still))
    assert compare_resumed(*logs, anew, 5).began == 0
    right = read_logs(write(tmp_path / "d", still[2:]))
    assert (compare_resumed(*logs, right, 5).began, compare_resumed(*logs, right, 5).difference) == (2, None)


def test_a_batch_that_was_read_ahead_does_not_count(tmp_path: Path) -> None:
    def no_input(number: int, *batch: object) -> Step:
        records = [each for each in step(number) if each["name"] not in ("input", "DataLoader")]
        return [*(record("batch", "DataLoader", value) for value in batch), *records]

    whole = [no_input(number, *([number] if number != 5 else [])) for number in range(STEPS)]
    resumed = [no_input(5, 4, 5), *whole[6:]]
    logs = [write(tmp_path / name, steps) for name, steps in (("a", whole), ("b", whole[:5]), ("c", resumed))]
    assert compare_resumed(*map(read_logs, logs), 5).difference is None
    wrong = write(tmp_path / "d", [resumed[0], no_input(6, "x"), whole[7]])
    difference = compare_resumed(*map(read_logs, (*logs[:2], wrong)), 5).difference
    assert difference is not None
    assert (difference.step, difference.components) == (6, ("data order",))


def test_a_step_that_a_scaler_left_out_before_the_checkpoint_does_not_count(tmp_path: Path) -> None:
    first = [record("component", "input", "first"), *WHOLE[5]]
    left_out = [record("component", "input", "overflow"), record("loss", "loss", "overflow"), *first]
    whole = [*WHOLE[:5], left_out, *WHOLE[6:]]
    logs = [
        write(tmp_path / name, steps)
        for name, steps in (("a", whole), ("b", whole[:5]), ("c", [first, *WHOLE[6:]]))
    ]
    assert compare_resumed(*map(read_logs, logs), 5).difference is None


def test_processes_without_steps_do_not_count(tmp_path: Path) -> None:
    helper: list[Step] = [[record("generator", "random", "x")]]
    for name, steps in (("whole", WHOLE), ("stopped", WHOLE[:5])):
        write(tmp_path / name, helper)
        write(tmp_path / name, [*steps, END, [record("mark", "last", "x")]], "main.2")
    write(tmp_path / "resumed", WHOLE[5:])
    findings = compare_resumed(*(read_logs(tmp_path / name) for name in ("whole", "stopped", "resumed")), 5)
    assert findings == ResumeFindings(steps=STEPS, stopped=5, began=5, resumed=3)


def test_many_steps_without_an_optimizer_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each one is looked at, in each process, so a program could make the comparison last for hours."""
    logs = read_logs(write(tmp_path / "whole", WHOLE))
    monkeypatch.setattr("reprobuild.trace.components._MOST_STEPS", STEPS - 1)
    with pytest.raises(InconclusiveError, match="made more than 7 steps") as caught:
        compare_resumed(logs, logs, logs, 5)
    assert caught.value.hint == "resume a shorter command"
    monkeypatch.undo()
    monkeypatch.setattr("reprobuild.trace.components._MOST_LOOKED", 30)
    for number in range(3):
        write(tmp_path / "whole", [[record("mark", "x", "y")]] * 10, f"helper.{number}")
    with pytest.raises(InconclusiveError, match="made more than 30 steps without an optimizer") as caught:
        compare_resumed(read_logs(tmp_path / "whole"), logs, logs, 5)
    assert caught.value.hint == "resume a command with fewer processes"


def test_a_workload_that_starts_itself_again_is_no_stop(tmp_path: Path) -> None:
    containers = _Containers(tmp_path, WHOLE[:5], [])
    write(tmp_path / "stopped", WHOLE[5:], "main.2")
    assert check(containers)[1:3] == (
        "inconclusive",
        "the workload started itself again after the stop: leave its loop or its option of restarts out",
    )  # fmt: skip


def test_steps_after_the_signal_are_not_compared(tmp_path: Path) -> None:
    stopped = [*WHOLE[:5], step(5, torch="x")]  # a handler draws, saves, and goes on for a step
    findings = compare(tmp_path, stopped, WHOLE[6:])
    assert (findings.early, findings.stopped, findings.began, findings.difference) == (False, 6, 6, None)


def _check_ranks(tmp_path: Path, stopped: Sequence[Step], resumed: Sequence[Step]) -> tuple[str, ...]:
    """Check an exact resume of one process, beside which another one makes these steps."""
    containers = _Containers(tmp_path, WHOLE[:5], WHOLE[5:])
    for name, steps in (("whole", WHOLE), ("stopped", stopped), ("resumed", resumed)):
        write(tmp_path / name, [*steps, END], "rank1")
    return check(containers)[1:]


def test_a_process_that_is_lost_is_a_difference(tmp_path: Path) -> None:
    assert _check_ranks(tmp_path / "exact", WHOLE[:5], WHOLE[5:])[0] == "identical"
    lost = (
        "drift", "step counter: the process rank1 made no step in the resumed run, and 3 were left", PROCESSES
    )  # fmt: skip
    assert _check_ranks(tmp_path / "lost", WHOLE[:5], []) == lost
    later = "step counter: the process rank1 made no step in the resumed run, and 8 were left"
    assert _check_ranks(tmp_path / "later", [], [])[:2] == ("drift", later)
    fewer = "step counter: the process rank1 made 2 steps in the resumed run, and 3 were left"
    assert _check_ranks(tmp_path / "fewer", WHOLE[:5], WHOLE[5:7]) == (
        "drift", fewer, REMEDIES["step counter"],
    )  # fmt: skip


def test_a_helper_that_had_made_its_steps_is_not_lost(tmp_path: Path) -> None:
    assert _check_ranks(tmp_path, WHOLE, [])[0] == "identical"


def test_a_further_process_is_a_difference(tmp_path: Path) -> None:
    containers = _Containers(tmp_path, WHOLE[:5], WHOLE[5:])
    write(tmp_path / "resumed", [[record("generator", "random", "x")]], "helper")
    assert check(containers)[1] == "identical"
    write(tmp_path / "resumed", WHOLE[5:], "rank1")
    assert check(containers)[1:] == (
        "drift", "step counter: the process rank1 made 3 steps in the resumed run, and 0 were left", PROCESSES,
    )  # fmt: skip


def test_files_decide_with_the_steps(tmp_path: Path) -> None:
    same = _Containers(tmp_path / "same", WHOLE[:5], WHOLE[5:])
    same.verdict = "inconclusive"
    assert check(same)[1:3] == ("inconclusive", "artefact x: 1 byte")
    alone = _Containers(
        tmp_path / "alone", WHOLE[:5], [step(number, torch="x") for number in range(5, STEPS)]
    )
    alone.verdict = "drift"
    assert check(alone)[1:3] == ("drift", "generator (torch) differs first, at step 5")


def test_a_workload_without_steps(tmp_path: Path) -> None:
    containers = _Containers(tmp_path, [], [])
    write(tmp_path / "whole2", [END])
    for path in (tmp_path / "whole2").iterdir():
        path.rename(tmp_path / "whole" / path.name)
    assert check(containers)[1] == "inconclusive"
    assert check(containers)[2].startswith(
        "the workload made no step of an optimizer of PyTorch: has it another"
    )


class _Containers:
    """Containers that leave what a test writes."""

    def __init__(self, folder: Path, stopped: Sequence[Step], resumed: Sequence[Step], code: int = 0) -> None:
        self.folder, self.code, self.verdict = folder, code, "identical"
        for name, steps in (("whole", [*WHOLE, END]), ("stopped", stopped), ("resumed", [*resumed, END])):
            write(folder / name, steps)

    def _run(self, name: str) -> TracedRun:
        outputs = WorkloadRun(code=0, folder=self.folder, index=None, tail="")
        return TracedRun(folder=self.folder / name, logs=read_logs(self.folder / name), outputs=outputs)

    def run(self, settings: TraceSettings, title: str) -> TracedRun:
        return self._run("whole")

    def run_resumed(self, stop: int, command: tuple[str, ...]) -> ResumedRun:
        stopped = read_logs(self.folder / "stopped")
        return ResumedRun(stopped=stopped, resumed=self._run("resumed"), code=self.code, tail="no disk")

    def compare_outputs(self, first: WorkloadRun, second: WorkloadRun) -> list[WorkComparison]:
        return [WorkComparison(name="artefact x", verdict=cast("Any", self.verdict), detail="1 byte")]


def check(containers: _Containers, stop: int = 5) -> tuple[str, ...]:
    answer = check_resume(cast("TracedContainers", containers), stop, ("true",))
    return (answer.name, answer.verdict, answer.detail, *answer.details)


def test_the_words_of_an_answer(tmp_path: Path) -> None:
    assert check(_Containers(tmp_path / "same", WHOLE[:5], WHOLE[5:])) == (
        "resume at step 5 of 8, after a stop at step 5", "identical",
        "3 steps after the stop have the same model, optimizer, generators and input",
    )  # fmt: skip
    resumed = [step(number, torch="x", loss="y") for number in range(5, STEPS)]
    assert check(_Containers(tmp_path / "generator", WHOLE[:5], resumed))[1:] == (
        "drift", "generator (torch) differs first, at step 5", REMEDIES["generator"],
        "also differ at this step: other state",
        "the same at this step: model, optimizer, scheduler, scaler, data order",
    )  # fmt: skip
    assert check(_Containers(tmp_path / "more", WHOLE[:5], [*WHOLE[5:], step(8)]))[1:] == (
        "drift", "step counter: the resumed run made 4 steps, and 3 were left", REMEDIES["step counter"],
    )  # fmt: skip
    token = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    named = [*step(5, loss="x"), record("component", f"generator {token}", "x")]
    assert token not in str(check(_Containers(tmp_path / "named", WHOLE[:5], [named, *WHOLE[6:]])))
    files = _Containers(tmp_path / "files", WHOLE[:5], WHOLE[5:])
    files.verdict = "drift"
    assert check(files)[1:3] == ("drift", "other state: the steps are the same, and artefact x: 1 byte")


@pytest.mark.parametrize(
    ("stopped", "resumed", "code", "stop", "verdict", "detail"),
    [
        (WHOLE, WHOLE[5:], 0, 8, "inconclusive", "the workload made 8 steps, and could not be stopped at step 8"),
        (WHOLE[:3], WHOLE[5:], 0, 5, "inconclusive", "the workload made 3 steps, and could not be stopped at step 5"),
        ([*WHOLE[:4], step(4, loss="x")], WHOLE[5:], 0, 5, "inconclusive", "two runs with one seed differ before the "),
        (WHOLE[:5], WHOLE, 0, 5, "inconclusive", "the resumed run began anew, and read no checkpoint: was one written"),
        (WHOLE[:5], [step(number, torch="x") for number in range(5, STEPS)], 0, 5, "identical",
         "3 steps after the stop have the same model, optimizer and input; the state of the generator torch differs, "),
        (WHOLE[:5], WHOLE[5:], 3, 5, "drift", "the resumed run fails with exit code 3"),
        (WHOLE[:5], [], 0, 5, "drift", "step counter: the resumed run made no step, and 3 were left"),
    ],
)  # fmt: skip
def test_answers_about_the_stop(
    stopped: Sequence[Step],
    resumed: Sequence[Step],
    code: int,
    stop: int,
    verdict: str,
    detail: str,
    tmp_path: Path,
) -> None:
    answer = check(_Containers(tmp_path, stopped, resumed, code), stop)
    assert answer[1] == verdict
    assert answer[2].startswith(detail)
