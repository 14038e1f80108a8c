"""Without the smoke test nothing is said of determinism, but a drift of the user's own work is."""

from __future__ import annotations

from reprobuild.verify.headline import NOT_RUN, judge_determinism
from reprobuild.verify.verdict import Comparison, Determinism, V


def judged(*verdicts: V) -> tuple[Determinism, list[str]]:
    work = [Comparison(name="artefact", verdict=verdict) for verdict in verdicts]
    return judge_determinism(None, None, work, cpu_only=False, profile="torch", left_out=True)


def test_it_is_not_run_and_never_a_pass() -> None:
    nothing = Determinism(cpu="not-run", gpu="not-run", collectives="not-run")
    assert judged() == (nothing, [NOT_RUN])
    assert judged("identical") == (nothing, [NOT_RUN])


def test_a_drift_of_the_work_counts() -> None:
    answer, notes = judged("identical", "drift")
    assert (answer.cpu, answer.gpu, notes) == ("drift", "not-run", [NOT_RUN])
