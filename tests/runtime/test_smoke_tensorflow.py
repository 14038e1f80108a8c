"""The probes of TensorFlow with the real one: they agree, depend on the seed, and see what drifts."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_smoke_arrays import APART, CALM, CONTROLS, environment, planted, seen, smoke

TENSORFLOW = sorted(APART)


@pytest.fixture(scope="module")
def tensorflow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("tensorflow") / "made", "tensorflow-cpu==2.21.0")


@pytest.mark.long
def test_every_probe_in_full_and_in_short(tensorflow: Path) -> None:
    """Among them with eight threads in the second run, which is another number than in the first.

    The controls run beside them, each seen drifting and cured.
    """
    full = smoke(tensorflow, {"seed": 7, "only": TENSORFLOW})
    threads = {"TF_NUM_INTRAOP_THREADS": "8", "TF_NUM_INTEROP_THREADS": "8"}
    again = smoke(tensorflow, {"seed": 7, "only": TENSORFLOW, "repeats": 20, **CALM}, threads)
    for found in (full, again):
        for mode in ("profile", "strict"):
            assert seen(found, mode) == dict.fromkeys(TENSORFLOW, "IDENTICAL"), seen(found, mode, "why")
    assert {each["name"]: each["verdict"] for each in full["controls"]} == dict.fromkeys(
        CONTROLS, "effective"
    )
    assert full["stress"]["ran"] is True
    assert full["fingerprint"]["versions"]["tensorflow-cpu"] == "2.21.0"


@pytest.mark.long
def test_draws_and_training_depend_on_the_seed(tensorflow: Path) -> None:
    ask = {"quick": True, "modes": ["profile"], "only": TENSORFLOW}
    one, two = (
        seen(smoke(tensorflow, {**ask, "seed": seed}, {"REPROBUILD_SEED": str(seed)}), "profile", "digest")
        for seed in (7, 8)
    )
    assert {name for name in one if one[name] != two[name]} == {"tensorflow_draws", "tensorflow_training"}


@pytest.mark.long
def test_planted_faults_are_drift(tensorflow: Path) -> None:
    names = ["tensorflow_draws", "tensorflow_scatter", "tensorflow_matmul"]
    found = planted(tensorflow, only=names, repeats=20)
    drifting = {"tensorflow_draws": "DRIFT", "tensorflow_scatter": "DRIFT", "tensorflow_matmul": "IDENTICAL"}
    assert seen(found, "profile") == drifting
