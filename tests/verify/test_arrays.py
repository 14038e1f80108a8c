"""Verdicts on an image without torch: NumPy and what builds on it, from answers that are prepared."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import msgspec
import pytest

import reprobuild_runtime
from reprobuild.lock.model import Lock, Workload
from reprobuild.report.determinism import verdict_lines
from reprobuild.report.html.answers import answer_same_results
from reprobuild.report.html.page import render_html
from reprobuild.report.html.probes import ARRAYS_LEGEND, LEGEND, describe_coverage
from reprobuild.verify.certificate.compare import compare_against
from reprobuild.verify.certificate.read import Certificate, read_verdict
from reprobuild.verify.check import CheckRequest, select_work, verify_image
from reprobuild.verify.determinism.document import Device
from reprobuild.verify.determinism.expected import ARRAYS, Expected
from reprobuild.verify.determinism.platform import platform_facts
from reprobuild.verify.determinism.run import container_options
from reprobuild.verify.determinism.summary import describe_scope
from reprobuild.verify.verdict import Determinism, Verdict
from tests.report.samples import IMAGE
from tests.verify.samples import (
    SHA,
    PreparedEngine,
    changed,
    document,
    done,
    drift,
    good_answers,
    make_lock,
    observed,
    wheel,
)

EXPECTED = msgspec.json.decode(
    (Path(reprobuild_runtime.__file__).parent / ARRAYS).read_bytes(), type=dict[Device, Expected]
)
WANTED = EXPECTED["cpu"]
NUMPY = sum(name == "numpy" for name in WANTED.libraries.values())
SCIPY = [name for name, library in WANTED.libraries.items() if library == "scipy"]
LEARNING = [name for name, library in WANTED.libraries.items() if library == "scikit-learn"]
JAX = [name for name, library in WANTED.libraries.items() if library == "jax"]
TENSORFLOW = [name for name, library in WANTED.libraries.items() if library == "tensorflow"]
(KMEANS,) = WANTED.informational
RACE = "numpy_matmul_fp64"
START = {"random": "3", "hash": "4", "numpy": "5", "hook": {"seed": "42"}}
FINGERPRINT = {
    "cuda_build": False, "cpus": 2, "threads": 2, "cpu_model": "one", "cpu_features": "AVX2 FMA3",
    "blas": [{"name": "libopenblas", "core": "Haswell", "threads": 2}], "numpy": "2.2.6",
}  # fmt: skip
WORKLOAD = Workload(command=("python", "train.py", "--out", "{out}/model.pt"), outputs=("model.pt",))


def answer(*, quick: bool = False, without: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    """Return what a container answers where all is well; `without` are libraries that it does not have."""
    skipped = {
        "verdict": "SKIPPED",
        "digest": None,
        "distinct": 0,
        "why": "not applicable here: it does not import: no",
    }
    probes = [
        {
            "name": name, "kind": "algebra", "dtype": "float64", "shape": "8x8", "documented": "none",
            "library": WANTED.libraries[name],
            "modes": {
                mode: observed(name, **(skipped if WANTED.libraries[name] in without else {}))
                for mode in ("profile", "strict")
            },
        }
        for name in WANTED.probes
    ]  # fmt: skip
    controls = [
        {
            "name": name.partition(" ")[2], "device": "cpu", "why": "",
            "modes": {"default": drift(), "cured": observed(name)},
        }
        for name in WANTED.controls
    ]  # fmt: skip
    base = document(quick=quick)
    found = {
        **base, "probes": probes, "controls": [] if quick else controls, "start": START, "fingerprint": FINGERPRINT,
        "comparator": dict.fromkeys(WANTED.comparator, True), "collectives": None,
        "threads": {"profile": 2, "strict": 1},
        "expectations": {"source": "", "deterministic": [], "refused": []},
    }  # fmt: skip
    return {**found, **more}


def lock_of(*names: str, **more: Any) -> Lock:
    return make_lock(wheels=tuple(map(wheel, names)), sources=(), rulings=(), **more)


def check(
    lock: Lock, first: dict[str, Any] | None = None, second: dict[str, Any] | None = None, **more: Any
) -> tuple[Verdict, PreparedEngine]:
    engine = PreparedEngine(
        {
            **good_answers(),
            "freeze": [done({"python": "3.11.2", "distributions": []})],
            "cpu": [done(answer() if first is None else first)],
            "cpu quick": [done(answer(quick=True) if second is None else second)],
        }
    )
    asked = CheckRequest(
        reference="image:1", manifest=f"sha256:{SHA}", tree=f"sha256:{SHA}",
        **{
            "expected": EXPECTED, "now": 1795323600,
            "work": select_work(lock, runs=2 if lock.workload else None), **more,
        },
    )  # fmt: skip
    return verify_image(lock, asked, engine, {}), engine


ALL = ("numpy", "scipy", "scikit-learn", "jax", "tensorflow")


def test_all_is_well() -> None:
    verdict, engine = check(lock_of(*ALL))
    assert [kind for kind, _ in engine.tasks][2:] == ["cpu", "cpu quick"]
    assert '"subject": "arrays"' in engine.tasks[2][1].arguments[2]
    assert verdict.determinism == Determinism(
        cpu="identical", gpu="not-applicable", collectives="not-applicable"
    )
    (smoke,) = verdict.smoke
    assert (smoke.verdict, smoke.hook, smoke.open, verdict.notes) == ("identical", "identical", (), ())
    assert smoke.libraries == {
        "numpy": NUMPY,
        "scipy": len(SCIPY),
        "scikit-learn": len(LEARNING) - 1,
        "jax": len(JAX),
        "tensorflow": len(TENSORFLOW),
    }
    words = (
        f"NumPy: {NUMPY} probes, SciPy: {len(SCIPY)} probes, scikit-learn: {len(LEARNING) - 1} probes, "
        f"JAX: {len(JAX)} probes, TensorFlow: {len(TENSORFLOW)} probes"
    )
    assert describe_scope(verdict) == f" ({words})"
    lines = verdict_lines(verdict)
    total = len(WANTED.probes)
    assert lines[0] == (
        f"determinism test, cpu, seed 42: {total} probes with the image's own threads, and with one: "
        f"{total - 1} identical, 1 informational"
    )
    assert not [line for line in lines if "torch" in line or "strict" in line]
    assert describe_coverage(smoke).startswith(
        f"{total - 1} of {total} probes gave the same bytes ({words}), each in 10 runs"
    )
    assert f"({words}) gave the same bytes in every run" in answer_same_results(verdict).sentence
    page = render_html(make_lock(), IMAGE, verdict)
    assert ARRAYS_LEGEND.partition("threads, ")[2] in page
    assert LEGEND.rpartition(". ")[2] not in page
    assert read_verdict(msgspec.json.encode(verdict), "x") == verdict


def test_the_exit_code() -> None:
    verdict, _ = check(lock_of("numpy"), answer(without=ALL[1:]), answer(quick=True, without=ALL[1:]))
    assert verdict.determinism.cpu == "identical"
    assert msgspec.structs.replace(verdict, round_trip="exact").exit_code == 0
    assert describe_scope(verdict) == f" (NumPy: {NUMPY} probes)"
    away = {probe.name for probe in verdict.smoke[0].probes if probe.verdict == "not-applicable"}
    assert away == {*SCIPY, *LEARNING, *JAX, *TENSORFLOW}
    line = f"  not applicable here: {len(away)} probes of libraries that the image does not have"
    assert line in verdict_lines(verdict)


def test_with_work() -> None:
    verdict, _ = check(lock_of(*ALL, workload=WORKLOAD))
    assert verdict.determinism.cpu == "identical"
    assert describe_scope(verdict).endswith(" probes; your work, 2 runs)")
    verdict, engine = check(lock_of(*ALL, workload=WORKLOAD), parts=("round-trip", "workload"))
    assert (verdict.smoke, describe_scope(verdict)) == ((), " (your work, 2 runs)")
    assert "cpu" not in [kind for kind, _ in engine.tasks]


def test_a_library_of_the_lock_must_answer() -> None:
    first, second = (answer(quick=quick, without=("scipy",)) for quick in (False, True))
    verdict, _ = check(lock_of(*ALL), first, second)
    assert verdict.determinism.cpu == "inconclusive"
    assert "scipy_linalg: not applicable here: it does not import: no" in verdict.smoke[0].open
    assert describe_scope(verdict) == ""


@pytest.mark.parametrize("mode", ["profile", "strict"])
def test_a_drift_in_either_mode_counts(mode: str) -> None:
    """That one thread cures it is said, and is no excuse: a job has the image's own threads."""
    first = changed(answer(), RACE, mode, verdict="DRIFT", digest=None, distinct=3)
    verdict, _ = check(lock_of(*ALL), first)
    assert (verdict.determinism.cpu, verdict.exit_code) == ("drift", 8)
    (found,) = (probe for probe in verdict.smoke[0].probes if probe.verdict == "drift")
    why = "3 different results in 10 runs"
    assert found.why == (
        f"with the image's own threads: {why}; one thread cures it" if mode == "profile" else why
    )
    assert f"  {RACE}: drift: {found.why}" in verdict_lines(verdict)
    assert not verdict.notes


