"""The bisection of two environments: trials, oracle and search in order."""

from __future__ import annotations

import shlex
import time
from typing import cast

import msgspec
from msgspec import Struct

from reprobuild.bisect.artefacts import artefact_oracle
from reprobuild.bisect.mixture import Mixer, Mixture
from reprobuild.bisect.oracle import (
    REPEATS,
    NoisyOracle,
    Oracle,
    Outcome,
    Runs,
    Tolerance,
    exit_code_oracle,
    explain_failure,
    number_oracle,
)
from reprobuild.bisect.result import BisectionResult, TrialRecord, answer_words, describe_value
from reprobuild.bisect.search import Answer, Chosen, find_required, search
from reprobuild.bisect.together import Crew, search_together
from reprobuild.bisect.trial import Laboratory, TrialCommand, reserve_name
from reprobuild.context import RunContext
from reprobuild.engines.gpu import parse_gpu_option
from reprobuild.engines.registry import find_engine
from reprobuild.errors import InconclusiveError
from reprobuild.lock.model import Lock
from reprobuild.verify.workload.conditions import hide_argument_secrets


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
    afresh: bool = False, jobs: int = 1,
) -> BisectionResult:  # fmt: skip
    """Find the smallest set of differences that changes the result of a command.

    Args:
        mixer: the two locks.
        command: the command of each trial.
        judging: how results are compared.
        context: its store has the trials.
        blank: the result so far: names, and the differences that no mixture can have.
        afresh: run trials again that the store remembers.
        jobs: how many trials run at the same time.

    Returns:
        The result; it has a `reason` if there is no answer.

    Raises:
        FetchError: the store lacks a file of a lock.
        EngineError: no engine answers, or it fails.
    """
    began = time.monotonic()
    arguments = hide_argument_secrets(command.arguments)
    blank = msgspec.structs.replace(blank, command=arguments, differences=mixer.atoms.atoms)
    if not mixer.atoms.atoms:
        return msgspec.structs.replace(
            blank, oracle="exit code", reason="A and B have no difference that a mixture could have",
            hint="`reprobuild compare A B` lists all differences",
        )  # fmt: skip
    engine = find_engine(command.options.engine, context.env, gpus=parse_gpu_option(command.options.gpus))
    with reserve_name(context) as name:
        laboratory = Laboratory(command, engine, context, name, afresh=afresh, together=jobs > 1)
        bench = _Bench(mixer, laboratory, _make_oracle(laboratory, mixer, command, judging))
        blank = msgspec.structs.replace(blank, oracle=bench.oracle.name)
        try:
            result = bench.search(blank, jobs)
        except InconclusiveError as err:
            result = msgspec.structs.replace(blank, reason=str(err), hint=err.hint)
    context.say("")
    return msgspec.structs.replace(bench.complete(result), seconds=time.monotonic() - began)


def _make_oracle(laboratory: Laboratory, mixer: Mixer, command: TrialCommand, judging: Judging) -> Oracle:
    if command.artefacts:
        return artefact_oracle(laboratory, mixer.first, judging.ignored)
    if command.metric and judging.error_rate:
        return NoisyOracle(judging.error_rate)
    return number_oracle(judging.tolerance) if command.metric else exit_code_oracle()


