"""Signals that `run` gets are for its job: heard once, answered by the job's own exit code, and not for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from reprobuild.image.build import Image
from reprobuild.lock import write_lock
from tests.conftest import PROGRAM, ROOT
from tests.verify.samples import make_lock

HEARS = """#!/bin/sh
trap 'echo USR1' USR1
trap 'echo USR2' USR2
trap 'echo INT; exit 8' INT
trap 'echo HUP; exit 9' HUP
trap '{term}' TERM
echo ready $$
while :; do sleep 0.02; done
"""
SAVES = "echo TERM; exit 7"


@contextmanager
def job(folder: Path, term: str = SAVES) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run by an srun that says what it hears; give `run`, alone in its group of processes, and the pid of that srun."""
    (folder / "bin").mkdir()
    (folder / "bin" / "srun").write_text(HEARS.format(term=term))
    (folder / "bin" / "srun").chmod(0o755)
    lock = make_lock()
    (folder / "out").mkdir()
    write_lock(lock, folder / "out" / "reprobuild.lock")
    image = Image(
        layout="image", reference="reprobuild:test", tree="sha256:1", config="sha256:2", manifest="sha256:3", layers=1,
        lock=lock.digest,
    )  # fmt: skip
    (folder / "out" / "image.json").write_bytes(msgspec.json.encode(image))
    with subprocess.Popen(
        [*PROGRAM, "run", str(folder / "out"), "--engine", "apptainer", "--srun", "", "--", "true"], cwd=ROOT,
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
        assert hear(process, signal.SIGTERM) == "TERM\n"
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 7


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGHUP, signal.SIGTERM])
def test_a_job_that_is_asked_to_end_answers_by_its_code(signum: signal.Signals, tmp_path: Path) -> None:
    """Also where the terminal goes away; and srun, which takes one Ctrl-C for a question, is asked to end."""
    with job(tmp_path) as (process, _):
        assert hear(process, signum) == "TERM\n"
        assert process.communicate(timeout=20) == ("", "")
    assert process.returncode == 7


def test_a_second_ctrl_c_ends_at_once(tmp_path: Path) -> None:
    with job(tmp_path, term="echo not yet") as (process, pid):
        assert hear(process, signal.SIGINT) == "not yet\n"
        assert hear(process, signal.SIGTERM) == "not yet\n"
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.lstrip().startswith("error: interrupted\n")
    assert not Path("/proc", str(pid)).exists()


SHORT = """
import sys, time
from reprobuild.cli.interrupt import listen
from reprobuild.proc import Handing, stream
listen()
def sink(number, data):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()
handing = Handing(seconds=0.2)
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
