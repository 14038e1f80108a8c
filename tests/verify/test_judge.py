"""From answers to verdicts: each answer, each non-answer, and which exit code it calls for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

import msgspec
import pytest

from reprobuild.engines.model import Finished
from reprobuild.errors import DriftError, InconclusiveError, RoundTripError, UsageError
from reprobuild.verify.determinism.document import Device, read_document
from reprobuild.verify.determinism.judge import judge_smoke
from reprobuild.verify.determinism.run import container_options, run_smoke
from reprobuild.verify.determinism.summary import drifting_probes, judge_determinism
from reprobuild.verify.verdict import (
    Against,
    Collectives,
    Determinism,
    RoundTrip,
    RoundTripDifference,
    Smoke,
    V,
    Verdict,
    WorkComparison,
)
from tests.verify.samples import (
    EXPECTED,
    FINGERPRINT,
    changed,
    collectives,
    control,
    document,
    drift,
    encode,
    make_smoke,
    make_verdict,
    observed,
    probe,
)

FIRST, OTHER = EXPECTED["cpu"].probes[0], EXPECTED["cpu"].probes[1]
(OPTIONAL, *_) = EXPECTED["cpu"].optional
MODES = ("default", "profile", "strict", "warn")


def judged(
    first: Mapping[str, Any] | None = None, second: Mapping[str, Any] | None = None, *,
    device: Device = "cpu", controls: bool = True, **more: Any,
) -> Smoke:  # fmt: skip
    found = [
        read_document(encode(document(device, quick=quick) if given is None else given), device)
        for given, quick in ((first, False), (second, True))
    ]
    return judge_smoke(device, found[0], found[1], EXPECTED[device], controls=controls, **more)


def of(smoke: Smoke, name: str) -> tuple[str, str]:
    (found,) = (probe for probe in smoke.probes if probe.name == name)
    return found.verdict, found.why


# --- probes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_probes_that_agree(device: Device) -> None:
    smoke = judged(device=device)
    assert (smoke.verdict, smoke.hook, smoke.open) == ("identical", "identical", ())
    (found,) = (probe for probe in smoke.probes if probe.name == FIRST)
    strict = found.modes["strict"]
    assert strict.digest == strict.again
    assert (strict.runs, strict.processes, strict.upper) == (10, 2, 0.3)
    assert smoke.collectives is not None
    assert smoke.collectives.verdict == "identical"


@pytest.mark.parametrize(
    ("fields", "verdict", "why"),
    [
        ({"verdict": "DRIFT", "digest": None, "distinct": 3}, "drift", "3 different results in 10 runs"),
        ({"verdict": "ERROR", "digest": None, "why": "RuntimeError: no"}, "inconclusive", "RuntimeError: no"),
        ({"verdict": "SKIPPED", "digest": None, "why": "no time"}, "inconclusive", "no time"),
        (
            {"verdict": "REFUSED", "digest": None},
            "inconclusive",
            "REFUSED in one container, IDENTICAL in another",
        ),
        # Answers that say less than their verdict.
        ({"digest": None}, "inconclusive", "an answer that says less than IDENTICAL: 10 runs"),
        ({"distinct": 2}, "inconclusive", "an answer that says less than IDENTICAL: 10 runs"),
        ({"distinct": 0}, "inconclusive", "an answer that says less than IDENTICAL: 10 runs"),
        ({"repeats": 1}, "inconclusive", "an answer that says less than IDENTICAL: 1 runs"),
        ({"repeats": 0}, "inconclusive", "an answer that says less than IDENTICAL: 0 runs"),
    ],
)
def test_strict_mode_decides(fields: dict[str, Any], verdict: str, why: str) -> None:
    smoke = judged(changed(document(), FIRST, **fields))
    assert of(smoke, FIRST) == (verdict, why)
    assert smoke.verdict == verdict
    assert of(smoke, OTHER) == ("identical", "")


def test_no_answer_in_strict_mode() -> None:
    found = document()
    del found["probes"][0]["modes"]["strict"]
    assert of(judged(found), FIRST) == ("inconclusive", "no answer in a mode that counts")


@pytest.mark.parametrize(
    ("fields", "verdict", "why"),
    [
        ({"digest": "9" * 64}, "drift", " in one container and " + "9" * 64 + " in another"),
        ({"verdict": "ERROR", "why": "killed"}, "inconclusive", "no answer of the second container: killed"),
        ({"verdict": "REFUSED"}, "inconclusive", "IDENTICAL in one container, REFUSED in another"),
        ({"digest": None}, "inconclusive", "an answer that says less than IDENTICAL"),
        ({"repeats": 0}, "inconclusive", "an answer that says less than IDENTICAL"),
    ],
)
def test_the_second_container(fields: dict[str, Any], verdict: str, why: str) -> None:
    smoke = judged(None, changed(document(quick=True), FIRST, **fields))
    assert smoke.verdict == of(smoke, FIRST)[0] == verdict
    assert why in of(smoke, FIRST)[1]


DRIFTS = {"verdict": "DRIFT", "digest": None, "distinct": 2, "repeats": 5}
SECOND = "in the second container: 2 different results in 5 runs"


@pytest.mark.parametrize("first", ["IDENTICAL", "REFUSED", "ERROR", "SKIPPED", None])
def test_a_drift_that_only_the_second_container_saw(first: str | None) -> None:
    found = document()
    modes = next(each for each in found["probes"] if each["name"] == FIRST)["modes"]
    if first is None:
        del modes["strict"]
    elif first != "IDENTICAL":
        modes["strict"].update(verdict=first, digest=None)
    smoke = judged(found, changed(document(quick=True), FIRST, **DRIFTS))
    assert (smoke.verdict, of(smoke, FIRST)) == ("drift", ("drift", SECOND))
    (strict,) = (each.modes["strict"] for each in smoke.probes if each.name == FIRST)
    assert (strict.verdict, strict.digest, strict.distinct, strict.why) == ("DRIFT", None, 2, SECOND)
    determinism, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
    assert (determinism.cpu, notes) == ("drift", [])


def test_a_drift_of_the_profile_that_only_the_second_container_saw_is_a_note() -> None:
    smoke = judged(None, changed(document(quick=True), FIRST, "profile", **DRIFTS))
    assert (smoke.verdict, of(smoke, FIRST)) == ("identical", ("identical", ""))
    assert [each.name for each in drifting_probes(smoke)] == [FIRST]
    determinism, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
    assert determinism.cpu == "identical"
    assert notes == [f"cpu: drifts with profile torch; strict mode cures it: {FIRST}"]


def test_a_drift_that_torch_does_not_exclude_is_none_in_the_second_container_either() -> None:
    (name, *_) = EXPECTED["cpu"].informational
    smoke = judged(None, changed(document(quick=True), name, **DRIFTS))
    assert (smoke.verdict, of(smoke, name)[0]) == ("identical", "informational")


def test_a_probe_that_the_second_container_does_not_know() -> None:
    found = document(quick=True)
    del found["probes"][0]
    assert of(judged(None, found), FIRST) == ("inconclusive", "no answer of the second container: none")


REFUSED = "put"  # torch.Tensor.put_ when accumulate=False
LINE = "torch.Tensor.put_ when accumulate=False"


def refusing(
    name: str = REFUSED, *, documented: str = "refused", told: Sequence[str] = (LINE,)
) -> tuple[dict[str, Any], dict[str, Any]]:
    pair = []
    for quick in (False, True):
        found = changed(document(quick=quick), name, verdict="REFUSED", digest=None, why="as it says")
        for each in found["probes"]:
            each["documented"] = documented
        found["expectations"]["refused"] = list(told)
        pair.append(found)
    return pair[0], pair[1]


def test_a_refusal_passes_only_where_torch_says_so() -> None:
    """What the image says of a probe does not count: torch's own line must be about it, on this device."""
    smoke = judged(*refusing(documented="none"))
    assert (of(smoke, REFUSED), smoke.verdict) == (("refused", "as it says"), "identical")
    elsewhere = f"{LINE} and called on a CUDA tensor"
    for told in ((), ("torch.Tensor.put_ when accumulate=True",), ("torch.put",), (elsewhere,), ("",)):
        smoke = judged(*refusing(told=told))
        assert smoke.verdict == of(smoke, REFUSED)[0] == "inconclusive"
        assert of(smoke, REFUSED)[1] == "torch refused, and its own text does not say so: as it says"
    assert of(judged(*refusing(FIRST)), FIRST)[0] == "inconclusive"


