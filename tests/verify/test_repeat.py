"""The options that repeat the workload of a certificate, which is untrusted."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from reprobuild.verify.certificate.repeat import LONGEST, MOUNT, repeat_options
from reprobuild.verify.verdict import WorkComparison
from reprobuild.verify.workload.conditions import WorkRecord
from tests.verify.samples import make_verdict


def options(*names: str, **work: Any) -> str:
    record = WorkRecord(**{"command": "python train.py", "seed": 7, **work})
    comparisons = tuple(WorkComparison(name=name, verdict="identical") for name in names)
    return repeat_options(make_verdict(work=record, comparisons=comparisons))


def test_each_part_of_the_record_is_an_option() -> None:
    found = options(
        "artefact a b.pt", "artefact {out}/x", command="echo $A; ls `pwd`", runs=4, variables={"A": "1 2"},
        secrets=("TOKEN",), volumes=("/data",), workdir="/w", shared_memory=5,
    )  # fmt: skip
    assert shlex.split(found) == [
        "--workload=echo $A; ls `pwd`", "--seed=7", "--runs=4", "--output-file=a b.pt", "--output-file={out}/x",
        "--env=A=1 2", f"--volume={MOUNT}:/data", "--workdir=/w", "--shm-size=5",
    ]  # fmt: skip


def test_without_a_workload_of_options_there_is_nothing_to_repeat() -> None:
    assert repeat_options(make_verdict()) == ""
    assert options("workload output checkpoint.pt") == ""


@pytest.mark.parametrize(
    "work",
    [
        {"command": "echo ***"},
        {"command": "echo \x1b[2J"},
        {"command": "echo \n::error::x"},
        {"command": "echo a\u202eb"},
        {"command": "echo ##vso[task.setvariable variable=PATH]"},
        {"command": "x" * LONGEST},
        {"variables": {"A": "a\nb"}},
        {"variables": {"*": "x"}},
        {"variables": {"A": "1", "AWS*": "x"}},
        {"variables": {"A=B": "x"}},
        {"variables": {"": "x"}},
        {"variables": {"a b": "x"}},
        {"volumes": ("/data:rw",)},
        {"workdir": "/w\x07"},
    ],
    ids=repr,
)
def test_a_record_that_no_command_line_repeats(work: dict[str, Any]) -> None:
    assert options("artefact x") != ""
    assert options("artefact x", **work) == ""
