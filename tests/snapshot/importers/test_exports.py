"""Exports of services that no test can ask: their documents in the shape that their own sources write.

`sources.py` names these sources.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reprobuild.errors import SnapshotError
from reprobuild.report.imported import render_import
from reprobuild.snapshot.import_facts import ImportFacts
from reprobuild.snapshot.importers.import_snapshot import import_into, needs_import
from reprobuild.snapshot.read import read_snapshot

COMMIT = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3
DIGITS = "9f8e7d6c5b4a3210" * 2 + "a0b1c2d3"
ADDRESS = f"https://alice:{TOKEN}@git.example/lab/work.git"
# Variables of a job, of which four name Alice or her machine, and two are secrets.
VARIABLES = {
    "USER": "alice", "HOSTNAME": "gpu-17.lab.example", "HOME": "/home/alice", "OMP_NUM_THREADS": "8",
    "PATH": "/home/alice/bin:/usr/bin", "DATA": "/scratch/alice/data", "CONTACT": "alice.b@lab.example",
    "RUN_ON": "gpu-17", "WANDB_API_KEY": DIGITS, "REMOTE": ADDRESS,
    "PS1": "\x1b[31m$", "TWO": "a\nb", "bad name": "x",
}  # fmt: skip
KEPT = ["HOME=/home/user", "OMP_NUM_THREADS=8", "PATH=/home/user/bin:/usr/bin"]
DIFF = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-a = 1\n+a = 2\n"

CLEARML: dict[str, Any] = {
    "id": "1", "type": "training", "user": "alice", "status": "completed",
    "started": "2024-05-06T07:08:09.123456+00:00",
    "hyperparams": {}, "container": {"image": "pytorch/pytorch:2.3.0-cuda12.1-cudnn8-runtime"},
    "script": {
        "binary": "python3.11", "repository": ADDRESS, "version_num": COMMIT, "branch": "main",
        "entry_point": "train.py",
        "diff": DIFF,
        "requirements": {
            "pip": "# Python 3.11.9 (main, Apr 6 2024, 17:59:24) [GCC 11.4.0]\n\ntorch == 2.3.0\nclearml\n"
            "-e /home/alice/own\nother @ file:///home/alice/other.whl\n"
            "work == 0.1\n\n# Detailed import analysis\n# /home/alice/train.py: 1\n",
            "conda": "",
        },
    },
}  # fmt: skip
AIM: dict[str, Any] = {
    "packages": {"torch": "2.3.0", "numpy": "1.26.4"}, "env_variables": VARIABLES,
    "executable": "/home/alice/bin/python",
    "git_info": {
        "branch": "main", "remote_origin_url": ADDRESS,
        "commit": {"hash": "0123456", "timestamp": "2024-05-06T07:08:09+00:00", "author": "Alice B"},
    },
    "arguments": ["train.py", "--token", TOKEN],
}  # fmt: skip
SAGEMAKER: dict[str, Any] = {
    "TrainingJobName": "work", "TrainingJobArn": "arn:aws:sagemaker:eu-west-1:123456789012:training-job/work",
    "AlgorithmSpecification": {"TrainingImage": "123.dkr.ecr.eu-west-1.amazonaws.com/train:7"},
    "HyperParameters": {"lr": "0.1"}, "CreationTime": 1715000000.5, "Environment": VARIABLES,
}  # fmt: skip
JOB: dict[str, Any] = {
    "association": {"user": "alice"}, "job_id": 7, "user": "alice", "nodes": "gpu-17",
    "state": {"current": ["COMPLETED"]},
    "time": {"start": {"set": True, "infinite": False, "number": 1715000000}}, "container": "",
    "submit_line": "sbatch x",
}  # fmt: skip
SACCT: dict[str, Any] = {
    "jobs": [JOB],
    "meta": {"slurm": {"release": "24.11.6"}},
    "errors": [],
    "warnings": [],
}
RULE = "-" * 80
ROWS = "\n".join(f"{name}={value}" for name, value in VARIABLES.items() if " " not in name)
ENVIRONMENT = f"Environment used for 7 (must be batch to display)\n{RULE}\n{ROWS}\n\n"
SCRIPT = f"Batch Script for 7\n{RULE}\n#!/bin/bash\nexport TOKEN={TOKEN}\n\n"


def written(folder: Path, files: dict[str, Any]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    return folder


def imported(folder: Path, files: dict[str, Any], out: Path) -> ImportFacts:
    """Import a directory, and check that its result names no person, no machine and no secret."""
    facts = import_into(written(folder, files), out)
    for path in out.iterdir():
        content = path.read_text()
        for name in ("alice", "Alice", "gpu-17", TOKEN, VARIABLES["WANDB_API_KEY"]):
            assert name not in content, (path.name, name)
    return facts


def lines(out: Path, name: str) -> list[str]:
    return (out / name).read_text().splitlines()


def reasons(facts: ImportFacts) -> dict[str, str]:
    return {entry.field: entry.reason for entry in facts.unused}


def test_a_task_of_clearml_has_its_requirements_python_and_changes(tmp_path: Path) -> None:
    facts = imported(tmp_path / "in", {"task.json": CLEARML}, tmp_path / "out")
    assert lines(tmp_path / "out", "requirements.txt") == [
        "torch==2.3.0", "clearml", "-e /home/user/own", "other @ file:///home/user/other.whl",
        f"-e git+https://git.example/lab/work.git@{COMMIT}#egg=work",
    ]  # fmt: skip
    assert lines(tmp_path / "out", "python.txt") == ["Python 3.11.9"]
    assert (tmp_path / "out" / "work.diff").read_text() == DIFF
    assert (facts.format, facts.started) == ("ClearML task", "2024-05-06T07:08:09+00:00")
    assert {"container", "user", "script.requirements.conda", "entry_point"} <= reasons(facts).keys()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ("# git diff too large\n# see Artifacts/auxiliary_git_diff\n",
         "too large: the artifact auxiliary_git_diff has it"),
        ("import torch\ntorch.manual_seed(1)\n", "the program itself"),
    ],
)  # fmt: skip
def test_changes_of_clearml_that_are_no_diff_are_named(changes: str, reason: str, tmp_path: Path) -> None:
    task = CLEARML | {"script": CLEARML["script"] | {"diff": changes}}
    facts = imported(tmp_path / "in", {"task.json": task}, tmp_path / "out")
    assert reasons(facts)["script.diff"] == reason
    assert not (tmp_path / "out" / "work.diff").exists()


def test_changes_with_a_secret_stay_out(tmp_path: Path) -> None:
    script = {
        "diff": DIFF.replace("a = 2", f'TOKEN = "{TOKEN}"'),
        "requirements": {"pip": "torch == 2.3.0\n"},
    }
    task = CLEARML | {"script": CLEARML["script"] | script}
    facts = imported(tmp_path / "in", {"task.json": task}, tmp_path / "out")
    reason = "a secret in the changes of the job's own repository"
    assert reasons(facts)["script.repository: changes"] == reason
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["import.json", "requirements.txt"]


@pytest.mark.parametrize(
    ("document", "prefix"),
    [
        ({"__system_params": AIM, "hparams": {"lr": 0.1}}, "__system_params."),
        ({"params": {"__system_params": AIM}, "traces": {}, "props": {"creation_time": 1715000000.5}},
         "params.__system_params."),
        (AIM, ""),
    ],
    ids=["attributes", "server", "system"],
)  # fmt: skip
def test_a_run_of_aim_has_its_packages_and_variables(
    document: dict[str, Any], prefix: str, tmp_path: Path
) -> None:
    facts = imported(tmp_path / "in", {"run.json": document}, tmp_path / "out")
    assert lines(tmp_path / "out", "requirements.txt") == ["torch==2.3.0", "numpy==1.26.4"]
    assert lines(tmp_path / "out", "env.txt") == KEPT
    stated = reasons(facts)
    assert stated[f"{prefix}git_info"] == "it has no address with a full commit"
    variables = {name: stated[f"{prefix}env_variables.{name}"] for name in VARIABLES.keys() - {"bad name"}
                 if f"{prefix}env_variables.{name}" in stated}  # fmt: skip
    assert variables == {
        "USER": "it names a person or a machine", "HOSTNAME": "it names a person or a machine",
        "DATA": "its value names a person or a machine", "CONTACT": "its value names a person or a machine",
        "RUN_ON": "its value names a person or a machine", "WANDB_API_KEY": "a secret", "REMOTE": "a secret",
        "PS1": "its value has line breaks or control characters",
        "TWO": "its value has line breaks or control characters",
    }  # fmt: skip
    assert facts.started == ("2024-05-06T12:53:20+00:00" if "props" in document else "")


def test_a_job_of_sagemaker_has_its_variables_and_names_its_image(tmp_path: Path) -> None:
    facts = imported(tmp_path / "in", {"job.json": SAGEMAKER}, tmp_path / "out")
    assert lines(tmp_path / "out", "env.txt") == KEPT
    image = "the job ran in 123.dkr.ecr.eu-west-1.amazonaws.com/train:7: `--base` can take it"
    assert reasons(facts)["AlgorithmSpecification.TrainingImage"] == image
    assert facts.started == "2024-05-06T12:53:20+00:00"


def test_a_job_of_sagemaker_without_variables_needs_a_list_beside_it(tmp_path: Path) -> None:
    bare = SAGEMAKER | {"Environment": None}
    with pytest.raises(SnapshotError, match=r"job\.json names only the image 123") as err:
        imported(tmp_path / "in", {"job.json": bare}, tmp_path / "out")
    assert err.value.hint == (
        "run `pip freeze > requirements.txt` in that image, put it beside the file, and import the directory"
    )
    imported(tmp_path / "in", {"requirements.txt": "torch==2.3.0\n"}, tmp_path / "out")
    assert lines(tmp_path / "out", "requirements.txt") == ["torch==2.3.0"]


@pytest.mark.parametrize("start", [1715000000, {"set": True, "infinite": False, "number": 1715000000}])
def test_a_job_of_slurm_has_the_variables_beside_it(start: Any, tmp_path: Path) -> None:
    document = SACCT | {"jobs": [JOB | {"time": {"start": start}}]}
    files = {"sacct.json": document, "env-vars.txt": ENVIRONMENT, "script.txt": SCRIPT, "job.log": "alice"}
    facts = imported(tmp_path / "in", files, tmp_path / "out")
    assert lines(tmp_path / "out", "env.txt") == KEPT
    assert facts.started == "2024-05-06T12:53:20+00:00"
    assert reasons(facts)["the job's environment.WANDB_API_KEY"] == "a secret"
    assert not read_snapshot(tmp_path / "out").requirements


def test_a_job_of_slurm_needs_variables_or_a_list(tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match="a Slurm job without its variables") as err:
        imported(tmp_path / "in", {"sacct.json": SACCT}, tmp_path / "out")
    assert err.value.hint == (
        "write them beside it, if the site keeps them: `sacct -j ID --env-vars > env-vars.txt`; "
        "or put a requirements.txt of the job there, and import the directory"
    )
    with pytest.raises(SnapshotError, match="has 2 jobs") as err:
        imported(tmp_path / "in", {"sacct.json": SACCT | {"jobs": [JOB, JOB]}}, tmp_path / "out")
    assert err.value.hint == "write the accounting of one job: `sacct -j ID --json`"
    imported(tmp_path / "in", {"sacct.json": SACCT, "requirements.txt": "torch==2.3.0\n"}, tmp_path / "out")
    assert lines(tmp_path / "out", "requirements.txt") == ["torch==2.3.0"]


CARD = """\
---
library_name: peft
---
### Framework versions

