"""What is asked of an image, and what becomes of answers that are none; the engine gives prepared ones."""

from __future__ import annotations

import json
from typing import Any

import pytest

from reprobuild.engines.model import Finished
from reprobuild.errors import EngineError
from reprobuild.lock import Lock, Workload
from reprobuild.verify.check import verify_image
from reprobuild.verify.verdict import Verdict
from tests.verify.samples import (
    FINGERPRINT,
    PROBES,
    SHA,
    PreparedEngine,
    captured,
    done,
    frozen,
    good_answers,
    make_lock,
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
    engine = PreparedEngine({**good_answers(), **(answers or {})})
    verdict = verify_image(lock or make_lock(), "image:1", f"sha256:{SHA}", engine, {}, **more)
    return verdict, engine


def test_all_is_well() -> None:
    said: list[str] = []
    verdict, engine = check(make_lock(workload=WORKLOAD), say=said.append)
    assert verdict.exit_code == 0
    assert (verdict.round_trip, verdict.determinism.cpu, verdict.determinism.gpu) == (
        "exact", "identical", "not-applicable",
    )  # fmt: skip
    assert (verdict.image, verdict.seed, verdict.notes) == (f"sha256:{SHA}", 42, ())
    assert verdict.fingerprint == FINGERPRINT
    assert [kind for kind, _ in engine.tasks] == [
        "freeze", "again", "probes", "probes", "control", "workload", "workload",
    ]  # fmt: skip
    assert len(said) == 4


def test_the_probes_go_past_no_entrypoint_and_have_the_seed() -> None:
    _, engine = check(make_lock(seed=7, workload=WORKLOAD))
    bypassed = [kind for kind, task in engine.tasks if task.bypass]
    assert bypassed == ["freeze"]
    assert {task.network for _, task in engine.tasks} == {"none"}
    assert {task.environment["REPROBUILD_SEED"] for _, task in engine.tasks} == {"7"}
    asked = [json.loads(task.arguments[2]) for kind, task in engine.tasks if kind in ("probes", "control")]
    assert [options["seed"] for options in asked] == [7, 7, 7]
    workload = [task for kind, task in engine.tasks if kind == "workload"]
    assert workload[0].arguments == ("python", "train.py", "--out", "/reprobuild-out/model.pt")
    assert workload[0] == workload[1]


@pytest.mark.parametrize("answer", NOT_JSON)
def test_probes_that_are_no_json(answer: Finished) -> None:
    verdict, _ = check(answers={"probes": [answer]})
    assert verdict.determinism.cpu == "inconclusive"
    assert verdict.determinism.gpu == "inconclusive"
    assert verdict.comparisons[0].detail.startswith(f"exit code {answer.code}: ")
    assert verdict.exit_code == 9


def test_the_reason_is_the_tail_of_its_errors() -> None:
    verdict, _ = check(answers={"probes": [NOT_JSON[0]]})
    assert verdict.comparisons[0].detail == "exit code 139: one / two"


def test_one_of_two_processes_gives_no_json() -> None:
    good = good_answers()["probes"]
    verdict, _ = check(answers={"probes": [*good, NOT_JSON[0]]})
    assert (verdict.determinism.cpu, verdict.exit_code) == ("inconclusive", 9)


@pytest.mark.parametrize("answer", NOT_JSON)
def test_a_control_that_is_no_json(answer: Finished) -> None:
    verdict, _ = check(answers={"control": [answer]})
    assert verdict.control.verdict == "inconclusive"
    assert verdict.exit_code == 9


def test_without_the_control() -> None:
    verdict, engine = check(control=False)
    assert "control" not in [kind for kind, _ in engine.tasks]
    assert (verdict.control.verdict, verdict.determinism.cpu, verdict.exit_code) == (
        "not-run",
        "inconclusive",
        9,
    )


def test_an_ineffective_control() -> None:
    control = {"ran": True, "control": {"effective": False, "distinct": 1, "repeats": 8, "threads": 1}}
    verdict, _ = check(answers={"control": [done(control)]})
    assert (verdict.determinism.cpu, verdict.exit_code) == ("inconclusive", 9)


def test_drift() -> None:
    other = {
        "ran": True,
        "probes": {**PROBES, "matmul": "9"},
        "start": {"random": "3"},
        "fingerprint": FINGERPRINT,
    }
    verdict, _ = check(answers={"probes": [*good_answers()["probes"], done(other)]})
    assert (verdict.determinism.cpu, verdict.exit_code) == ("drift", 8)


@pytest.mark.parametrize(
    ("cpu_only", "code", "gpu"), [(False, 9, "not-covered"), (True, 0, "not-applicable")]
)
def test_a_torch_for_cuda(cpu_only: bool, code: int, gpu: str) -> None:
    probes = json.loads(good_answers()["probes"][0].stdout)
    probes["fingerprint"]["cuda_build"] = True
    verdict, _ = check(answers={"probes": [done(probes)]}, cpu_only=cpu_only)
    assert (verdict.exit_code, verdict.determinism.gpu, verdict.determinism.collectives) == (code, gpu, gpu)
    assert verdict.notes


def test_no_torch() -> None:
    """A workload alone is compared; but nothing shows that a drift would be seen."""
    lock = make_lock(wheels=(wheel("torch", role="build"), wheel("numpy")), workload=WORKLOAD)
    verdict, engine = check(lock)
    assert not {"probes", "control"} & {kind for kind, _ in engine.tasks}
    assert [c.name for c in verdict.comparisons] == ["workload output model.pt"]
    assert verdict.control.detail == "the control needs torch, which is not in the image"
    assert (verdict.determinism.cpu, verdict.determinism.gpu) == ("inconclusive", "not-applicable")
    assert verdict.exit_code == 9
    verdict, _ = check(make_lock(wheels=()), control=False)
    assert (verdict.comparisons, verdict.control.verdict, verdict.exit_code) == ((), "not-run", 9)


def test_no_torch_and_another_output_is_drift() -> None:
    answers = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    verdict, _ = check(make_lock(wheels=(), workload=WORKLOAD), {"workload": answers})
    assert verdict.exit_code == 8


def test_a_torch_that_does_not_import() -> None:
    answer = {"ran": False, "why": "torch does not import: OSError", "fingerprint": {"cpu": "x"}}
    verdict, _ = check(answers={"probes": [done(answer)], "control": [done(answer)]})
    assert verdict.comparisons[0].detail == "torch does not import: OSError"
    assert (verdict.determinism.cpu, verdict.determinism.gpu) == ("inconclusive", "inconclusive")


# --- the workload ----------------------------------------------------------------------------


def test_a_workload_that_drifts() -> None:
    answers = [done(**{"model.pt": b"one"}), done(**{"model.pt": b"two"})]
    verdict, _ = check(make_lock(workload=WORKLOAD), {"workload": answers})
    (found,) = (c for c in verdict.comparisons if c.name == "workload output model.pt")
    assert found.verdict == "drift"
    assert verdict.exit_code == 8


@pytest.mark.parametrize(
    ("first", "second", "detail"),
    [
        (done(), done(), "the command wrote nothing, and not model.pt"),
        (done(**{"model.pt": b"1"}), done(), "the command wrote nothing, and not model.pt"),
        (
            done(log=b"", other=b""),
            done(**{"model.pt": b"1"}),
            "the command wrote log, other, and not model.pt",
        ),
    ],
)
def test_a_workload_without_its_output(first: Finished, second: Finished, detail: str) -> None:
    verdict, _ = check(make_lock(workload=WORKLOAD), {"workload": [first, second]})
    (found,) = (c for c in verdict.comparisons if c.name.startswith("workload"))
    assert (found.verdict, found.detail) == ("inconclusive", detail)
    assert verdict.exit_code == 9


def test_a_workload_that_names_no_output() -> None:
    verdict, _ = check(make_lock(workload=Workload(command=("true",), outputs=())))
    assert verdict.comparisons[-1].detail == "it names no outputs to compare"
    assert verdict.exit_code == 9


@pytest.mark.parametrize("order", [1, -1])
def test_a_workload_that_fails(order: int) -> None:
    errors = b"".join(b"line %d\n" % number for number in range(30))
    answers = [done(**{"model.pt": b"1"}), done(code=3, stderr=errors)][::order]
    with pytest.raises(EngineError) as failed:
        check(make_lock(workload=WORKLOAD), {"workload": answers})
    text = str(failed.value)
    assert text.startswith(
        "the workload `python train.py --out {out}/model.pt` exited 3 in the image:\nline 20\n"
    )
    assert text.endswith("line 29")
    assert failed.value.hint == "run it by hand: reprobuild run OUT -- COMMAND"


# --- the lists that the image gives of itself ------------------------------------------------


@pytest.mark.parametrize("answer", [*NOT_JSON, done({"error": "no"})])
def test_a_freeze_that_is_none(answer: Finished) -> None:
    for lock in (make_lock(), make_lock(rulings=())):
        verdict, _ = check(lock, {"freeze": [answer]})
        assert verdict.round_trip == "not-run"
        assert verdict.notes[0].startswith(f"requirements.txt was not compared: exit code {answer.code}: ")
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
