"""A check compared with an earlier certificate: the same platform must give the same digests, another need not."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.errors import UsageError
from reprobuild.verify.against import compare_against
from reprobuild.verify.certificate import Certificate, read_certificate, refuse_other
from reprobuild.verify.document import read_document
from reprobuild.verify.judge import judge_smoke
from reprobuild.verify.verdict import Against, Comparison, Smoke, Verdict
from tests.verify.samples import (
    EXPECTED,
    FINGERPRINT,
    changed,
    document,
    drift,
    encode,
    make_smoke,
    make_verdict,
)

FIRST, OTHER = EXPECTED["cpu"].probes[:2]
AGAIN = "make one with `reprobuild verify OUT`; it is OUT/verdict.json"
ELSEWHERE = (
    "a certificate says something of its own image alone; `reprobuild diff` tells why two images differ"
)


def smoke_of(*steps: tuple[str, str, dict[str, Any]], **more: Any) -> Smoke:
    """Return a smoke test in which probes did something else, in both containers."""
    pair = []
    for quick in (False, True):
        found = document(quick=quick, **more)
        for name, mode, fields in steps:
            found = changed(found, name, mode, **fields)
        pair.append(read_document(encode(found), "cpu"))
    return judge_smoke("cpu", pair[0], pair[1], EXPECTED["cpu"], controls=True)


def compared(now: Verdict | None = None, then: Verdict | None = None) -> Against:
    found = Certificate(path=Path("verdict.json"), sha256="c" * 64, verdict=then or make_verdict())
    return compare_against(now or make_verdict(), found)


def with_facts(**more: Any) -> Verdict:
    return make_verdict(smoke=(smoke_of(fingerprint={**FINGERPRINT, **more}),))


def names(found: tuple[Any, ...]) -> list[str]:
    return [f"{item.scope}: {item.name}" for item in found]


OTHER_CPU = {**FINGERPRINT, "cpu_model": "another"}
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
        ({"cuda": {"driver": "1"}}, "cuda.driver"),
        ({"cuda": {"gpus": [{"name": "H100"}]}}, "cuda.gpus.0.name"),
    ],
)
def test_what_makes_another_platform(fields: dict[str, Any], named: str) -> None:
    found = compared(make_verdict(smoke=(smoke_of(fingerprint={**FINGERPRINT, **fields}),)))
    assert (found.verdict, names(found.platform)) == ("other-platform", [f"cpu: {named}"])
    assert found.other == ()


def test_settings_are_part_of_the_platform_and_the_number_of_processors_is_not() -> None:
    found = compared(with_facts(environment={"NCCL_ALGO": "Ring"}))
    assert (names(found.platform), found.platform[0].now) == (["cpu: environment.NCCL_ALGO"], "Ring")
    assert compared(with_facts(cpus=64)).verdict == "same"


def test_probes_that_only_one_has_are_listed() -> None:
    less = smoke_of(probes=document()["probes"][1:])
    for now, then in ((less, make_smoke()), (make_smoke(), less)):
        found = compared(make_verdict(smoke=(now,)), make_verdict(smoke=(then,)))
        assert found.verdict == "same"
        assert names(found.unmatched) == [f"cpu: {FIRST} (profile)", f"cpu: {FIRST} (strict)"]


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
    assert (found.verdict, names(found.unmatched)) == ("same", [f"cpu: {FIRST} (profile)"])


def test_a_refusal_in_the_place_of_a_result_differs() -> None:
    refused = smoke_of((FIRST, "strict", {"verdict": "REFUSED", "digest": None}))
    found = compared(make_verdict(smoke=(refused,)))
    assert [(item.then is None, item.now) for item in found.failed] == [(False, "refused")]


def test_other_draws_before_anything_is_seeded_differ() -> None:
    found = compared(make_verdict(smoke=(smoke_of(start={"random": "other"}),)))
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
    both = make_verdict(smoke=(make_smoke(), make_smoke("cuda")))
    for now, then in ((both, make_verdict()), (make_verdict(), both)):
        found = compared(now, then)
        assert (found.verdict, names(found.platform)) == ("other-platform", ["cuda: smoke test"])
        assert {item.scope for item in found.unmatched} == {"cuda"}
        assert found.failed == found.other == ()


def test_another_gpu_does_not_excuse_the_processor() -> None:
    then = make_verdict(smoke=(make_smoke(), make_smoke("cuda")))
    gpu = make_smoke("cuda", fingerprint={"gpu": "another"})
    found = compared(make_verdict(smoke=(smoke_of(DIGEST), gpu)), then)
    assert (found.verdict, names(found.failed)) == ("differ", [f"cpu: {FIRST} (strict)"])


def test_nothing_in_common_is_no_pass() -> None:
    now = make_verdict(smoke=())
    found = compared(now, make_verdict(smoke=()))
    assert (found.verdict, found.compared) == ("inconclusive", 0)
    assert msgspec.structs.replace(now, against=found).exit_code == 9


def work(digest: str) -> tuple[Comparison, ...]:
    return (Comparison(name="workload output model.pt", verdict="identical", detail=digest),)


def test_the_users_own_work_is_compared() -> None:
    then = make_verdict(comparisons=work("1"))
    assert names(compared(make_verdict(comparisons=work("2")), then).failed) == [
        "your work: workload output model.pt"
    ]
    elsewhere = make_verdict(comparisons=work("2"), smoke=(smoke_of(fingerprint=OTHER_CPU),))
    assert names(compared(elsewhere, then).other) == ["your work: workload output model.pt"]
    assert names(compared(make_verdict(), then).unmatched) == ["your work: workload output model.pt"]


# --- certificates are read ------------------------------------------------------------------------


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
        assert refused(path).startswith("there is no certificate ")
    os.mkfifo(tmp_path / "pipe")
    assert refused(tmp_path / "pipe").endswith("is no plain file, and no folder of results")


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
    assert refused(path) == f"{path} is no certificate of reprobuild, or a damaged one"


def test_older_and_newer_forms(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    path.write_bytes(b'{"version": 2, "determinism": {}, "fingerprint": {}}')
    assert "is a verdict of form 2, of an older reprobuild: it names no platform to compare by" in refused(
        path
    )
    path.write_bytes(b'{"version": 4, "determinism": {}}')
    assert "is a certificate of form 4; this reprobuild reads form 3" in refused(path)


def test_a_file_without_end(tmp_path: Path) -> None:
    path = tmp_path / "verdict.json"
    with path.open("wb") as stream:
        stream.truncate(33 << 20)
    assert refused(path).endswith("has more than 32 MB: no certificate does")


def test_a_damaged_certificate(tmp_path: Path) -> None:
    path = written(tmp_path / "verdict.json")
    whole = path.read_bytes()
    for old, new in (
        (b'"seed":42', b'"seed":"x"'), (b'"identical"', b'"perfect"'), (FIRST.encode(), b"\\u001b[31m"),
        (b'"runs":10', b'"runs":-1'), (b'"made"', b'"mode"'), (b'"differences":[]', b'"differences":[{}]'),
    ):  # fmt: skip
        assert old in whole
        path.write_bytes(whole.replace(old, new))
        assert f"{path} is a damaged certificate: " in refused(path)


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
            "is the certificate of another image: its tree is sha256:1, and that of this one sha256:9",
        ),
        ({"seed": 7}, "was made with seed 42, and this image has 7"),
        ({"profile": "strict"}, "was made with profile torch, and this image has strict"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared(fields: dict[str, Any], what: str, tmp_path: Path) -> None:
    found = read_certificate(written(tmp_path / "verdict.json"))
    same = {"tree": "sha256:1", "seed": 42, "profile": "torch"}
    refuse_other(found, **same)
    with pytest.raises(UsageError) as failed:
        refuse_other(found, **{**same, **fields})
    assert str(failed.value) == f"{found.path} {what}"
    assert failed.value.hint == ELSEWHERE
