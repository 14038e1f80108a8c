"""Nodes are grouped by platform, and those that are not as the others of their group are named. Nothing is run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.fleet.gathering import Fleet
from reprobuild.fleet.page import on_page
from reprobuild.fleet.text import render_fleet
from reprobuild.verify.verdict import Verdict
from tests.fleet.samples import certificate, changed, gathered, on, write
from tests.verify.samples import make_smoke


def odd(fleet: Fleet) -> list[tuple[str, str, str]]:
    """Return (node, kind, answer) of all that is odd."""
    return [(each.node, each.kind, each.answer) for one in fleet.groups for each in one.odd]


def test_nodes_that_say_the_same_are_one_group(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(), c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code, found.silent, found.open) == ("same", 0, (), ())
    (one,) = found.groups
    assert (one.device, one.nodes, one.odd, one.parted) == ("cpu", ("a", "b", "c"), (), ())
    assert one.compared > 150  # two modes of about ninety probes
    assert "fleet: same; 3 of 3 nodes answered" in render_fleet(found)


def test_the_node_that_answers_otherwise_is_named_with_probe_and_mode(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(changed("index_add", "lstm")), c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code) == ("differ", 8)
    assert odd(found) == [("b", "other", "index_add (strict)"), ("b", "other", "lstm (strict)")]
    text = render_fleet(found)
    assert (
        "b: differs from 2 of its platform, on cpu, in 2 answers: drift, or hardware that computes wrongly"
        in text
    )
    assert "  index_add (strict), lstm (strict)\n" in text


@pytest.mark.parametrize("gpus", [1, 8])
def test_gpus_past_the_first_of_each_node_that_nothing_probed_are_told(gpus: int, tmp_path: Path) -> None:
    smoke = make_smoke("cuda")
    cuda = {"gpus": [{"name": "H100"}] * gpus}
    one = certificate(msgspec.structs.replace(smoke, fingerprint={**smoke.fingerprint, "cuda": cuda}))
    write(tmp_path, a=one, b=one)
    found = gathered(tmp_path)
    said = f"cuda: probed: the first of {gpus} GPUs; the others took part in collectives at most; to probe each, run"
    assert [said in text for text in (render_fleet(found), "\n".join(on_page(found).notes))] == [gpus > 1] * 2


def test_of_two_nodes_nobody_knows_which_is_right(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(changed("index_add")))
    found = gathered(tmp_path)
    assert (found.verdict, odd(found)) == ("differ", [])
    (parted,) = found.groups[0].parted
    assert (parted.answer, sorted(parted.sides.values())) == ("index_add (strict)", [("a",), ("b",)])
    assert "index_add (strict): they differ, and which is right is not known: " in render_fleet(found)


def test_half_of_the_nodes_are_no_majority(tmp_path: Path) -> None:
    other = certificate(changed("index_add"))
    write(tmp_path, a=certificate(), b=certificate(), c=other, d=other)
    found = gathered(tmp_path)
    assert (found.verdict, odd(found), len(found.groups[0].parted)) == ("differ", [], 1)


def test_a_node_that_drifts_is_named_though_its_other_answers_are_right(tmp_path: Path) -> None:
    drifts = certificate(changed("index_add", digest=None, verdict="DRIFT"))
    write(tmp_path, a=certificate(), b=drifts, c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, odd(found)) == ("differ", [("b", "drift", "index_add (strict)")])
    assert "b: drifts from 2 of its platform" in render_fleet(found)


def test_what_drifts_with_the_profile_alone_is_not_compared_and_that_is_said(tmp_path: Path) -> None:
    """Strict mode cures it on half of the nodes: two others that saw no drift may differ."""
    loose = changed("index_add", mode="profile", digest=None, verdict="DRIFT")
    loose = msgspec.structs.replace(
        loose,
        probes=tuple(msgspec.structs.replace(p, verdict="identical") for p in loose.probes),
    )
    other = certificate(changed("index_add", mode="profile"))
    write(tmp_path, a=certificate(loose), b=certificate(), c=other, d=certificate(loose))
    found = gathered(tmp_path)
    assert (found.verdict, odd(found)) == ("same", [])
    assert found.groups[0].loose == {"index_add (profile)": ("a", "d")}
    assert "not compared, for they drift with the image's profile: index_add (profile)" in render_fleet(found)


def scoped(**scopes: str) -> Verdict:
    """Return a certificate whose own answer for some scopes is another."""
    one = certificate()
    return msgspec.structs.replace(one, determinism=msgspec.structs.replace(one.determinism, **scopes))


several = make_smoke().collectives
several = several and msgspec.structs.replace(several, verdict="drift")


@pytest.mark.parametrize(
    ("drifts", "answer"),
    [
        (certificate(make_smoke(verdict="drift")), "the smoke test"),  # as where its controls drift
        (scoped(cpu="drift"), "the smoke test"),
        (scoped(collectives="drift"), "the smoke test"),
        (certificate(make_smoke(collectives=several)), "collectives"),
    ],
    ids=["smoke", "cpu", "scope of collectives", "collectives"],
)
def test_a_drift_that_no_answer_has_is_a_drift(drifts: Verdict, answer: str, tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=drifts, c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code, odd(found)) == ("differ", 8, [("b", "drift", answer)])


def test_a_drift_of_a_device_that_cannot_be_compared_is_one(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=scoped(gpu="drift"), c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, [(each.node, each.kind) for each in found.silent]) == ("differ", [("b", "drifts")])
    assert "b: drifts: by its own certificate: cuda" in render_fleet(found)


def test_one_that_drifts_with_the_profile_is_named_where_most_do_not_and_hides_no_other(
    tmp_path: Path,
) -> None:
    """What torch documents to race there is another thing: of that a profile says nothing."""
    loose = certificate(changed("conv2d", mode="profile", digest=None, verdict="DRIFT"))
    other = certificate(changed("conv2d", mode="profile"))
    write(tmp_path, a=certificate(), b=certificate(), c=loose, d=certificate(), e=other)
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code) == ("differ", 8)
    assert ("c", "drift", "conv2d (profile)") in odd(found)
    assert ("e", "other", "conv2d (profile)") in odd(found)


def test_an_answer_that_one_node_lacks_is_no_pass(tmp_path: Path) -> None:
    lacks = certificate(changed("index_add", digest=None, verdict="ERROR"))
    write(tmp_path, a=certificate(), b=lacks, c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, odd(found)) == ("inconclusive", [("b", "missing", "index_add (strict)")])
    assert "b: no answer on cpu, where others have one: index_add (strict)" in render_fleet(found)


def test_other_platforms_are_other_groups_whose_differences_are_expected(tmp_path: Path) -> None:
    one, other = certificate(on("One CPU")), certificate(on("Other CPU"))
    write(tmp_path, a=one, b=one, c=other, d=other)
    found = gathered(tmp_path)
    assert (found.verdict, [each.nodes for each in found.groups]) == ("same", [("a", "b"), ("c", "d")])
    (each,) = found.across
    assert (each.facts, each.answers) == (("cpu_model",), ("conv2d (strict)",))
    assert each.compared == found.groups[0].compared
    assert "across the groups on cpu 1 of" in render_fleet(found)


def test_a_node_alone_on_its_platform_is_not_compared(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(), c=certificate(on("Other CPU")))
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code) == ("inconclusive", 9)
    assert "alone on its platform: nothing is known of it by comparison" in render_fleet(found)


@pytest.mark.parametrize(
    ("fact", "apart"),
    [({"cpus": 128}, False), ({"libc": "glibc 2.40"}, False), ({"threads": 7}, True), ({"cpu_capability": "X"}, True)],
)  # fmt: skip
def test_what_groups_is_what_a_comparison_calls_a_platform(
    fact: dict[str, object], apart: bool, tmp_path: Path
) -> None:
    smoke = make_smoke()
    other = msgspec.structs.replace(smoke, fingerprint={**smoke.fingerprint, **fact})
    write(tmp_path, a=certificate(), b=certificate(other))
    assert (len(gathered(tmp_path).groups) == 2) is apart


def test_the_gpus_of_nodes_are_groups_of_their_own(tmp_path: Path) -> None:
    cuda = make_smoke("cuda")
    models = {
        name: msgspec.structs.replace(
            cuda, fingerprint={**cuda.fingerprint, "cuda": {"gpus": [{"name": name}]}}
        )
        for name in ("H100", "H200")
    }
    both = {name: certificate() for name in models}
    nodes = {
        node: msgspec.structs.replace(both[name], smoke=(make_smoke(), models[name]))
        for node, name in (("a", "H100"), ("b", "H100"), ("c", "H200"), ("d", "H200"))
    }
    write(tmp_path, **nodes)
    found = gathered(tmp_path)
    assert [(one.device, one.nodes) for one in found.groups] == [
        ("cpu", ("a", "b", "c", "d")), ("cuda", ("a", "b")), ("cuda", ("c", "d")),
    ]  # fmt: skip
    assert [each.facts for each in found.across] == [("cuda.gpus.0.name",)]


def test_why_certificates_are_no_pass_by_themselves_is_told_once(tmp_path: Path) -> None:
    smoke = msgspec.structs.replace(
        make_smoke(), verdict="inconclusive", open=("the controls were left out",)
    )
    one = certificate(smoke)
    write(tmp_path, a=one, b=one, c=certificate())
    found = gathered(tmp_path)
    assert found.verdict == "inconclusive"
    assert [(each.why, each.nodes) for each in found.open] == [
        ("cpu: the controls were left out", ("a", "b"))
    ]
    assert "a, b: cpu: the controls were left out" in render_fleet(found)