def test_a_refusal_that_is_known_though_torch_does_not_tell() -> None:
    (name, *_) = EXPECTED["cuda"].alerting
    pair = [
        changed(document("cuda", quick=quick), name, verdict="REFUSED", digest=None)
        for quick in (False, True)
    ]
    assert of(judged(*pair, device="cuda"), name)[0] == "refused"


def test_only_what_may_be_absent_may_be_skipped() -> None:
    pair = [
        changed(document(quick=quick), OPTIONAL, verdict="SKIPPED", digest=None, why="too old")
        for quick in (False, True)
    ]
    smoke = judged(*pair)
    assert (of(smoke, OPTIONAL), smoke.verdict) == (("not-applicable", "too old"), "identical")


def test_an_image_that_skips_all() -> None:
    found = document(probes=[probe(name, MODES) for name in EXPECTED["cpu"].optional])
    for each in found["probes"]:
        each["modes"]["strict"] = observed("", verdict="SKIPPED", digest=None)
    smoke = judged(found)
    assert smoke.verdict == "inconclusive"
    assert "no probe was identical" in smoke.open


def test_an_image_that_answers_fewer_probes() -> None:
    smoke = judged(document(probes=document()["probes"][2:]))
    assert (smoke.verdict, smoke.open) == ("inconclusive", (f"no answer of probe {FIRST}, {OTHER}",))


