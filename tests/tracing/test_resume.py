"""`verify --resume` in real containers: scripts that resume rightly, and wrongly in one way each."""

from __future__ import annotations

import json
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.conftest import Built, reprobuild

FOLDER = Path(__file__).parent / "resumes"
# What is lost by the wrong version of a script; the step of the stop, and that of the checkpoint before it.
LOST = {
    "generator": ("generator (torch)", 4, 4), "sampler": ("data order", 13, 13), "scheduler": ("scheduler", 4, 4),
    "scaler": ("scaler", 4, 4), "optimizer": ("optimizer", 4, 4), "buffers": ("model", 4, 4),
    "precision": ("model", 4, 4), "counter": ("step counter", 4, 4), "average": ("other state", 4, 4),
    "epoch": ("data order", 12, 10), "augmentation": ("generator (numpy.random)", 4, 4),
    "validation": ("optimizer", 12, 10), "transform": ("data order", 4, 4), "warmup": ("scheduler", 7, 6),
}  # fmt: skip
QUICK = ("epoch",)
PARAMETERS = [
    pytest.param(name, mode, id=f"{name}-{mode}", marks=[] if name in QUICK else [pytest.mark.long])
    for name in LOST
    for mode in ("right", "wrong")
]


def verify(built: Built, *words: object) -> CompletedProcess[str]:
    return reprobuild(
        "verify",
        built.out,
        "--store",
        built.store,
        "--only",
        "workload",
        "--runs",
        "2",
        "-v",
        f"{FOLDER}:/scripts",
        "--json",
        *words,
    )


def comparison(done: CompletedProcess[str]) -> Any:
    """Return the comparison of the resumed run."""
    comparisons = json.loads(done.stdout)["verdict"]["work"]["artefacts"]
    return next(each for each in comparisons if each["name"].startswith("resume "))


def test_each_script_is_named() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == set(LOST)


@pytest.mark.parametrize(("name", "mode"), PARAMETERS)
def test_a_resumed_training(name: str, mode: str, built_example: Built) -> None:
    component, stop, began = LOST[name]
    command = f"python /scripts/{name}.py {mode}"
    done = verify(
        built_example, "--workload", command, "--output-file", "/tmp/model.pt", "--resume", stop
    )  # fmt: skip
    answer = comparison(done)
    assert f"resume at step {began} of " in answer["name"]
    assert f", after a stop at step {stop}" in answer["name"]
    if mode == "right":
        assert (done.returncode, answer["verdict"]) == (0, "identical"), answer
        return
    assert (done.returncode, answer["verdict"]) == (8, "drift"), answer
    assert answer["detail"].startswith((f"{component} differs first, at step {began}", f"{component}: "))


def run(built: Built, stop: int, line: str, *words: object) -> Any:
    """Return the comparison of a command of the image's shell."""
    done = verify(built, "--workload", line, "--output-file", "/tmp/model.pt", "--resume", stop, *words)
    return comparison(done)


@pytest.mark.long
def test_answers_that_are_no_drift_of_the_training(built_example: Built) -> None:
    right = "python /scripts/optimizer.py right"
    anew = run(built_example, 4, f"rm -f /tmp/checkpoint.pt; {right}")
    assert anew["verdict"] == "inconclusive"
    assert "the resumed run began anew, and read no checkpoint" in anew["detail"]
    late = run(built_example, 10, right)
    assert late["verdict"] == "inconclusive"
    assert (
        late["detail"]
        == "the workload made 10 steps, and could not be stopped at step 10: name an earlier step"
    )
    fails = run(built_example, 4, right, "--resume-command", "echo no disk >&2; exit 3")
    assert (fails["verdict"], fails["detail"]) == ("drift", "the resumed run fails with exit code 3")
    ends = run(built_example, 4, right, "--resume-command", "true")
    assert (ends["verdict"], ends["detail"]) == (
        "drift", "step counter: the resumed run made no step, and 6 were left",
    )  # fmt: skip


def test_mistakes(built_example: Built) -> None:
    done = verify(
        built_example, "--workload", "echo x > /tmp/x", "--output-file", "/tmp/x", "--resume-command", "true"
    )
    assert done.returncode == 2
    assert "--resume-command is given, and --resume is missing" in done.stderr
    assert "add the number of steps before the stop: --resume 10" in done.stderr
    done = reprobuild(
        "verify", built_example.out, "--store", built_example.store, "--only", "round-trip", "--resume", "3"
    )
    assert done.returncode == 2
    assert "--resume is given, and there is no workload to resume" in done.stderr
    assert (
        "give it, for example: --workload 'python train.py --steps 20' --output-file out.ckpt" in done.stderr
    )
    done = verify(
        built_example, "--workload", "python -c 'open(\"/tmp/x\", \"w\")'", "--output-file", "/tmp/x", "--resume", "3"
    )  # fmt: skip
    assert done.returncode == 9
    assert comparison(done)["detail"].startswith("the workload made no step of an optimizer of PyTorch: ")
