"""From answers to verdicts: each answer, each non-answer, and which exit code it calls for."""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import pytest

from reprobuild.errors import DriftError, InconclusiveError, RoundTripError
from reprobuild.lock import Setting
from reprobuild.verify.judge import (
    compare_environment,
    compare_freeze,
    compare_packages,
    compare_probes,
    judge_control,
    judge_cpu,
    judge_determinism,
    judge_round_trip,
)
from reprobuild.verify.verdict import Comparison, Difference, RoundTrip, V, Verdict
from tests.verify.samples import deb, frozen, make_lock, make_verdict, ruling

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
        differences=(Difference(list="env.txt", captured="A", image="", reason=""),),
        fingerprint={"cpu": "x", "n": 1},
    )
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


# --- the round trip --------------------------------------------------------------------------


def test_round_trip_values() -> None:
    explained = Difference(list="requirements.txt", captured="a", image="", reason="excluded")
    bare = Difference(list="requirements.txt", captured="b", image="", reason="")
    assert judge_round_trip([]) == "exact"
    assert judge_round_trip([explained]) == "explained"
    assert judge_round_trip([explained, bare]) == "residue"
    assert judge_round_trip([], ["env.txt was not compared"]) == "not-run"
    assert judge_round_trip([explained], ["env.txt was not compared"]) == "not-run"
    assert judge_round_trip([bare], ["env.txt was not compared"]) == "residue"


def freeze(
    captured: str, *inside: tuple[str, str], tree: str | None = None, **more: Any
) -> list[tuple[str, str, str]]:
    """Compare one captured line with what the image says; return (captured, image, reason) of each difference."""
    name = more.pop("subject", "a")
    lock = make_lock(rulings=(ruling(name, captured, **more),))
    items = [{"name": item, "freeze": line, "tree": tree} for item, line in inside]
    found = compare_freeze(lock, frozen(*items))
    assert {difference.list for difference in found} <= {"requirements.txt"}
    return [(difference.captured, difference.image, difference.reason) for difference in found]


def test_freeze_the_same() -> None:
    assert freeze("a==1", ("a", "a==1")) == []


def test_freeze_missing() -> None:
    assert freeze("a==1") == [("a==1", "", "")]


def test_freeze_extra() -> None:
    assert freeze("a==1", ("a", "a==1"), ("b", "b==2")) == [("", "b==2", "")]


def test_freeze_another_version() -> None:
    assert freeze("a==1", ("a", "a==2")) == [("a==1", "a==2", "")]


SPELLED = "the same, spelled differently by another version of pip or uv"


@pytest.mark.parametrize(
    ("captured", "image"),
    [
        ("My_Pkg==1.0", "my-pkg==1.0"),
        ("my.pkg===1.0", "my-pkg==1.0"),
        (
            "-e git+ssh://git@example.org/o/my_pkg@c0ffee#egg=my_pkg",
            "-e git+https://example.org/o/my_pkg@c0ffee#egg=my-pkg",
        ),
    ],
)
def test_freeze_spelled_differently(captured: str, image: str) -> None:
    assert freeze(captured, ("MY_pkg", image), subject="my-pkg") == [(captured, image, SPELLED)]


@pytest.mark.parametrize(
    "image",
    [
        "-e git+https://example.org/o/a@deadbeef#egg=a",
        "-e git+https://example.com/o/a@c0ffee#egg=a",
        "a==1.0",
        "-e /src/a",
    ],
)
def test_freeze_another_commit_place_or_kind_is_no_spelling(image: str) -> None:
    captured = "-e git+https://example.org/o/a@c0ffee#egg=a"
    assert freeze(captured, ("a", image)) == [(captured, image, "")]


def test_freeze_an_editable_install_with_another_tree() -> None:
    line = "-e git+https://example.org/mylib@c#egg=mylib"
    good, other = "7" * 40, "8" * 40
    assert freeze(line, ("mylib", line), tree=good, subject="mylib") == []
    assert freeze(line, ("mylib", line), tree=other, subject="mylib") == [
        (f"{line} with tree {good}", f"tree {other}", "")
    ]
    assert freeze(line, ("mylib", line), subject="mylib") == [(f"{line} with tree {good}", "tree None", "")]


@pytest.mark.parametrize("outcome", ["unresolved", "excluded", "replaced", "in base"])
def test_freeze_an_outcome_explains(outcome: Any) -> None:
    reason = f"{outcome}: gone from the index"
    more = {"outcome": outcome, "reason": "gone from the index", "accepted": True}
    assert freeze("a==1", **more) == [("a==1", "", reason)]
    assert freeze("a==1", ("a", "a==2"), **more) == [("a==1", "a==2", reason)]


def test_lines_of_other_lists_are_not_the_freeze() -> None:
    lock = make_lock(rulings=(ruling("bash", ""),))
    assert compare_freeze(lock, frozen()) == []


def test_packages() -> None:
    lock = make_lock()
    assert compare_packages(lock, {"bash": "1-1", "dpkg": "1-1"}) == []
    found = compare_packages(lock, {"bash": "2-1", "zsh": "3"})
    assert [(d.captured, d.image, d.reason, d.list) for d in found] == [
        ("bash 1-1", "bash 2-1", "", "apt-packages.txt"),
        ("dpkg 1-1", "dpkg", "", "apt-packages.txt"),
        ("zsh", "zsh 3", "", "apt-packages.txt"),
    ]
    assert deb("bash").version == "1-1"


def test_environment() -> None:
    lock = make_lock(environment=(Setting(name="A", value="secret-looking"), Setting(name="B", value="")))
    assert compare_environment(lock, {"A": "secret-looking", "B": "", "PATH": "/bin"}) == []
    found = compare_environment(lock, {"A": "other"})
    assert [(d.captured, d.image, d.reason, d.list) for d in found] == [
        ("A", "another value", "", "env.txt"),
        ("B", "", "", "env.txt"),
    ]