def test_a_probe_that_the_host_does_not_know_is_judged_too() -> None:
    found = document()
    found["probes"].append(probe("new", MODES))
    found["probes"][-1]["modes"]["strict"] = drift()
    assert judged(found).verdict == "drift"


def test_drift_that_strict_mode_cures_is_a_note() -> None:
    found = changed(document(), FIRST, "profile", **drift())
    found = changed(found, OTHER, "default", **drift())
    smoke = judged(found)
    assert smoke.verdict == "identical"
    determinism, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
    assert determinism.cpu == "identical"
    assert notes == [f"cpu: drifts with profile torch; strict mode cures it: {FIRST}"]


def test_drift_between_containers_that_strict_mode_cures() -> None:
    smoke = judged(None, changed(document(quick=True), FIRST, "profile", digest="9" * 64))
    _, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="log-only")
    assert notes == [f"cpu: drifts with profile log-only; strict mode cures it: {FIRST}"]


def test_drift_that_strict_mode_refuses() -> None:
    first, second = refusing()
    smoke = judged(changed(first, REFUSED, "profile", **drift()), second)
    _, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
    assert notes == [f"cpu: drifts with profile torch; strict mode refuses it: {REFUSED}"]


def test_what_torch_promises_in_no_mode_is_only_told() -> None:
    (name, *_) = EXPECTED["cpu"].informational
    smoke = judged(changed(document(), name, verdict="DRIFT", digest=None, distinct=3))
    assert (smoke.verdict, of(smoke, name)) == ("identical", ("informational", "torch promises nothing here"))


def test_an_image_cannot_call_a_probe_informational() -> None:
    found = changed(document(), FIRST, verdict="DRIFT", digest=None, distinct=3)
    found["probes"][0]["informational"] = True
    assert judged(found).verdict == "drift"


def test_what_takes_long_is_expected_where_it_was_asked_for() -> None:
    first, second = (read_document(encode(document(quick=quick)), "cpu") for quick in (False, True))
    smoke = judge_smoke("cpu", first, second, EXPECTED["cpu"], controls=True, thorough=True)
    names = ", ".join(sorted(EXPECTED["cpu"].thorough))
    assert (smoke.verdict, smoke.open) == ("inconclusive", (f"no answer of probe {names}",))


# --- the image's own profile ------------------------------------------------------------------


DIED = {"verdict": "ERROR", "digest": None, "why": "it died by SIGSEGV"}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (DIED, "profile: it died by SIGSEGV"),
        (
            {"verdict": "SKIPPED", "digest": None, "why": "x"},
            "profile: skipped, though strict mode is not: x",
        ),
        ({"digest": None}, "profile: an answer that says less than IDENTICAL: 10 runs"),
        ({"verdict": "REFUSED", "digest": None}, "profile: REFUSED in one container, IDENTICAL in another"),
    ],
)
@pytest.mark.parametrize("name", [FIRST, OPTIONAL])
def test_the_profile_must_answer_too(name: str, fields: dict[str, Any], why: str) -> None:
    smoke = judged(changed(document(), name, "profile", **fields))
    assert (smoke.verdict, of(smoke, name)) == ("inconclusive", ("inconclusive", why))


def test_the_profile_is_missing_or_dies_in_one_container() -> None:
    found = document()
    del found["probes"][0]["modes"]["profile"]
    assert of(judged(found), FIRST) == ("inconclusive", "profile: no answer in a mode that counts")
    smoke = judged(None, changed(document(quick=True), FIRST, "profile", **DIED))
    assert of(smoke, FIRST)[1] == "profile: no answer of the second container: it died by SIGSEGV"


def test_a_refusal_in_strict_mode_hides_no_error_with_the_profile() -> None:
    first, second = refusing()
    smoke = judged(changed(first, REFUSED, "profile", **DIED), second)
    assert (smoke.verdict, of(smoke, REFUSED)[0]) == ("inconclusive", "inconclusive")


@pytest.mark.parametrize(
    ("strict", "said"),
    [
        ({"verdict": "SKIPPED", "digest": None}, "strict mode cannot run it"),
        ({"verdict": "ERROR", "digest": None}, "strict mode showed nothing"),
        (drift(), "and in strict mode"),
    ],
)
def test_drift_with_the_profile_is_a_note_whatever_strict_mode_did(strict: dict[str, Any], said: str) -> None:
    smoke = judged(changed(changed(document(), OPTIONAL, **strict), OPTIONAL, "profile", **drift()))
    _, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
    assert notes == [f"cpu: drifts with profile torch; {said}: {OPTIONAL}"]


@pytest.mark.parametrize("mode", ["strict", "profile"])
def test_an_error_is_no_information(mode: str) -> None:
    (name, *_) = EXPECTED["cpu"].informational
    smoke = judged(changed(document(), name, mode, **DIED))
    assert (smoke.verdict, of(smoke, name)[0]) == ("inconclusive", "inconclusive")
    found = document()
    (at,) = (each for each in found["probes"] if each["name"] == name)
    del at["modes"][mode]
    assert of(judged(found), name)[0] == "inconclusive"