class _Bench:
    """The trials of a search, with a record of each."""

    def __init__(self, mixer: Mixer, laboratory: Laboratory, oracle: Oracle) -> None:
        self.oracle = oracle
        self._mixer, self._laboratory = mixer, laboratory
        self._outcomes: dict[Chosen, list[Outcome]] = {}
        self._records: dict[Chosen, TrialRecord] = {}
        self._finished = 0  # runs
        self._all = frozenset(range(len(mixer.atoms.atoms)))

    def search(self, blank: BisectionResult, jobs: int) -> BisectionResult:
        say = self._laboratory.context.say
        say(f"running A and B: {shlex.join(blank.command)}")
        sides = (
            self._runs(frozenset(), self._mixer.mix(()), "a", "A"),
            self._runs(self._all, self._mixer.mix(self._all), "b", "B"),
        )
        count, needs = len(self._all), self._mixer.atoms.needs
        if jobs == 1:
            self._check(*sides)
            outcome = search(count, self._test, needs)
        else:
            with Crew(jobs, self._laboratory.cancel) as crew:
                self._check(*(self._start(runs, crew) for runs in sides))
                outcome = search_together(count, self._test, needs, crew, self._laboratory.save)
        return msgspec.structs.replace(
            blank, guilty=tuple(sorted(outcome.guilty)), required=tuple(find_required(outcome.guilty, needs)),
            groups=tuple(tuple(sorted(group)) for group in outcome.groups), forward=outcome.forward,
            backward=outcome.backward, removed=tuple(sorted(outcome.removed)),
            trials=tuple(self._records[trial.chosen] for trial in outcome.trials),
        )  # fmt: skip

    def _check(self, first: Runs, second: Runs) -> None:
        """Let the oracle run A and B, and record both."""
        try:
            self.oracle.check(first, second)
            self._laboratory.save()
        finally:
            self._record(frozenset(), "A", self._mixer.first)
            self._record(self._all, "B", self._mixer.second)

    def _start(self, runs: Runs, crew: Crew) -> Runs:
        """Start the first runs of a side, and return them."""
        futures = [crew.submit(runs, number) for number in range(REPEATS)]
        return lambda number: cast(Outcome, futures[number].result())

    def complete(self, result: BisectionResult) -> BisectionResult:
        """Return a result with the facts of all runs."""
        outcomes = [outcome for runs in self._outcomes.values() for outcome in runs]
        records = dict(self._records)
        sides = [records.pop(side) for side in (frozenset[int](), self._all) if side in records]
        return msgspec.structs.replace(
            result, engine=self._laboratory.engine.NAME, sides=tuple(sides), runs=len(outcomes),
            remembered=sum(outcome.remembered for outcome in outcomes), trials=result.trials or tuple(records.values()),
        )  # fmt: skip

    def _runs(self, chosen: Chosen, mixture: Mixture, part: str, title: str) -> Runs:
        """Return runs, and keep their outcomes."""
        context, outcomes = self._laboratory.context, self._outcomes.setdefault(chosen, [])
        runs = self._laboratory.runs(mixture.lock, part, title, mixture.choices)
        is_side = title in ("A", "B")

        def run(number: int) -> Outcome:
            context.progress(self._finished, 0, f"run {number + 1} of {title}", unit="runs so far")
            outcome = runs(number)
            outcomes.append(outcome)
            self._finished += 1
            if is_side or self.oracle.takes_many:
                context.say(f"{title}, run {number + 1}: {self._describe_run(outcome)}")
            return outcome

        return run

    def _describe_run(self, outcome: Outcome) -> str:
        """Return a run's result in a short line; the container chose it."""
        text = explain_failure(outcome) if outcome.is_untestable else self.oracle.describe_run(outcome)
        return f"{describe_value(text)}{', remembered' if outcome.remembered else ''}"

    def _test(self, chosen: Chosen, place: int = 0) -> Answer:
        title = f"{len(chosen)} of {len(self._all)} differences"
        self._laboratory.context.say(f"trial {len(self._records) - 1}: A with {title}")
        mixture = self._mixer.mix(chosen)
        for tar in mixture.tars:
            self._laboratory.context.store.add(tar)
        answer = self.oracle.answer(self._runs(chosen, mixture, f"trial{place or ''}", f"A with {title}"))
        self._laboratory.context.say(f"{title}: {answer_words(answer)}")
        self._record(chosen, answer, mixture.lock)
        return answer

    def _record(self, chosen: Chosen, answer: Answer, lock: Lock) -> None:
        outcomes = self._outcomes[chosen]
        failed = next((outcome for outcome in outcomes if outcome.is_untestable), None)
        why = "" if failed is None else explain_failure(failed)
        if outcomes:
            self._records[chosen] = TrialRecord(
                differences=tuple(sorted(chosen)), answer="untestable" if failed else answer, runs=len(outcomes),
                remembered=sum(outcome.remembered for outcome in outcomes), why=why, seed=self._laboratory.seed(lock),
                seconds=sum(outcome.seconds for outcome in outcomes), setup=outcomes[0].setup,
                result="" if failed else self.oracle.describe(outcomes),
            )  # fmt: skip
