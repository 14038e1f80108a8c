"""Planted faults are caught, each in the artefact that shows it; clean scripts raise no alarm: in real containers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from reprobuild.engines import find_engine
from reprobuild.verify.verdict import Comparison
from reprobuild.verify.work import compare_work
from tests.conftest import Built
from tests.determinism.planted import CLEAN, CLEAN_FOLDER, FAULTS, FAULTS_FOLDER, Script, verdicts, work_of

AT_ONCE = 2  # containers, as many as the cores of a small machine
# Those that the hooks make a function of the seed are run more often: a false alarm would be rare.
CLEAN_RUNS = 5


@pytest.fixture(scope="module")
def answers(built_example: Built) -> dict[str, list[list[Comparison]]]:
    """What came of every script; all are run before the first is judged, some at a time."""
    image, engine = built_example.image, find_engine("docker", os.environ)
    engine.load(built_example.out / "image", image.reference, (image.config, image.manifest), os.environ)

    def run(script: Script) -> list[Comparison]:
        folder = FAULTS_FOLDER if script in FAULTS else CLEAN_FOLDER
        volumes = [(str(folder), "/scripts")]
        return compare_work(work_of(script), 42, image.reference, engine, os.environ, volumes=volumes)

    todo = [*FAULTS, *(script for script in CLEAN for _ in range(CLEAN_RUNS))]
    found: dict[str, list[list[Comparison]]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for script, comparisons in zip(todo, pool.map(run, todo), strict=True):
            found.setdefault(script.name, []).append(comparisons)
    return found


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 30
    assert len(CLEAN) >= 10
    for scripts, folder in ((FAULTS, FAULTS_FOLDER), (CLEAN, CLEAN_FOLDER)):
        files = {path.stem for path in folder.glob("*.py")}
        assert files - {"tiny", "reseeding_library"} == {script.name for script in scripts}


@pytest.mark.parametrize("script", FAULTS, ids=lambda script: script.name)
def test_a_fault_is_caught(script: Script, answers: dict[str, list[list[Comparison]]]) -> None:
    for found in answers[script.name]:
        assert verdicts(found) == script.expected, found


@pytest.mark.parametrize("script", CLEAN, ids=lambda script: script.name)
def test_a_clean_script_raises_no_alarm(script: Script, answers: dict[str, list[list[Comparison]]]) -> None:
    assert len(answers[script.name]) == CLEAN_RUNS
    for found in answers[script.name]:
        assert verdicts(found) == dict.fromkeys(script.artefacts, "identical"), found
