"""Oracles: noisy numbers have the stated error rate, and a number is read as the user says."""

from __future__ import annotations

import random
import shlex
from pathlib import Path
from typing import Any

import pytest

from reprobuild.bisect.metric import Metric, check_metric
from reprobuild.bisect.oracle import NoisyOracle, Outcome, Runs, Tolerance, number_oracle, read_tolerance
from reprobuild.bisect.search import Answer, Chosen, search
from reprobuild.bisect.sides import read_judging
from reprobuild.bisect.statistics import student_tail, welch_probability
from reprobuild.errors import InconclusiveError, UsageError


def noisy_runs(mean: float, deviation: float, rng: random.Random) -> Runs:
    values: list[float] = []

    def run(number: int) -> Outcome:
        while len(values) <= number:
            values.append(rng.gauss(mean, deviation))
        return Outcome(code=0, number=values[number])

    return run


@pytest.mark.parametrize(
    ("value", "freedom", "tail"), [(2.228, 10, 0.05), (12.706, 1, 0.05), (3.169, 10, 0.01)]
)
def test_student(value: float, freedom: float, tail: float) -> None:
    """The values are of the usual tables."""
    assert student_tail(value, freedom) == pytest.approx(tail, rel=1e-3)


def test_welch_rejects_equal_means_as_often_as_it_says() -> None:
    rng = random.Random(1)
    samples = [[[rng.gauss(0, deviation) for _ in range(6)] for deviation in (1, 3)] for _ in range(2000)]
    rejected = sum(welch_probability(first, second) < 0.05 for first, second in samples)
    assert 0.03 < rejected / 2000 < 0.07
    assert welch_probability([1, 1], [1, 1]) == 1
    assert welch_probability([1, 1], [2, 2]) == 0


@pytest.mark.parametrize(("effect", "noise"), [(0.02, 0.01), (0.02, 0.02), (0.05, 0.05), (0.1, 0.02)])
def test_the_error_rate_is_as_stated(effect: float, noise: float) -> None:
    rng, wrong, count = random.Random(7), 0, 0
    for _ in range(60):
        oracle = NoisyOracle(0.05, "test")
        oracle.check(noisy_runs(1, noise, rng), noisy_runs(1 + effect, noise, rng))
        for side, mean in (("A", 1), ("B", 1 + effect)):
            answers = [oracle.answer(noisy_runs(mean, noise, rng)) for _ in range(10)]
            wrong, count = wrong + sum(answer != side for answer in answers), count + 10
    assert wrong / count < 0.08


def test_whole_searches_by_a_noisy_number_are_right() -> None:
    rng, right = random.Random(9), 0
    for _ in range(20):
        effect, noise, guilty = rng.uniform(0.02, 0.1), rng.uniform(0.01, 0.03), rng.randrange(40)
        oracle = NoisyOracle(0.05)
        oracle.check(noisy_runs(1, noise, rng), noisy_runs(1 + effect, noise, rng))

        def test(
            chosen: Chosen, oracle: NoisyOracle = oracle, guilty: int = guilty, effect: float = effect,
            noise: float = noise,
        ) -> Answer:  # fmt: skip
            return oracle.answer(noisy_runs(1 + effect * (guilty in chosen), noise, rng))

        result = search(40, test)
        right += result.guilty == frozenset({guilty}) and result.is_proved
    assert right >= 18


def test_equal_means_accuse_nothing() -> None:
    rng = random.Random(3)
    for _ in range(20):
        with pytest.raises(InconclusiveError, match="cannot be told apart"):
            NoisyOracle(0.05).check(noisy_runs(1, 0.1, rng), noisy_runs(1, 0.1, rng))


def test_a_noisy_run_without_a_number_is_refused() -> None:
    def silent(_: int) -> Outcome:
        return Outcome(code=1)

    with pytest.raises(InconclusiveError, match="A gives no number: exit code 1"):
        NoisyOracle(0.05).check(silent, silent)


def test_a_mixture_without_a_number_has_another_result() -> None:
    oracle = number_oracle(Tolerance(size=0.1))
    oracle.check(lambda _: Outcome(code=0, number=1), lambda _: Outcome(code=0, number=2))
    outcomes = (
        Outcome(code=0, number=1.05), Outcome(code=0, number=2.05), Outcome(code=0, number=1.5), Outcome(code=1),
        Outcome(code=125), Outcome(code=None, why="no image"),
    )  # fmt: skip
    answers = [oracle.answer({0: outcome}.__getitem__) for outcome in outcomes]
    assert answers == ["A", "B", "other", "other", "untestable", "untestable"]


def test_tolerances() -> None:
    assert read_tolerance("1%").same(100, 101)
    assert not read_tolerance("0.5").same(100, 101)
    assert read_tolerance("0").same(1, 1)
    for text in ("-1", "x", "nan", "inf", "%"):
        with pytest.raises(UsageError, match="not a number") as error:
            read_tolerance(text)
        assert error.value.hint == "for example --tolerance 1e-6, or 1%"


