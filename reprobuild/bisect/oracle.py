"""Oracles: comparison of a run's result with those of A and B.

An oracle first looks at runs of A and of B alone. If A differs from itself, or equals B, no difference is searched for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, Protocol

from msgspec import Struct

from reprobuild.bisect.search import Answer
from reprobuild.bisect.statistics import Levels, measure_levels, welch_probability
from reprobuild.errors import InconclusiveError, UsageError
from reprobuild.infra.untrusted.strings import OptionalSha256, Sha256, Text

UNTESTABLE_CODE = 125  # of the command, as in `git bisect run`
REPEATS = 2  # runs of A and of B before the search
LOOKS = (4, 6, 9, 14, 21, 32, 48, 72, 108, 162, 243, 365, 550)
# How many standard errors lie between A and B before a mixture is judged; `tests/bisecting/test_oracle.py` measures the
# error rates that this gives.
DISTANCE = 6.0
MOST_RUNS = 1000  # of one mixture
# Tests of one search, between which the error rate is divided: Bonferroni's bound.
TESTS = 16


class Outcome(Struct, frozen=True, kw_only=True):
    """A run of the command in one mixture.

    Attributes:
        code: the exit code; None if there is no image to run it in.
        why: the reason for that.
        number: the number that the oracle reads.
        content: a digest of the collected files with their names; empty without any.
        files: the sha256 of the collected files and of their index, by the name in their directory.
        seconds: of the command.
        setup: seconds before it.
        remembered: whether an earlier search ran it.
    """

    code: int | None
    why: Text = ""
    number: float | None = None
    content: OptionalSha256 = ""
    files: dict[Text, Sha256] = {}
    seconds: float = 0.0
    setup: float = 0.0
    remembered: bool = False

    @property
    def is_untestable(self) -> bool:
        """Whether the run has no result."""
        return self.code is None or self.code == UNTESTABLE_CODE


# Gives run number 0, 1, ... of a mixture.
Runs = Callable[[int], Outcome]


class Oracle(Protocol):
    """What a run is judged by."""

    name: str
    takes_many: bool  # whether it judges a mixture by several runs

    def check(self, first: Runs, second: Runs) -> None:
        """Judge A and B alone, before any other run.

        Raises:
            InconclusiveError: a run has no result, a side differs from itself, or A equals B.
        """
        ...

    def answer(self, runs: Runs) -> Answer:
        """Compare a mixture's result with those of A and B."""
        ...

    def describe(self, outcomes: Sequence[Outcome]) -> str:
        """Return the result of the runs of a mixture in words."""
        ...

    def describe_run(self, outcome: Outcome) -> str:
        """Return the result of a run in words."""
        ...


Same = Callable[[Outcome, Outcome], bool]


class ExactOracle:
    """An oracle of exact results."""

    takes_many = False

    def __init__(self, name: str, same: Same, describe: Callable[[Outcome], str]) -> None:
        self.name = name
        self._same, self._describe = same, describe
        self._sides: tuple[Outcome, Outcome] | None = None

    def check(self, first: Runs, second: Runs) -> None:
        """Run A and B twice."""
        sides = []
        for side, runs in (("A", first), ("B", second)):
            outcomes = [runs(number) for number in range(REPEATS)]
            _refuse_untestable(side, outcomes)
            if not self._same(outcomes[0], outcomes[1]):
                texts = " and ".join(map(self._describe, outcomes))
                raise InconclusiveError(
                    f"{side} differs from itself: {texts}",
                    hint="fix its seeds, or judge it by a noisy number: --metric with --noisy",
                )
            sides.append(outcomes[0])
        if self._same(sides[0], sides[1]):
            raise InconclusiveError(
                f"A and B give the same result: {self._describe(sides[0])}",
                hint="try another command or input, or compare output files or a number: --output-file, --metric",
            )
        self._sides = sides[0], sides[1]

    def answer(self, runs: Runs) -> Answer:
        """Compare the first run with those of A and B."""
        assert self._sides is not None
        outcome = runs(0)
        if outcome.is_untestable:
            return "untestable"
        if self._same(outcome, self._sides[0]):
            return "A"
        return "B" if self._same(outcome, self._sides[1]) else "other"

    def describe(self, outcomes: Sequence[Outcome]) -> str:
        """Return the result of the first run."""
        return self._describe(outcomes[0])

    def describe_run(self, outcome: Outcome) -> str:
        """Return the result of a run."""
        return self._describe(outcome)


def explain_failure(outcome: Outcome) -> str:
    """Return why a run has no result."""
    return outcome.why or f"the command exited {outcome.code}"


