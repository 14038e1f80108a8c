"""Nodes are grouped by platform, and those that are not as the others of their group are named. Nothing is run."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.cluster.aggregate import ClusterResult
from reprobuild.cluster.group import Group
from reprobuild.cluster.report import render_nodes
from reprobuild.cluster.text import render_cluster
from reprobuild.verify.verdict import Smoke, Verdict
from tests.cluster.samples import certificate, changed, gathered, on, write
from tests.verify.samples import make_smoke


def odd(cluster: ClusterResult) -> list[tuple[str, str, str]]:
    """Return (node, kind, answer) of all that is odd."""
    return [(each.node, each.kind, each.answer) for one in cluster.groups for each in one.odd]


def test_nodes_that_say_the_same_are_one_group(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(), c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code, found.silent, found.open) == ("same", 0, (), ())
    (one,) = found.groups
    assert (one.device, one.nodes, one.odd, one.parted) == ("cpu", ("a", "b", "c"), (), ())
    assert one.compared > 150  # two modes of about ninety probes
    assert "cluster: same; 3 of 3 nodes answered" in render_cluster(found)


def test_the_node_that_answers_otherwise_is_named_with_probe_and_mode(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(changed("index_add", "lstm")), c=certificate())
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code) == ("differ", 8)
    assert odd(found) == [("b", "other", "index_add (strict)"), ("b", "other", "lstm (strict)")]
    text = render_cluster(found)
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
    assert [said in text for text in (render_cluster(found), "\n".join(render_nodes(found).notes))] == [
        gpus > 1
    ] * 2


def test_of_two_nodes_nobody_knows_which_is_right(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(changed("index_add")))
    found = gathered(tmp_path)
    assert (found.verdict, odd(found)) == ("differ", [])
    (parted,) = found.groups[0].parted
    assert (parted.answer, sorted(parted.sides.values())) == ("index_add (strict)", [("a",), ("b",)])
    assert "index_add (strict): they differ, and which is right is not known: " in render_cluster(found)


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
    assert "b: drifts from 2 of its platform" in render_cluster(found)


def loosened(name: str) -> Smoke:
    """Return a determinism test in which a probe drifts with the profile, and strict mode cures it."""
    smoke = changed(name, mode="profile", digest=None, verdict="DRIFT")
    probes = (
        msgspec.structs.replace(each, verdict="identical") if each.name == name else each
        for each in smoke.probes
    )
    return msgspec.structs.replace(smoke, probes=tuple(probes))


def test_what_drifts_with_the_profile_alone_is_not_compared_and_that_is_said(tmp_path: Path) -> None:
    """Strict mode cures it on half of the nodes: two others that saw no drift may differ."""
    loose = loosened("index_add")
    other = certificate(changed("index_add", mode="profile"))
    write(tmp_path, a=certificate(loose), b=certificate(), c=other, d=certificate(loose))
    found = gathered(tmp_path)
    assert (found.verdict, odd(found)) == ("same", [])
    assert found.groups[0].loose == {"index_add (profile)": ("a", "d")}
    assert "not compared, for they drift with the image's profile: index_add (profile)" in render_cluster(
        found
    )


def scoped(**scopes: str) -> Verdict:
    """Return a certificate whose own answer for some scopes is another."""
    one = certificate()
    return msgspec.structs.replace(one, determinism=msgspec.structs.replace(one.determinism, **scopes))


several = make_smoke().collectives
several = several and msgspec.structs.replace(several, verdict="drift")


@pytest.mark.parametrize(
    ("drifts", "answer"),
    [
        (certificate(make_smoke(verdict="drift")), "the determinism test"),  # as where its controls drift
        (scoped(cpu="drift"), "the determinism test"),
        (scoped(collectives="drift"), "the determinism test"),
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
    assert "b: drifts: by its own verdict: cuda" in render_cluster(found)


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
    assert "b: no answer on cpu, where others have one: index_add (strict)" in render_cluster(found)


LACKS = changed("index_add", "lstm", digest=None, verdict="SKIPPED")


@pytest.mark.parametrize("nodes", ["ab", "abcd"])
def test_an_answer_that_half_of_the_nodes_lack_is_no_pass_and_they_are_named(
    nodes: str, tmp_path: Path
) -> None:
    half = len(nodes) // 2
    write(
        tmp_path, **{node: certificate(LACKS if place < half else None) for place, node in enumerate(nodes)}
    )
    found = gathered(tmp_path)
    lack = tuple(nodes[:half])
    assert (found.verdict, found.exit_code, odd(found)) == ("inconclusive", 9, [])
    assert found.groups[0].lacked == {"index_add (strict)": lack, "lstm (strict)": lack}
    said = f"{', '.join(lack)}: no answer on cpu, where others have one: index_add (strict), lstm (strict)"
    assert said in render_cluster(found)
    page = render_nodes(found)
    assert [(one.node, one.answers) for one in page.lacking] == [
        (node, ("index_add (strict)", "lstm (strict)")) for node in lack
    ]


def test_what_one_of_several_gave_is_compared_with_nothing(tmp_path: Path) -> None:
    """It may be wrong: three have no answer to hold it against."""
    lacks = certificate(changed("index_add", digest=None, verdict="SKIPPED"))
    write(tmp_path, a=certificate(changed("index_add")), b=lacks, c=lacks, d=lacks)
    found = gathered(tmp_path)
    (one,) = found.groups
    assert (found.verdict, odd(found)) == ("inconclusive", [])
    assert one.lacked == {"index_add (strict)": ("b", "c", "d")}
    assert "index_add (strict)" not in one.majority
    assert one.compared == gathered_of(tmp_path / "whole").compared - 1


def gathered_of(folder: Path) -> Group:
    """Return the group of four nodes that answer all."""
    write(folder, **dict.fromkeys("abcd", certificate()))
    (one,) = gathered(folder).groups
    return one


def test_a_node_without_an_answer_is_named_where_the_profile_drifts_on_others(tmp_path: Path) -> None:
    loose = loosened("index_add")
    lacks = certificate(changed("index_add", mode="profile", digest=None, verdict="ERROR"))
    write(tmp_path, a=certificate(loose), b=certificate(), c=lacks, d=certificate(loose))
    found = gathered(tmp_path)
    assert found.groups[0].loose == {"index_add (profile)": ("a", "d")}
    assert (found.verdict, found.groups[0].lacked) == ("inconclusive", {"index_add (profile)": ("c",)})


def skipping(*names: str) -> Smoke:
    """Return a determinism test in which some probes cannot be run on this platform, and say so."""
    smoke, probes = make_smoke(), []
    for probe in smoke.probes:
        if probe.name in names:
            modes = {
                mode: msgspec.structs.replace(
                    seen, verdict="SKIPPED", digest=None, again=None, why="no such kernel"
                )
                for mode, seen in probe.modes.items()
            }
            probe = msgspec.structs.replace(
                probe, modes=modes, verdict="not-applicable", why="no such kernel"
            )
        probes.append(probe)
    return msgspec.structs.replace(smoke, probes=tuple(probes))


def test_what_a_platform_cannot_run_is_no_alarm(tmp_path: Path) -> None:
    """Where all nodes of it say so; what only some of them can run is told."""
    skips = certificate(skipping("sdpa_flash"))
    write(tmp_path / "all", a=skips, b=skips, c=skips)
    assert (gathered(tmp_path / "all").verdict, gathered(tmp_path / "all").open) == ("same", ())
    write(tmp_path / "some", a=skips, b=skips, c=certificate())
    found = gathered(tmp_path / "some")
    assert (found.verdict, found.open) == ("inconclusive", ())
    assert found.groups[0].lacked == dict.fromkeys(
        ("sdpa_flash (profile)", "sdpa_flash (strict)"), ("a", "b")
    )


def test_a_certificate_is_held_against_what_was_asked(tmp_path: Path) -> None:
    """Two that hold nothing, and say `identical`, are alike in that."""
    smoke = make_smoke()
    without = msgspec.structs.replace(smoke, probes=smoke.probes[2:], controls=())
    blank = msgspec.structs.replace(make_smoke("cuda"), fingerprint={})
    gpu = certificate(determinism=msgspec.structs.replace(certificate().determinism, gpu="identical"))
    assert smoke.collectives
    few = msgspec.structs.replace(smoke.collectives, probes=smoke.collectives.probes[1:])
    first = ", ".join(probe.name for probe in smoke.probes[:2])
    controls = "cpu: identical, and no answer of control "
    for name, one, whys in (
        ("none", certificate(msgspec.structs.replace(smoke, probes=())), ["cpu: identical, and no answer of probe "]),
        ("some", certificate(without), [controls, f"cpu: identical, and no answer of probe {first}"]),
        ("skipped", certificate(skipping("index_add")), ["cpu: identical, and no answer of probe index_add"]),
        ("torn", certificate(LACKS), ["cpu: identical, and no answer of probe index_add, lstm"]),
        ("gpu", gpu, ["gpu: identical, and no determinism test tells of it"]),
        ("several", certificate(make_smoke(collectives=None)),
         ["collectives: identical, and no determinism test tells"]),
        ("ranks", certificate(make_smoke(collectives=few)),
         ["cpu: collectives identical, and no answer of all_reduce float32 1 KiB"]),
        ("blank", msgspec.structs.replace(gpu, smoke=(smoke, blank)),
         ["gpu: identical, and no determinism test tells"]),
    ):  # fmt: skip
        write(tmp_path / name, a=one, b=one, c=one)
        found = gathered(tmp_path / name)
        assert (found.verdict, len(found.open)) == ("inconclusive", len(whys)), (name, found.open)
        for each, why in zip(found.open, whys, strict=True):
            assert each.why.startswith(why), name
            assert each.nodes == ("a", "b", "c")


def test_other_platforms_are_other_groups_whose_differences_are_expected(tmp_path: Path) -> None:
    one, other = certificate(on("One CPU")), certificate(on("Other CPU"))
    write(tmp_path, a=one, b=one, c=other, d=other)
    found = gathered(tmp_path)
    assert (found.verdict, [each.nodes for each in found.groups]) == ("same", [("a", "b"), ("c", "d")])
    (each,) = found.across
    assert (each.facts, each.answers) == (("cpu_model",), ("conv2d (strict)",))
    assert each.compared == found.groups[0].compared
    assert "across the groups on cpu 1 of" in render_cluster(found)


def test_a_node_alone_on_its_platform_is_not_compared(tmp_path: Path) -> None:
    write(tmp_path, a=certificate(), b=certificate(), c=certificate(on("Other CPU")))
    found = gathered(tmp_path)
    assert (found.verdict, found.exit_code) == ("inconclusive", 9)
    assert "alone on its platform: nothing is known of it by comparison" in render_cluster(found)


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
    assert "a, b: cpu: the controls were left out" in render_cluster(found)