def test_the_last_match_is_the_number(tmp_path: Path) -> None:
    assert Metric(pattern="loss=([0-9.]+)").read_output(b"loss=1.5\nloss=0.25\n\xff") == 0.25
    assert Metric(pattern="[0-9]+").read_output(b"7") == 7
    assert (
        Metric(pattern="([0-9.]+) img/s").read_output(b"8 img/s\n" + b"7" * 60_000) == 8
    )  # in less than a minute
    assert Metric(pattern="loss=(\\w+)").read_output(b"loss=nan") is None
    assert Metric(pattern="x=(.)").read_output(b"x=1\n" + b" " * 510 + b"x=2") == 1
    assert Metric(pattern="x=(.)").read_output(b"x=1\n" + b" " * (64 << 10)) is None
    assert Metric(pattern="x").read_output(b"") is None
    (tmp_path / "m.json").write_text('{"a": [{"b": 2.5}, {"b": true}], "c": "1e3"}')
    read = {
        key: Metric(pattern=key, file="m").read_file(tmp_path / "m.json")
        for key in ("a.0.b", "a.1.b", "c", "d")
    }
    assert read == {"a.0.b": 2.5, "a.1.b": None, "c": 1000, "d": None}
    (tmp_path / "log").write_text("step 1 acc 0.5\nstep 2 acc 0.75\n")
    assert Metric(pattern="acc ([0-9.]+)", file="m").read_file(tmp_path / "log") == 0.75
    (tmp_path / "deep").write_text("[" * 100_000)
    assert Metric(pattern="a", file="m").read_file(tmp_path / "deep") is None
    assert Metric(pattern="a", file="m").read_file(tmp_path / "absent") is None


def test_contradicting_options_are_refused() -> None:
    def refused(*arguments: Any) -> tuple[str, str | None]:
        with pytest.raises(UsageError) as error:
            read_judging(*arguments)
        return str(error.value), error.value.hint

    assert refused(None, "m.json", "0", None, (), ()) == (
        "--metric-file, --tolerance and --noisy are about a number, and --metric is missing",
        "name the number: --metric 'loss=([0-9.]+)', or a key with --metric-file metrics.json",
    )
    assert refused("x", None, "0", None, ("out",), ()) == (
        "--metric and --output-file are given", "compare by one of them: leave the other out"
    )  # fmt: skip
    assert refused(None, None, "0", None, (), ("key",)) == (
        "--ignore-key is about output files, and --output-file is missing", "name them: --output-file out.json"
    )  # fmt: skip
    assert (
        refused("(", None, "0", None, (), ())[1] == "its first group is the number: --metric 'loss=([0-9.]+)'"
    )
    assert check_metric(Metric(pattern="a(b)")).pattern == "a(b)"


@pytest.mark.parametrize(
    ("pattern", "corrected"),
    [
        ("loss=", "'loss=([-+.e0-9]+)'"),
        ("loss=[0-9.]+", "'loss=([0-9.]+)'"),
        (r"loss: \d+\.\d+", r"'loss: (\d+\.\d+)'"),
        ("loss=.*", "'loss=(.*)'"),
        ("(?:acc|loss)=-?[0-9.]+", "'(?:acc|loss)=(-?[0-9.]+)'"),
        ("it's ", "'loss=([-+.e0-9]+)'"),
    ],
)
def test_an_expression_without_a_group_is_refused_and_the_corrected_one_reads_the_number(
    pattern: str, corrected: str
) -> None:
    with pytest.raises(UsageError, match="no group, so that the whole match would be the number") as error:
        check_metric(Metric(pattern=pattern))
    assert error.value.hint == (
        f"put the number in parentheses: --metric {corrected}; a key needs its file: --metric-file"
    )
    (word,) = shlex.split(corrected)
    metric = check_metric(Metric(pattern=word))
    if "loss" in pattern:
        assert metric.read_output(b"loss=0.25") == 0.25 or metric.read_output(b"loss: 0.25") == 0.25


@pytest.mark.parametrize("pattern", ["[0-9.]+", r"(?<=loss=)\d+", r"^-?\d+(?:e-?\d+)?$", r"\d{1,3}", "0|1"])
def test_an_expression_for_the_number_alone_needs_no_group(pattern: str) -> None:
    assert check_metric(Metric(pattern=pattern)).pattern == pattern


def test_a_key_of_a_file_needs_no_group() -> None:
    assert check_metric(Metric(pattern="val.loss", file="m.json")).file == "m.json"


def test_a_key_of_many_digits_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"a key of m\.json has more than 512 characters") as error:
        check_metric(Metric(pattern=f"val.{'1' * 5000}", file="m.json"))
    assert error.value.hint == "name the keys of the number, with dots between them: --metric val.loss"
    (tmp_path / "m.json").write_text("[1, 2]")
    for key in ("1" * 5000, "--1", "2", "-3", "\u0661"):
        assert Metric(pattern=key, file="m.json").read_file(tmp_path / "m.json") is None
    assert Metric(pattern="-1", file="m.json").read_file(tmp_path / "m.json") == 2
