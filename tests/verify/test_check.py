"""What is asked of an image, and what becomes of answers that are none; the engine gives prepared ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from reprobuild.engines.model import Finished, Task
from reprobuild.errors import EngineError, UsageError
from reprobuild.lock.model import Lock, Workload
from reprobuild.pipeline.verify_options import select_parts
from reprobuild.verify.check import CheckRequest, select_work, verify_image
from reprobuild.verify.determinism.summary import NO_TORCH, describe_work_alone
from reprobuild.verify.verdict import PARTS, VERSION, Determinism, Part, Verdict
from reprobuild.verify.workload.work import work_of_workload
from tests.verify.samples import (
    EXPECTED,
    FINGERPRINT,
    OTHER_TORCHES,
    SHA,
    PreparedEngine,
    captured,
    changed,
    conda_package,
    document,
    done,
    frozen,
    good_answers,
    make_lock,
    probe,
    ruling,
    wheel,
)

WORKLOAD = Workload(command=("python", "train.py", "--out", "{out}/model.pt"), outputs=("model.pt",))
NOT_JSON = [
    done(b"Segmentation fault", code=139, stderr=b"one\ntwo"),
    done(b"[1, 2]", code=0, stderr=b"one\ntwo"),
    done(b"3"),
    done(b""),
    done(b"\xff\xfe{"),
]


def check(
    lock: Lock | None = None, answers: dict[str, list[Finished]] | None = None, **more: Any
) -> tuple[Verdict, PreparedEngine]:
    """Check a prepared image; `more` are fields of what is asked, and `say`."""
    engine = PreparedEngine({**good_answers(), **(answers or {})})
    said = more.pop("say", lambda _: None)
    lock = lock or make_lock()
    asked = CheckRequest(
        **{
            "work": select_work(lock, runs=2 if lock.workload else None),
            "reference": "image:1", "manifest": f"sha256:{SHA}", "tree": f"sha256:{SHA}", "expected": EXPECTED,
            "now": 1795323600, **more,
        }
    )  # fmt: skip
    return verify_image(lock, asked, engine, {}, said), engine


def answered(**answers: object) -> dict[str, list[Finished]]:
    """Return documents as the output of containers; `quick` is the second one's."""
    return {name.replace("_", " "): [done(found)] for name, found in answers.items()}


def cuda_build() -> dict[str, list[Finished]]:
    built = {**FINGERPRINT, "cuda_build": True}
    return answered(cpu=document(fingerprint=built), cpu_quick=document(quick=True, fingerprint=built))


def test_all_is_well() -> None:
    said: list[str] = []
    verdict, engine = check(make_lock(workload=WORKLOAD), say=said.append)
    assert verdict.exit_code == 0
    assert verdict.determinism == Determinism(cpu="identical", gpu="not-applicable", collectives="identical")
    assert (verdict.round_trip, verdict.image, verdict.seed, verdict.notes) == (
        "exact",
        f"sha256:{SHA}",
        42,
        (),
    )
    assert (verdict.version, verdict.made, verdict.tree) == (VERSION, "2026-11-22T05:00:00Z", f"sha256:{SHA}")
    assert (verdict.lock, verdict.profile) == (f"sha256:{make_lock(workload=WORKLOAD).digest}", "torch")
    (smoke,) = verdict.smoke
    assert smoke.fingerprint == FINGERPRINT
    assert {probe.verdict for probe in smoke.probes} == {"identical", "informational"}
    assert [kind for kind, _ in engine.tasks] == [
        "freeze",
        "again",
        "cpu",
        "cpu quick",
        "workload",
        "workload",
        "compare",
    ]
    assert len(said) == 3


@pytest.mark.parametrize("torch", OTHER_TORCHES)
def test_a_torch_that_is_no_wheel_of_an_index_is_checked_as_any(torch: str) -> None:
    verdict, engine = check(make_lock(**OTHER_TORCHES[torch]))
    assert [kind for kind, _ in engine.tasks][2:] == ["cpu", "cpu quick"]
    assert verdict.determinism == Determinism(cpu="identical", gpu="not-applicable", collectives="identical")
    assert verdict.notes == ()
    verdict, _ = check(make_lock(**OTHER_TORCHES[torch]), cuda_build())
    assert verdict.determinism == Determinism(cpu="identical", gpu="not-covered", collectives="not-covered")


