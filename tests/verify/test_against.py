"""A check compared with an earlier certificate: the same platform must give the same digests, another need not."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import UsageError
from reprobuild.verify.certificate.compare import compare_against
from reprobuild.verify.certificate.read import (
    LARGEST,
    Certificate,
    read_certificate,
    read_verdict,
    refuse_failed,
    refuse_other,
)
from reprobuild.verify.determinism.document import read_document
from reprobuild.verify.determinism.judge import judge_smoke
from reprobuild.verify.verdict import (
    Against,
    Code,
    RoundTrip,
    RoundTripDifference,
    Smoke,
    Verdict,
    WorkComparison,
)
from tests.verify.samples import (
    EXPECTED,
    FINGERPRINT,
    SHA,
    changed,
    document,
    drift,
    encode,
    make_smoke,
    make_verdict,
)

FIRST, OTHER = EXPECTED["cpu"].probes[:2]
AGAIN = "make one with `reprobuild verify OUT`; it is OUT/verdict.json"
BEFORE = (
    "name an earlier one: what a check replaces in an output directory is kept there as verdict-DIGEST.json"
)
ELSEWHERE = "a verdict holds for its own image alone; `reprobuild diff` tells why two images differ"


def smoke_of(*steps: tuple[str, str, dict[str, Any]], **more: Any) -> Smoke:
    """Return a determinism test in which probes did something else, in both containers."""
    pair = []
    for quick in (False, True):
        found = document(quick=quick, **more)
        for name, mode, fields in steps:
            found = changed(found, name, mode, **fields)
        pair.append(read_document(encode(found), "cpu"))
    return judge_smoke("cpu", pair[0], pair[1], EXPECTED["cpu"], controls=True, profile="torch")


def compared(now: Verdict | None = None, then: Verdict | None = None) -> Against:
    found = Certificate(path=Path("verdict.json"), sha256="c" * 64, verdict=then or make_verdict())
    return compare_against(now or make_verdict(), found)


def with_facts(**more: Any) -> Verdict:
    return make_verdict(smoke=(smoke_of(fingerprint={**FINGERPRINT, **more}),))


def names(found: tuple[Any, ...]) -> list[str]:
    return [f"{item.scope}: {item.name}" for item in found]


OTHER_CPU = {**FINGERPRINT, "cpu_model": "another"}
START = {"random": "other", "hash": "4", "torch": "5", "hook": {"seed": "42"}}
DIGEST = (FIRST, "strict", {"digest": "9" * 64})


def test_the_same() -> None:
    found = compared()
    wanted = EXPECTED["cpu"]
    compared_probes = len(wanted.probes) - len(wanted.informational)
    assert (found.verdict, found.compared) == ("same", 2 * compared_probes + len(wanted.collectives) + 1)
    assert (found.platform, found.failed, found.other, found.unmatched) == ((), (), (), ())
    assert (found.certificate, found.made) == ("sha256:" + "c" * 64, "2026-11-22T05:00:00Z")


def test_another_digest_on_the_same_platform_is_a_failure_that_names_the_probe() -> None:
    now = make_verdict(smoke=(smoke_of(DIGEST),))
    found = compared(now)
    assert (found.verdict, names(found.failed)) == ("differ", [f"cpu: {FIRST} (strict)"])
    assert found.failed[0].now == "9" * 64
    assert msgspec.structs.replace(now, against=found).exit_code == 8


def test_another_digest_on_another_platform_is_expected_and_listed() -> None:
    now = make_verdict(smoke=(smoke_of(DIGEST, fingerprint=OTHER_CPU),))
    found = compared(now)
    assert (found.verdict, names(found.platform)) == ("other-platform", ["cpu: cpu_model"])
    assert (found.failed, names(found.other)) == ((), [f"cpu: {FIRST} (strict)"])
    assert msgspec.structs.replace(now, against=found).exit_code == 0


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"threads": 4}, "threads"),
        ({"cpu_capability": "AVX2"}, "cpu_capability"),
        ({"environment": {"MKL_CBWR": "COMPATIBLE"}}, "environment.MKL_CBWR"),
        ({"settings": {**FINGERPRINT["settings"], "cudnn_benchmark": True}}, "settings.cudnn_benchmark"),
    ],
)  # fmt: skip
def test_what_makes_another_platform(fields: dict[str, Any], named: str) -> None:
    now = smoke_of(DIGEST, fingerprint={**KNOWN, **fields})
    found = compared(make_verdict(smoke=(now,)), make_verdict(smoke=(smoke_of(fingerprint=KNOWN),)))
    assert (found.verdict, names(found.platform)) == ("other-platform", [f"cpu: {named}"])
    assert (names(found.other), found.failed) == ([f"cpu: {FIRST} (strict)"], ())


KNOWN = {**FINGERPRINT, "cpu_capability": "AVX512"}


@pytest.mark.parametrize(
    "fields",
    [
        {"interop_threads": 4}, {"environment": {"OMP_WAIT_POLICY": "active"}}, {"environment": {"NCCL_DEBUG": "INFO"}},
        {"environment": {"CUDA_CACHE_PATH": "a path"}}, {"environment": {"NCCL_ALGO": "Tree"}}, {"numpy": "9"},
        {"cuda": {"driver": "1"}}, {"cpu_model": None}, {"anything": {"else": 1}},
    ],
)  # fmt: skip
def test_what_changes_no_result_explains_no_other_result(fields: dict[str, Any]) -> None:
    """A fact that is missing explains nothing either: it says nothing of the machine."""
    fingerprint = {name: value for name, value in {**KNOWN, **fields}.items() if value is not None}
    then = make_verdict(smoke=(smoke_of(fingerprint=KNOWN),))
    found = compared(make_verdict(smoke=(smoke_of(DIGEST, fingerprint=fingerprint),)), then)
    assert (found.verdict, names(found.failed), found.platform) == ("differ", [f"cpu: {FIRST} (strict)"], ())
    assert len(found.beside) == 1
    assert compared(make_verdict(smoke=(smoke_of(fingerprint=fingerprint),)), then).verdict == "same"


@pytest.mark.parametrize(
    "fields",
    [
        {"cuda": {"driver": "2"}}, {"cuda": {"driver": "1", "gpus": [{"name": "B"}]}},
        {"environment": {"NCCL_ALGO": "Tree"}},
    ],
)  # fmt: skip
def test_what_makes_another_platform_of_gpus(fields: dict[str, Any]) -> None:
    (name, *_) = EXPECTED["cuda"].probes
    known = {**FINGERPRINT, "cuda": {"driver": "1", "gpus": [{"name": "A"}]}}
    one = make_smoke("cuda", fingerprint=known)
    first, *rest = one.probes
    mode = msgspec.structs.replace(first.modes["strict"], digest="9" * 64)
    other = msgspec.structs.replace(first, modes={**first.modes, "strict": mode})
    two = make_smoke("cuda", fingerprint={**known, **fields}, probes=(other, *rest))
    found = compared(make_verdict(smoke=(make_smoke(), two)), make_verdict(smoke=(make_smoke(), one)))
    assert (found.verdict, names(found.other)) == ("other-platform", [f"cuda: {name} (strict)"])


def test_the_threads_of_the_probes_are_part_of_the_platform() -> None:
    one, two = (smoke_of(*steps, threads={"strict": n}) for n, steps in ((1, ()), (2, (DIGEST,))))
    found = compared(make_verdict(smoke=(two,)), make_verdict(smoke=(one,)))
    assert (found.verdict, names(found.platform)) == ("other-platform", ["cpu: probe_threads.strict"])


def test_the_number_of_processors_is_no_part_of_the_platform() -> None:
    found = compared(with_facts(cpus=64))
    assert (found.verdict, found.platform, found.beside) == ("same", (), ())


def test_a_platform_that_nobody_tells_is_none() -> None:
    empty = make_verdict(smoke=(make_smoke(fingerprint={}),))
    for now, then in ((empty, empty), (empty, make_verdict()), (make_verdict(), empty)):
        assert compared(now, then).verdict == "inconclusive"


def test_a_probe_that_only_one_has_is_no_pass() -> None:
    less = smoke_of(probes=document()["probes"][1:])
    skipped = smoke_of(
        *((FIRST, mode, {"verdict": "SKIPPED", "digest": None}) for mode in ("strict", "profile"))
    )
    for one in (less, skipped):
        for now, then in ((one, make_smoke()), (make_smoke(), one)):
            found = compared(make_verdict(smoke=(now,)), make_verdict(smoke=(then,)))
            assert found.verdict == "inconclusive"
            assert names(found.unmatched) == [f"cpu: {FIRST} (profile)", f"cpu: {FIRST} (strict)"]
        assert compared(make_verdict(smoke=(one,)), make_verdict(smoke=(one,))).verdict == "same"
        elsewhere = msgspec.structs.replace(one, fingerprint=OTHER_CPU)
        assert compared(make_verdict(smoke=(elsewhere,))).verdict == "other-platform"


def test_what_drifts_with_the_profile_is_not_compared_in_it() -> None:
    drifting = smoke_of((FIRST, "profile", drift()))
    found = compared(make_verdict(smoke=(drifting,)), make_verdict(smoke=(drifting,)))
    assert (found.verdict, found.unmatched) == ("same", ())
    assert names(compared(make_verdict(smoke=(drifting,))).unmatched) == [f"cpu: {FIRST} (profile)"]


def test_another_digest_with_the_profile_is_a_failure_too() -> None:
    found = compared(make_verdict(smoke=(smoke_of((FIRST, "profile", {"digest": "9" * 64})),)))
    assert (found.verdict, names(found.failed)) == ("differ", [f"cpu: {FIRST} (profile)"])


@pytest.mark.parametrize("documented", ["deterministic", "refused"])
def test_what_torch_says_to_need_strict_mode_is_compared_in_it_alone(documented: Any) -> None:
    """With a profile it may race, and not have been seen to."""
    other = smoke_of((FIRST, "profile", {"digest": "9" * 64}))
    first, *rest = other.probes
    found = compared(
        make_verdict(smoke=(msgspec.structs.replace(
            other, probes=(msgspec.structs.replace(first, documented=documented), *rest)
        ),))
    )  # fmt: skip
    assert (found.failed, names(found.unmatched)) == ((), [f"cpu: {FIRST} (profile)"])


def test_a_refusal_in_the_place_of_a_result_differs() -> None:
    refused = smoke_of((FIRST, "strict", {"verdict": "REFUSED", "digest": None}))
    found = compared(make_verdict(smoke=(refused,)))
    assert [(item.then is None, item.now) for item in found.failed] == [(False, "refused")]


def test_other_draws_before_anything_is_seeded_differ() -> None:
    found = compared(make_verdict(smoke=(smoke_of(start=START),)))
    assert names(found.failed) == ["cpu: draws before anything is seeded"]


def test_a_collective_is_compared() -> None:
    several = make_smoke().collectives
    assert several
    (one,) = several.probes[:1]
    mode = msgspec.structs.replace(one.modes["strict"], digest="9" * 64)
    other = msgspec.structs.replace(
        several, probes=(msgspec.structs.replace(one, modes={"strict": mode}), *several.probes[1:])
    )
    found = compared(make_verdict(smoke=(make_smoke(collectives=other),)))
    assert names(found.failed) == [f"cpu: collectives: {one.name} (strict)"]


def test_a_gpu_that_only_one_of_them_had() -> None:
    """It is no other platform: nothing is known of it, and the work of the one was computed elsewhere."""
    both = make_verdict(smoke=(make_smoke(), make_smoke("cuda")), comparisons=work("1"))
    alone = make_verdict(comparisons=work("2"))
    for now, then in ((both, alone), (alone, both)):
        found = compared(now, then)
        assert (found.verdict, found.platform) == ("inconclusive", ())
        assert {item.scope for item in found.unmatched} == {"cuda", "your work"}
        assert found.failed == found.other == ()


def test_another_gpu_does_not_excuse_the_processor() -> None:
    then = make_verdict(smoke=(make_smoke(), make_smoke("cuda")))
    gpu = make_smoke("cuda", fingerprint={**FINGERPRINT, "cpu_model": "another"})
    found = compared(make_verdict(smoke=(smoke_of(DIGEST), gpu)), then)
    assert (found.verdict, names(found.failed)) == ("differ", [f"cpu: {FIRST} (strict)"])


def test_nothing_in_common_is_no_pass() -> None:
    now = make_verdict(smoke=())
    found = compared(now, make_verdict(smoke=()))
    assert (found.verdict, found.compared) == ("inconclusive", 0)
    assert msgspec.structs.replace(now, against=found).exit_code == 9


def work(digest: str) -> tuple[WorkComparison, ...]:
    return (WorkComparison(name="workload output model.pt", verdict="identical", detail=digest),)


def test_the_users_own_work_is_compared() -> None:
    then = make_verdict(comparisons=work("1"))
    assert names(compared(make_verdict(comparisons=work("2")), then).failed) == [
        "your work: workload output model.pt"
    ]
    elsewhere = make_verdict(comparisons=work("2"), smoke=(smoke_of(fingerprint=OTHER_CPU),))
    assert names(compared(elsewhere, then).other) == ["your work: workload output model.pt"]
    alone = compared(make_verdict(), then)
    assert (names(alone.unmatched), alone.verdict) == (
        ["your work: workload output model.pt"],
        "inconclusive",
    )


# --- certificates are read ------------------------------------------------------------------------


def test_the_users_own_work_on_platforms_that_nothing_tells_is_inconclusive() -> None:
    """Both checks ran with --no-probes: equal or not, nothing says on what."""
    for digest in ("1", "2"):
        found = compared(
            make_verdict(comparisons=work(digest), smoke=()), make_verdict(comparisons=work("1"), smoke=())
        )
        assert (found.verdict, found.failed) == ("inconclusive", ())


def written(path: Path, verdict: Verdict | None = None) -> Path:
    path.write_bytes(msgspec.json.encode(verdict or make_verdict()))
    return path


def refused(path: Path) -> str:
    with pytest.raises(UsageError) as failed:
        read_certificate(path)
    assert failed.value.exit_code == 2
    assert failed.value.hint in (AGAIN, "update reprobuild")
    assert str(failed.value).isprintable()
    return str(failed.value)


def test_a_certificate_is_read_from_its_file_or_folder(tmp_path: Path) -> None:
    path = written(tmp_path / "verdict.json")
    for given in (path, tmp_path):
        found = read_certificate(given)
        assert (found.path, found.verdict) == (path, make_verdict())
        assert len(found.sha256) == 64


def test_there_is_none(tmp_path: Path) -> None:
    for path in (tmp_path / "absent", tmp_path):
        assert refused(path).startswith("there is no verdict file ")
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").endswith("pipe cannot be read: it is no plain file")


@pytest.mark.parametrize("target", ["/proc/self/mem", "/proc/kmsg"])
def test_a_link_to_a_file_of_the_kernel_is_not_waited_for(target: str, tmp_path: Path) -> None:
    """They count as plain files: one gives errors, the other waits for messages without end."""
    (tmp_path / "verdict.json").symlink_to(target)
    started = time.monotonic()
    refused(tmp_path)
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"3", b"null", b"\xff\xfe", b"PK\x03\x04", b'{"version": "3", "determinism": 1}',
        b"[" * 100_000,
        b'{"version": 3}', b'{"image": "x"}', b'{"version": 3, "determinism": ' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_certificate(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(data)
    assert refused(path) == f"{path} is no verdict file of reprobuild, or a damaged one"


def test_older_and_newer_forms(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(b'{"version": 2, "determinism": {}, "fingerprint": {}}')
    assert "is a verdict of form 2, of an older reprobuild: it names no platform to compare by" in refused(
        path
    )
    path.write_bytes(b'{"version": 4, "determinism": {}}')
    assert "is a verdict file of form 4; this reprobuild reads form 3" in refused(path)


def test_a_file_without_end(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    with path.open("wb") as stream:
        stream.truncate(33 << 20)
    assert refused(path).endswith("cannot be read: it has more than 8 MB")


def test_a_damaged_certificate(tmp_path: Path) -> None:
    path = written(tmp_path / "verdict.json")
    whole = path.read_bytes()
    for old, new in (
        (b'"seed":42', b'"seed":"x"'), (b'"identical"', b'"perfect"'), (FIRST.encode(), b"\\u001b[31m"),
        (b'"runs":10', b'"runs":-1'), (b'"made"', b'"mode"'), (b'"differences":[]', b'"differences":[{}]'),
    ):  # fmt: skip
        assert old in whole
        path.write_bytes(whole.replace(old, new))
        assert f"{path} is a damaged verdict file: " in refused(path)


# --- what is written of it is read again --------------------------------------------------------


def rewritten(against: Against) -> int:
    """Return the size of a verdict file with a comparison; it is read again."""
    verdict = make_verdict(against=against)
    data = msgspec.json.format(msgspec.json.encode(verdict))
    assert len(data) < LARGEST
    assert read_verdict(data, "verdict.json") == verdict
    return len(data)


def test_long_texts_of_a_certificate_are_shortened() -> None:
    long = "x" * 4000
    then = make_smoke(
        start={f"{number}{long[:3900]}": long for number in range(10)}, fingerprint={long: {long: long}}
    )
    found = compared(then=make_verdict(smoke=(then,)))
    (draws,) = found.failed
    assert (draws.then or "").endswith("... (79090 characters)")
    assert f"{long[:1000]}... (8001 characters)" in names(found.beside)[-1]
    rewritten(found)


@pytest.mark.parametrize("character", ["x", "\u20ac", "\x01"])
def test_very_many_differences_are_counted(character: str) -> None:
    count = 20_000
    works = tuple(
        WorkComparison(name=f"{number}{character * 250}", verdict="identical", detail=character * 64)
        for number in range(count)
    )
    found = compared(then=make_verdict(comparisons=works))
    *kept, last = found.unmatched
    assert (last.name, last.then, last.now) == (f"and {count - len(kept)} more", None, None)
    assert found.verdict == "inconclusive"
    rewritten(found)


def test_a_failure_is_found_among_very_many_differences() -> None:
    """What is not listed counts, too."""
    names_of_work = [f"{number}{'x' * 250}" for number in range(5000)]
    one, two = (
        tuple(WorkComparison(name=name, verdict="identical", detail=digest * 64) for name in names_of_work)
        for digest in "12"
    )
    found = compared(make_verdict(comparisons=two), make_verdict(comparisons=one))
    assert (found.verdict, found.compared > 5000) == ("differ", True)
    assert len(found.failed) < 5000
    rewritten(found)


KEY = "k" * 4000


@pytest.mark.parametrize("part", ["fingerprint", "start"])
@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({KEY: {KEY: {KEY: {KEY: {KEY: [0] * 1500}}}}}, "the names in a part of it have more than 200000 characters"),
        ({KEY: {KEY: {KEY: {KEY: {KEY: [0] * 100_000}}}}}, "a part of it has more than 2000 values"),
        ({"a": [{}] * 100_000}, "a part of it has more than 2000 values"),
    ],
)  # fmt: skip
def test_a_platform_of_very_many_names_is_refused(part: str, value: Any, why: str, tmp_path: Path) -> None:
    """Each name repeats the keys above its value: a hundred kilobytes were gigabytes of them."""
    path = written(tmp_path / "verdict.json", make_verdict(smoke=(make_smoke(**{part: value}),)))
    assert refused(path) == f"{path} is a damaged verdict file: {why}"


def test_a_certificate_of_one_device_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "verdict.json", make_verdict(smoke=(make_smoke(), make_smoke())))
    assert refused(path) == f"{path} is a damaged verdict file: one device stands in it twice"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"cpu": "drift"}, "drift"),
        ({"gpu": "drift"}, "drift"),
        (
            {
                "against": Against(
                    certificate=f"sha256:{SHA}", made="2026-11-22T05:00:00Z", verdict="differ", compared=1
                )
            },
            "another result than the verdict before it",
        ),
    ],
)
def test_the_certificate_of_a_check_that_failed(fields: dict[str, Any], said: str, tmp_path: Path) -> None:
    found = read_certificate(written(tmp_path / "verdict.json", make_verdict(**fields)))
    with pytest.raises(UsageError) as failed:
        refuse_failed(found)
    assert str(failed.value) == f"{found.path} is the verdict of a check that failed: {said}"
    assert failed.value.hint == BEFORE
    refuse_failed(read_certificate(written(tmp_path / "good.json", make_verdict("inconclusive"))))


def test_a_certificate_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "verdict.json").read_bytes()
    for at in range(0, len(whole), 997):
        path = tmp_path / "cut.json"
        path.write_bytes(whole[:at])
        refused(path)


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"tree": "sha256:9"},
            f"is the verdict on another image: its tree is sha256:{SHA}, and that of this one sha256:9",
        ),
        ({"seed": 7}, "was made with seed 42, and this image has 7"),
        ({"profile": "strict"}, "was made with profile torch, and this image has strict"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(fields: dict[str, Any], what: str, tmp_path: Path) -> None:
    found = read_certificate(written(tmp_path / "verdict.json"))
    same = {"tree": f"sha256:{SHA}", "seed": 42, "profile": "torch"}
    refuse_other(found, **same)
    with pytest.raises(UsageError) as failed:
        refuse_other(found, **{**same, **fields})
    assert str(failed.value) == f"{found.path} {what}"
    assert failed.value.hint == ELSEWHERE


def drifting_probe() -> Smoke:
    """Return the answers of a device with a headline that its first probe contradicts."""
    smoke = make_smoke()
    first = msgspec.structs.replace(smoke.probes[0], verdict="drift")
    return msgspec.structs.replace(smoke, probes=(first, *smoke.probes[1:]))


@pytest.mark.parametrize(
    ("smoke", "why"),
    [
        ((), "it states cpu identical, and its answers give inconclusive"),
        ((drifting_probe(),), "it states cpu identical, and its answers give drift"),
        ((make_smoke(probes=()),), "it states cpu identical, and its answers give inconclusive"),
        (
            (make_smoke(open=("the controls were left out",)),),
            "it states cpu identical, and its answers give",
        ),
        ((make_smoke(hook="drift"),), "it states cpu identical, and its answers give drift"),
    ],
)
def test_headlines_better_than_the_answers_are_damage(smoke: Any, why: str, tmp_path: Path) -> None:
    """Found by an attacker: a verdict without a probe said `identical`."""
    path = written(tmp_path / "verdict.json", make_verdict(smoke=smoke))
    with pytest.raises(UsageError, match="is a damaged verdict file: ") as caught:
        read_certificate(path)
    assert why in str(caught.value)
    assert caught.value.hint == "make one with `reprobuild verify OUT`; it is OUT/verdict.json"
    assert read_certificate(path, check_headlines=False).verdict.smoke == smoke


@pytest.mark.parametrize(
    ("stated", "code", "given"),
    [
        ("exact", "unexplained", "residue"),
        ("explained", "unexplained", "residue"),
        ("not-run", "unexplained", "residue"),
        ("exact", "host-only", "explained"),
    ],
)
def test_a_round_trip_better_than_its_differences_is_damage(
    stated: RoundTrip, code: Code, given: RoundTrip, tmp_path: Path
) -> None:
    difference = RoundTripDifference(list="env.txt", captured="A=1", image="", reason="", code=code)
    verdict = msgspec.structs.replace(make_verdict(), round_trip=stated, differences=(difference,))
    path = written(tmp_path / "verdict.json", verdict)
    why = f"it states that the round trip is {stated}, and its differences give {given}"
    with pytest.raises(UsageError, match=why):
        read_certificate(path)
    honest = msgspec.structs.replace(verdict, round_trip=given)
    assert read_certificate(written(tmp_path / "verdict.json", honest)).verdict == honest


@pytest.mark.parametrize(
    "verdict",
    [
        make_verdict("drift", smoke=(make_smoke(verdict="drift", hook="drift"),)),
        make_verdict("not-run", "not-run", smoke=()),
        make_verdict("inconclusive", smoke=()),
        make_verdict(gpu="not-covered"),
        make_verdict(smoke=(), comparisons=(WorkComparison(name="a", verdict="identical"),)),
    ],
)
def test_honest_headlines_are_read(verdict: Verdict, tmp_path: Path) -> None:
    assert read_certificate(written(tmp_path / "verdict.json", verdict)).verdict == verdict