# --- what the host knows better ------------------------------------------------------------------


def with_settings(**more: Any) -> list[dict[str, Any]]:
    settings = {**FINGERPRINT["settings"], **more}
    return [
        document(quick=quick, fingerprint={**FINGERPRINT, "settings": settings}) for quick in (False, True)
    ]


def test_a_profile_that_is_not_in_force() -> None:
    smoke = judged(*with_settings(cudnn_benchmark=True), profile="torch")
    assert (smoke.verdict, smoke.open) == (
        "inconclusive", ("profile torch is not in force: cudnn_benchmark is True, not False",),
    )  # fmt: skip
    smoke = judged(profile="megatron,strict")
    assert smoke.open == (
        "profile megatron,strict is not in force: deterministic_algorithms is False, not True",
    )
    assert judged(*with_settings(deterministic_algorithms=True), profile="strict").verdict == "identical"
    assert judged(*with_settings(cudnn_benchmark=True), profile="log-only").verdict == "identical"
    silent = [document(quick=quick, fingerprint={"threads": 2}) for quick in (False, True)]
    assert judged(*silent, profile="torch").open == (
        "profile torch: the image does not say which settings are in force",
    )


def test_two_containers_on_two_platforms() -> None:
    other = document(quick=True, fingerprint={**FINGERPRINT, "threads": 8, "cuda_build": True})
    smoke = judged(None, other)
    assert (smoke.verdict, smoke.open) == (
        "inconclusive", ("the two containers had different platforms or settings: cuda_build, threads",),
    )  # fmt: skip
    assert judged(None, document(quick=True, fingerprint={**FINGERPRINT, "cpus": 8})).verdict == "identical"
    (why,) = judged(None, document(quick=True, fingerprint={f"a{n}": n for n in range(20)})).open
    assert why.endswith("a0, a1, a10, a11, a12, a13 and 21 more")
    empty = judged(document(fingerprint={}), document(quick=True, fingerprint={}))
    assert empty.open == ("nothing is known of the platform: an empty fingerprint",)


def test_a_package_of_the_lock_is_there() -> None:
    skipped = {"verdict": "SKIPPED", "digest": None, "why": "NumPy does not import"}
    found = document()
    for mode in MODES:
        found = changed(found, "draw_numpy", mode, **skipped)
        found = changed(found, "flash_attn_backward", mode, **skipped)
    assert judged(found).verdict == "identical"
    smoke = judged(found, pinned={"numpy", "flash-attn"})  # the latter has no use without a GPU
    assert (smoke.verdict, smoke.open) == ("inconclusive", ("draw_numpy: NumPy does not import",))


def test_what_takes_long_is_named_where_it_was_not_asked_for() -> None:
    """Whether the image leaves it out, or says that it skips it."""
    names = EXPECTED["cpu"].thorough
    assert (judged().left_out, judged().thorough) == (names, False)
    found = document()
    found["probes"] += [probe(name, MODES) for name in names]
    for each in found["probes"][-len(names) :]:
        for mode in each["modes"].values():
            mode.update(verdict="SKIPPED", digest=None)
    smoke = judged(found)
    assert (smoke.left_out, smoke.verdict, len(smoke.probes)) == (
        names,
        "identical",
        len(document()["probes"]),
    )


def test_a_thread_alone_and_probes_that_nothing_disturbed_are_notes() -> None:
    alone = {**FINGERPRINT, "threads": 1}
    stress = {"ran": False, "why": "strict: it could not be started"}
    pair = document(fingerprint=alone, stress=stress), document(quick=True, fingerprint=alone)
    determinism, notes = judge_determinism(judged(*pair), None, [], cpu_only=False, profile="torch")
    assert determinism.cpu == "identical"
    assert notes == [
        "cpu: torch in the image uses 1 thread: with its own settings an order of threads cannot show",
        "cpu: nothing disturbed some of the probes: strict: it could not be started",
    ]
    for told in (None, {"ran": True}):
        assert judged(document(stress=told)).stress == ""
    for number, said in (
        (1, ["cpu: the probes ran with 1 thread: an order of threads cannot show"]),
        (2, []),
    ):
        smoke = judged(document(threads={"strict": number, "profile": 1}))
        _, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
        assert notes == said


def test_times_that_are_too_long_can_be_written_and_read() -> None:
    smoke = judged(document(seconds=1e9), document(quick=True, seconds=1e9))
    assert msgspec.json.decode(msgspec.json.encode(smoke), type=Smoke) == smoke


# --- what is drawn before anything is seeded ----------------------------------------------------


def test_what_was_drawn_before_seeding_differs() -> None:
    smoke = judged(None, document(quick=True, start={"random": "4"}))
    assert (smoke.hook, smoke.verdict) == ("drift", "drift")