def test_an_image_without_torch_has_no_smoke_test() -> None:
    verdict, engine = check(make_lock(wheels=(wheel("torch", role="build"),)))
    assert [kind for kind, _ in engine.tasks] == ["freeze", "again"]
    assert verdict.determinism.cpu == "inconclusive"
    assert verdict.notes == (NO_TORCH,)


def test_a_probe_of_a_package_that_conda_brings_must_answer() -> None:
    lacking = {mode: {"verdict": "SKIPPED", "why": "numpy is not here"} for mode in ("profile", "strict")}
    answers = {}
    for name, quick in (("cpu", False), ("cpu_quick", True)):
        answers[name] = document(quick=quick)
        (numpy,) = (one for one in answers[name]["probes"] if one["name"] == "draw_numpy")
        numpy["modes"] = {**numpy["modes"], **lacking}
    verdict, _ = check(make_lock(), answered(**answers))
    assert verdict.determinism.cpu == "identical"
    verdict, _ = check(make_lock(conda=(conda_package("numpy", "2.0", "numpy"),)), answered(**answers))
    assert verdict.determinism.cpu == "inconclusive"
    assert "draw_numpy" in " ".join(verdict.smoke[0].open)


def test_the_smoke_test_goes_past_no_entrypoint_and_has_the_seed() -> None:
    _, engine = check(make_lock(seed=7, workload=WORKLOAD))
    bypassed = [kind for kind, task in engine.tasks if task.bypass]
    assert bypassed == ["freeze", "compare"]
    assert {task.network for _, task in engine.tasks} == {"none"}
    assert {task.gpus for _, task in engine.tasks} == {""}
    seeded = [task for kind, task in engine.tasks if kind != "compare"]
    assert {task.environment["REPROBUILD_SEED"] for task in seeded} == {"7"}
    asked = [json.loads(task.arguments[2]) for kind, task in engine.tasks if kind.startswith("cpu")]
    assert asked == [
        {"device": "cpu", "seed": 7, "controls": True, "thorough": False},
        {"device": "cpu", "seed": 7, "quick": True, "thorough": False},
    ]
    workload = [task for kind, task in engine.tasks if kind == "workload"]
    own = "/opt/reprobuild/lib/reprobuild_runtime/artefacts/collect.py"
    assert workload[0].arguments == (
        "/opt/env/bin/python", "-I", "-S", own, "/reprobuild-out", "/reprobuild-out/model.pt",
        "--", "python", "train.py", "--out", "/reprobuild-out/model.pt",
    )  # fmt: skip
    assert workload[0].arguments == workload[1].arguments
    assert workload[0].environment == workload[1].environment
    assert workload[0].kept != workload[1].kept


def test_hundreds_of_repeats_have_hours_and_what_takes_long() -> None:
    """Both containers are asked for it: what only one of them gives is no pass."""
    names = EXPECTED["cpu"].thorough
    first, second = document(), document(quick=True)
    first["probes"] += [probe(name, ("default", "profile", "strict", "warn")) for name in names]
    second["probes"] += [probe(name, ("profile", "strict")) for name in names]
    verdict, engine = check(answers=answered(cpu=first, cpu_quick=second), thorough=True)
    asked = [task for kind, task in engine.tasks if kind in ("cpu", "cpu quick")]
    assert [json.loads(task.arguments[2])["thorough"] for task in asked] == [True, True]
    assert {task.timeout for task in asked} == {4 * 3600}
    assert verdict.determinism.cpu == "identical"
    verdict, _ = check(answers=answered(cpu=first), thorough=True)
    assert verdict.determinism.cpu == "inconclusive"


@pytest.mark.parametrize("which", ["cpu", "cpu_quick"])
@pytest.mark.parametrize("answer", NOT_JSON)
def test_a_smoke_test_that_is_no_document(answer: Finished, which: str) -> None:
    verdict, _ = check(answers={which.replace("_", " "): [answer]})
    assert verdict.determinism.cpu == "inconclusive"
    assert verdict.determinism.gpu == ("inconclusive" if which == "cpu" else "not-applicable")
    (reason,) = verdict.smoke[0].open
    assert f"(exit code {answer.code}: " in reason
    assert verdict.exit_code == 9


