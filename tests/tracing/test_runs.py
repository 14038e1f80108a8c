"""The runs of a trace with an engine that gives what a test writes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from reprobuild.context import RunContext
from reprobuild.engines.model import Engine, Finished, Task
from reprobuild.errors import EngineError, InconclusiveError
from reprobuild.infra.http.client import Net
from reprobuild.infra.progress import ignore_progress
from reprobuild.run.options import RunOptions
from reprobuild.run.run import prepare
from reprobuild.store.store import Store
from reprobuild.trace import rounds
from reprobuild.trace.containers import INSIDE, TracedContainers
from reprobuild.trace.log import ENTRY, read_logs
from reprobuild.trace.rounds import Findings, TraceSearch
from reprobuild.trace.traced_run import ComparedFiles, TracedRun, TraceSettings
from reprobuild.verify.workload.work import Work
from tests.tracing.test_divergence import digests, operation, write
from tests.verify.samples import make_lock


class _Engine:
    """An engine whose container leaves an index and logs."""

    NAME = "none"

    def __init__(self, folder: Path, index: Mapping[str, Any] | None, stderr: bytes = b"") -> None:
        self.folder, self.index, self.stderr = folder, index, stderr
        self.tasks: list[Task] = []

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        self.tasks.append(task)
        assert task.kept is not None
        files = []
        for number, path in enumerate(sorted(self.folder.iterdir())):
            (task.kept / str(number)).write_bytes(path.read_bytes())
            files.append(
                {
                    "pattern": INSIDE, "path": f"{INSIDE}/{path.name}", "kind": "file", "size": path.stat().st_size,
                    "stored": str(number), "written": True, "link": "",
                }
            )  # fmt: skip
        if self.index is not None:
            facts = {
                "code": 0,
                "began": 1.0,
                "ended": 2.0,
                "host": "h",
                "failed": "",
                "there": {},
                "others": [],
            }
            document = {**facts, "other": 0, "files": files, **self.index}
            (task.kept / "index.json").write_text(json.dumps(document))
        return Finished(code=0, stdout=b"", stderr=self.stderr)


def runs(engine: _Engine, tmp_path: Path) -> TracedContainers:
    work = Work(command=("python", "train.py"), artefacts=(), text="python train.py")
    context = RunContext(
        store=Store(tmp_path / "store"), net=Net(), env={}, folder=tmp_path, say=lambda _: None,
        progress=ignore_progress, now=0,
    )  # fmt: skip

    def make_task(words: tuple[str, ...]) -> Task:
        return prepare(make_lock(), words, RunOptions(seed=3), {}).task

    return TracedContainers(work, make_task, context, cast("Engine", engine), "image", "x+")


def test_the_options_reach_the_recorder(tmp_path: Path) -> None:
    engine = _Engine(write(tmp_path / "logs", [[operation("a", "b")]]), {})
    with runs(engine, tmp_path).open() as runner:
        run = runner.run(TraceSettings(first=2, last=3, profile="strict"), "steps")
        assert list(run.logs) == ["main"]
        assert len(run.logs["main"]) == 1
    environment = engine.tasks[0].environment
    values = json.loads(environment["REPROBUILD_TRACE"])
    assert (values["folder"], values["first"], values["last"], values["pattern"]) == (INSIDE, 2, 3, "x+")
    assert (environment["REPROBUILD_SEED"], environment["REPROBUILD_PROFILE"]) == ("3", "strict")


def test_a_name_that_is_no_log_is_left_out(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", [[operation("a", "b")]])
    (logs / "other.txt").write_text("x")
    (logs / "a b.steps").write_text("x")
    with runs(_Engine(logs, {}), tmp_path).open() as runner:
        run = runner.run(TraceSettings(), "steps")
        assert sorted(path.name for path in run.folder.iterdir()) == ["main.records", "main.steps"]


def test_two_names_of_one_log_are_refused(tmp_path: Path) -> None:
    """The files of a container are kept once; the answer on the other files stays."""
    logs = write(tmp_path / "logs", [[operation("a", "b")]])
    entry = {"pattern": INSIDE, "kind": "file", "size": 1, "stored": "0", "written": True, "link": ""}
    files = [{**entry, "path": f"{INSIDE}/{name}"} for name in ("main.records", "other.records")]
    pipe = {**entry, "kind": "fifo", "stored": "", "path": f"{INSIDE}/third.records"}
    with (
        runs(_Engine(logs, {"files": [pipe, *files]}), tmp_path).open() as runner,
        pytest.raises(
            InconclusiveError, match=r"the log other\.records is not valid: it is a file"
        ) as caught,
    ):
        runner.run(TraceSettings(), "steps")
    assert (
        caught.value.hint == "does the program write into the directory of the logs? Trace one that does not"
    )


def test_records_that_contradict_their_digests_are_refused(tmp_path: Path) -> None:
    """Two runs with other losses and one made-up chain would show no difference."""
    logs = write(tmp_path / "logs", [[operation("a", "b")], [operation("b", "c")]])
    records = logs / "main.records"
    records.write_bytes(records.read_bytes().replace(digests("c")[0].encode(), digests("d")[0].encode()))
    with (
        runs(_Engine(logs, {}), tmp_path).open() as runner,
        pytest.raises(InconclusiveError, match="the log of the process main is not valid") as caught,
    ):
        runner.run(TraceSettings(), "steps")
    assert caught.value.hint == "run the trace again; does the program write into the directory of the logs?"


def test_a_process_that_was_ended_in_a_step_has_its_whole_steps(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", [[operation("a", "b")], [operation("b", "c")]])
    index = logs / "main.steps"
    index.write_bytes(index.read_bytes()[: ENTRY.size])
    (logs / "main.records").write_bytes((logs / "main.records").read_bytes()[:-3])
    with runs(_Engine(logs, {}), tmp_path).open() as runner:
        assert len(runner.run(TraceSettings(), "steps").logs["main"]) == 1


def test_a_full_log_ends_before_the_step_that_it_cannot_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The recorder leaves out what is too much, and ends the step."""
    monkeypatch.setattr("reprobuild_runtime.trace.log.LARGEST", 600)
    monkeypatch.setattr("reprobuild.trace.log._FULL", 400)
    logs = write(tmp_path / "logs", [[operation("a", "b")], [operation("b", "c")] * 3])
    with runs(_Engine(logs, {}), tmp_path).open() as runner:
        assert len(runner.run(TraceSettings(), "steps").logs["main"]) == 1


