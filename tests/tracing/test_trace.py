"""`trace` in real containers: the planted operations, and the messages of a user's mistakes."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.conftest import ROOT, Built, reprobuild
from tests.determinism.planted import CLEAN_FOLDER, FAULTS, FAULTS_FOLDER
from tests.tracing.planted import FOLDER, IN_CONTAINERS, OPERATIONS, Planted

QUICK = ("numpy_bypass",)
PARAMETERS = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in QUICK else [pytest.mark.long])
    for fault in OPERATIONS
]


def trace(built: Built, folder: Path, *words: object) -> Any:
    return reprobuild("trace", built.out, "--store", built.store, "-v", f"{folder}:/scripts:ro", *words)


@pytest.mark.parametrize("fault", PARAMETERS)
def test_a_planted_operation_is_named(fault: Planted, built_example: Built) -> None:
    done = trace(built_example, FOLDER, "--runs", "6", "--json", "--", "python", f"/scripts/{fault.name}.py")
    assert done.returncode == 8, done.stderr
    document = json.loads(done.stdout)
    schema = json.loads((ROOT / "docs" / "trace.schema.json").read_text())
    jsonschema.validate(document, schema)
    cause = document["findings"]["cause"]
    assert cause["kind"] == fault.kind, cause
    assert fault.subject in cause["subject"]
    path, line = cause["place"].split(":")
    assert path == f"/scripts/{fault.name}.py"
    assert fault.place in (FOLDER / f"{fault.name}.py").read_text().splitlines()[int(line) - 1]


@pytest.mark.long
@pytest.mark.parametrize("fault", IN_CONTAINERS, ids=[fault.name for fault in IN_CONTAINERS])
def test_a_planted_script_is_named(fault: Planted, built_example: Built) -> None:
    (script,) = (script for script in FAULTS if script.name == fault.name)
    outputs = [word for name in script.drifts for word in ("--output-file", name)]
    path = f"/scripts/{fault.name}.py"
    done = trace(
        built_example, FAULTS_FOLDER, "--runs", "6", "--json", *outputs, "--", "python", path
    )  # fmt: skip
    assert done.returncode == 8, done.stderr
    cause = json.loads(done.stdout)["findings"]["cause"]
    assert cause["kind"] == fault.kind, cause
    assert fault.subject in cause["subject"]
    file, line = cause["place"].split(":")
    assert file == path
    assert fault.place in (FAULTS_FOLDER / f"{fault.name}.py").read_text().splitlines()[int(line) - 1]


def test_a_line_of_a_program_without_steps_is_named(built_example: Built) -> None:
    done = trace(
        built_example,
        FAULTS_FOLDER,
        "--output-file",
        "weights.json",
        "--",
        "python",
        "/scripts/uuid_split.py",
    )
    assert done.returncode == 8, done.stderr
    assert "differs  artefact weights.json: weights.json (JSON): weights[0]: " in done.stdout
    assert "cause    random numbers of the operating system (generator)\n" in done.stdout
    assert (
        "place    /scripts/uuid_split.py:7  train = [number for number in range(64) if uuid.uuid4()"
        in done.stdout
    )


def test_equal_runs_and_another_trace(built_example: Built, tmp_path: Path) -> None:
    saved = tmp_path / "saved"
    done = trace(built_example, CLEAN_FOLDER, "--save", saved, "--", "python", "/scripts/dropout.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("no difference: 2 runs with the seed 42, ")
    again = ("--against", saved, "--", "python", "/scripts/dropout.py")
    done = trace(built_example, CLEAN_FOLDER, *again)
    assert (done.returncode, done.stdout[:14]) == (0, "no difference:"), done.stderr
    other = tmp_path / "other"
    done = trace(built_example, CLEAN_FOLDER, "--seed", "8", "--save", other, *again)
    assert done.returncode == 8, done.stderr
    assert done.stdout.startswith("first record  step 0: the loss\n")
    assert "1 run with the seed 8" in done.stdout
    assert (other / "main.steps").read_bytes() != (saved / "main.steps").read_bytes()
    assert (other / "main.records").stat().st_size > 1000
    done = trace(built_example, CLEAN_FOLDER, "--save", saved, "--", "python", "/scripts/dropout.py")
    assert done.returncode == 2
    assert f"{saved} is there already" in done.stderr
    assert "name a new directory, or remove that one" in done.stderr


def test_a_program_without_steps_gets_a_command_that_works(built_example: Built) -> None:
    done = trace(built_example, CLEAN_FOLDER, "--", "python", "/scripts/plain_training.py")
    assert done.returncode == 9
    assert "the command has no steps of PyTorch, so there is nothing to compare" in done.stderr
    assert "name a file that it writes: `reprobuild trace" in done.stderr
    assert (
        "--output-file FILE -- python /scripts/plain_training.py`; or its printed steps: --steps 'epoch [0-9]+'"
        in (done.stderr)
    )
    hint = done.stderr.partition("name a file that it writes: `")[2].partition("`")[0]
    words = shlex.split(hint.replace("FILE", "weights.json"))
    assert words[:2] == ["reprobuild", "trace"]
    done = reprobuild(
        "trace",
        built_example.out,
        "--store",
        built_example.store,
        "-v",
        f"{CLEAN_FOLDER}:/scripts:ro",
        *words[3:],
    )
    assert (done.returncode, done.stdout[:14]) == (0, "no difference:"), done.stderr


def test_an_output_file_that_is_not_written_is_no_answer(built_example: Built) -> None:
    words = ("--output-file", "weigths.json", "--", "python", "/scripts/uuid_split.py")
    done = trace(built_example, FAULTS_FOLDER, *words)
    assert done.returncode == 9
    assert "artefact weigths.json: the command wrote no such file; there is " in done.stderr
    assert "weights.json" in done.stderr
    assert "name files that the command writes: --output-file FILE" in done.stderr
    done = trace(built_example, FAULTS_FOLDER, "--output-file", "weights.json", *words[2:])
    assert done.returncode == 8, done.stderr


def test_printed_lines_are_steps(built_example: Built, tmp_path: Path) -> None:
    (tmp_path / "fit.py").write_text(
        "import os\n\nscore = 1.0\nfor epoch in range(4):\n    if epoch == 2:\n"
        "        score += os.urandom(1)[0]\n    print('epoch', epoch, score)\n"
    )
    done = trace(built_example, tmp_path, "--steps", "^epoch [0-9]+", "--", "python", "/scripts/fit.py")
    assert done.returncode == 8, done.stderr
    assert "first record  step 2: the printed line\n" in done.stdout
    assert "place         /scripts/fit.py:6  score += os.urandom(1)[0]\n" in done.stdout


def test_a_command_that_fails_and_one_that_is_no_python(built_example: Built) -> None:
    done = trace(built_example, FOLDER, "--", "python", "-c", "import sys; sys.exit('no data')")
    assert done.returncode == 9
    assert "fails with exit code 1 (steps):\n" in done.stderr
    assert "\nno data\n" in done.stderr
    assert "run it alone: `reprobuild run OUT -- " in done.stderr
    done = trace(built_example, FOLDER, "--", "true")
    assert done.returncode == 9
    assert "`true` left no record: no process of it is Python's" in done.stderr
    assert "build the image again: `reprobuild build OUT/reprobuild.lock -o OUT`" in done.stderr


def test_mistakes(built_example: Built, tmp_path: Path) -> None:
    done = trace(built_example, FOLDER, "--steps", "epoch (", "--", "true")
    assert done.returncode == 2
    assert "--steps epoch (: not a regular expression" in done.stderr
    assert "for example --steps 'epoch [0-9]+'" in done.stderr
    done = trace(built_example, FOLDER, "--against", tmp_path / "none", "--", "true")
    assert done.returncode == 2
    assert "there is no such directory" in done.stderr
    assert "`--save DIR` of another trace writes one" in done.stderr
    done = trace(built_example, FOLDER, "--against", tmp_path, "--", "true")
    assert done.returncode == 2
    assert "it holds no logs of a trace" in done.stderr
    assert "`--save DIR` of another trace writes them" in done.stderr
