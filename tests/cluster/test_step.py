"""The step of a cluster on a real Slurm, with no image: which nodes it asks, and what is left of it."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.cluster.shared_dir import ENDED, LOG, TOLD
from reprobuild.cluster.slurm import node_address
from reprobuild.cluster.slurm_allocation import JobRequest, SlurmJob, allocate_nodes
from reprobuild.cluster.slurm_step import run_step
from reprobuild.cluster.text import render_cluster
from reprobuild.errors import EngineError, UsageError
from tests.cluster.planted import PACKAGES, SLURM, prepare
from tests.cluster.samples import certificate, gathered, write
from tests.conftest import ROOT

# By words: directory, nodes, deadline, how long the others are waited for, and what runs on each node.
PROGRAM = """
import os, sys
from pathlib import Path
from reprobuild.cluster.slurm_allocation import JobRequest, allocate_nodes
from reprobuild.cluster.slurm_step import run_step
folder, nodes, deadline, patience, line = sys.argv[1:]
env = dict(os.environ)
with allocate_nodes(JobRequest(nodes=int(nodes)), env, print) as job:
    command, times = ["sh", "-c", line], {"deadline": int(deadline), "patience": int(patience)}
    run_step(job, job.nodes, command, Path(folder), env, **times)
"""
# One that takes nothing along when it is ended, as a srun that is killed does not.
ORPHANS = """#!/bin/sh
setsid "$(dirname "$0")/real-srun" "$@" & exec sleep 600
"""


def on_slurm(folder: Path, script: str) -> None:
    """Run a script in a directory, on a new cluster of three nodes."""
    prepare()
    done = subprocess.run(
        [*SLURM, "--folder", str(PACKAGES), "--", "bash", "-euc", script], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout


def test_only_the_step_is_ended_in_a_job_of_somebody_else(tmp_path: Path) -> None:
    check = shlex.join([sys.executable, "-c", PROGRAM])
    (tmp_path / "srun").write_text(ORPHANS)
    (tmp_path / "srun").chmod(0o755)
    inside = f"""
        mkdir late && ln -s "$(command -v srun)" late/real-srun && cp srun late
        srun --nodes=1 --ntasks=1 --overlap --job-name=theirs sleep 600 & sleep 2
        PATH="$PWD/late:$PATH" {check} hung 2 4 0 'sleep 600'
        sleep 3; squeue --noheader --steps --format=%j > steps
        {check} one 1 30 0 true
    """
    on_slurm(tmp_path, f"salloc --quiet --nodes=2 bash -euc {shlex.quote(inside)}")
    assert (tmp_path / "steps").read_text().split() == ["theirs"]
    assert not [path.name for path in (tmp_path / "hung").glob("*.ended") if path.read_text() == "0\n"]
    assert [path.name for path in (tmp_path / "one").glob("*.ended")] == ["n1.ended"]


# On one node everything of Slurm's is killed at once, and the process itself, as where it loses power.
LOSES_POWER = r"""
    test "$SLURMD_NODENAME" = n2 || exit 0
    stepd=$(sed -n 's/^PPid:[[:space:]]*//p' /proc/$PPID/status)
    for one in /proc/[0-9]*; do
        tr '\0' ' ' < $one/cmdline | grep -q '^slurmd -D -N n2 ' && daemon=${one#/proc/}
    done
    kill -9 $daemon $stepd $PPID $$
"""
# Two nodes have come to the rendezvous, and give up; one never ends.
HANGS = """test "$SLURMD_NODENAME" != n3 || exec sleep 600; echo '{"came": true}'; exit 1"""


@pytest.mark.long
def test_a_node_that_loses_power_is_told_from_one_that_hangs(tmp_path: Path) -> None:
    """Slurm itself finds out, and ends what it waits for; a node that does not end is waited for as long as is said."""
    check = shlex.join([sys.executable, "-c", PROGRAM])
    script = f"""
        {check} collectives-cpu 3 200 2 {shlex.quote(HANGS)}
        echo SlurmdTimeout=6 >> "$SLURM_CONF"; scontrol reconfigure
        {check} . 3 200 0 {shlex.quote(LOSES_POWER)}
    """
    on_slurm(tmp_path, script)
    found = gathered(tmp_path)
    assert [(each.node, each.kind) for each in found.silent] == [
        ("n1", "died"),
        ("n2", "lost"),
        ("n3", "died"),
    ]
    assert found.silent[1].why.startswith("Slurm does not reach it any more: down"), found.silent
    assert "n2: lost: Slurm does not reach it any more" in render_cluster(found)
    (between,) = found.collectives
    assert (between.verdict, between.absent) == ("unfinished", ("n3",))
    assert between.open == (
        "n3 did not come to the rendezvous: it had not ended when it was no longer waited for",
        "n1, n2, n3: had a part in it, and no answer of its own",
    )


def scripted(folder: Path, monkeypatch: pytest.MonkeyPatch, answers: Mapping[str, str]) -> dict[str, str]:
    """Put scripts in the place of Slurm's programs, and return an environment in a job of theirs."""
    for name, line in answers.items():
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    assert shutil.which("srun") == str(folder / "srun")
    return {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7"}


def test_a_node_that_failed_and_is_there_again_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Slurm says to that is what a real one said; nothing here can be started again."""
    env = scripted(tmp_path, monkeypatch, {
        "scontrol": 'case "$*" in *hostnames*) printf "n1\\nn2\\n" ;; *) exit 1 ;; esac',
        "squeue": "echo 'n[1-2]'", "srun": "echo 'srun: error: Node failure on n[1-2]' >&2",
        "sinfo": "echo 'n1|idle|none'; echo 'n2|allocated*|none'",
    })  # fmt: skip
    with allocate_nodes(JobRequest(), env, print) as job:
        run_step(job, job.nodes, ["true"], tmp_path / "cluster", env, deadline=60)
        assert node_address("n2", env) == "n2"  # Slurm does not say
    assert {path.name: path.read_text() for path in (tmp_path / "cluster").glob("*.lost")} == {
        "n1.lost": "Slurm says that it failed",
        "n2.lost": "Slurm does not reach it any more: allocated*, none",
    }


TWO = {
    "scontrol": 'case "$*" in *hostnames*) echo "$3" | tr , "\n" ;; *) exit 1 ;; esac', "squeue": "echo n1,n2",
    "srun": "true", "sinfo": "true", "scancel": 'echo "$@" >> "$(dirname "$0")/cancelled"',
    "salloc": 'echo "salloc: Granted job allocation 7" >&2',
}  # fmt: skip


@pytest.mark.parametrize(("code", "task"), [(0, 0), (8, 0), (9, 0), (6, 6), (137, 137)])
def test_a_node_that_drifts_is_no_failed_task(
    code: int, task: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm would say that it failed; the certificate says what there is to say, and `ended` has the code."""
    srun = 'while test "$1" != sh; do shift; done; SLURMD_NODENAME=n1 "$@"; echo $? > "$(dirname "$0")/task"'
    env = scripted(tmp_path, monkeypatch, {**TWO, "srun": srun})
    job = SlurmJob(number="7", nodes=("n1",))
    run_step(job, job.nodes, ["sh", "-c", f"exit {code}"], tmp_path / "cluster", env, deadline=60)
    assert (tmp_path / "task").read_text() == f"{task}\n"
    assert (tmp_path / "cluster" / "n1.ended").read_text() == f"{code}\n"


@pytest.mark.parametrize("suffix", [TOLD, LOG, ENDED])
def test_no_link_in_the_shared_directory_is_followed(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer puts it there while Slurm starts the step; Slurm itself opens no file there."""
    (tmp_path / "own").write_text("precious")
    srun = (
        'echo "$@" > "$(dirname "$0")/asked"; while test "$1" != sh; do shift; done\n'
        f'ln -s ../own "$4/n1{suffix}"; SLURMD_NODENAME=n1 "$@"; true'
    )
    env = scripted(tmp_path, monkeypatch, {**TWO, "srun": srun})
    job = SlurmJob(number="7", nodes=("n1",))
    run_step(job, job.nodes, ["sh", "-c", "echo text; echo text >&2"], tmp_path / "cluster", env, deadline=60)
    assert (tmp_path / "cluster" / f"n1{suffix}").is_symlink()
    assert (tmp_path / "own").read_text() == "precious"
    assert re.findall(r"--(?:output|error)=(\S+)", (tmp_path / "asked").read_text()) == ["none"]


@pytest.mark.parametrize(
    ("inside", "wanted", "gone"),
    [
        ({}, 3, ("unnamed-1",)),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "4"}, 0, ("unnamed-1", "unnamed-2")),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "n1,n2,n9"}, 0, ("n9",)),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "n1,n2,n9"}, 3, ("n9",)),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "n1,n2,n9"}, 2, ()),
        ({"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "x"}, 0, ()),
    ],
)  # fmt: skip
def test_a_node_that_the_job_has_no_more_is_lost(
    inside: dict[str, str],
    wanted: int,
    gone: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    env = {"PATH": scripted(tmp_path, monkeypatch, TWO)["PATH"], **inside}
    cluster = tmp_path / "cluster"
    with allocate_nodes(JobRequest(nodes=wanted), env, print) as job:
        assert (job.nodes, job.gone) == (("n1", "n2"), gone)
        run_step(job, job.nodes, ["true"], cluster, env, deadline=60, lost_nodes=job.gone)
    assert (cluster / "step").read_text() == "n1\nn2\n"
    write(cluster, n1=certificate(), n2=certificate())
    found = gathered(cluster)
    assert [(each.node, each.kind) for each in found.silent] == [(node, "lost") for node in gone]
    assert found.exit_code == (9 if gone else 0)
    assert (tmp_path / "cancelled").exists() is not bool(inside)


def test_more_nodes_than_a_job_was_given_cannot_be_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {**scripted(tmp_path, monkeypatch, TWO), "SLURM_JOB_NUM_NODES": "3"}
    with (
        pytest.raises(UsageError, match="4 nodes are asked for, and job 7 has 3"),
        allocate_nodes(JobRequest(nodes=4), env, print),
    ):
        pass


def test_more_nodes_than_were_asked_for_are_all_checked_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"PATH": scripted(tmp_path, monkeypatch, TWO)["PATH"]}
    said: list[str] = []
    with allocate_nodes(JobRequest(nodes=1), env, said.append) as job:
        assert (job.nodes, job.gone) == (("n1", "n2"), ())
    assert said[-1] == "job 7 has 2 nodes, and 1 were asked for: all of them are checked"


BANNER = "head -c 200000 /dev/zero | tr '\\0' x >&2; echo >&2\n"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (f"{BANNER}echo 'salloc: Granted job allocation 71' >&2", ""),
        (f"{BANNER}echo 'salloc: Granted job allocation 71' >&2\n{BANNER}", ""),
        ("printf 'salloc: Granted job allocation 71' >&2", ""),
        ("echo 'salloc: Granted job allocation 71' >&2; exit 1", "Slurm gives no nodes: salloc: Granted"),
        ("echo 'salloc: Pending job allocation 71' >&2\necho 'salloc: error: no' >&2", "no nodes: salloc: error: no"),
    ],
    ids=["before", "around", "no end of line", "fails", "pending"],
)  # fmt: skip
def test_a_job_that_was_granted_is_ended_whatever_else_is_said(
    line: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = {"PATH": scripted(tmp_path, monkeypatch, {**TWO, "salloc": line})["PATH"]}
    with contextlib.ExitStack() as stack:
        if what:
            stack.enter_context(pytest.raises(EngineError, match=what))
        with allocate_nodes(JobRequest(nodes=2), env, print) as job:
            assert job.number == "71"
            assert not (tmp_path / "cancelled").exists()
    assert (tmp_path / "cancelled").read_text() == "71\n"


def test_a_job_that_was_granted_is_ended_on_an_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More than a pipe holds comes after the grant, so that it has been read when the interrupt comes."""
    line = f"echo 'salloc: Granted job allocation 71' >&2\n{BANNER}kill -INT $PPID\nexec sleep 600"
    env = {"PATH": scripted(tmp_path, monkeypatch, {**TWO, "salloc": line})["PATH"]}
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            allocate_nodes(JobRequest(nodes=2), env, print),
        ):
            pass
    finally:
        signal.signal(signal.SIGINT, former)
    assert (tmp_path / "cancelled").read_text() == "71\n"


def test_ten_thousand_names_are_no_word_of_a_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel takes no word of more than 128 KiB. Slurm's programs here are scripts that answer as it does."""
    names = [f"rack{number:05}-of-a-large-site" for number in range(10_000)]
    (tmp_path / "names").write_text("\n".join(names))
    answers: Mapping[str, str] = {
        "squeue": "echo 'rack[00000-09999]-of-a-large-site'", "scontrol": f"cat {shlex.quote(str(tmp_path / 'names'))}",
        "srun": f'printf "%s\\n" "$@" > {shlex.quote(str(tmp_path / "asked"))}',
    }  # fmt: skip
    env = scripted(tmp_path, monkeypatch, answers)
    with allocate_nodes(JobRequest(), env, lambda text: None) as job:
        assert job.nodes == tuple(names)
        run_step(job, job.nodes, ["true"], tmp_path / "cluster", env, deadline=60)
    listed = next(
        word for word in (tmp_path / "asked").read_text().splitlines() if word.startswith("--nodelist=")
    )
    assert Path(listed.partition("=")[2]).read_text().split() == names