@pytest.mark.parametrize("mode", ["profile", "strict"])
def test_another_digest_in_the_second_container_is_drift(mode: str) -> None:
    verdict, _ = check(lock_of(*ALL), None, changed(answer(quick=True), RACE, mode, digest="9" * 64))
    assert verdict.determinism.cpu == "drift"


def test_a_drift_that_its_library_allows_is_told() -> None:
    first = changed(answer(), KMEANS, "profile", verdict="DRIFT", digest=None, distinct=3)
    verdict, _ = check(lock_of(*ALL), first)
    assert verdict.determinism.cpu == "identical"
    assert verdict.notes == (
        "cpu: drifts with several threads, where its library promises nothing, and OMP_NUM_THREADS=1 cures it: "
        + KMEANS,
    )
    (found,) = (probe for probe in verdict.smoke[0].probes if probe.name == KMEANS)
    assert (found.verdict, found.why) == ("informational", "scikit-learn promises nothing here")
    said = answer_same_results(verdict)
    assert said.word == "Yes, with an exception"
    assert said.sentence.endswith(
        f"with several threads {KMEANS} drifts, where its library promises nothing."
    )


def test_draws_before_anything_is_seeded() -> None:
    verdict, _ = check(lock_of(*ALL), None, answer(quick=True, start={**START, "numpy": "6"}))
    assert (verdict.smoke[0].hook, verdict.determinism.cpu) == ("drift", "drift")
    nothing = {**START, "numpy": None}
    verdict, _ = check(lock_of(*ALL), answer(start=nothing), answer(quick=True, start=nothing))
    assert (verdict.smoke[0].hook, verdict.determinism.cpu) == ("inconclusive", "inconclusive")