@pytest.mark.parametrize("gone", ["random", "hash", "torch", "hook"])
def test_a_start_that_tells_less_than_it_can(gone: str) -> None:
    start = {**document()["start"], gone: None}
    smoke = judged(document(start=start), document(quick=True, start=start))
    assert (smoke.hook, smoke.verdict) == ("inconclusive", "inconclusive")


@pytest.mark.parametrize("quick", [False, True])
def test_no_word_of_the_seeding_hook(quick: bool) -> None:
    silent = document(quick=quick, start={})
    smoke = judged(None, silent) if quick else judged(silent)
    assert (smoke.hook, smoke.verdict) == ("inconclusive", "inconclusive")
    assert smoke.open == ("nothing is known of the seeding before the first program",)


# --- no answer -------------------------------------------------------------------------------------


@pytest.mark.parametrize("quick", [False, True])
def test_probes_that_did_not_run(quick: bool) -> None:
    nothing = {"format": 2, "ran": False, "why": "torch does not import"}
    smoke = judged(None, nothing) if quick else judged(nothing)
    assert (smoke.verdict, smoke.open, smoke.probes) == ("inconclusive", ("torch does not import",), ())
    assert judged({"format": 2, "ran": False}).open == ("it gave no reason",)


def test_a_gpu_that_is_gone_in_the_second_container_is_no_missing_gpu() -> None:
    nothing = {"format": 2, "ran": False, "why": "no GPU", "device": "cuda"}
    assert judged(nothing, device="cuda").verdict == "not-covered"
    assert judged(None, nothing, device="cuda").verdict == "inconclusive"


# --- controls ----------------------------------------------------------------------------------------


def with_races(**modes: Any) -> dict[str, Any]:
    """Return a document in which all races did this."""
    found = document()
    for each in found["controls"]:
        if f"{each['device']} {each['name']}" in EXPECTED["cpu"].races:
            each["modes"] = modes
    return found


@pytest.mark.parametrize(
    ("modes", "verdict", "why"),
    [
        ({"default": drift(), "strict": observed("x")}, "effective", "3 different results in 10 runs by default, one"),
        ({"default": drift(), "strict": drift(), "cured": observed("x")}, "effective", "one cured"),
        ({"default": drift(), "strict": observed("x"), "ones": observed("y")}, "effective", "one strict"),
        ({"default": observed("x"), "strict": observed("x")}, "ineffective", "it was not seen drifting"),
        ({"default": drift(distinct=1), "strict": observed("x")}, "ineffective", "it was not seen drifting"),
        ({}, "ineffective", "it was not seen drifting"),
        ({"default": drift()}, "ineffective", "nothing shows that it stops (strict)"),
        ({"default": drift(), "strict": observed("x", 1)}, "ineffective", "nothing shows that it stops (strict)"),
        ({"default": drift(), "strict": observed("x", verdict="ERROR")}, "ineffective", "nothing shows that it stops"),
        ({"default": drift(), "strict": observed("x"), "ones": drift()}, "ineffective", "the test itself is at fault"),
        ({"default": drift(), "strict": drift()}, "drift", "3 different results, strict, where there must be one"),
    ],
)  # fmt: skip
def test_the_controls(modes: dict[str, Any], verdict: str, why: str) -> None:
    smoke = judged(with_races(**modes))
    races = [c for c in smoke.controls if f"{c.device} {c.name}" in EXPECTED["cpu"].races]
    assert {race.verdict for race in races} == {verdict}
    assert all(why in race.why for race in races)
    expected = {"effective": "identical", "ineffective": "inconclusive", "drift": "drift"}
    assert smoke.verdict == expected[verdict]


def test_one_race_is_enough_and_other_controls_are_not() -> None:
    """What a set's order or the clock does shows nothing of torch's threads."""
    found = with_races(default=observed("x"), strict=observed("x"))
    assert judged(found).verdict == "inconclusive"
    (one,) = [c for c in found["controls"] if f"cpu {c['name']}" == EXPECTED["cpu"].races[0]]
    one["modes"] = control("cpu x")["modes"]
    assert judged(found).verdict == "identical"


def test_controls_that_are_missing() -> None:
    assert judged(document(controls=[])).open[-1] == "no control answered"
    short = document()
    name = short["controls"].pop()["name"]
    assert judged(short).open == (f"no answer of control cpu {name}",)
    assert judged(document(controls=[]), controls=False).open == ("the controls were left out",)


def compiled_documents(*controls: dict[str, Any]) -> list[dict[str, Any]]:
    """Return two documents with all probes of compiled code; the first has further controls."""
    found = [document(), document(quick=True)]
    for answer, modes in zip(found, (MODES, ("profile", "strict")), strict=True):
        answer["probes"] += [probe(name, modes) for name in EXPECTED["cpu"].thorough]
    found[0]["controls"] += controls
    return found


