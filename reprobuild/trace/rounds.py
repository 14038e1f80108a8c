"""The runs of a traced command: steps, operations, repetitions, lines, cure."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec import Struct

from reprobuild.errors import InconclusiveError
from reprobuild.trace.cause import REPLACE, DriftCause, classify
from reprobuild.trace.divergence import Divergence, find_divergence
from reprobuild.trace.line_comparison import Origin
from reprobuild.trace.lines import find_origins
from reprobuild.trace.origins import explain_origin, find_ending
from reprobuild.trace.record import TraceRecord
from reprobuild.trace.strides import find_strides
from reprobuild.trace.traced_run import ComparedFiles, TracedRun, TraceSettings
from reprobuild.verify.workload.conditions import hide_secrets
from reprobuild.verify.workload.judge import display_line

REPLAYS = 200  # repetitions of one operation on its inputs
SHORT = 10  # seconds of a first run, in its container; the next run records everything
TRIES = 3  # pairs of runs that look for a difference among operations, or among lines
MOST_STEPS = 64  # whose operations one run records
EARLIER = 3  # steps before the first difference whose operations are recorded, too
_FINAL = ("batch", "generator", "mark", "output", "call")  # kinds that operations do not explain
# A kernel or a collective operation is named by the dispatcher, and not by the line that calls it.
_OF_OPERATIONS = ("kernel", "communication", "autotuning")


class Runner(Protocol):
    """Runs the command, and compares the output files of two runs."""

    def run(self, settings: TraceSettings, title: str) -> TracedRun:
        """Run the command once."""
        ...

    def compare_files(self, first: TracedRun, second: TracedRun) -> ComparedFiles:
        """Compare the named output files."""
        ...


class Findings(Struct, frozen=True, kw_only=True):
    """Findings of the runs of a command.

    Attributes:
        steps: complete steps of the longest process, in the first run.
        processes: recorded processes of the first run.
        runs: how often the command ran.
        differs: whether two runs differ.
        files: a line for each output file that differs.
        divergence: the first record that differs, if one does.
        cause: of the difference; None if it is not known.
        origins: the lines at which variables begin to differ, those with the widest reach first.
        hidden: whether the difference was gone when operations and lines were recorded.
        cured: whether two runs with the cure were the same; None if no cure was tried.
    """

    steps: int
    processes: int
    runs: int
    differs: bool = False
    files: tuple[str, ...] = ()
    divergence: Divergence | None = None
    cause: DriftCause | None = None
    origins: tuple[Origin, ...] = ()
    hidden: bool = False
    cured: bool | None = None


_EVERYTHING = TraceSettings(last=MOST_STEPS - 1, lines=True, line_seconds=6 * SHORT)


class _Pair(NamedTuple):
    """Two runs that recorded everything, and their first difference."""

    first: TracedRun
    second: TracedRun
    divergence: Divergence | None

    def find_origins(self) -> tuple[Origin, ...]:
        """Return the lines at which the runs begin to differ."""
        step, process = (self.divergence.step, self.divergence.process) if self.divergence else (0, "")
        return tuple(find_origins(self.first.folder, self.second.folder, step, process))


class TraceSearch:
    """Looks for the cause of a difference: in steps, in operations, in the lines of the program."""

    def __init__(self, runner: Runner, say: Callable[[str], None]) -> None:
        self._runner, self._say, self._runs = runner, say, 0
        self._strides: Mapping[str, int] = {}
        self._is_alone = False  # the command has one process
        self._lines: Path | None = None  # the logs of the last run with a record of lines

    def _start(self, settings: TraceSettings, title: str) -> TracedRun:
        self._runs += 1
        self._say(f"run {self._runs}: {title}")
        run = self._runner.run(msgspec.structs.replace(settings, strides=self._strides), title)
        self._lines = run.folder if settings.lines else self._lines
        return run

    def find(self, runs: int = 2, against: TracedRun | None = None) -> tuple[Findings, TracedRun]:
        """Run the command until the cause of a difference is known; return it with the first run of the command.

        Args:
            runs: how often the command runs if there is no difference.
            against: the first run, if it was another one.

        Raises:
            InconclusiveError: a log is damaged, the command fails, or it does not write an output file.
        """
        began = time.monotonic()
        first = against or self._start(TraceSettings(), "steps")
        is_short = against is None and time.monotonic() - began <= SHORT
        recorded = first if against is None else None
        self._strides, self._is_alone = find_strides(first), len(first.logs) == 1
        coarse, files, detailed, pair = None, ComparedFiles(), None, None
        for number in range(runs - 1):
            if is_short and number == 0:
                second = detailed = self._start(_EVERYTHING, "everything")
            else:
                second = self._start(TraceSettings(), "steps")
            recorded = recorded or second
            coarse = find_divergence(first.logs, second.logs, of_steps=second is detailed)
            files = self._runner.compare_files(first, second)
            if coarse or files.differing:
                if second is not detailed:
                    break
                pair = self._find_pair(detailed)
                if pair or self._differs_without_details(first):
                    break
                coarse, files = None, ComparedFiles()
        if files.unanswered and not coarse and not files.differing:
            raise InconclusiveError(
                "\n".join(files.unanswered), hint="name files that the command writes: --output-file FILE"
            )
        findings = Findings(
            steps=max(map(len, first.logs.values()), default=0), processes=len(first.logs), runs=self._runs,
            differs=bool(coarse or files.differing), files=files.differing, divergence=coarse,
        )  # fmt: skip
        if coarse is not None and against is not None:  # the other run recorded no operations
            findings = msgspec.structs.replace(findings, cause=classify(coarse))
        elif findings.differs:
            pair = pair or (self._find_pair(detailed) if detailed else None)
            findings = self._explain(findings, coarse, pair)
        return msgspec.structs.replace(findings, runs=self._runs), recorded or first

    def _find_pair(self, first: TracedRun) -> _Pair | None:
        """Return two fully recorded runs with a difference, or None if they are the same."""
        for _ in range(TRIES):
            second = self._start(_EVERYTHING, "everything")
            of_steps = find_divergence(first.logs, second.logs, of_steps=True)
            if of_steps is None and not self._runner.compare_files(first, second).differing:
                continue  # an order of operations alone, as of the tensors that workers send, is no difference
            divergence = find_divergence(first.logs, second.logs)
            if (
                of_steps
                and divergence
                and (of_steps.record.kind, of_steps.step) == ("batch", divergence.step)
            ):
                divergence = of_steps  # the operations that made it follow from the order of the data
            return _Pair(first, second, divergence)
        return None

    def _differs_without_details(self, first: TracedRun) -> bool:
        """Return whether the steps of another run differ: the record itself must not make a difference."""
        second = self._start(TraceSettings(), "steps")
        return (
            find_divergence(first.logs, second.logs) is not None
            or len(self._runner.compare_files(first, second).differing) > 0
        )

    def _explain(self, findings: Findings, coarse: Divergence | None, pair: _Pair | None) -> Findings:
        cause, cured, hidden = None, None, False
        if pair is not None and (pair.divergence is None or pair.divergence.step < MOST_STEPS):
            divergence = pair.divergence
        elif coarse is None:
            divergence, pair = self._find_operation(min(findings.steps, MOST_STEPS) - 1), None
        else:
            (divergence, hidden), pair = self._refine(coarse), None
        if divergence is not None:
            cause = classify(divergence)
            if not hidden:
                cause = self._examine(divergence, cause)
            cured = self._try_cure(cause, divergence)
            if cured is False and cause.cure == "fill":
                cause, cured = classify(divergence, filled=False), None
            elif cured is False:
                cause = msgspec.structs.replace(cause, remedy=REPLACE)
        origins: tuple[Origin, ...] = ()
        if cause is None or (cause.kind not in _OF_OPERATIONS and cured is not True):
            origins = (pair.find_origins() if pair else ()) or self._find_lines(divergence)
            if origins:
                cause, hidden = explain_origin(origins[0], cause), False
            elif cause is None and self._lines is not None and findings.files:
                cause = find_ending(self._lines)
        hidden = hidden or cause is None
        return msgspec.structs.replace(
            findings, divergence=divergence, cause=cause, origins=origins[:5], hidden=hidden, cured=cured
        )

    def _refine(self, coarse: Divergence) -> tuple[Divergence, bool]:
        """Return the first difference among operations, and True if only the steps differ."""
        if coarse.record.kind in _FINAL and coarse.difference != "calls":
            return coarse, False
        last = coarse.step
        # A difference that comes by chance may come some steps earlier next time.
        stride = self._strides.get(coarse.process, self._strides.get("", 1))
        first = max(0, last - max(stride, EARLIER), last - MOST_STEPS + 1)
        latest = coarse
        for attempt in range(TRIES):
            settings = TraceSettings(first=first, last=last, stop=0 if attempt else self._stop_after(last))
            title = (
                f"operations of step {first}" if first == last else f"operations of steps {first} to {last}"
            )
            pair = self._start(settings, title), self._start(settings, title)
            divergence = find_divergence(pair[0].logs, pair[1].logs)
            if divergence is None:
                continue
            step = divergence.step
            if first <= step <= last or divergence.record.kind in _FINAL:
                return divergence, False
            latest, first = divergence, max(min(first, step), step - MOST_STEPS + 1)
            last = max(min(last, first + MOST_STEPS - 1), step)
        return latest, True

    def _stop_after(self, step: int) -> int:
        """Return the last step of a run of one process, plus one; 0 for several, which would wait for an ended one."""
        return step + 1 if self._is_alone else 0

    def _find_operation(self, last: int) -> Divergence | None:
        """Return the first differing operation of two runs with different output files."""
        for _ in range(TRIES):
            settings, title = TraceSettings(last=last), "operations"
            pair = self._start(settings, title), self._start(settings, title)
            if divergence := find_divergence(pair[0].logs, pair[1].logs):
                return divergence
            if not any(log.has_operations for log in pair[0].logs.values()):
                return None
        return None

    def _examine(self, divergence: Divergence, cause: DriftCause) -> DriftCause:
        """Return the cause after repetitions of the operation on its inputs."""
        if divergence.difference != "outputs" or cause.kind != "kernel":
            return cause
        step, number = divergence.step, divergence.record.number
        replay = divergence.process, step, number, REPLAYS
        settings = TraceSettings(first=step, last=step, replay=replay, stop=self._stop_after(step))
        name = display_line(hide_secrets(divergence.record.name))
        repeated = self._start(settings, f"{name}, {REPLAYS} times on its inputs")
        record = _find_record(repeated, divergence)
        return classify(divergence, record.replayed if record else ())

    def _try_cure(self, cause: DriftCause, divergence: Divergence) -> bool | None:
        """Compare two runs with the cure; return None without a cure."""
        if not cause.cure:
            return None
        if cause.cure == "fill":
            settings, title = TraceSettings(last=divergence.step, fill=True), "steps, with filled memory"
        else:
            settings = TraceSettings(profile=cause.cure)
            title = f"steps, with the profile {cause.cure}"
        pair = self._start(settings, title), self._start(settings, title)
        files = self._runner.compare_files(*pair)
        return find_divergence(pair[0].logs, pair[1].logs) is None and not files.differing

    def _find_lines(self, known: Divergence | None) -> tuple[Origin, ...]:
        """Return the lines of the first differences, from a pair of runs with different results.

        The recorder slows the program down, which can hide a race. Without such a pair, a variable that threads share
        and that differs is the answer.

        Args:
            known: the first difference among operations, whose process comes first.
        """
        settings, shared = TraceSettings(lines=True), tuple[Origin, ...]()
        for _ in range(TRIES):
            pair = self._start(settings, "lines"), self._start(settings, "lines")
            divergence = find_divergence(pair[0].logs, pair[1].logs)
            if divergence or self._runner.compare_files(*pair).differing:
                step = divergence.step if divergence else 0
                process = known.process if known else ""
                return tuple(find_origins(pair[0].folder, pair[1].folder, step, process))
            origins = find_origins(pair[0].folder, pair[1].folder)
            shared = shared or tuple(origin for origin in origins if origin.is_shared)
        return shared


def _find_record(run: TracedRun, divergence: Divergence) -> TraceRecord | None:
    log = run.logs.get(divergence.process)
    if log is None or divergence.step >= len(log):
        return None
    number = divergence.record.number
    return next((record for record in log.stream(divergence.step) if record.number == number), None)