- PEFT 0.17.0
- Transformers: 4.57.1
- Pytorch: 2.9.0+cu128
- Sentence Transformers: 3.4.1
- Python: 3.10.11
- Datasets: unknown

### Citation
- Other 1.0
"""


def test_a_card_has_names_of_distributions(tmp_path: Path) -> None:
    facts = imported(tmp_path / "in", {"README.md": CARD}, tmp_path / "out")
    assert lines(tmp_path / "out", "requirements.txt") == [
        "peft==0.17.0", "transformers==4.57.1", "torch==2.9.0+cu128", "sentence-transformers==3.4.1",
    ]  # fmt: skip
    assert lines(tmp_path / "out", "python.txt") == ["Python 3.10.11"]
    assert reasons(facts)["line 11"] == "it has no name and version"


NOTEBOOK = {
    "cells": [],
    "metadata": {"kernelspec": {"name": "alice"}, "language_info": {"version": "3.11.9"}},
}
ALONE = "import a directory that has a run, a lock file or a requirements.txt, too"


@pytest.mark.parametrize(
    ("name", "content", "format_name"),
    [
        ("work.ipynb", NOTEBOOK, "a notebook"),
        ("data.dvc", "outs: []\n", "DVC"),
        (".hydra/hydra.yaml", "hydra: {}\n", "Hydra"),
    ],
)
def test_facts_without_a_run_are_refused(name: str, content: Any, format_name: str, tmp_path: Path) -> None:
    with pytest.raises(SnapshotError, match=rf"only facts that belong to a run \({format_name}\)") as err:
        imported(tmp_path / "in", {name: content}, tmp_path / "out")
    assert err.value.hint == ALONE


def test_the_modules_of_a_notebook_are_named(tmp_path: Path) -> None:
    cells = [
        {
            "cell_type": "code",
            "source": ["import numpy as np, os\n", "from torch.nn import functional as F\n"],
        },
        {
            "cell_type": "code",
            "source": "%pip install x\nif True:\n    import sklearn.linear_model\nfrom . import mine",
        },
        {"cell_type": "code", "source": "print('import nothing')\nfrom __future__ import annotations"},
        {"cell_type": "markdown", "source": ["import prose"]},
        {"cell_type": "code", "source": 5},
    ]
    files = {"requirements.txt": "numpy==2.0.0\n", "work.ipynb": {**NOTEBOOK, "cells": cells}}
    facts = imported(tmp_path / "in", files, tmp_path / "out")
    assert reasons(facts)["cells"] == (
        "the program itself, and its outputs; they import numpy, sklearn, torch, which the requirements must provide"
    )
    many = "\n".join(f"import m{number:03}" for number in range(1000))
    files["work.ipynb"] = {**NOTEBOOK, "cells": [{"cell_type": "code", "source": many}]}
    facts = imported(tmp_path / "more", files, tmp_path / "many")
    assert reasons(facts)["cells"].endswith("m029, and 970 more, which the requirements must provide")


def test_values_of_dvc_are_read_as_text(tmp_path: Path) -> None:
    """An md5 of digits alone is a number in YAML."""
    sums = ("1" * 32, "0" * 32, f"{'1' * 15}.{'2' * 14}e5", f"{'1' * 30}e5")
    entries = "".join(
        f"- path: {number}\n  md5: {md5}\n  size: 00{number}\n" for number, md5 in enumerate(sums)
    )
    last = "- path: a\n  md5: " + "a" * 32 + "\n  size: -1\n  nfiles: 1e3\n"
    files = {"requirements.txt": "click==8.1.7\n", "a.dvc": f"outs:\n{entries}{last}"}
    facts = imported(tmp_path / "in", files, tmp_path / "out")
    assert [(entry.md5, entry.size, entry.files) for entry in facts.data] == [
        (sums[0], 0, None), (sums[1], 1, None), (sums[3], 3, None), ("a" * 32, None, None),
    ]  # fmt: skip
    assert reasons(facts) == {"outs[2]": "it has no md5"}


def test_facts_beside_a_run_join_it(tmp_path: Path) -> None:
    md5 = "d8acabbfd4ee51c95da5d7628c7ef74b"
    files = {
        "README.md": CARD.replace("- Python: 3.10.11\n", ""), "work.ipynb": NOTEBOOK,
        ".hydra/hydra.yaml": "hydra: {runtime: {version: 1.3.2, cwd: /home/alice}, "
        "job: {env_set: {OMP_NUM_THREADS: 4}}}",
        ".hydra/config.yaml": "user: alice\n",
        "data/train.dvc": f"outs:\n- md5: {md5}.dir\n  size: 12\n  nfiles: 3\n  path: train\n",
        "dvc.lock": f"schema: '2.0'\nstages:\n  fit:\n    cmd: python fit.py\n"
        f"    outs:\n    - path: m.pt\n      md5: {md5}\n",
    }  # fmt: skip
    facts = imported(tmp_path / "in", files, tmp_path / "out")
    assert lines(tmp_path / "out", "requirements.txt")[-1] == "hydra-core==1.3.2"
    assert lines(tmp_path / "out", "python.txt") == ["Python 3.11.9"]
    assert lines(tmp_path / "out", "env.txt") == ["OMP_NUM_THREADS=4"]
    assert [(entry.path, entry.md5, entry.directory, entry.size, entry.files) for entry in facts.data] == [
        ("m.pt", md5, False, None, None), ("data/train", md5, True, 12, 3),
    ]  # fmt: skip
    assert facts.data[0].field == "stages.fit.outs[0]"
    assert reasons(facts)["stages.fit.cmd"] == "the job's own command: `reprobuild run OUT -- CMD`"
    shown = render_import(facts, tmp_path / "out").splitlines()
    assert shown[0] == "Hugging Face model card"
    assert {"  env.txt: 1 line from .hydra/hydra.yaml", "  2 fingerprints of data in import.json"} <= set(
        shown
    )


def test_a_list_beside_a_task_is_named(tmp_path: Path) -> None:
    files = {"task.json": CLEARML, "requirements.txt": "six==1.16.0\n", "notes.txt": "x"}
    facts = imported(tmp_path / "in", files, tmp_path / "out")
    assert "six" not in (tmp_path / "out" / "requirements.txt").read_text()
    assert [(entry.source, entry.reason) for entry in facts.unused if entry.source.endswith(".txt")] == [
        ("requirements.txt", "the other file is imported: to import this one, name it")
    ]


def test_a_list_says_more_than_the_card_beside_it(tmp_path: Path) -> None:
    folder = written(tmp_path / "in", {"README.md": CARD, "requirements.txt": "six==1.16.0\n"})
    assert not needs_import(folder)
    assert [line.name for line in read_snapshot(folder).requirements] == ["six"]