@pytest.mark.parametrize(
    ("modes", "why", "reason"),
    [
        ({"default": drift(), "cured": observed("x")}, "", None),
        ({}, "not applicable here: there is no compiler in this environment", None),
        ({}, "the process: it died by SIGKILL", "control cpu measured_kernels: the process: it died by SIGKILL"),
        ({"default": observed("x"), "cured": observed("x")}, "", "control cpu measured_kernels: it was not seen"),
    ],
)  # fmt: skip
def test_saved_choices_need_the_control_of_a_compiler(
    modes: dict[str, Any], why: str, reason: str | None
) -> None:
    kernels = {"name": "measured_kernels", "device": "cpu", "modes": modes, "why": why}
    smoke = judged(*compiled_documents(kernels), compiled=True)
    assert smoke.left_out == ()
    assert (
        dict.fromkeys(EXPECTED["cpu"].thorough, "identical").items()
        <= {each.name: each.verdict for each in smoke.probes}.items()
    )
    if reason is None:
        assert (smoke.verdict, smoke.open) == ("identical", ())
    else:
        assert smoke.verdict == "inconclusive"
        assert smoke.open[0].startswith(reason)


def test_saved_choices_need_answers_on_compiled_code() -> None:
    smoke = judged(*compiled_documents(), compiled=True)
    assert smoke.open == ("no answer of control cpu measured_kernels",)
    assert judged(document(), compiled=True).open[0] == (
        f"no answer of probe {', '.join(sorted(EXPECTED['cpu'].thorough))}"
    )
    kernels = {"default": drift(), "cured": drift()}
    drifting = {"name": "measured_kernels", "device": "cpu", "modes": kernels, "why": ""}
    assert judged(*compiled_documents(drifting), compiled=True).verdict == "drift"


def test_an_older_image_is_not_asked_about_compiled_code() -> None:
    options = {"seed": 7, "controls": True, "thorough": False, "compiled": True}
    assert all(each["compiled"] is True for each in container_options("cpu", EXPECTED["cpu"], **options))
    older = msgspec.structs.replace(EXPECTED["cpu"], compiled_controls=())
    assert (
        run_smoke("cpu", _refuse_compiled, {"cpu": older}, profile="torch", pinned=(), **options).verdict
        == "inconclusive"
    )


def _refuse_compiled(*command: str) -> Finished:
    assert "compiled" not in command[-1]
    return Finished(code=0, stdout=b"", stderr=b"")


def test_a_comparison_that_is_blind() -> None:
    (name, *_) = EXPECTED["cpu"].comparator
    told = document()["comparator"]
    for comparator in ({**told, name: False}, {n: seen for n, seen in told.items() if n != name}):
        smoke = judged(document(comparator=comparator))
        assert smoke.open == (f"the comparison of bytes was not seen telling apart: {name}",)
        assert smoke.verdict == "inconclusive"
    assert judged(document(comparator={**told, "more": False})).verdict == "inconclusive"


# --- collectives ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, "identical"),
        ({"verdict": "DRIFT"}, "drift"),
        ({"verdict": "ERROR"}, "inconclusive"),
        ({"verdict": "REFUSED"}, "inconclusive"),
        ({"verdict": "SKIPPED"}, "not-covered"),
        ({"world": 1}, "inconclusive"),
        ({"world": 2}, "inconclusive"),
        ({"controls": []}, "inconclusive"),
        ({"probes": []}, "inconclusive"),
    ],
)
def test_collectives(fields: dict[str, Any], verdict: str) -> None:
    smoke = judged(document(collectives=collectives("cpu", **fields)))
    assert smoke.collectives is not None
    assert smoke.collectives.verdict == verdict
    assert smoke.verdict == "identical"  # they have a headline of their own
    determinism, _ = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
    assert determinism.collectives == ("inconclusive" if verdict == "not-covered" else verdict)


def test_collectives_that_are_skipped_are_not_passed_over() -> None:
    """Every torch for Linux has gloo; and an error in one of them is no skip."""
    found = collectives("cpu", verdict="SKIPPED", why="it says support")
    for each in found["probes"]:
        each["modes"]["strict"] = {"verdict": "ERROR", "why": "w" * 600}
    for answer, verdict in ((found, "inconclusive"), ({**found, "probes": []}, "not-covered")):
        smoke = judged(document(collectives=answer))
        assert smoke.collectives is not None
        assert smoke.collectives.verdict == verdict
        assert len(smoke.collectives.why) < 700
        determinism, notes = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
        assert (determinism.collectives, len(notes)) == ("inconclusive", 1)


def test_the_order_of_a_sum_must_be_seen() -> None:
    found = collectives("cpu")
    (one,) = found["controls"]
    for modes, verdict in (
        ({"default": observed("x"), "strict": observed("x")}, "inconclusive"),
        ({"default": drift(), "strict": drift()}, "drift"),
        ({"default": drift(), "cured": observed("x")}, "identical"),
    ):
        smoke = judged(document(collectives={**found, "controls": [{**one, "modes": modes}]}))
        assert smoke.collectives is not None
        assert smoke.collectives.verdict == verdict
        assert [control.name for control in smoke.collectives.controls] == [one["name"]]


