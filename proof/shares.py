"""The share of workloads that drift now and then and are called identical, against the share that N allows.

A script draws from the operating system in one of 5, 20 or 100 runs. Each trial is a check of N runs, as in
`verify --workload --runs N`, with the programs that a container runs. A check of N runs calls it identical with the
probability (1 - rate) ** N. At N = 3 / rate, the bound of the answer is the rate itself (the rule of three), and at
most 5 % of the checks may say so.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

from reprobuild.verify.determinism.summary import upper_bound
from reprobuild.verify.workload.run import compare_work
from reprobuild.verify.workload.work import work_of_options
from tests.determinism.plain_engine import PlainEngine

TRIALS = 200
# (a drifting run is one of so many, runs of a check).
CASES = ((5, 5), (20, 20), (5, 15), (100, 50))
MODULES = ("reprobuild/verify/workload", "reprobuild_runtime/artefacts")
LIKELY = 0.001  # a share that is less likely than this, on one side, is not what N allows
_PROGRAM = (
    "set -- $(od -An -N4 -tu4 /dev/urandom); "
    "if [ $(($1 % {rate})) -eq 0 ]; then od -An -N8 -tu8 /dev/urandom; else echo 1; fi >{{out}}/number"
)


def check(rate: int, runs: int) -> str:
    """Return the verdict of one check of a script that drifts in one of `rate` runs."""
    work = work_of_options(_PROGRAM.format(rate=rate), ("{out}/number",), (), (), runs=runs)
    assert work
    (answer,) = compare_work(work, 7, "", PlainEngine(), os.environ).comparisons
    return answer.verdict


def judge(rate: int, runs: int, verdicts: Mapping[str, int]) -> dict[str, Any]:
    """Return the shares of one case, and whether the measured one is what N allows."""
    trials, same = sum(verdicts.values()), verdicts.get("identical", 0)
    expected = (1 - 1 / rate) ** runs
    bound = upper_bound(runs)
    fewer, more = _tail(same, trials, expected), _tail(trials - same, trials, 1 - expected)
    return {
        "one drifting run in": rate, "runs": runs, "trials": trials, "identical": same, "verdicts": dict(verdicts),
        "expected share": round(expected, 4), "bound": bound, "likely": min(fewer, more) >= LIKELY,
        "right": min(fewer, more) >= LIKELY and set(verdicts) <= {"identical", "drift"},
    }  # fmt: skip


def _tail(count: int, trials: int, share: float) -> float:
    """Return the probability of at most so many of the trials."""
    return sum(math.comb(trials, n) * share**n * (1 - share) ** (trials - n) for n in range(count + 1))


def table(found: list[dict[str, Any]]) -> str:
    """Return a line for each case."""
    return "\n".join(
        f"one drifting run in {each['one drifting run in']}, N = {each['runs']}: {each['identical']} of "
        f"{each['trials']} identical, {each['expected share']:.1%} expected{'' if each['right'] else ': WRONG'}"
        for each in found
    )
