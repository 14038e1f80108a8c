"""Planted faults are caught, each in the artefact that shows it; clean scripts raise no alarm: in real containers."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from reprobuild.engines.registry import find_engine
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.conditions import Conditions
from reprobuild.verify.workload.run import compare_work
from tests.conftest import Built
from tests.determinism.planted import CLEAN, CLEAN_FOLDER, FAULTS, FAULTS_FOLDER, Script, verdicts, work_of

AT_ONCE = 2  # containers, as many as the cores of a small machine


@pytest.fixture(scope="module")
def answers(built_example: Built) -> dict[str, list[WorkComparison]]:
    """What came of every script, run once, some at a time; `make proof` runs each many times: false alarms are rare."""
    image, engine = built_example.image, find_engine("docker", os.environ)
    engine.load(built_example.out / "image", image.reference, (image.config, image.manifest), os.environ)

    def run(script: Script) -> list[WorkComparison]:
        folder = FAULTS_FOLDER if script in FAULTS else CLEAN_FOLDER
        work = msgspec.structs.replace(
            work_of(script),
            conditions=Conditions(volumes=((str(folder), "/scripts"),), read_only=frozenset({"/scripts"})),
        )
        return compare_work(work, 42, image.reference, engine, os.environ)

    todo = (*FAULTS, *CLEAN)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return {script.name: found for script, found in zip(todo, pool.map(run, todo), strict=True)}


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 30
    assert len(CLEAN) >= 10
    for scripts, folder in ((FAULTS, FAULTS_FOLDER), (CLEAN, CLEAN_FOLDER)):
        files = {path.stem for path in folder.glob("*.py")}
        assert files - {"tiny", "reseeding_library"} == {script.name for script in scripts}


@pytest.mark.parametrize("script", FAULTS, ids=lambda script: script.name)
def test_a_fault_is_caught(script: Script, answers: dict[str, list[WorkComparison]]) -> None:
    found = answers[script.name]
    assert verdicts(found) == script.expected, found


@pytest.mark.parametrize("script", CLEAN, ids=lambda script: script.name)
def test_a_clean_script_raises_no_alarm(script: Script, answers: dict[str, list[WorkComparison]]) -> None:
    """Once each: an alarm that comes now and then is for `make proof` to find."""
    found = answers[script.name]
    assert verdicts(found) == dict.fromkeys(script.artefacts, "identical"), found