def test_the_algorithms_of_collectives_are_kept() -> None:
    smoke = judged(
        document("cuda", collectives=collectives("cuda", algorithms=["AllReduce RING LL"])), device="cuda"
    )
    assert smoke.collectives is not None
    assert smoke.collectives.algorithms == ("AllReduce RING LL",)


def test_a_collective_that_drifts_in_a_document_that_denies_it() -> None:
    found = document()
    found["collectives"]["probes"][0]["modes"]["strict"] = drift()
    smoke = judged(found)
    assert smoke.collectives is not None
    assert smoke.collectives.verdict == "drift"


def test_only_some_collectives_may_be_skipped() -> None:
    found = collectives("cpu")
    found["probes"].append(probe("reduce_scatter float32 1 MiB", ["strict"]))
    skipped = observed("", verdict="SKIPPED", digest=None, why="gloo cannot")
    for at, verdict in ((-1, "identical"), (0, "inconclusive")):
        found["probes"][at]["modes"]["strict"] = skipped
        smoke = judged(document(collectives=found))
        assert smoke.collectives is not None
        assert smoke.collectives.verdict == verdict


def test_collectives_that_are_fewer() -> None:
    found = collectives("cpu", probes=collectives("cpu")["probes"][1:])
    smoke = judged(document(collectives=found))
    assert smoke.collectives is not None
    (name, *_) = EXPECTED["cpu"].collectives
    assert (smoke.collectives.verdict, smoke.collectives.why) == (
        "inconclusive",
        f"no answer of probe {name}",
    )


def test_no_word_of_collectives() -> None:
    silent = read_document(encode(document(collectives=None)), "cpu")
    quick = read_document(encode(document(quick=True)), "cpu")
    for names, verdict in ((("all_reduce",), "inconclusive"), ((), "not-applicable")):
        wanted = msgspec.structs.replace(EXPECTED["cpu"], collectives=names)
        smoke = judge_smoke("cpu", silent, quick, wanted, controls=True)
        determinism, _ = judge_determinism(smoke, None, [], cpu_only=False, profile="torch")
        assert determinism.collectives == verdict


# --- the headline ----------------------------------------------------------------------------


def cpu(built: bool | None = False, **more: Any) -> Smoke:
    return make_smoke(fingerprint={**FINGERPRINT, "cuda_build": built}, **more)


@pytest.mark.parametrize("bad", sorted(set(get_args(V)) - {"identical", "drift"}))
def test_no_non_answer_passes_for_identical(bad: Any) -> None:
    work = [WorkComparison(name="x", verdict="identical"), WorkComparison(name="y", verdict=bad)]
    found, _ = judge_determinism(cpu(), None, work, cpu_only=False, profile="torch")
    assert found.cpu == "inconclusive"


@pytest.mark.parametrize(
    ("smoke", "work", "verdict"),
    [
        (cpu(), [], "identical"),
        (cpu(), ["identical"], "identical"),
        (cpu(), ["identical", "drift"], "drift"),
        (cpu(), ["inconclusive", "drift"], "drift"),
        (cpu(verdict="drift"), ["identical"], "drift"),
        (cpu(verdict="inconclusive"), ["identical"], "inconclusive"),
        (None, ["identical"], "identical"),
        (None, ["identical", "inconclusive"], "inconclusive"),
        (None, ["drift"], "drift"),
        (None, [], "inconclusive"),
    ],
)
def test_the_cpu(smoke: Smoke | None, work: list[Any], verdict: str) -> None:
    compared = [WorkComparison(name=str(number), verdict=each) for number, each in enumerate(work)]
    found, _ = judge_determinism(smoke, None, compared, cpu_only=False, profile="torch")
    assert found.cpu == verdict


@pytest.mark.parametrize(
    ("built", "cpu_only", "gpu", "several", "note", "code"),
    [
        (False, False, "not-applicable", "identical", None, 0),
        (False, True, "not-applicable", "identical", None, 0),
        (True, False, "not-covered", "not-covered", "no GPU was checked: run `reprobuild verify` on a machine", 9),
        (True, True, "not-applicable", "not-applicable", "left out by --cpu-only: nothing is known about them", 0),
        (None, False, "inconclusive", "inconclusive", "torch did not say whether it is built for CUDA", 9),
        ("yes", False, "inconclusive", "inconclusive", "torch did not say whether it is built for CUDA", 9),
        (None, True, "not-applicable", "not-applicable", "left out by --cpu-only: nothing is known about them", 0),
    ],
)  # fmt: skip
def test_the_scopes(built: Any, cpu_only: bool, gpu: Any, several: Any, note: str | None, code: int) -> None:
    found, notes = judge_determinism(cpu(built), None, [], cpu_only=cpu_only, profile="torch")
    assert found == Determinism(cpu="identical", gpu=gpu, collectives=several)
    assert len(notes) == (1 if note else 0)
    assert (note or "") in "".join(notes)
    assert make_verdict(determinism=found).exit_code == code


