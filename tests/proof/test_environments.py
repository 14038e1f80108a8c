"""The experiment with ordinary environments: the recipe is that of the docs, and each claim can fail."""

from __future__ import annotations

from typing import Any

from proof.environments import experiment
from proof.environments.cases import CASES
from proof.environments.machine import KINDS

GOOD: dict[str, Any] = {
    "name": "a", "machine": "server", "capture": "recipe", "exit code": 0, "seconds": 90.0, "refused": 0,
    "verdict": "identical", "MB": 120, "job": "the same bytes",
}  # fmt: skip


def test_the_environments_are_many_and_of_all_kinds() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 30
    assert {case.machine for case in CASES} == set(KINDS)
    assert {case.capture for case in CASES} == {"capture", "recipe"}
    assert any(case.slurm for case in CASES)


def test_the_recipe_is_that_of_the_readme() -> None:
    editable = next(case for case in CASES if "-e lib" in case.make and case.capture == "recipe")
    plain = next(case for case in CASES if case.capture == "recipe" and "-e lib" not in case.make)
    assert "pip freeze --all > $REPRO_DIR/requirements.txt" in experiment.recipe(plain)
    assert "mylib" not in experiment.recipe(plain) + experiment.recipe(editable)
    assert "(cd ../lib && git diff > $OLDPWD/$REPRO_DIR/tinylib.diff)" in experiment.recipe(editable)


def test_a_decision_a_failure_and_a_wrong_image_each_count() -> None:
    assert experiment.held([GOOD])
    for bad in (
        {**GOOD, "exit code": 4},
        {**GOOD, "job": "fails"},
        {**GOOD, "job": "other bytes"},
        {"name": "a", "machine": "server", "capture": "recipe", "not made": "no such package"},
    ):
        assert not experiment.held([bad]), bad
    decided = {**GOOD, "decisions": ["--source"]}
    assert not experiment.held([decided])
    assert experiment.held([*[GOOD] * 4, decided])
    assert "4 end with exit code 0 without a decision, and 5 with" in experiment.sentence(
        [*[GOOD] * 4, decided]
    )


def test_a_row_has_a_cell_for_each_heading() -> None:
    assert len(experiment.row(GOOD)) == len(experiment.HEAD)
    assert len(experiment.row({**GOOD, "verdict": None, "MB": None})) == len(experiment.HEAD)
    assert experiment.row(GOOD)[3:6] == ["0", "0", "0"]
