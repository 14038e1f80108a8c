"""The three answers on top: each in one sentence, and never better than the verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from reprobuild.report.html.answers import answer_same_environment, answer_same_results
from reprobuild.report.html.cluster import Nodes, OutlierRow
from reprobuild.report.html.remarks import summarise_remarks
from reprobuild.verify.verdict import Against, Determinism, Deviation, RoundTripDifference, WorkComparison
from reprobuild.verify.workload.conditions import WorkRecord
from tests.report.samples import full_lock, full_verdict
from tests.verify.samples import make_lock, make_smoke, make_verdict, ruling, wheel

UNEXPLAINED = RoundTripDifference(list="env.txt", captured="A", image="", reason="", code="unexplained")
HOST = RoundTripDifference(list="env.txt", captured="B", image="", reason="host", code="host-only")
SITE = RoundTripDifference(list="env.txt", captured="C", image="", reason="site", code="site-variable")
SPELLED = RoundTripDifference(list="l", captured="d", image="D", reason="", code="other-spelling")
CHOSEN = RoundTripDifference(list="l", captured="c", image="c==1", reason="", code="solved-version")
SOLVED = ruling("c", "c", "solved", "chosen", accepted=True)
PACKAGES = (ruling("a", "a==1"), ruling("b", "b==1"), ruling("bash", "", file="apt-packages.txt"))
GONE = ruling("a", "a==1", "unresolved", "no index has it", kind="unknown-version", accepted=True)


@pytest.mark.parametrize(
    ("round_trip", "differences", "rulings", "word", "tone", "said"),
    [
        ("exact", (), (), "Yes", "good", "The image repeats every line of what was captured."),
        ("exact", (), PACKAGES, "Yes", "good",
         "All 2 Python and 1 system packages match. The image repeats every line of what was captured."),
        ("explained", (HOST,), (), "Yes, explained", "good",
         "1 line was left out or changed on purpose: parts of the host."),
        ("explained", (HOST, SITE, SITE, SPELLED), PACKAGES, "Yes, explained", "good",
         "All 2 Python and 1 system packages match. 4 lines were left out or changed on purpose: variables of the "
         "session, the scheduler and the site, parts of the host, and others."),
        ("explained", (HOST,), (*PACKAGES, GONE), "Yes, with deviations", "note",
         "2 Python and 1 system packages match. 1 line was left out or changed on purpose: parts of the host; "
         "1 deviation was accepted by name."),
        ("explained", (CHOSEN,), (*PACKAGES, SOLVED), "Yes, with chosen versions", "note",
         "2 Python and 1 system packages match. 1 line was left out or changed on purpose: versions as of a date; "
         "1 version was chosen, not captured."),
        ("residue", (UNEXPLAINED, UNEXPLAINED, HOST), (), "Not quite", "bad",
         "2 differences between the image and what was captured are not explained."),
        ("not-run", (), (), "Not known", "open", "The image was not compared with everything that was captured."),
    ],
)  # fmt: skip
def test_is_this_the_same_environment(
    round_trip: Any, differences: Any, rulings: Any, word: str, tone: str, said: str
) -> None:
    verdict = make_verdict(round_trip=round_trip, differences=differences)
    answer = answer_same_environment(make_lock(rulings=rulings), verdict)
    assert (answer.word, answer.tone, answer.sentence) == (word, tone, said)


def determinism(cpu: Any, gpu: Any, collectives: Any) -> Determinism:
    return Determinism(cpu=cpu, gpu=gpu, collectives=collectives)


NOT_TORCH = "not-applicable"


@pytest.mark.parametrize(
    ("scopes", "word", "tone", "said"),
    [
        (("identical", NOT_TORCH, "identical"), "Yes, on this machine", "good", "the CPU and sums between processes."),
        (("drift", "identical", NOT_TORCH), "No", "bad", "differed in their bytes: the CPU."),
        (("identical", "not-covered", "not-covered"), "Known in part", "open",
         "(the CPU), but the check did not cover the GPU and did not cover sums between processes."),
        (("inconclusive", NOT_TORCH, NOT_TORCH), "Not known", "open", "The check gave no clear answer for the CPU."),
        (("not-run", "not-run", "not-run"), "Not known", "open", "did not run for the GPU"),
        ((NOT_TORCH, NOT_TORCH, NOT_TORCH), "Not known", "open", "Nothing that the image holds could be checked."),
    ],
)  # fmt: skip
def test_will_it_compute_the_same(scopes: tuple[Any, Any, Any], word: str, tone: str, said: str) -> None:
    answer = answer_same_results(make_verdict(determinism=determinism(*scopes)))
    assert (answer.word, answer.tone) == (word, tone)
    assert said in answer.sentence


def test_what_drifts_with_the_profile_is_no_plain_yes() -> None:
    first, *rest = make_smoke().probes
    loose = msgspec.structs.replace(first.modes["profile"], verdict="DRIFT", digest=None, distinct=3)
    probe = msgspec.structs.replace(first, modes={**first.modes, "profile": loose})
    verdict = make_verdict(smoke=(make_smoke(probes=(probe, *rest)),))
    answer = answer_same_results(verdict)
    assert (answer.word, answer.tone) == ("Yes, in strict mode", "note")
    assert answer.sentence.endswith(f"with the image's own profile, torch, {first.name} drifts.")
    known, _ = summarise_remarks(make_lock(), verdict)
    assert known.sentence.startswith("1 probe drifts with profile torch")


@pytest.mark.parametrize(("runs", "times"), [(2, "twice"), (30, "30 times")])
def test_the_own_run_comes_first(runs: int, times: str) -> None:
    work = WorkRecord(command="python train.py", seed=1, runs=runs)
    same = WorkComparison(name="workload output model.pt", verdict="identical")
    said = answer_same_results(make_verdict(work=work, comparisons=(same,))).sentence
    assert said.startswith(f"Your run gave the same bytes {times}, in fresh containers. ")
    other = msgspec.structs.replace(same, verdict="inconclusive")
    assert said.endswith(answer_same_results(make_verdict(work=work, comparisons=(same, other))).sentence)


def test_an_earlier_certificate_that_differs_is_a_no() -> None:
    failed = (Deviation(scope="cpu", name="x", then="a" * 64, now="b" * 64),)
    before = Against(certificate="sha256:1", made="2026-06-01", verdict="differ", compared=9, failed=failed)
    answer = answer_same_results(make_verdict(against=before))
    assert (answer.word, answer.tone) == ("No", "bad")
    assert answer.sentence == "1 of 9 digests differ from the verdict of 2026-06-01, on the same platform."


def test_nothing_to_know() -> None:
    verdict = make_verdict(smoke=(make_smoke(left_out=()),))
    answer, remarks = summarise_remarks(make_lock(), verdict)
    assert (answer.word, remarks) == ("Nothing unusual", ())


def test_what_to_know_has_its_section() -> None:
    lock = make_lock(
        rulings=(GONE, ruling("TOKEN", "", "excluded", "a secret", kind="secret", file="env.txt")),
        wheels=(wheel("torch", requires=("nothere>=1",)),),
    )
    work = WorkComparison(
        name="model.pt",
        verdict="inconclusive",
        excused={"time": 2},
        warnings=("b.pt: it is empty in both runs",),
    )
    answer, remarks = summarise_remarks(lock, make_verdict(notes=("a note",), comparisons=(work,)))
    assert answer.word == f"{len(remarks)} things"
    assert [(remark.section, remark.said) for remark in remarks] == [
        ("work", "your work, model.pt: inconclusive."),
        ("work", "Your work, model.pt: b.pt: it is empty in both runs."),
        ("work", "Your work: 2 values excused (2 time)."),
        ("probes", "a note."),
        ("probes", "Only --thorough runs these probes: compiled_gpt_block, compiled_reduction and "
                   "compiled_flex_attention."),
        ("conflicts", "1 requirement is not met by the packages, as when they were captured."),
        ("deviations", "Not as captured, and accepted: a."),
        ("round-trip", "Secrets are not in the image, and are given to a job when it is run: TOKEN."),
    ]  # fmt: skip
    assert answer.sentence == (
        "Your work, model.pt: inconclusive, your work, model.pt: b.pt: it is empty in both runs, "
        "3 probes were left out and 3 more."
    )


def test_the_gravest_gives_the_tone() -> None:
    answer, remarks = summarise_remarks(full_lock("x"), full_verdict("x"))
    assert answer.tone == "bad"
    assert remarks[0].said == "2 probes drift in strict mode: x and x."
    assert remarks[1].said == "2 controls did not show that the check can fail: x and x."


def nodes(verdict: Any, *wrong: str, silent: tuple[str, ...] = ()) -> Nodes:
    said = {name: OutlierRow(node=name, said="x") for name in (*wrong, *silent)}
    return Nodes(verdict=verdict, asked=8, wrong=tuple(said[name] for name in wrong), groups=(),
                 silent=tuple(said[name] for name in silent))  # fmt: skip


def test_the_nodes_of_a_fleet_have_their_say() -> None:
    good = make_verdict(smoke=(make_smoke(left_out=()),))
    answer = answer_same_results(good, nodes("same"))
    assert answer.sentence.endswith("; 8 nodes agree, each with those of its platform.")
    answer = answer_same_results(good, nodes("differ", "n2"))
    assert (answer.word, answer.tone) == ("Not on every node", "bad")
    assert answer.sentence == "Nodes of one platform gave different bytes, or drift: n2."
    _, remarks = summarise_remarks(make_lock(), good, nodes("differ", "n2", silent=("n3",)))
    assert [(remark.section, remark.tone, remark.said) for remark in remarks] == [
        ("nodes", "bad", "1 node differs from others of one platform, or drifts: n2."),
        ("nodes", "open", "1 node gave no answer: n3."),
    ]
    answer = answer_same_results(good, nodes("inconclusive"))
    assert (answer.word, answer.tone) == ("Known in part", "open")
    assert answer.sentence.endswith("; whether 8 nodes compute the same is not known.")
    lacking = msgspec.structs.replace(nodes("inconclusive"), lacking=(OutlierRow(node="n4", said="x"),))
    answer, remarks = summarise_remarks(make_lock(), good, lacking)
    assert answer.word == "2 things"
    assert [(remark.tone, remark.said) for remark in remarks] == [
        (
            "open",
            "The check of 8 nodes is inconclusive: not all that it asked for was answered and compared.",
        ),
        ("open", "1 node lacks answers that others gave: n4."),
    ]
    # What one machine showed is not made better by others.
    bad = make_verdict(determinism=determinism("drift", NOT_TORCH, NOT_TORCH))
    assert answer_same_results(bad, nodes("same")) == answer_same_results(bad)