def _refuse_untestable(side: str, outcomes: Sequence[Outcome]) -> None:
    for outcome in outcomes:
        if outcome.is_untestable:
            raise InconclusiveError(
                f"{side} itself cannot be tested: {explain_failure(outcome)}",
                hint="build it alone: `reprobuild build LOCK -o OUT`, and try the command with `reprobuild run`",
            )


def exit_code_oracle() -> ExactOracle:
    """Return the oracle of exit codes."""
    return ExactOracle(
        "exit code", lambda run, other: run.code == other.code, lambda run: f"exit code {run.code}"
    )


class Tolerance(Struct, frozen=True, kw_only=True):
    """The largest distance of two equal numbers."""

    size: float = 0.0
    relative: bool = False

    def same(self, first: float, second: float) -> bool:
        """Return whether two numbers are the same."""
        scale = max(abs(first), abs(second)) if self.relative else 1.0
        return first == second or abs(first - second) <= self.size * scale


def read_tolerance(text: str) -> Tolerance:
    """Return a tolerance: `0.01`, or `1%` of the greater number.

    Raises:
        UsageError: it is not a number from 0 on.
    """
    try:
        size = float(text.strip().removesuffix("%"))
    except ValueError:
        size = math.nan
    if not 0 <= size < math.inf:
        raise UsageError(f"--tolerance {text}: not a number", hint="for example --tolerance 1e-6, or 1%")
    relative = text.strip().endswith("%")
    return Tolerance(size=size / 100 if relative else size, relative=relative)


def number_oracle(tolerance: Tolerance) -> ExactOracle:
    """Return the oracle of a stable number, with a tolerance."""

    def same(first: Outcome, second: Outcome) -> bool:
        if first.number is None or second.number is None:
            return first.number is second.number and first.code == second.code
        return first.code == second.code and tolerance.same(first.number, second.number)

    return ExactOracle("number", same, _describe_number)


class NoisyOracle:
    """An oracle of a number with noise.

    A and B are run in turn until Welch's test tells them apart. A mixture is run until Wald's sequential test decides.
    """

    name = "noisy number"
    takes_many = True

    def __init__(self, error_rate: float, kind: Literal["search", "test"] = "search") -> None:
        """Take the probability of a wrong answer: of all tests of a search together, or of each one."""
        self._rate = error_rate
        self._bound = error_rate / (TESTS if kind == "search" else 1)
        self.levels: Levels | None = None

    def check(self, first: Runs, second: Runs) -> None:
        """Run A and B in turn until they differ.

        Raises:
            InconclusiveError: no difference shows.
        """
        samples: tuple[list[float], list[float]] = ([], [])
        for look in LOOKS:
            while len(samples[0]) < look:
                for side, runs, values in zip("AB", (first, second), samples, strict=True):
                    values.append(self._read(side, runs(len(values))))
            levels = measure_levels(*samples)
            error = levels.deviation * math.sqrt(2 / look)
            probability = welch_probability(*samples)
            if (
                probability < self._rate / len(LOOKS)
                and abs(levels.first - levels.second) >= DISTANCE * error
            ):
                self.levels = levels
                return
        shown = ", ".join(f"{sum(values) / len(values):g}" for values in samples)
        raise InconclusiveError(
            f"A and B cannot be told apart in {len(samples[0])} runs of each: the means are {shown}",
            hint="let the command measure for longer, or choose a number with less noise",
        )

    def _read(self, side: str, outcome: Outcome) -> float:
        _refuse_untestable(side, [outcome])
        if outcome.number is None or not math.isfinite(outcome.number):
            raise InconclusiveError(
                f"{side} gives no number: exit code {outcome.code}",
                hint="--metric is a regular expression for standard output, whose group is the number",
            )
        return outcome.number

    def answer(self, runs: Runs) -> Answer:
        """Compare a mixture's level with those of A and B."""
        assert self.levels is not None
        bound = math.log((1 - self._bound) / self._bound)
        values: list[float] = []
        while len(values) < MOST_RUNS:
            outcome = runs(len(values))
            if outcome.is_untestable:
                return "untestable"
            if outcome.number is None or not math.isfinite(outcome.number):
                return "other"
            values.append(outcome.number)
            likelihood = self.levels.likelihood(values)
            if len(values) > 1 and abs(likelihood) >= bound:
                return "B" if likelihood > 0 else "A"
        return "other"

    def describe(self, outcomes: Sequence[Outcome]) -> str:
        """Return the mean of all runs with a number."""
        values = [outcome.number for outcome in outcomes if outcome.number is not None]
        return f"{sum(values) / len(values):.10g}, the mean" if values else _describe_number(outcomes[0])

    def describe_run(self, outcome: Outcome) -> str:
        """Return the number of a run."""
        return _describe_number(outcome)


def _describe_number(run: Outcome) -> str:
    return f"exit code {run.code} without the number" if run.number is None else f"{run.number:.10g}"