@pytest.mark.parametrize(
    ("index", "why"),
    [(None, "the container left no list of its files"), ({"failed": "no space left"}, "no space left")],
)
def test_logs_that_cannot_be_had(index: Mapping[str, Any] | None, why: str, tmp_path: Path) -> None:
    engine = _Engine(write(tmp_path / "logs", [[operation("a", "b")]]), index)
    with (
        runs(engine, tmp_path).open() as runner,
        pytest.raises(EngineError, match=f"the logs of `python train.py` cannot be had: {why}") as caught,
    ):
        runner.run(TraceSettings(), "steps")
    assert (
        caught.value.hint == "was its disk full? Trace fewer steps, or let another engine run it (--engine)"
    )


def test_a_failing_command_shows_its_last_lines(tmp_path: Path) -> None:
    engine = _Engine(write(tmp_path / "logs", []), {"code": 3}, b"one\n\x1b[2Jtwo\n")
    with runs(engine, tmp_path).open() as runner, pytest.raises(InconclusiveError) as caught:
        runner.run(TraceSettings(), "steps")
    assert str(caught.value) == "`python train.py` fails with exit code 3 (steps):\none\n\\x1b[2Jtwo"
    assert caught.value.hint == "run it alone: `reprobuild run OUT -- python train.py`"


_NONE = ComparedFiles()


class _Runner:
    """A command whose operation has another result in each run, unless its files have no answer."""

    def __init__(self, folder: Path, name: str, files: ComparedFiles = _NONE) -> None:
        self.folder, self.name, self.files, self.count = folder, name, files, 0

    def run(self, settings: TraceSettings, title: str) -> TracedRun:
        self.count += 1
        result = "b" if self.files.unanswered else f"b{self.count}"
        loss = {"kind": "loss", "name": "loss", "outputs": digests(result)}
        folder = write(self.folder / f"{self.count}", [[operation("a", result, name=self.name), loss]])
        return TracedRun(folder=folder, logs=read_logs(folder))

    def compare_files(self, first: TracedRun, second: TracedRun) -> ComparedFiles:
        return self.files


class _Program:
    """A program whose operation gives another result every second time, in the runs that `varies` accepts."""

    def __init__(
        self, folder: Path, varies: Callable[[TraceSettings], bool], processes: int = 1, kind: str = "loss"
    ) -> None:
        self.folder, self.varies, self.processes, self.kind = folder, varies, processes, kind
        self.settings: list[TraceSettings] = []
        self.make: Callable[[TraceSettings, int], str] = self._vary
        self.order: Callable[[TraceSettings, int], int] = lambda settings, count: 0

    def _vary(self, settings: TraceSettings, count: int) -> str:
        return f"b{count % 2}" if self.varies(settings) else "b"

    def run(self, settings: TraceSettings, title: str) -> TracedRun:
        self.settings.append(settings)
        result = self.make(settings, len(self.settings))
        folder = self.folder / f"{len(self.settings)}"
        loss = {"kind": self.kind, "name": self.kind, "outputs": digests(result)}
        calls = [operation("a", result, name="op"), operation("a", "c", name="other")]
        if self.order(settings, len(self.settings)):
            calls.reverse()
        records = [*calls, loss] if settings.first <= settings.last else [loss]
        for number in range(self.processes):
            write(folder, [records] * 3, f"rank{number}")
        return TracedRun(folder=folder, logs=read_logs(folder))

    def compare_files(self, first: TracedRun, second: TracedRun) -> ComparedFiles:
        return ComparedFiles()


