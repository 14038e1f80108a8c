"""Signals that `run` gets are for its job: heard once, answered by the job's own exit code, and not for ever."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.image.model import Image
from reprobuild.infra.proc import stream
from reprobuild.infra.proc.signals import LAST_SECONDS, SignalForwarding, forward_signal, forward_signals
from reprobuild.lock.file import write_lock
from tests.cluster.planted import PACKAGES, SLURM
from tests.conftest import PROGRAM, ROOT
from tests.verify.samples import make_lock

HEARS = """#!/bin/sh
trap 'echo USR1' USR1
trap 'echo USR2' USR2
trap '{end}' INT
trap 'echo HUP; exit 9' HUP
trap 'echo TERM; exit 8' TERM
echo ready $$
while :; do sleep 0.02; done
"""
SAVES = "echo INT; exit 7"


@contextmanager
def job(folder: Path, end: str = SAVES) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run by an srun that says what it hears; give `run`, alone in its group of processes, and the pid of that srun."""
    (folder / "bin").mkdir()
    (folder / "bin" / "srun").write_text(HEARS.format(end=end))
    (folder / "bin" / "srun").chmod(0o755)
    lock = make_lock()
    (folder / "out").mkdir()
    write_lock(lock, folder / "out" / "reprobuild.lock")
    image = Image(
        layout="image", reference="reprobuild:test", layers=1,
        tree=f"sha256:{'1' * 64}", config=f"sha256:{'2' * 64}", manifest=f"sha256:{'3' * 64}",
        lock=lock.digest,
    )  # fmt: skip
    (folder / "out" / "image.json").write_bytes(msgspec.json.encode(image))
    with subprocess.Popen(
        [*PROGRAM, "run", str(folder / "out"), "--engine", "apptainer", "--srun-args", "", "--", "true"], cwd=ROOT,
        env={**os.environ, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout
        try:
            ready, pid = process.stdout.readline().split()
            assert ready == "ready"
            yield process, int(pid)
        finally:
            process.kill()


def hear(process: subprocess.Popen[str], signum: signal.Signals) -> str:
    """Send a signal to all of the group, as a terminal and a scheduler do; return the line that answers."""
    assert process.stdout
    os.killpg(process.pid, signum)
    return process.stdout.readline()


def test_a_job_is_told_to_save_and_goes_on(tmp_path: Path) -> None:
    with job(tmp_path) as (process, _):
        for signum in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGUSR1):
            assert hear(process, signum) == f"{signum.name[3:]}\n"
        assert hear(process, signal.SIGTERM) == "INT\n"
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 7


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_job_that_is_asked_to_end_answers_by_its_code(signum: signal.Signals, tmp_path: Path) -> None:
    """Also where the terminal goes away; srun hands nothing but SIGINT on."""
    with job(tmp_path) as (process, _):
        assert hear(process, signum) == "INT\n"
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 7


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    with job(tmp_path, end="echo not yet") as (process, pid):
        assert hear(process, signal.SIGINT) == "not yet\n"
        assert hear(process, signal.SIGTERM) == "not yet\n"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.lstrip().startswith("error: interrupted\n")
    assert not Path("/proc", str(pid)).exists()


ON_NODES = """
import os, signal, sys
from reprobuild.cli.interrupt import install_signal_handlers
from reprobuild.run.slurm import start
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has it ignored by what is in the background
install_signal_handlers()
task = "trap 'sleep 1; touch saved.$SLURM_PROCID; exit 7' INT; touch ready.$SLURM_PROCID; while :; do sleep 0.1; done"
sys.exit(start(["srun", "-N", "2", "sh", "-c", task], os.environ, lambda stream, data: os.write(stream, data)))
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_the_ranks_of_a_real_srun_may_save(signum: signal.Signals, tmp_path: Path) -> None:
    """srun itself kills them where it hears SIGTERM or SIGHUP."""
    script = (
        f"{shlex.join([sys.executable, '-c', ON_NODES])} & job=$!\n"
        "until test -e ready.0 && test -e ready.1; do sleep 0.1; done\n"
        f"kill -{int(signum)} $job\nwait $job || echo $? > code\n"
    )
    argv = [*SLURM, "--folder", str(PACKAGES), "--", "bash", "-uc", script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        argv, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "code").read_text() == "7\n", done.stderr
    assert [(tmp_path / f"saved.{rank}").exists() for rank in range(2)] == [True, True]


SHORT = """
import sys, time
from reprobuild.cli.interrupt import install_signal_handlers
from reprobuild.infra.proc.signals import SignalForwarding
from reprobuild.infra.proc.stream import stream
install_signal_handlers()
def sink(number, data):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
handing = SignalForwarding(seconds=0.2)
code = stream(["sh", "-c", sys.argv[1]], env={"PATH": sys.argv[2]}, purpose="try", sink=sink, handing=handing)
print(code, flush=True)
"""


def test_a_job_that_will_not_end_is_made_to() -> None:
    words = ("trap '' TERM; echo ready; while :; do sleep 0.02; done", os.environ["PATH"])
    with subprocess.Popen(
        [sys.executable, "-c", SHORT, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        process.terminate()
        assert process.communicate(timeout=20)[0] == "-9\n"
    assert process.returncode == 0


def test_where_it_cannot_be_made_to_end_the_program_itself_is_meant() -> None:
    told: list[int] = []
    with forward_signals(told.append, lambda: None, SignalForwarding(seconds=0)):
        assert forward_signal(signal.SIGTERM)
        assert forward_signal(signal.SIGTERM)
        time.sleep(LAST_SECONDS + 0.1)
        assert forward_signal(signal.SIGUSR1)
        assert not forward_signal(signal.SIGHUP)
        assert not forward_signal(signal.SIGTERM)
    assert told == [signal.SIGTERM, signal.SIGTERM, signal.SIGUSR1]


def test_a_signal_that_comes_while_a_job_begins_is_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes when the process is there, and before anybody knows its number."""
    begin = subprocess.Popen.__init__

    def late(child: subprocess.Popen[bytes], *arguments: Any, **options: Any) -> None:
        begin(child, *arguments, **options)
        assert forward_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess.Popen, "__init__", late)
    handing = SignalForwarding(seconds=60)
    assert (
        stream(["sleep", "60"], env=dict(os.environ), purpose="try", sink=lambda *_: None, handing=handing)
        == -15
    )


def test_what_job_has_ended_hears_nothing_more() -> None:
    """The program itself is meant again."""
    with subprocess.Popen(
        [sys.executable, "-c", SHORT + "time.sleep(60)", "echo ready", os.environ["PATH"]], cwd=ROOT,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert [process.stdout.readline() for _ in range(2)] == ["ready\n", "0\n"]
        process.terminate()
        assert "KeyboardInterrupt" in process.communicate(timeout=20)[1]