def test_the_reason_is_the_tail_of_its_errors() -> None:
    verdict, _ = check(answers={"cpu": [NOT_JSON[0]]})
    assert verdict.smoke[0].open[0].endswith("(exit code 139: one / two)")


def test_what_a_container_prints_tells_no_secret_in_the_certificate() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    failed = done(b"Killed", code=137, stderr=f"\x1b[2Jgone\nHF_TOKEN={secret}\n{secret} is the key".encode())
    verdict, _ = check(answers={kind: [failed] for kind in ("freeze", "again", "cpu", "cpu quick")})
    told = [*verdict.notes, *verdict.smoke[0].open]
    assert len([text for text in told if "gone" in text]) == 4  # freeze, packages, variables, probes
    written = msgspec.json.encode(verdict).decode()
    assert secret not in written
    assert "\\u001b" not in written


def test_without_the_controls() -> None:
    verdict, engine = check(answers=answered(cpu=document(controls=[])), controls=False)
    options = [json.loads(task.arguments[2]) for kind, task in engine.tasks if kind == "cpu"]
    assert [option["controls"] for option in options] == [False]
    assert (verdict.smoke[0].open, verdict.determinism.cpu, verdict.exit_code) == (
        ("the controls were left out",), "inconclusive", 9,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("parts", "kinds", "round_trip", "cpu"),
    [
        (("round-trip",), ["freeze", "again"], "exact", "not-run"),
        (("probes",), ["cpu", "cpu quick"], "not-run", "identical"),
        (("workload",), ["workload", "workload", "compare"], "not-run", "identical"),
        (("round-trip", "workload"), ["freeze", "again", "workload", "workload", "compare"], "exact", "identical"),
    ],
)  # fmt: skip
def test_only_the_parts_that_were_requested_run_and_count(
    parts: tuple[Part, ...], kinds: list[str], round_trip: str, cpu: str
) -> None:
    verdict, engine = check(make_lock(workload=WORKLOAD), parts=parts)
    assert [kind for kind, _ in engine.tasks] == kinds
    assert (verdict.round_trip, verdict.determinism.cpu, verdict.parts) == (round_trip, cpu, parts)
    assert verdict.exit_code == 0
    everything = msgspec.structs.replace(verdict, parts=PARTS)
    assert everything.exit_code == (0 if parts == ("round-trip", "workload") else 9)


def test_a_part_that_was_requested_and_gives_no_answer_counts() -> None:
    """The capture inside the image fails, and the workload drifts."""
    bad = {"again": [done(code=1)], "workload": [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]}
    codes = {part: check(make_lock(workload=WORKLOAD), bad, parts=(part,))[0].exit_code for part in PARTS}
    assert codes == {"round-trip": 9, "probes": 0, "workload": 8}


def test_a_workload_that_is_not_requested_is_refused() -> None:
    work = work_of_workload(WORKLOAD, (), 2)
    with pytest.raises(UsageError, match="--workload is given, and --only leaves it out") as caught:
        select_work(make_lock(), work, parts=("round-trip",))
    assert caught.value.hint == "add `--only workload`"
    assert select_work(make_lock(), work, parts=("round-trip", "workload")) == work
    assert select_work(make_lock(workload=WORKLOAD), parts=("probes",)) is None
    with pytest.raises(UsageError, match="--only workload is given, and there is no workload") as caught:
        select_work(make_lock(), parts=("workload",))
    assert caught.value.hint.startswith("give it, for example: --workload 'python train.py")


@pytest.mark.parametrize(
    "parts", [("workload",), ("round-trip", "workload"), ("round-trip", "probes", "workload")]
)
def test_a_workload_that_is_named_and_is_not_there_is_refused(parts: tuple[Part, ...]) -> None:
    with pytest.raises(UsageError, match="--only workload is given, and there is no workload") as caught:
        select_work(make_lock(), parts=parts, named=True)
    assert caught.value.hint.startswith("give it, for example: --workload 'python train.py")
    work = work_of_workload(WORKLOAD, (), 2)
    assert select_work(make_lock(), work, parts=parts, named=True) == work
    assert select_work(make_lock(), parts=("round-trip",), named=True) is None
    assert select_work(make_lock(), parts=select_parts((), no_probes=True)) is None


