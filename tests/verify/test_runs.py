"""The number of runs of a workload: given, or as many as a budget of time allows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reprobuild.engines.model import Finished
from reprobuild.lock.model import Workload
from reprobuild.verify.check import CheckRequest, select_work, verify_image
from reprobuild.verify.workload.conditions import BUDGET_RUNS, BUDGET_SECONDS, Conditions
from reprobuild.verify.workload.run import ComparedWork, compare_work
from reprobuild.verify.workload.work import Work, work_of_options
from tests.verify.samples import DRIFTED, EXPECTED, SHA, PreparedEngine, done, good_answers, make_lock

NAME = "/reprobuild-out/model.pt"
SAME = {**DRIFTED, "name": NAME, "verdict": "identical", "details": [], "count": 0, "notes": []}
OTHER = {**DRIFTED, "name": NAME}


def run(runs: int | None, outputs: list[Finished], *comparisons: dict[str, Any]) -> ComparedWork:
    work = work_of_options("train", ("{out}/model.pt",), (), (), runs=runs)
    assert work is not None
    compare = [done({"ran": True, "files": [file]}) for file in comparisons]
    engine = PreparedEngine({**good_answers(), "workload": outputs, "compare": compare})
    return compare_work(work, 7, "image:1", engine, {})


def test_a_short_command_runs_until_its_number_bounds_the_drift() -> None:
    compared = run(None, [done(**{"model.pt": b"one"})], SAME)
    assert compared.runs == BUDGET_RUNS
    assert [comparison.verdict for comparison in compared.comparisons] == ["identical"]
    assert 0 < compared.seconds < BUDGET_SECONDS / BUDGET_RUNS


def test_a_given_number_is_the_number_of_runs() -> None:
    assert run(3, [done(**{"model.pt": b"one"})], SAME).runs == 3


def test_the_first_difference_ends_the_budget_and_no_given_number() -> None:
    outputs = [done(**{"model.pt": text}) for text in (b"one", b"one", b"two", b"one")]
    compared = run(None, list(outputs), SAME, OTHER, SAME)
    assert (compared.runs, compared.comparisons[0].verdict) == (3, "drift")
    assert compared.comparisons[0].detail.startswith("run 3 of 3 beside the first: ")
    assert run(5, list(outputs), SAME, OTHER, SAME).runs == 5


@pytest.mark.parametrize(
    ("runs", "seconds", "another"),
    [(1, 3600.0, True), (2, 19.9, True), (2, 20.0, False), (29, 20.0, True), (30, 0.1, False)],
)
def test_the_next_run_has_to_fit_into_the_budget(runs: int, seconds: float, another: bool) -> None:
    work = Work(command=("train",), artefacts=("x",), text="train", seconds=BUDGET_SECONDS)
    assert work.fits_another_run(runs, seconds) is another


def test_runs_that_write_into_a_mount_are_not_repeated() -> None:
    volumes = (("/here/data", "/data"),)
    for read_only, seconds in ((frozenset[str](), 0.0), (frozenset({"/data"}), BUDGET_SECONDS)):
        conditions = Conditions(volumes=volumes, read_only=read_only)
        work = work_of_options("train", ("x",), (), (), conditions, runs=None)
        assert work is not None
        assert (work.runs, work.seconds) == (2, seconds)


def test_the_verdict_has_the_number_of_runs() -> None:
    lock = make_lock(workload=Workload(command=("train",), outputs=("model.pt",)))
    request = CheckRequest(
        reference="image:1", manifest=f"sha256:{SHA}", tree=f"sha256:{SHA}", expected=EXPECTED, now=1795323600,
        work=select_work(lock), parts=("workload",),
    )  # fmt: skip
    engine = PreparedEngine({**good_answers(), "compare": [done({"ran": True, "files": [SAME]})]})
    verdict = verify_image(lock, request, engine, {})
    assert verdict.work is not None
    assert verdict.work.runs == BUDGET_RUNS
    given = msgspec.structs.replace(request, work=select_work(lock, runs=4))
    verdict = verify_image(lock, given, engine, {})
    assert verdict.work is not None
    assert verdict.work.runs == 4
