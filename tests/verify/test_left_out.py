"""Without the determinism test the user's own work is the whole answer, and without work nothing is known."""

from __future__ import annotations

import pytest

from reprobuild.verify.determinism.summary import NOT_RUN, WORK_BY_CHOICE, judge_determinism
from reprobuild.verify.verdict import Determinism, V, WorkComparison


def judged(*verdicts: V) -> tuple[Determinism, list[str]]:
    work = [WorkComparison(name="artefact", verdict=verdict) for verdict in verdicts]
    return judge_determinism(None, None, work, cpu_only=False, profile="torch", left_out=True)


def test_without_work_nothing_is_known() -> None:
    nothing = Determinism(cpu="not-run", gpu="not-run", collectives="not-run")
    assert judged() == (nothing, [NOT_RUN])


@pytest.mark.parametrize(
    ("verdicts", "cpu"),
    [
        (["identical"], "identical"),
        (["identical", "inconclusive"], "inconclusive"),
        (["identical", "drift"], "drift"),
    ],
)
def test_the_work_answers(verdicts: list[V], cpu: V) -> None:
    answer, notes = judged(*verdicts)
    assert answer == Determinism(cpu=cpu, gpu="not-run", collectives="not-run")
    assert notes == [WORK_BY_CHOICE]