def test_probes_cannot_be_requested_and_left_out() -> None:
    assert select_parts((), no_probes=True) == ("round-trip", "workload")
    assert select_parts(("workload", "round-trip")) == ("round-trip", "workload")
    assert select_parts(()) == PARTS
    with pytest.raises(UsageError, match="--only and --no-probes are given") as caught:
        select_parts(("probes",), no_probes=True)
    assert caught.value.hint == "leave --no-probes out: --only names each part that runs"


def test_drift() -> None:
    first = EXPECTED["cpu"].probes[0]
    second = changed(document(quick=True), first, digest="9" * 64)
    verdict, _ = check(answers=answered(cpu_quick=second))
    assert (verdict.determinism.cpu, verdict.exit_code) == ("drift", 8)


@pytest.mark.parametrize(
    ("cpu_only", "code", "gpu"), [(False, 9, "not-covered"), (True, 0, "not-applicable")]
)
def test_a_torch_for_cuda_without_a_gpu(cpu_only: bool, code: int, gpu: str) -> None:
    verdict, engine = check(answers=cuda_build(), cpu_only=cpu_only, gpus="all" if cpu_only else "")
    assert "cuda" not in [kind for kind, _ in engine.tasks]
    assert (verdict.exit_code, verdict.determinism.gpu, verdict.determinism.collectives) == (code, gpu, gpu)
    assert verdict.notes


def test_a_torch_for_cuda_with_gpus() -> None:
    """Only the determinism test on the GPU gets them."""
    verdict, engine = check(answers=cuda_build(), gpus="0,1")
    assert {kind for kind, task in engine.tasks if task.gpus == "0,1"} == {"cuda", "cuda quick"}
    assert verdict.determinism == Determinism(cpu="identical", gpu="identical", collectives="identical")
    assert [smoke.device for smoke in verdict.smoke] == ["cpu", "cuda"]
    assert verdict.exit_code == 0


def test_gpus_that_torch_in_the_image_does_not_see() -> None:
    blind = {"format": 2, "ran": False, "device": "cuda", "why": "torch sees no CUDA device"}
    verdict, _ = check(answers={**cuda_build(), **answered(cuda=blind, cuda_quick=blind)}, gpus="all")
    assert (verdict.determinism.gpu, verdict.determinism.collectives) == ("not-covered", "not-covered")
    assert verdict.notes == ("the GPU is not covered: torch sees no CUDA device",)
    assert verdict.exit_code == 9


class Refusing(PreparedEngine):
    """An engine that cannot give GPUs to containers."""

    def run(self, reference: str, task: Task, env: Mapping[str, str]) -> Finished:
        if task.gpus:
            raise EngineError("Docker refused: no driver", hint="install the toolkit")
        return super().run(reference, task, env)


def test_an_engine_that_cannot_give_the_gpus() -> None:
    """Where they were asked for it is an error, else the GPU is not covered, and the rest is checked."""
    asked = CheckRequest(reference="image:1", manifest="m", tree="t", expected=EXPECTED, now=0, gpus="all")
    with pytest.raises(EngineError):
        verify_image(make_lock(), asked, Refusing({**good_answers(), **cuda_build()}), {})
    asked = msgspec.structs.replace(asked, gpus_optional=True)
    verdict = verify_image(make_lock(), asked, Refusing({**good_answers(), **cuda_build()}), {})
    assert verdict.determinism == Determinism(cpu="identical", gpu="not-covered", collectives="not-covered")
    assert verdict.notes == ("the GPU is not covered: Docker refused: no driver; install the toolkit",)


@pytest.mark.parametrize(
    ("optional", "build", "given"),
    [(True, True, "all"), (True, False, ""), (False, True, "all"), (False, False, "all")],
)
def test_the_gpus_of_the_users_own_work(optional: bool, build: bool, given: str) -> None:
    """A machine's GPUs are no reason to fail for an image that has no use for them."""
    more = cuda_build() if build else {}
    _, engine = check(make_lock(workload=WORKLOAD), more, gpus="all", gpus_optional=optional)
    work = [task for kind, task in engine.tasks if kind == "workload"]
    assert [task.gpus for task in work[:2]] == [given, given]


def test_one_gpu_has_no_collectives() -> None:
    one = {"verdict": "SKIPPED", "why": "one GPU", "backend": "nccl", "world": 1, "probes": []}
    verdict, _ = check(
        answers={**cuda_build(), **answered(cuda=document("cuda", collectives=one))}, gpus="all"
    )
    assert (verdict.determinism.gpu, verdict.determinism.collectives) == ("identical", "not-covered")
    assert verdict.notes == ("cuda: collectives not-covered: one GPU",)
    assert verdict.exit_code == 9