@pytest.mark.parametrize("built", [True, False, None])
@pytest.mark.parametrize("cpu_only", [True, False])
def test_drift_shows_whatever_the_scope(built: bool | None, cpu_only: bool) -> None:
    drifting = Collectives(verdict="drift", backend="gloo", world=2)
    for smoke in (cpu(built, verdict="drift"), cpu(built, collectives=drifting)):
        found, _ = judge_determinism(smoke, None, [], cpu_only=cpu_only, profile="torch")
        assert make_verdict(determinism=found).exit_code == 8


# --- exit codes ------------------------------------------------------------------------------


def expected_code(cpu: str, gpu: str, round_trip: str) -> int:
    """The table in words: drift, then residue, then whatever is open."""
    if "drift" in (cpu, gpu):
        return DriftError.exit_code
    if round_trip == "residue":
        return RoundTripError.exit_code
    if {cpu, gpu} & {"inconclusive", "not-covered"} or "not-run" in (cpu, round_trip):
        return InconclusiveError.exit_code
    return 0


@pytest.mark.parametrize("round_trip", get_args(RoundTrip))
@pytest.mark.parametrize("gpu", get_args(V))
@pytest.mark.parametrize("cpu", get_args(V))
def test_exit_codes(cpu: Any, gpu: Any, round_trip: Any) -> None:
    verdict = make_verdict(cpu, gpu, round_trip)
    assert verdict.exit_code == expected_code(cpu, gpu, round_trip)
    clean = (
        {cpu, gpu} <= {"identical", "not-applicable", "not-run"}
        and cpu != "not-run"
        and round_trip in ("exact", "explained")
    )
    assert (verdict.exit_code == 0) == clean


def test_the_gravest_wins() -> None:
    assert make_verdict("drift", "not-covered", "residue").exit_code == 8
    assert make_verdict("inconclusive", "not-covered", "residue").exit_code == 10
    assert make_verdict("identical", "not-covered", "explained").exit_code == 9
    assert make_verdict("identical", "not-applicable", "explained").exit_code == 0


def test_a_verdict_is_written_and_read() -> None:
    verdict = make_verdict(
        differences=(
            RoundTripDifference(list="env.txt", captured="A", image="", reason="", code="unexplained"),
        ),
    )
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


@pytest.mark.parametrize(
    ("before", "same_platform", "code"),
    [
        ("same", False, 0), ("other-platform", False, 0), ("inconclusive", False, 9), ("differ", False, 8),
        ("same", True, 0), ("other-platform", True, 9), ("differ", True, 8),
    ],
)  # fmt: skip
def test_an_earlier_certificate_counts(before: Any, same_platform: bool, code: int) -> None:
    against = Against(
        certificate="sha256:1", made="", verdict=before, compared=1, same_platform=same_platform
    )
    assert make_verdict(against=against).exit_code == code
    assert make_verdict(round_trip="residue", against=against).exit_code == (8 if code == 8 else 10)


def test_named_probes_alone_are_run_in_short_and_are_no_pass() -> None:
    first, second = container_options(
        "cpu", EXPECTED["cpu"], seed=7, controls=False, thorough=False, probes=["lstm", "gru"]
    )
    assert first == {
        "device": "cpu", "seed": 7, "thorough": False, "only": ["gru", "lstm"], "collectives": False,
        "modes": ["profile", "strict"], "processes": 1, "stress": False, "controls": False,
    }  # fmt: skip
    assert second["quick"] is True
    two = [probe(name, ["profile", "strict"]) for name in ("gru", "lstm")]
    asked = [document(quick=quick, probes=two, collectives=None) for quick in (False, True)]
    smoke = judged(*asked, profile="torch", only=["gru", "lstm"])
    assert [each.verdict for each in smoke.probes] == ["identical", "identical"]
    full = len(EXPECTED["cpu"].probes)
    assert (smoke.verdict, smoke.open) == ("inconclusive", (f"only 2 of {full} probes were asked for",))
    assert smoke.collectives
    assert (smoke.collectives.verdict, smoke.collectives.why) == (
        "not-covered", "they were left out: only some probes were asked for",
    )  # fmt: skip


def test_a_probe_that_the_image_does_not_have_is_refused() -> None:
    with pytest.raises(UsageError, match="has no probe nonsense on cpu") as caught:
        container_options(
            "cpu", EXPECTED["cpu"], seed=7, controls=False, thorough=False, probes=["lstm", "nonsense"]
        )
    assert caught.value.hint.startswith("its probes are: adaptive_avg_pool2d, ")


def test_a_disturbance_that_is_not_possible_does_not_count() -> None:
    away = WorkComparison(name="disturbance processors", verdict="not-applicable", condition="disturbed")
    same = WorkComparison(name="x", verdict="identical")
    assert judge_determinism(cpu(), None, [same, away], cpu_only=False, profile="torch")[0].cpu == "identical"
    assert judge_determinism(None, None, [away], cpu_only=False, profile="torch")[0].cpu == "inconclusive"
