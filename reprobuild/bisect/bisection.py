"""The bisection of two environments: trials, oracle and search in order."""

from __future__ import annotations

import shlex
import time

import msgspec
from msgspec import Struct

from reprobuild.bisect.artefacts import artefact_oracle
from reprobuild.bisect.mixture import Mixer
from reprobuild.bisect.oracle import (
    NoisyOracle,
    Oracle,
    Outcome,
    Runs,
    Tolerance,
    exit_code_oracle,
    number_oracle,
)
from reprobuild.bisect.result import BisectionResult, TrialRecord
from reprobuild.bisect.search import Answer, Chosen, find_required, search
from reprobuild.bisect.trial import Laboratory, TrialCommand, reserve_name
from reprobuild.context import RunContext
from reprobuild.engines.gpu import parse_gpu_option
from reprobuild.engines.registry import find_engine
from reprobuild.errors import InconclusiveError


class Judging(Struct, frozen=True, kw_only=True):
    """How the results of runs are compared, beside the exit code.

    Attributes:
        ignored: keys of values that may differ in output files.
        tolerance: of a number.
        error_rate: of a noisy number; 0 if it is the same in each run.
    """

    ignored: tuple[str, ...] = ()
    tolerance: Tolerance = Tolerance()
    error_rate: float = 0.0


def bisect(
    mixer: Mixer, command: TrialCommand, judging: Judging, context: RunContext, blank: BisectionResult, *,
    afresh: bool = False,
) -> BisectionResult:  # fmt: skip
    """Find the smallest set of differences that changes the result of a command.

    Args:
        mixer: the two locks.
        command: the command of each trial.
        judging: how results are compared.
        context: its store has the trials.
        blank: the result so far: names, and the differences that no mixture can have.
        afresh: run trials again that the store remembers.

    Returns:
        The result; it has a `reason` if there is no answer.

    Raises:
        FetchError: the store lacks a file of a lock.
        EngineError: no engine answers, or it fails.
    """
    began = time.monotonic()
    blank = msgspec.structs.replace(blank, command=command.arguments, differences=mixer.atoms.atoms)
    if not mixer.atoms.atoms:
        return msgspec.structs.replace(
            blank, oracle="exit code", reason="A and B have no difference that a mixture could have",
            hint="`reprobuild compare A B` lists all differences",
        )  # fmt: skip
    engine = find_engine(command.options.engine, context.env, gpus=parse_gpu_option(command.options.gpus))
    with reserve_name(context) as name:
        laboratory = Laboratory(command, engine, context, name, afresh=afresh)
        bench = _Bench(mixer, laboratory, _make_oracle(laboratory, mixer, command, judging))
        blank = msgspec.structs.replace(blank, oracle=bench.oracle.name)
        try:
            result = bench.search(blank)
        except InconclusiveError as err:
            result = msgspec.structs.replace(blank, reason=str(err), hint=err.hint)
    context.say("")
    return msgspec.structs.replace(
        result, runs=bench.runs, remembered=bench.runs - laboratory.started, seconds=time.monotonic() - began
    )


def _make_oracle(laboratory: Laboratory, mixer: Mixer, command: TrialCommand, judging: Judging) -> Oracle:
    if command.artefacts:
        return artefact_oracle(laboratory, mixer.first, judging.ignored)
    if command.metric and judging.error_rate:
        return NoisyOracle(judging.error_rate)
    return number_oracle(judging.tolerance) if command.metric else exit_code_oracle()


class _Bench:
    """The trials of a search, with a record of each."""

    def __init__(self, mixer: Mixer, laboratory: Laboratory, oracle: Oracle) -> None:
        self.oracle, self.runs = oracle, 0
        self._mixer, self._laboratory = mixer, laboratory
        self._records: list[TrialRecord] = []

    def search(self, blank: BisectionResult) -> BisectionResult:
        say = self._laboratory.context.say
        say(f"running A and B: {shlex.join(blank.command)}")
        sides = [
            self._count(self._laboratory.runs(lock, part), [])
            for lock, part in ((self._mixer.first, "a"), (self._mixer.second, "b"))
        ]
        self.oracle.check(sides[0], sides[1])
        needs = self._mixer.atoms.needs
        outcome = search(len(self._mixer.atoms.atoms), self._test, needs)
        return msgspec.structs.replace(
            blank, guilty=tuple(sorted(outcome.guilty)), required=tuple(find_required(outcome.guilty, needs)),
            groups=tuple(tuple(sorted(group)) for group in outcome.groups), forward=outcome.forward,
            backward=outcome.backward, removed=tuple(sorted(outcome.removed)), trials=tuple(self._records),
        )  # fmt: skip

    def _count(self, runs: Runs, outcomes: list[Outcome]) -> Runs:
        """Return runs that are counted and kept."""

        def run(number: int) -> Outcome:
            self.runs += 1
            outcomes.append(runs(number))
            return outcomes[-1]

        return run

    def _test(self, chosen: Chosen) -> Answer:
        count = len(self._mixer.atoms.atoms)
        self._laboratory.context.say(
            f"trial {len(self._records) + 1}: A with {len(chosen)} of {count} differences"
        )
        outcomes: list[Outcome] = []
        mixture = self._mixer.mix(sorted(chosen))
        for tar in mixture.tars:
            self._laboratory.context.store.add(tar)
        answer = self.oracle.answer(self._count(self._laboratory.runs(mixture.lock), outcomes))
        failed = next((outcome for outcome in outcomes if outcome.is_untestable), None)
        why = "" if failed is None else failed.why or f"the command exited {failed.code}"
        self._records.append(
            TrialRecord(
                differences=tuple(sorted(chosen)), answer=answer, runs=len(outcomes), why=why,
                seconds=sum(outcome.seconds for outcome in outcomes), setup=outcomes[0].setup,
            )
        )  # fmt: skip
        return answer
