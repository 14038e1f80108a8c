"""From answers to verdicts: each answer, each non-answer, and which exit code it calls for."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from reprobuild.errors import DriftError, InconclusiveError, RoundTripError
from reprobuild.verify.judge import (
    compare_probes,
    judge_control,
    judge_cpu,
    judge_determinism,
)
from reprobuild.verify.verdict import Comparison, Difference, RoundTrip, V, Verdict
from tests.verify.samples import make_verdict

IDENTICAL = Comparison(name="x", verdict="identical")
DRIFT = Comparison(name="x", verdict="drift")
OPEN = Comparison(name="x", verdict="inconclusive")
EFFECTIVE = Comparison(name="control", verdict="drift")


def answer(**more: Any) -> dict[str, Any]:
    return {
        "ran": True,
        "probes": {"matmul": "1", "dropout": "2"},
        "failed": {},
        "start": {"random": "3"},
        **more,
    }


def verdicts(first: dict[str, Any], second: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {found.name: (found.verdict, found.detail) for found in compare_probes(first, second)}


# --- probes ----------------------------------------------------------------------------------


def test_probes_that_agree() -> None:
    assert verdicts(answer(), answer()) == {
        "matmul": ("identical", "1"),
        "dropout": ("identical", "2"),
        "seeding hook": ("identical", '{"random": "3"}'),
    }


def test_a_probe_that_drifts() -> None:
    found = verdicts(answer(), answer(probes={"matmul": "9", "dropout": "2"}))
    assert found["matmul"] == ("drift", "1 and 9")
    assert found["dropout"][0] == "identical"


def test_what_was_drawn_before_seeding_differs() -> None:
    found = verdicts(answer(), answer(start={"random": "4"}))
    assert found["seeding hook"] == ("drift", '{"random": "3"} and {"random": "4"}')


@pytest.mark.parametrize("order", [1, -1])
def test_a_probe_that_fails_in_one_process(order: int) -> None:
    pair = [answer(), answer(probes={"dropout": "2"}, failed={"matmul": "RuntimeError: no"})][::order]
    found = verdicts(*pair)
    assert found["matmul"] == ("inconclusive", "RuntimeError: no")
    assert found["dropout"][0] == "identical"


def test_a_probe_that_fails_in_both() -> None:
    failed = answer(probes={"dropout": "2"}, failed={"matmul": "RuntimeError: no"})
    assert verdicts(failed, failed)["matmul"] == ("inconclusive", "RuntimeError: no")


def test_a_probe_that_one_process_does_not_know() -> None:
    found = verdicts(answer(), answer(probes={"matmul": "1"}))
    assert found["dropout"] == ("inconclusive", "one of two processes gave no answer")


@pytest.mark.parametrize("start", [None, {}])
def test_no_word_of_the_seeding_hook(start: object) -> None:
    assert verdicts(answer(start=start), answer(start=start))["seeding hook"][0] == "inconclusive"
    assert verdicts(answer(), answer(start=start))["seeding hook"][0] == "inconclusive"


@pytest.mark.parametrize("order", [1, -1])
def test_probes_that_did_not_run(order: int) -> None:
    pair = [answer(), {"ran": False, "why": "torch does not import"}][::order]
    assert verdicts(*pair) == {"probes": ("inconclusive", "torch does not import")}
    assert verdicts({}, {}) == {"probes": ("inconclusive", "no answer")}


def test_no_probes() -> None:
    nothing = {"ran": True, "probes": {}}
    assert verdicts(nothing, nothing) == {"probes": ("inconclusive", "no probe answered")}
    assert verdicts({"ran": True}, {"ran": True}) == {"probes": ("inconclusive", "no probe answered")}


# --- control ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "verdict", "detail"),
    [
        (None, "not-run", "the control was left out"),
        ({"ran": False, "why": "no torch"}, "inconclusive", "no torch"),
        ({}, "inconclusive", "no answer"),
        (
            {"ran": True, "control": {"effective": True, "distinct": 8, "repeats": 9, "threads": 4}},
            "drift",
            "8 different results in 9 repeats, as it must",
        ),
        (
            {"ran": True, "control": {"effective": False, "distinct": 1, "repeats": 9, "threads": 1}},
            "inconclusive",
            "1 different results in 9 repeats on 1 threads: a drift would not have been seen here",
        ),
        (
            {"ran": True},
            "inconclusive",
            "None different results in None repeats on None threads: a drift would not have been seen here",
        ),
    ],
)
def test_the_control(given: dict[str, Any] | None, verdict: str, detail: str) -> None:
    assert judge_control(given) == Comparison(name="control", verdict=verdict, detail=detail)


# --- determinism -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("comparisons", "control", "verdict"),
    [
        ([IDENTICAL], EFFECTIVE, "identical"),
        ([IDENTICAL, DRIFT], EFFECTIVE, "drift"),
        ([OPEN, DRIFT], OPEN, "drift"),
        ([IDENTICAL, OPEN], EFFECTIVE, "inconclusive"),
        ([IDENTICAL], judge_control(None), "inconclusive"),
        ([IDENTICAL], OPEN, "inconclusive"),
        ([], EFFECTIVE, "inconclusive"),
    ],
)
def test_the_cpu(comparisons: list[Comparison], control: Comparison, verdict: str) -> None:
    assert judge_cpu(comparisons, control) == verdict


@pytest.mark.parametrize("bad", sorted(set(get_args(V)) - {"identical", "drift"}))
def test_no_non_answer_passes_for_identical(bad: Any) -> None:
    assert judge_cpu([IDENTICAL, Comparison(name="y", verdict=bad)], EFFECTIVE) == "inconclusive"


@pytest.mark.parametrize(
    ("cuda_build", "cpu_only", "others", "note", "code"),
    [
        (False, False, "not-applicable", None, 0),
        (False, True, "not-applicable", None, 0),
        (True, False, "not-covered", "no GPU was checked: run `reprobuild verify` on a machine with one", 9),
        (True, True, "not-applicable", "left out by --scope cpu: nothing is known about them", 0),
        (None, False, "inconclusive", "torch did not say whether it is built for CUDA", 9),
        (None, True, "not-applicable", "left out by --scope cpu: nothing is known about them", 0),
    ],
)
def test_the_scopes(
    cuda_build: bool | None, cpu_only: bool, others: Any, note: str | None, code: int
) -> None:
    found, notes = judge_determinism([IDENTICAL], EFFECTIVE, cuda_build=cuda_build, cpu_only=cpu_only)
    assert (found.cpu, found.gpu, found.collectives) == ("identical", others, others)
    assert len(notes) == (1 if note else 0)
    assert (note or "") in "".join(notes)
    assert make_verdict(found.cpu, found.gpu).exit_code == code


@pytest.mark.parametrize("cuda_build", [True, False, None])
def test_drift_shows_whatever_the_scope(cuda_build: bool | None) -> None:
    found, _ = judge_determinism([DRIFT], EFFECTIVE, cuda_build=cuda_build, cpu_only=False)
    assert make_verdict(found.cpu, found.gpu).exit_code == 8


# --- exit codes ------------------------------------------------------------------------------


def expected_code(cpu: str, gpu: str, round_trip: str) -> int:
    """The table in words: drift, then residue, then whatever is open."""
    if "drift" in (cpu, gpu):
        return DriftError.exit_code
    if round_trip == "residue":
        return RoundTripError.exit_code
    if {cpu, gpu} & {"inconclusive", "not-covered", "not-run"} or round_trip == "not-run":
        return InconclusiveError.exit_code
    return 0


@pytest.mark.parametrize("round_trip", get_args(RoundTrip))
@pytest.mark.parametrize("gpu", get_args(V))
@pytest.mark.parametrize("cpu", get_args(V))
def test_exit_codes(cpu: Any, gpu: Any, round_trip: Any) -> None:
    verdict = make_verdict(cpu, gpu, round_trip)
    assert verdict.exit_code == expected_code(cpu, gpu, round_trip)
    clean = {cpu, gpu} <= {"identical", "not-applicable"} and round_trip in ("exact", "explained")
    assert (verdict.exit_code == 0) == clean


def test_the_gravest_wins() -> None:
    assert make_verdict("drift", "not-covered", "residue").exit_code == 8
    assert make_verdict("inconclusive", "not-covered", "residue").exit_code == 10
    assert make_verdict("identical", "not-covered", "explained").exit_code == 9
    assert make_verdict("identical", "not-applicable", "explained").exit_code == 0


def test_a_verdict_is_written_and_read() -> None:
    verdict = make_verdict(
        differences=(Difference(list="env.txt", captured="A", image="", reason="", code="unexplained"),),
        fingerprint={"cpu": "x", "n": 1},
    )
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict
