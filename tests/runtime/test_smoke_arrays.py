"""The determinism test of an image without torch, with real NumPy, SciPy and scikit-learn of two generations."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import make_environment

from reprobuild_runtime.probes import run as program
from reprobuild_runtime.probes.arrays import child, controls

RUN = Path(program.__file__)
PLANTED = Path(__file__).parent / "planted_arrays.py"
EVERY = child.register()
APART = {name for name, probe in EVERY.items() if probe.library == "tensorflow"}  # test_smoke_tensorflow.py
KNOWN = {name: probe for name, probe in EVERY.items() if name not in APART}
GENERATIONS = {
    "1": ("numpy==1.26.4", "scipy==1.11.4", "scikit-learn==1.3.2", "jax==0.4.30", "jaxlib==0.4.30"),
    "2": ("numpy==2.2.6", "scipy==1.15.3", "scikit-learn==1.6.1", "jax==0.5.3", "jaxlib==0.5.3"),
}
CONTROLS = {*controls.RACES, *controls.OTHERS, "set_order", "unseeded", "unseeded_numpy"}
CALM = {"stress": False, "controls": False}
KMEANS = "sklearn_kmeans"


def environment(folder: Path, *requirements: str) -> Path:
    """Install real libraries beside the start-up hook, and return the interpreter."""
    made = make_environment(folder)
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(made.python)]
    subprocess.run(
        [*uv, "--only-binary", ":all:", "--target", str(made.site), *requirements], check=True, timeout=600
    )
    return made.python


@pytest.fixture(scope="module", params=[pytest.param("1", marks=pytest.mark.long), "2"])
def libraries(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with NumPy 1.x or 2.x, and what builds on it."""
    return environment(tmp_path_factory.mktemp("arrays") / "made", *GENERATIONS[request.param])


@pytest.fixture(scope="module")
def numpy_alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("numpy") / "made", "numpy==2.2.6")


