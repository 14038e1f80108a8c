"""What the user's own work gets beside the image: options, containers, and certificates."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.engines.model import Task
from reprobuild.engines.podman_options import container_options
from reprobuild.errors import UsageError
from reprobuild.lock.model import Workload
from reprobuild.pipeline.work_conditions import conditions
from reprobuild.run.options import RunOptions
from reprobuild.verify.certificate.read import Certificate, refuse_other_work
from reprobuild.verify.check import select_work, work_record
from reprobuild.verify.workload.conditions import Conditions, make_work_record
from reprobuild.verify.workload.run import compare_work
from reprobuild.verify.workload.work import work_of_options
from tests.verify.samples import PreparedEngine, good_answers, make_lock, make_verdict

TOKEN = "hf_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"


def test_options_become_conditions(tmp_path: Path) -> None:
    wanted = RunOptions(
        seed=7, variables=("STEPS=20", "FROM_HERE"), hidden=("HF_TOKEN",), shm_size="2g",
        volumes=(f"{tmp_path}:/data", f"{tmp_path}:/fixed:ro", f"{tmp_path}:/runs:rw"),
    )  # fmt: skip
    found = conditions(wanted, {"FROM_HERE": "yes", "HF_TOKEN": TOKEN})
    assert found.seed == 7
    assert found.variables == {"STEPS": "20", "FROM_HERE": "yes", "HF_TOKEN": TOKEN}
    assert found.hidden == {"HF_TOKEN"}
    assert [inside for _, inside in found.volumes] == ["/data", "/fixed", "/runs"]
    assert found.read_only == {"/data", "/fixed"}
    assert found.shared_memory == 2 << 30


@pytest.mark.parametrize("name", ["HTTPS_PROXY", "REGISTRY_PASSWORD"])
def test_a_value_that_a_rule_finds_is_on_no_command_line(name: str) -> None:
    """Variables of podman itself are on its command line otherwise, as for `run`."""
    value = "http://me:" + "aB3dE5fG7hJ9" + "@proxy.example:3128"
    given = conditions(RunOptions(variables=(name, "STEPS=20")), {name: value})
    options, _, stdin = container_options(given.apply_to(Task(arguments=("true",))), {}, {})
    assert given.hidden == {name}
    assert not any(value in option for option in options)
    assert stdin == f"{name}={value}\n".encode()


def test_a_volume_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with pytest.raises(UsageError, match=rf"^--volume {tmp_path}/dat: it does not exist") as failed:
        conditions(RunOptions(volumes=(f"{tmp_path}/dat:/data",)), {})
    assert failed.value.hint == f"did you mean `{tmp_path}/data`?"
    assert conditions(RunOptions(volumes=(f"{tmp_path}/data:/data",)), {}).volumes
    with pytest.raises(UsageError) as failed:
        conditions(RunOptions(volumes=("/zzz-none:/data",)), {})
    assert failed.value.hint == "name a directory of this machine: --volume HOST:CONTAINER"


def test_each_run_gets_them_and_the_comparison_does_not() -> None:
    given = Conditions(
        seed=3, variables={"A": "1"}, hidden=frozenset({"A"}), volumes=(("/x", "/data"),), shared_memory=5
    )
    work = work_of_options("train", ("{out}/model.pt",), (), (), given)
    assert work is not None
    engine = PreparedEngine(good_answers())
    compare_work(work, 42, "image:1", engine, {})
    runs = [task for _, task in engine.tasks if task.kept]
    others = [task for _, task in engine.tasks if not task.kept]
    assert len(runs) == 2
    for task in runs:
        assert task.environment["REPROBUILD_SEED"] == "3"
        assert (task.environment["A"], task.hidden, task.shared_memory) == ("1", {"A"}, 5)
        assert ("/x", "/data") in task.volumes
    assert others
    assert all("A" not in task.environment and ("/x", "/data") not in task.volumes for task in others)


def test_the_working_directory_holds_for_the_command_and_its_artefacts() -> None:
    work = work_of_options("a; b", ("out.ckpt", "/abs", "{out}/x"), ("r*",), (), workdir="/it's here")
    assert work is not None
    assert work.command == ("/bin/sh", "-c", "cd -- '/it'\"'\"'s here' && { a; b\n}")
    assert work.artefacts == ("/it's here/out.ckpt", "/abs", "{out}/x", "/it's here/r*")
    assert work.distinct == ("/it's here/r*",)
    with pytest.raises(UsageError, match="not an absolute path") as caught:
        work_of_options("a", ("x",), (), (), workdir="here")
    assert caught.value.hint == "for example --workdir /workspace"


def test_conditions_without_a_command() -> None:
    with pytest.raises(UsageError, match="need --workload, which is missing") as caught:
        work_of_options(None, (), (), (), Conditions(seed=1))
    assert caught.value.hint == "give it, for example: --workload 'python train.py --steps 20'"


def test_a_certificate_has_no_secret() -> None:
    given = Conditions(
        variables={"STEPS": "20", "HF_TOKEN": TOKEN, "API": TOKEN, "LOGIN": "1"}, hidden=frozenset({"LOGIN"})
    )
    found = make_work_record(f"train --token {TOKEN}", 7, given)
    assert (found.variables, found.secrets) == ({"STEPS": "20"}, ("API", "HF_TOKEN", "LOGIN"))
    assert TOKEN not in repr(found)
    assert found.seed == 7


def test_other_work_is_not_compared() -> None:
    certificate = Certificate(path=Path("verdict.json"), sha256="c" * 64, verdict=make_verdict())
    then = make_work_record("train --lr 1", 7, Conditions())
    made = msgspec.structs.replace(
        certificate, verdict=msgspec.structs.replace(certificate.verdict, work=then)
    )
    refuse_other_work(made, then)
    refuse_other_work(made, None)
    refuse_other_work(certificate, then)  # one of an earlier version does not say
    for other, words in ((make_work_record("train --lr 2", 7, Conditions()), "another command"),
                         (make_work_record("train --lr 1", 8, Conditions()), "another seed")):  # fmt: skip
        with pytest.raises(UsageError, match=words) as caught:
            refuse_other_work(made, other)
        assert caught.value.hint == (
            "compare the same work: give the command and options of the verdict file, or leave --against out"
        )


def test_a_task_without_conditions_is_as_it_was() -> None:
    task = Task(arguments=("x",), environment={"A": "1"}, volumes=(("/a", "/b"),))
    assert Conditions().apply_to(task) == task


def test_runs_without_work() -> None:
    with pytest.raises(
        UsageError, match="--runs 5 says how often to run your work, and there is none"
    ) as caught:
        select_work(make_lock(), runs=5)
    assert caught.value.hint == (
        "give it, for example: --workload 'python train.py --steps 20' --output-file out.ckpt"
    )
    followed = work_of_options("python train.py --steps 20", ("out.ckpt",), (), (), runs=5)
    assert select_work(make_lock(), followed, runs=5) == followed


def test_runs_of_the_workload_of_the_lock() -> None:
    lock = make_lock(workload=Workload(command=("train",), outputs=("model.pt",)))
    work = select_work(lock, runs=5)
    assert work is not None
    assert (work.runs, work_record(lock, work).runs) == (5, 5)