@pytest.mark.parametrize(
    ("gpus", "told"),
    [
        ([{"name": "H100"}], False),
        ([{"name": "H100"}] * 2, True),
        ([{"name": "H100"}] * 8, True),
        (8, False),
        ([], False),
    ],
)
def test_gpus_past_the_first_that_nothing_probed_are_told(gpus: Any, told: bool) -> None:
    fingerprint = {**document("cuda")["fingerprint"], "cuda": {"version": "13.0", "gpus": gpus}}
    both = {
        name: done(document("cuda", quick=name != "cuda", fingerprint=fingerprint))
        for name in ("cuda", "cuda quick")
    }
    verdict, _ = check(answers={**cuda_build(), **{name: [one] for name, one in both.items()}}, gpus="all")
    notes = [note for note in verdict.notes if "probed" in note]
    assert bool(notes) == told
    if told:
        assert notes == [
            f"cuda: probed: the first of {len(gpus)} GPUs; the others took part in collectives at most; to probe each, "
            "run `reprobuild verify OUT --gpu ID` with its id alone"
        ]
    assert verdict.determinism.gpu == "identical"


def test_drift_on_the_gpu() -> None:
    first = EXPECTED["cuda"].probes[0]
    drifting = changed(document("cuda"), first, verdict="DRIFT", digest=None, distinct=4)
    verdict, _ = check(answers={**cuda_build(), **answered(cuda=drifting)}, gpus="all")
    assert (verdict.determinism.cpu, verdict.determinism.gpu, verdict.exit_code) == ("identical", "drift", 8)


def test_an_image_of_another_reprobuild() -> None:
    verdict, engine = check(expected=None)
    assert not {kind for kind, _ in engine.tasks} & {"cpu", "cpu quick"}
    assert verdict.smoke[0].open == (
        "the image was made by another reprobuild, and has not this determinism test: make it again from its snapshot, "
        "with a new lock",
    )
    assert (verdict.determinism.cpu, verdict.exit_code) == ("inconclusive", 9)


def test_no_torch() -> None:
    """A workload that compares as identical is the answer; without one nothing is known."""
    lock = make_lock(wheels=(wheel("torch", role="build"), wheel("numpy")), workload=WORKLOAD)
    verdict, engine = check(lock)
    assert not {kind for kind, _ in engine.tasks} & {"cpu", "cpu quick"}
    assert [c.name for c in verdict.comparisons] == ["workload output model.pt"]
    assert verdict.notes == (
        "the determinism test needs torch, or NumPy and the probes for it, and the image does not have them: what was "
        "checked is your own work alone",
    )
    assert (verdict.determinism.cpu, verdict.determinism.gpu) == ("identical", "not-applicable")
    assert (verdict.exit_code, describe_work_alone(verdict)) == (0, " (your work, 2 runs)")
    verdict, _ = check(make_lock(wheels=()), controls=False)
    assert (verdict.comparisons, verdict.smoke, verdict.exit_code) == ((), (), 9)
    assert describe_work_alone(verdict) == ""


def test_no_torch_and_another_output_is_drift() -> None:
    answers = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    verdict, _ = check(make_lock(wheels=(), workload=WORKLOAD), {"workload": answers})
    assert verdict.exit_code == 8


def test_a_torch_that_does_not_import() -> None:
    answer = {"format": 2, "ran": False, "why": "torch does not import: OSError", "fingerprint": {"cpu": "x"}}
    verdict, _ = check(answers=answered(cpu=answer, cpu_quick=answer))
    assert verdict.smoke[0].open == ("torch does not import: OSError",)
    assert verdict.smoke[0].fingerprint == {"cpu": "x"}
    assert verdict.determinism == Determinism(
        cpu="inconclusive", gpu="inconclusive", collectives="inconclusive"
    )


# --- the workload ----------------------------------------------------------------------------


