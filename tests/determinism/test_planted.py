"""Planted faults are caught, each in the artefact that shows it; clean scripts raise no alarm: in real containers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

import msgspec
import pytest

from reprobuild.engines.registry import find_engine
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.conditions import Conditions
from reprobuild.verify.workload.run import compare_work
from tests.conftest import Built
from tests.determinism.planted import CLEAN, CLEAN_FOLDER, FAULTS, FAULTS_FOLDER, Script, verdicts, work_of


@pytest.fixture(scope="module")
def judge(built_example: Built) -> Callable[[Script], list[WorkComparison]]:
    """Return a function that runs a script in the image, as `verify --workload` does."""
    image, engine = built_example.image, find_engine("docker", os.environ)
    engine.load(built_example.out / "image", image.reference, image.digests, os.environ)

    def run(script: Script) -> list[WorkComparison]:
        folder = FAULTS_FOLDER if script in FAULTS else CLEAN_FOLDER
        work = msgspec.structs.replace(
            work_of(script),
            conditions=Conditions(volumes=((str(folder), "/scripts"),), read_only=frozenset({"/scripts"})),
        )
        return compare_work(work, 42, image.reference, engine, os.environ).comparisons

    return run


def _some_long(scripts: Sequence[Script]) -> list[object]:
    """Return the scripts as parameters, five of six of them long: `make proof` runs each many times."""
    return [
        pytest.param(script, id=script.name, marks=[pytest.mark.long] if place % 6 else [])
        for place, script in enumerate(scripts)
    ]


def test_there_are_enough() -> None:
    assert len(FAULTS) >= 30
    assert len(CLEAN) >= 10
    for scripts, folder in ((FAULTS, FAULTS_FOLDER), (CLEAN, CLEAN_FOLDER)):
        files = {path.stem for path in folder.glob("*.py")}
        assert files - {"tiny", "reseeding_library"} == {script.name for script in scripts}


@pytest.mark.parametrize("script", _some_long(FAULTS))
def test_a_fault_is_caught(script: Script, judge: Callable[[Script], list[WorkComparison]]) -> None:
    found = judge(script)
    assert verdicts(found) == script.expected, found


@pytest.mark.parametrize("script", _some_long(CLEAN))
def test_a_clean_script_raises_no_alarm(
    script: Script, judge: Callable[[Script], list[WorkComparison]]
) -> None:
    """Once each: an alarm that comes now and then is for `make proof` to find."""
    found = judge(script)
    assert verdicts(found) == dict.fromkeys(script.artefacts, "identical"), found