def always(settings: TraceSettings) -> bool:
    return True


def look(program: _Program, runs: int = 2) -> Findings:
    return TraceSearch(program, lambda _: None).find(runs)[0]


def test_a_short_command_is_named_in_three_runs(tmp_path: Path) -> None:
    program = _Program(tmp_path, always)
    findings = look(program)
    assert findings.divergence is not None
    assert (findings.divergence.record.name, findings.divergence.step) == ("op", 0)
    records = [(each.last >= each.first, each.lines) for each in program.settings]
    # The operation is repeated in a fourth run; the others test its cure.
    assert records[:4] == [(False, False), (True, True), (True, True), (True, False)]
    assert program.settings[3].replay is not None
    assert all(each.profile == "strict" for each in program.settings[4:])


def test_a_batch_comes_before_the_operations_that_made_it(tmp_path: Path) -> None:
    findings = look(_Program(tmp_path, always, kind="batch"))
    assert findings.divergence is not None
    assert findings.divergence.record.kind == "batch"
    assert findings.cause is not None
    assert findings.cause.kind == "data order"


def test_a_difference_that_the_record_makes_is_none_of_the_program(tmp_path: Path) -> None:
    """The steps of a third run decide; the other runs go on."""
    program = _Program(tmp_path, always)
    program.make = lambda settings, count: "full" if settings.lines else "plain"
    assert not look(program, 3).differs
    assert [each.lines for each in program.settings] == [False, True, True, True, True, False, False]


def test_another_order_of_operations_is_no_difference(tmp_path: Path) -> None:
    program = _Program(tmp_path, always)
    program.make = lambda settings, count: "same"
    program.order = lambda settings, count: count % 2
    assert not look(program, 3).differs
    assert [each.lines for each in program.settings] == [False, True, False]


def test_equal_runs_of_a_short_command_end_after_the_second(tmp_path: Path) -> None:
    program = _Program(tmp_path, lambda settings: False)
    assert not look(program).differs
    assert [each.lines for each in program.settings] == [False, True]
    program = _Program(tmp_path / "more", lambda settings: False)
    assert not look(program, 4).differs
    assert [each.lines for each in program.settings] == [False, True, False, False]


def test_a_long_command_is_not_recorded_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two whole runs; then each run ends after the step that differs."""
    monkeypatch.setattr(rounds, "SHORT", -1)
    program = _Program(tmp_path, always)
    assert look(program).divergence is not None
    kinds = [(each.last, each.lines, each.stop) for each in program.settings]
    assert kinds[:5] == [(-1, False, 0), (-1, False, 0), (0, False, 1), (0, False, 1), (0, False, 1)]
    assert program.settings[4].replay is not None
    ranks = _Program(tmp_path / "ranks", always, processes=2)
    assert look(ranks).divergence is not None
    assert not any(each.stop for each in ranks.settings)  # a rank would wait for the other one


def test_a_difference_that_the_full_record_hides_is_looked_for_without_it(tmp_path: Path) -> None:
    program = _Program(tmp_path, lambda settings: not settings.lines)
    findings = look(program)
    assert findings.divergence is not None
    assert findings.divergence.record.name == "op"
    assert [each.lines for each in program.settings[:6]] == [False, True, True, True, True, False]


def test_a_secret_in_the_name_of_an_operation_is_not_logged(tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    said: list[str] = []
    TraceSearch(_Runner(tmp_path, f"my_op token={secret}"), said.append).find()
    assert any("times on its inputs" in line for line in said)
    assert secret not in "\n".join(said)


def test_a_file_without_an_answer_is_no_equal_file(tmp_path: Path) -> None:
    files = ComparedFiles(unanswered=("artefact x: the command wrote no such file",))
    with pytest.raises(InconclusiveError, match="artefact x: the command wrote no such file") as caught:
        TraceSearch(_Runner(tmp_path, "op", files), lambda _: None).find()
    assert caught.value.hint == "name files that the command writes: --output-file FILE"
    findings, _ = TraceSearch(_Runner(tmp_path / "2", "op", ComparedFiles()), lambda _: None).find()
    assert findings.differs
