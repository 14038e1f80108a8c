"""Lists of a tracker's run that name others: each is followed inside the run, or asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reprobuild.resolve.line_resolutions import unread_remarks
from reprobuild.snapshot.importers.import_snapshot import import_into
from reprobuild.snapshot.read import read_snapshot

RUNS = {
    "W&B": {"wandb-metadata.json": "{}"},
    "MLflow": {"MLmodel": "flavors: {}\n"},
    "SageMaker": {
        "job.json": json.dumps(
            {"TrainingJobName": "job", "CreationTime": 1, "AlgorithmSpecification": {"TrainingImage": "x"}}
        )
    },
    "Slurm": {"sacct.json": json.dumps({"meta": {}, "jobs": [{}]})},
}


def imported(folder: Path, files: dict[str, str]) -> tuple[list[str], list[str]]:
    """Import a run; return the texts of the lines that a lock asks for, and the names of the requirements."""
    for name, content in files.items():
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "in" / name).write_text(content)
    import_into(folder / "in", folder / "out")
    snapshot = read_snapshot(folder / "out")
    return [remark.text for remark in unread_remarks(snapshot)], [line.name for line in snapshot.requirements]


@pytest.mark.parametrize("run", RUNS)
def test_a_list_inside_a_run_is_followed(run: str, tmp_path: Path) -> None:
    files = {
        "requirements.txt": "click==8.1.7\n-r base.txt\n",
        "base.txt": "six==1.17.0\nx @ file:///home/joe/x\n",
    }
    asked, names = imported(tmp_path, RUNS[run] | files)
    assert (asked, names) == ([], ["click", "six", "x"])
    assert "joe" not in (tmp_path / "out/requirements.txt").read_text()


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("-r ../base.txt", "there is no list ../base.txt beside it"),
        ("-c gone.txt", "there is no list gone.txt beside it"),
        ("-c limits.txt", "limits.txt has 2 constraints that no line states"),
        ("--constraint=limits.txt  # why", "limits.txt has 2 constraints that no line states"),
        ("--no-index -r base.txt", "it names another list, which is not read"),
        ("--requirem base.txt", "it names another list, which is not read"),
    ],
)
def test_a_list_that_is_not_followed_is_asked_for(run: str, row: str, reason: str, tmp_path: Path) -> None:
    files = {
        "requirements.txt": f"click==8.1.7\n{row}\n",
        "limits.txt": "# a\nclick<8.2\nsix==1.16.0\nclick<8\n",
    }
    asked, names = imported(tmp_path, RUNS[run] | files)
    assert (asked, names) == ([f"(line 2 of requirements.txt is not imported: {reason})"], ["click"])


@pytest.mark.parametrize(
    ("row", "is_asked"), [("-r base.txt", True), ("-cx.txt", True), ("-rpcio==1.2", False)]
)
def test_a_list_of_guild_is_asked_for(row: str, *, is_asked: bool, tmp_path: Path) -> None:
    asked, names = imported(tmp_path, {".guild/attrs/pip_freeze": json.dumps(["click==8.1.7", row])})
    assert (bool(asked), names) == (is_asked, ["click"] + ["-rpcio"] * (not is_asked))


def test_constraints_that_the_lines_state_are_no_question(tmp_path: Path) -> None:
    files = {
        "requirements.txt": "-c constraints.txt\nclick==8.1.7\nsix\n",
        "constraints.txt": "Click<8.2\nsix\n",
    }
    asked, names = imported(tmp_path, RUNS["MLflow"] | files)
    assert (asked, names) == ([], ["click", "six"])


def test_constraints_of_a_single_list_are_asked_for(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("click\n-c limits.txt\n")
    (tmp_path / "limits.txt").write_text("click<8\n")
    import_into(tmp_path / "requirements.txt", tmp_path / "out")
    (remark,) = unread_remarks(read_snapshot(tmp_path / "out"))
    assert "limits.txt has 1 constraints that no line states" in remark.text


@pytest.mark.parametrize(
    ("file", "content", "question"),
    [
        ("constraints.txt", "click==8.1.7\n", ""),
        ("constraints.txt", "click==8.1.7\nsix==1.17.0\n",
         "(the file of constraints.txt is not imported: constraints.txt has 1 constraints that no line states)"),
        ("conda.yaml", "dependencies:\n- python=3.11.2\n- pip<=23\n- pip:\n  - click==8.1.7\n", ""),
        ("conda.yaml", "dependencies:\n- python=3.11.2\n- cudatoolkit=11.8\n- pip:\n  - six==1.17.0\n",
         "(dependencies of conda.yaml is not imported: requirements.txt has no line for cudatoolkit=11.8, "
         "six==1.17.0)"),
    ],
)  # fmt: skip
def test_a_list_of_mlflow_that_says_more_is_asked_for(
    file: str, content: str, question: str, tmp_path: Path
) -> None:
    asked, names = imported(tmp_path, RUNS["MLflow"] | {"requirements.txt": "click==8.1.7\n", file: content})
    assert (asked, names) == ([question] * bool(question), ["click"])