def test_a_workload_that_drifts() -> None:
    answers = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    verdict, _ = check(make_lock(workload=WORKLOAD), {"workload": answers})
    (found,) = (c for c in verdict.comparisons if c.name == "workload output model.pt")
    assert (found.verdict, found.detail) == (
        "drift", "/reprobuild-out/model.pt (torch checkpoint): w: 1 of 2 differ",
    )  # fmt: skip
    assert found.details == (
        "/reprobuild-out/model.pt: w: 1 of 2 differ", "/reprobuild-out/model.pt: excused: time (time): 1 time",
    )  # fmt: skip
    assert verdict.exit_code == 8


@pytest.mark.parametrize(
    ("first", "second", "verdict", "detail"),
    [
        (done(), done(), "inconclusive", "the command wrote no such file; there is nothing"),
        (done(**{"model.pt": b"1"}), done(), "drift", "/reprobuild-out/model.pt: only in the first run"),
        (
            done(log=b"", other=b""), done(log=b""), "inconclusive",
            "the command wrote no such file; there is /reprobuild-out/log, /reprobuild-out/other",
        ),
    ],
)  # fmt: skip
def test_a_workload_without_its_output(first: Finished, second: Finished, verdict: str, detail: str) -> None:
    made, _ = check(make_lock(workload=WORKLOAD), {"workload": [first, second]})
    (found,) = (c for c in made.comparisons if c.name.startswith("workload"))
    assert (found.verdict, found.detail) == (verdict, detail)
    assert made.exit_code == (8 if verdict == "drift" else 9)


def test_a_workload_that_names_no_output() -> None:
    verdict, _ = check(make_lock(workload=Workload(command=("true",), outputs=())))
    assert verdict.comparisons[-1].detail == "it names no outputs to compare"
    assert verdict.exit_code == 9


@pytest.mark.parametrize("order", [1, -1])
def test_a_workload_that_fails_once(order: int) -> None:
    answers = [done(**{"model.pt": b"1"}), done(code=3, stderr=b"boom\n")][::order]
    verdict, _ = check(make_lock(workload=WORKLOAD), {"workload": answers})
    (found,) = verdict.comparisons
    detail = "0 and 3" if order == 1 else "3 and 0"
    assert (found.name, found.verdict, found.detail, found.details) == (
        "exit code",
        "drift",
        detail,
        ("boom",),
    )
    assert verdict.exit_code == 8


def test_a_workload_that_fails() -> None:
    errors = b"".join(b"line %d\n" % number for number in range(30))
    answers = [done(code=3, stderr=errors)]
    with pytest.raises(EngineError) as failed:
        check(make_lock(workload=WORKLOAD), {"workload": answers})
    text = str(failed.value)
    assert text.startswith(
        "the workload `python train.py --out {out}/model.pt` exited 3 in the image:\nline 20\n"
    )
    assert text.endswith("line 29")
    assert failed.value.hint == "run it by hand: reprobuild run OUT -- COMMAND"
    answers = [done(code=3, stderr=b"OSError: [Errno 30] Read-only file system: 'weights.json'\n")]
    with pytest.raises(EngineError) as failed:
        check(make_lock(workload=WORKLOAD), {"workload": answers})
    assert failed.value.hint == (
        "a mount is read-only without `:rw`: let the command write below `{out}`, or in the image's own directory"
    )


# --- the lists that the image gives of itself ------------------------------------------------


@pytest.mark.parametrize("answer", [*NOT_JSON, done({"error": "no"})])
def test_a_freeze_that_is_none(answer: Finished) -> None:
    for lock in (make_lock(), make_lock(rulings=())):
        verdict, _ = check(lock, {"freeze": [answer]})
        assert verdict.round_trip == "not-run"
        assert verdict.notes[0].startswith("requirements.txt was not compared: the answer is no freeze: ")
        assert f"(exit code {answer.code}: " in verdict.notes[0]
        assert verdict.exit_code == 9


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (done(b"", code=127, stderr=b"not found"), "exit code 127: not found"),
        (done(), "exit code 0: "),
        (captured(packages=b"\0\0\0\xff"), "apt-packages.txt"),
    ],
)
def test_a_capture_that_is_none(answer: Finished, why: str) -> None:
    verdict, _ = check(answers={"again": [answer]})
    assert [note.partition(" was not compared: ")[0] for note in verdict.notes] == [
        "apt-packages.txt",
        "env.txt",
    ]
    assert all(why in note for note in verdict.notes)
    assert (verdict.round_trip, verdict.exit_code) == ("not-run", 9)