def smoke(python: Path, options: dict[str, Any], env: dict[str, str] | None = None) -> dict[str, Any]:
    full = {"PATH": os.environ["PATH"], "REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7", **(env or {})}
    done = subprocess.run(
        [python, RUN, json.dumps({"subject": "arrays", **options})], env=full, capture_output=True, text=True,
        timeout=900, check=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["ran"] is True, found["why"]
    return found


def seen(found: dict[str, Any], mode: str, key: str = "verdict") -> dict[str, Any]:
    return {probe["name"]: probe["modes"][mode][key] for probe in found["probes"]}


@pytest.mark.long
def test_every_probe_and_every_control(libraries: Path) -> None:
    """As `verify` asks for it: first in full, then in short, which must give the same digests."""
    full = smoke(libraries, {"seed": 7})
    again = smoke(libraries, {"seed": 7, "quick": True})
    for mode in ("profile", "strict"):
        verdicts, others = seen(full, mode), seen(again, mode)
        assert set(verdicts) == set(others) == set(EVERY)
        assert {verdicts.pop(name) for name in APART} == {"SKIPPED"}
        loose = {KMEANS} if mode == "profile" else set()  # with more than two threads
        assert {name for name, verdict in verdicts.items() if verdict != "IDENTICAL"} <= loose, seen(
            full, mode, "why"
        )
        one, two = seen(full, mode, "digest"), seen(again, mode, "digest")
        assert {name for name in one if one[name] != two[name]} <= loose
    repeats = seen(full, "strict", "repeats")
    assert {repeats[name] for name in KNOWN} == {10}
    assert {each["name"]: each["verdict"] for each in full["controls"]} == dict.fromkeys(
        CONTROLS, "effective"
    )
    assert set(full["comparator"].values()) == {True}
    assert (full["start"], full["collectives"]) == (again["start"], None)
    assert full["start"]["numpy"]
    assert (full["fingerprint"], full["expectations"]["source"]) == (again["fingerprint"], "")
    assert full["stress"] == {"ran": True, "why": ""}
    most = min(2, len(os.sched_getaffinity(0)))
    assert full["threads"]["profile"] >= most
    assert full["threads"]["strict"] == 1
    assert [each["core"] for each in full["fingerprint"]["blas"] if each["name"] != "libmkl_rt"]


def test_the_centres_of_several_threads_drift_and_those_of_one_do_not(libraries: Path) -> None:
    """scikit-learn adds the threads' parts as they come; it is a drift that is really there, and is seen."""
    ask = {"only": [KMEANS, "sklearn_kmeans_one_thread"], "repeats": 20, **CALM}
    found = smoke(libraries, ask, {"OMP_NUM_THREADS": "8"})
    assert seen(found, "profile") == {KMEANS: "DRIFT", "sklearn_kmeans_one_thread": "IDENTICAL"}
    assert set(seen(found, "strict").values()) == {"IDENTICAL"}
    (told,) = (probe["informational"] for probe in found["probes"] if probe["name"] == KMEANS)
    assert told is True


@pytest.mark.parametrize("threads", ["1", pytest.param("4", marks=pytest.mark.long)])
def test_other_numbers_of_threads(libraries: Path, threads: str) -> None:
    env = {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    names = [
        name for name in KNOWN if name.startswith("numpy_") or name in ("scipy_linalg", "sklearn_boosting")
    ]
    found = smoke(libraries, {"only": names, "modes": ["profile"], "repeats": 3, **CALM}, env)
    assert set(seen(found, "profile").values()) == {"IDENTICAL"}, seen(found, "profile", "why")


def test_what_depends_on_the_seed(libraries: Path) -> None:
    ask = {"quick": True, "modes": ["profile"]}
    one, two = (
        seen(smoke(libraries, {**ask, "seed": seed}, {"REPROBUILD_SEED": str(seed)}), "profile", "digest")
        for seed in (7, 8)
    )
    other = {name for name in one if one[name] != two[name]}
    drawn = {name for name in KNOWN if "draw" in name}
    assert drawn <= other
    assert {"scipy_search", "scipy_stats", "sklearn_forest_unseeded", "sklearn_selection"} <= other
    assert not {name for name in other if name.startswith("numpy_")} - drawn


def planted(python: Path, **options: Any) -> dict[str, Any]:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "from reprobuild_runtime.probes import run\n"
        "print(json.dumps(run.answer(sys.argv[2], child=[sys.executable, sys.argv[3]])))"
    )
    ask = json.dumps({"subject": "arrays", "seed": 7, **CALM, **options})
    env = {"PATH": os.environ["PATH"], "REPROBUILD_SEED": "7", "PYTHONHASHSEED": "7"}
    done = subprocess.run(
        [python, "-c", code, str(RUN.parents[2]), ask, PLANTED], env=env, capture_output=True, text=True, check=True,
        timeout=900,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_planted_faults_are_drift(numpy_alone: Path) -> None:
    names = [
        "numpy_sums", "numpy_gram", "numpy_draw_global", "numpy_draw_seeded", "numpy_moments", "numpy_solve",
        "numpy_fft", "numpy_eigh",
    ]  # fmt: skip
    found = planted(numpy_alone, only=names, repeats=20)
    profile, strict = seen(found, "profile"), seen(found, "strict")
    drifting = {"numpy_sums", "numpy_gram", "numpy_draw_global", "numpy_draw_seeded", "numpy_moments"}
    assert {name for name, verdict in profile.items() if verdict == "DRIFT"} == drifting
    # A draw that differs between processes alone is seen by their number; one thread cures one race.
    assert seen(found, "profile", "distinct")["numpy_draw_seeded"] == 2
    assert {name for name, verdict in strict.items() if verdict == "DRIFT"} == drifting - {"numpy_gram"}
    assert profile["numpy_solve"] == profile["numpy_eigh"] == "IDENTICAL"
    assert (profile["numpy_fft"], seen(found, "profile", "why")["numpy_fft"]) == (
        "ERROR", "the process: it died by SIGSEGV",
    )  # fmt: skip


def test_without_the_start_up_hook_draws_drift(numpy_alone: Path) -> None:
    """An image whose hook does not seed NumPy gives other numbers in each process."""
    names = ["numpy_draw_global", "numpy_draw_generator", "numpy_draw_seeded", "numpy_solve"]
    options = json.dumps({"subject": "arrays", "only": names, **CALM})
    code = (
        "import runpy, sys; sys.argv = sys.argv[1:]\n"
        "from reprobuild_runtime.probes import processes\n"
        "processes.CHILDREN['arrays'].insert(1, '-S')\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    folders = os.pathsep.join(
        [str(RUN.parents[2]), *map(str, numpy_alone.parents[1].glob("lib/python*/site-packages"))]
    )
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": folders}
    done = subprocess.run(
        [numpy_alone, "-S", "-c", code, RUN, options],
        env=env,
        capture_output=True,
        text=True,
        check=True,
        timeout=900,
    )
    profile = seen(json.loads(done.stdout), "profile")
    assert profile == {
        "numpy_draw_global": "DRIFT", "numpy_draw_generator": "DRIFT", "numpy_draw_seeded": "IDENTICAL",
        "numpy_solve": "IDENTICAL",
    }  # fmt: skip


def test_libraries_that_are_not_there_are_skipped_by_name(numpy_alone: Path) -> None:
    found = smoke(numpy_alone, {"quick": True})
    skipped = {name for name, verdict in seen(found, "profile").items() if verdict == "SKIPPED"}
    assert skipped == {name for name, probe in EVERY.items() if probe.library != "numpy"}
    why = seen(found, "profile", "why")["scipy_linalg"]
    assert why == "not applicable here: scipy does not import: ModuleNotFoundError: No module named 'scipy'"


def test_the_comparison_is_seen_failing(numpy_alone: Path) -> None:
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1])\n"
        "import numpy\nfrom reprobuild_runtime.probes.arrays import comparator as c\n"
        "whole = c.digest\nanswers = [c.comparator(numpy)]\n"
        "c.digest = lambda values: str([v.shape for v in values])\nanswers.append(c.comparator(numpy))\n"
        "c.digest = lambda values: whole([numpy.ascontiguousarray(v) for v in values])\n"
        "answers.append(c.comparator(numpy))\nprint(json.dumps(answers))"
    )
    done = subprocess.run(
        [numpy_alone, "-c", code, str(RUN.parents[2])], capture_output=True, text=True, check=True
    )
    missed = [[name for name, told in each.items() if not told] for each in json.loads(done.stdout)]
    assert missed[0] == []
    assert missed[1] == [
        "lowest bit",
        "sign of zero",
        "payload of NaN",
        "order",
        "type",
        "stride",
        "byte order",
    ]
    assert missed[2] == ["stride"]