def test_controls_must_drift() -> None:
    first = answer()
    race = next(each for each in first["controls"] if each["name"] == "thread_sum")
    race["modes"]["default"] = observed("x")
    verdict, _ = check(lock_of(*ALL), first)
    assert verdict.determinism.cpu == "inconclusive"
    assert "control thread_sum: it was not seen drifting" in verdict.smoke[0].open[0]
    assert check(lock_of(*ALL), answer(controls=[]))[0].determinism.cpu == "inconclusive"


def test_a_missing_probe_is_no_pass() -> None:
    first = answer()
    first["probes"] = [each for each in first["probes"] if each["name"] != RACE]
    verdict, _ = check(lock_of(*ALL), first)
    assert f"no answer of probe {RACE}" in verdict.smoke[0].open


def test_one_thread_is_said() -> None:
    told = {**FINGERPRINT, "threads": 1}
    verdict, _ = check(lock_of(*ALL), answer(fingerprint=told), answer(quick=True, fingerprint=told))
    assert verdict.notes == ("cpu: NumPy in the image uses 1 thread: an order of threads cannot show",)


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("xgboost",), "cpu: no probe is of xgboost: nothing is known about it"),
        (("cupy", "xgboost"), "cpu: no probe is of cupy, xgboost: nothing is known about them"),
    ],
)
def test_libraries_without_probes_are_named(names: tuple[str, ...], said: str) -> None:
    verdict, _ = check(lock_of(*ALL, *names))
    assert verdict.notes == (said,)


def test_profiles_are_of_torch() -> None:
    verdict, _ = check(lock_of(*ALL, profile="strict"))
    assert verdict.determinism.cpu == "identical"


def test_the_threads_of_blas_explain_other_digests() -> None:
    then, _ = check(lock_of(*ALL))
    earlier = Certificate(path=Path("x"), sha256="0" * 64, verdict=then)
    assert compare_against(then, earlier).verdict == "same"
    assert {("blas.0.threads", "2"), ("cpu_features", "AVX2 FMA3")} <= set(platform_facts(then.smoke[0]))
    told = copy.deepcopy(FINGERPRINT)
    told["blas"] = [{"name": "libopenblas", "core": "Zen", "threads": 4}]
    other = [answer(quick=quick, fingerprint=told) for quick in (False, True)]
    other = [changed(each, RACE, mode, digest="9" * 64) for each in other for mode in ("profile",)]
    now, _ = check(lock_of(*ALL), *other)
    found = compare_against(now, earlier)
    assert (found.verdict, [item.name for item in found.other]) == ("other-platform", [f"{RACE} (profile)"])
    assert {item.name for item in found.platform} == {"blas.0.core", "blas.0.threads"}


def test_only_some_probes() -> None:
    first, second = container_options("cpu", WANTED, seed=7, controls=True, thorough=False, probes=[RACE])
    assert (first["only"], first["subject"], second["subject"]) == ([RACE], "arrays", "arrays")


def test_tensorflow_has_several_names() -> None:
    """Its probes are those of `tensorflow-cpu`, too: a lock with that needs answers, and no note says otherwise."""
    others = ("numpy", "tensorflow-cpu")
    known = ("scipy", "scikit-learn", "jax")
    fine, _ = check(lock_of(*others), answer(without=known), answer(quick=True, without=known))
    assert (fine.determinism.cpu, fine.notes) == ("identical", ())
    without = (*known, "tensorflow")
    verdict, _ = check(lock_of(*others), answer(without=without), answer(quick=True, without=without))
    assert verdict.determinism.cpu == "inconclusive"
