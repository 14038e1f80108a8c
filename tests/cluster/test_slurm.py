"""`cluster run` on a real Slurm of three nodes, with a real engine: `dev/private_slurm.py`, Apptainer."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.cluster.planted import NODES, PROBES, Cluster, Outcome, Trial, named, prepare
from tests.conftest import PROGRAM, Built, reprobuild

DEADLINE = 60
REFUSED = "no container engine answers (tried apptainer)"


@pytest.fixture(scope="module")
def cluster(
    built_example: Built, apptainer_env: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Cluster:
    prepare()
    folder = tmp_path_factory.mktemp("cluster")
    out = built_example.copy(folder / "out")
    return Cluster(folder, out, built_example.lock, built_example.store, apptainer_env)


@pytest.fixture(scope="module")
def odd(cluster: Cluster) -> Outcome:
    """One node computes otherwise."""
    (outcome,) = cluster.run([Trial({"n2": "odd"}, collectives=True)])
    return outcome


@pytest.fixture(scope="module")
def silent(cluster: Cluster) -> Outcome:
    """In a job that is there already, one node has no engine, one hangs, one dies."""
    trial = Trial({"n1": "refuse", "n2": "hang", "n3": "die"}, DEADLINE, inside=True)
    words = [str(cluster.out), "--store", str(cluster.store)]
    again = shlex.join([*PROGRAM, "verify", *words])
    check = shlex.join([*PROGRAM, "cluster", "run", *words])
    more = f"""
        {check} --nodes 3 --partition nowhere 2> partition
        SLURM_JOB_ID=1 {check} 2> ended
        salloc --quiet --nodes=2 {check} --nodes 3 2> few
        {again} --engine apptainer --no-probes > again
        true
    """
    (outcome,) = cluster.run([trial], more)
    return outcome


@pytest.mark.long  # and twenty times in `make proof PROOF_ARGS=cluster`
def test_the_node_whose_arithmetic_differs_is_named_with_the_probes(odd: Outcome) -> None:
    found = odd
    assert (found.code, found.cluster.verdict) == (8, "differ"), found.said
    assert [one.nodes for one in found.cluster.groups] == [
        NODES
    ]  # it does not say that it is another platform
    assert named(found.cluster) == {"n2": set(PROBES)}
    assert (found.cluster.silent, found.cluster.groups[0].parted) == ((), ())


@pytest.mark.long
def test_the_collectives_between_the_nodes_name_it_too(odd: Outcome) -> None:
    """What it added went to all alike; what each rank adds by itself shows whose sums are wrong."""
    (found,) = odd.cluster.collectives
    assert (found.verdict, found.backend, found.nodes, found.ranks) == ("drift", "gloo", NODES, 3), found
    assert [(each.collective, each.kind, each.nodes, each.settled) for each in found.drifts] == [
        ("all_gather, summed by each rank", "ranks", ("n2",), True)
    ]
    assert {"all_reduce float32 1 MiB", "all_reduce that cancels"} <= set(found.identical)
    assert re.match("[23] different results in the order of arrival, 2 in", found.control), found.control


def test_nodes_that_hang_die_or_have_no_engine_are_told_and_not_waited_for(silent: Outcome) -> None:
    found = silent
    assert (found.code, found.cluster.verdict, found.cluster.groups) == (9, "inconclusive", ()), found.said
    assert [(each.node, each.kind) for each in found.cluster.silent] == [
        ("n1", "refused"), ("n2", "hangs"), ("n3", "died"),
    ]  # fmt: skip
    assert found.cluster.collectives == ()  # fewer than two nodes answered
    assert REFUSED in found.cluster.silent[0].why
    assert "killed by signal 9" in found.cluster.silent[2].why
    assert found.cluster.notes[0] == f"not waited for any longer than {DEADLINE} s"


@pytest.mark.parametrize(
    ("name", "what", "hint"),
    [
        ("partition", "Slurm gives no nodes: ", "see whether this works: salloc --no-shell --nodes=3 --exclusive"),
        ("ended", "job 1 has no nodes", "is it still running? See `squeue`"),
        ("few", "3 nodes are asked for, and job ",
         "ask for fewer with --nodes, or start it outside of a job: then it makes one"),
    ],
)  # fmt: skip
def test_what_slurm_cannot_give_is_said(
    name: str, what: str, hint: str, silent: Outcome, cluster: Cluster
) -> None:
    assert silent
    said = (cluster.folder / name).read_text()
    assert f"error: {what}" in said
    assert f"hint: {hint}" in said


def test_what_cannot_be_asked_for_is_said(built_example: Built, tmp_path: Path) -> None:
    out = built_example.out
    for (name, *arguments), env, what, hint in (
        (["run"], {}, "missing option `--nodes`", "add --nodes N, or run this in a job of Slurm"),
        (["run", "--time-limit", "10"], {"SLURM_JOB_ID": "7"},
         "--partition and --time-limit ask for a new job, but this process runs in job 7",
         "leave both options out: the present job is used"),
        (["run", "--srun-args", "-N '2"], {}, "--srun-args -N '2: No closing quotation",
         "quote it as for a shell: --srun-args '-N 2 --exclusive'"),
        (["worker", "--output", tmp_path], {"SLURMD_NODENAME": "../n"}, "is no name of a node",
         "name the node by SLURMD_NODENAME, as Slurm does"),
    ):  # fmt: skip
        done = reprobuild(
            "cluster", name, out, "--store", built_example.store, *arguments, env={**os.environ, **env}
        )
        assert done.returncode == 2, done.stderr
        assert what in done.stderr
        assert f"hint: {hint}" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_where_slurm_is_not_that_is_said(built_example: Built, tmp_path: Path) -> None:
    env = {**os.environ, "PATH": str(tmp_path)}
    arguments = ("cluster", "run", built_example.out, "--store", built_example.store, "--nodes", "3")
    hint = (
        "run this on a login node or in a job, where `srun` and `salloc` are; "
        "without Slurm, use `reprobuild cluster worker` and `reprobuild cluster gather`"
    )
    for program, more in (("salloc", {}), ("squeue", {"SLURM_JOB_ID": "7"})):
        done = reprobuild(*arguments, env={**env, **more})
        assert done.returncode == 6, done.stderr
        assert f"`{program}` is not on PATH" in done.stderr
        assert f"hint: {hint}" in done.stderr


def test_a_later_check_of_one_machine_keeps_the_nodes_on_the_page(silent: Outcome, cluster: Cluster) -> None:
    assert silent.code == 9
    assert "round trip: " in (cluster.folder / "again").read_text()
    page = (cluster.out / "report.html").read_text()
    assert [name in page for name in ("<b>n1</b>", "<b>n2</b>", "<b>n3</b>")] == [True] * 3


def test_no_job_is_left(silent: Outcome, cluster: Cluster) -> None:
    assert silent.code == 9
    assert (cluster.folder / "left").read_text() == ""