def test_residue_in_one_list_shows_though_another_is_none() -> None:
    verdict, _ = check(
        answers={"again": [done(code=1)], "freeze": [done(frozen({"name": "torch", "freeze": "torch==9"}))]}
    )
    assert (verdict.round_trip, verdict.exit_code) == ("residue", 10)
    assert len(verdict.notes) == 2


def test_residue_in_each_list() -> None:
    for kind, answer in (
        ("freeze", done(frozen())),
        ("again", captured(packages=b"bash/now 1-1 amd64 [installed,local]\n")),
        ("again", captured(variables=b"A=2\n")),
    ):
        verdict, _ = check(answers={kind: [answer]})
        assert (verdict.round_trip, verdict.exit_code) == ("residue", 10), kind


def test_what_was_left_out_is_explained() -> None:
    left_out = ruling("HF_TOKEN", "", outcome="excluded", kind="secret", reason="a secret: supply it")
    verdict, _ = check(make_lock(rulings=(*make_lock().rulings, left_out)))
    assert (verdict.round_trip, verdict.exit_code) == ("explained", 0)
    (found,) = verdict.differences
    assert (found.captured, found.code) == ("HF_TOKEN", "secret-withheld")


def test_a_list_that_the_capture_inside_did_not_have() -> None:
    whole = captured().outputs
    for name in ("apt-packages.txt", "env.txt"):
        answer = done(**{path: data for path, data in whole.items() if path != f"again/{name}"})
        verdict, _ = check(answers={"again": [answer]})
        assert verdict.notes == (f"{name} was not compared: the capture inside the image did not have it",)
        assert (verdict.round_trip, verdict.exit_code) == ("not-run", 9)


# --- what an image must not be able to do --------------------------------------------------------


@pytest.mark.parametrize(
    "document",
    [
        {"distributions": 5}, {"python": "3.11.2", "distributions": [1]}, {"python": "3.11.2", "distributions": [{}]},
        {"python": "3.11.2", "distributions": [{"name": 5, "freeze": "x"}]},
        {"python": "3.11.2", "distributions": [], "sources": [{}]},
        {"python": 3, "distributions": []}, {"python": "3.11.2", "distributions": [{"name": "a", "freeze": "\ud800"}]},
        b"[" * 200_000, b" " * (33 << 20),
    ],
)  # fmt: skip
def test_a_freeze_of_another_form_is_none(document: object) -> None:
    verdict, _ = check(answers={"freeze": [done(document)]})
    assert (verdict.round_trip, verdict.exit_code) == ("not-run", 9)
    assert verdict.notes[0].startswith("requirements.txt was not compared: the answer ")
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


@pytest.mark.parametrize(
    "name", ["..", ".", "", "n" * 300, "a\x00b", "\ud800", "../../out", "other.txt", "n" * 300 + ".diff"]
)
def test_files_that_no_capture_writes_are_not_written(name: str) -> None:
    whole = captured().outputs
    verdict, _ = check(answers={"again": [done(**{**whole, f"again/{name}": b"x"})]})
    assert (verdict.round_trip, verdict.notes) == ("exact", ())
    verdict, _ = check(answers={"again": [done(**{f"again/{name}": b"x"})]})
    assert (verdict.round_trip, verdict.exit_code) == ("not-run", 9)


def test_the_engine_and_the_gpus_are_in_the_certificate() -> None:
    verdict, _ = check(gpus="0,1")
    assert (verdict.engine, verdict.gpus) == ("prepared", "0,1")


def test_the_lock_says_what_must_be_there() -> None:
    """A NumPy that the lock has and that does not import is no missing NumPy."""
    skipped = {"verdict": "SKIPPED", "digest": None, "why": "NumPy does not import"}
    first, second = document(), document(quick=True)
    for mode in ("strict", "profile"):
        first, second = (changed(each, "draw_numpy", mode, **skipped) for each in (first, second))
    answers = answered(cpu=first, cpu_quick=second)
    assert check(answers=answers)[0].exit_code == 0
    verdict, _ = check(make_lock(wheels=(wheel("torch"), wheel("numpy"))), {**good_answers(), **answers})
    assert verdict.smoke[0].open == ("draw_numpy: NumPy does not import",)
    assert check(make_lock(profile="strict"))[0].determinism.cpu == "inconclusive"  # it is not in force
