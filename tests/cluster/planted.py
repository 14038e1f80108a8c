"""Nodes of a real Slurm that are not as the others: what each computes, or does not, is really so.

The engine of each node is a real Apptainer behind a script that does what was planted for the node:

    odd     each process of Python in the container rounds downwards (`fesetround`), as a processor with a fault might
    hang    the container never ends
    die     the process that asked for the container is killed
    refuse  the engine is not there
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from reprobuild.cluster.aggregate import ClusterResult
from reprobuild.lock.model import Lock
from tests.conftest import PROGRAM, ROOT

NODES = ("n1", "n2", "n3")
PROBES = ("index_add", "layer_norm", "matmul_fp32")
SLURM = (sys.executable, str(ROOT / "dev" / "private_slurm.py"), "run")
PACKAGES = ROOT / "build" / "engines" / "slurm"
DOWNWARD = 0x400  # FE_DOWNWARD of <fenv.h> on x86-64
SECONDS = 1500

# A job that was given back is told for a moment more, as completing, until its nodes have ended what they ran.
SETTLED = 'for _ in $(seq 600); do test -n "$(squeue --noheader --states=CG)" || break; sleep 0.1; done\n'

ENGINE = """\
#!/bin/sh
kind=$(cat {plan}/$SLURMD_NODENAME 2>/dev/null)
test "$kind" != refuse || exit 1
case " $* " in
*" run "*|*" exec "*)
    case "$kind" in
    odd) export APPTAINER_BIND={folder}/planted.pth:/opt/env/lib/python{python}/site-packages/planted.pth ;;
    hang) exec sleep 100000 ;;
    die) kill -9 $PPID; exit 1 ;;
    esac ;;
esac
exec {real} "$@"
"""


@dataclass(frozen=True)
class Trial:
    """One check of three nodes: what is planted on which, whether in a job that is there already, and for how long.

    `collectives`: those between the nodes are run, too.
    """

    plan: Mapping[str, str]
    deadline: int = 600
    inside: bool = False
    collectives: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of it: the exit code, and what was found."""

    code: int
    cluster: ClusterResult
    said: str


class Cluster:
    """A directory with a planted engine, and an image to check with it.

    Args:
        folder: empty; all nodes see it.
        out: an output directory.
        env: leads to a real Apptainer.
    """

    def __init__(self, folder: Path, out: Path, lock: Lock, store: Path, env: Mapping[str, str]) -> None:
        self.folder, self.out, self.store = folder, out, store
        real = shutil.which("apptainer", path=env["PATH"])
        assert real
        (folder / "bin").mkdir()
        (folder / "plan").mkdir()
        (folder / "planted.pth").write_text(
            f'import ctypes; ctypes.CDLL("libm.so.6").fesetround({DOWNWARD})\n'
        )
        program = folder / "bin" / "apptainer"
        python = ".".join(lock.interpreter.version.split(".")[:2])
        program.write_text(
            ENGINE.format(plan=folder / "plan", folder=folder, python=python, real=shlex.quote(real))
        )
        program.chmod(0o755)
        self.env = {
            **env, "PATH": f"{folder / 'bin'}:{env['PATH']}", "DOCKER_HOST": "unix:///nonexistent/docker.sock",
            "PYTHONPATH": str(ROOT),
        }  # fmt: skip

    def run(self, trials: Sequence[Trial], more: str = "") -> list[Outcome]:
        """Do the trials one after the other on one new cluster, and then what a script says."""
        script = "".join(self._lines(number, trial) for number, trial in enumerate(trials)) + more
        argv = [*SLURM, "--folder", str(PACKAGES), "--", "bash", "-uc", script]
        done = subprocess.run(
            argv, cwd=self.folder, env=self.env, capture_output=True, text=True,
            timeout=SECONDS * max(1, len(trials)), check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return [self._outcome(number, done.stderr) for number in range(len(trials))]

    def _lines(self, number: int, trial: Trial) -> str:
        check = [
            *PROGRAM, "cluster", "run", str(self.out), "--engine", "apptainer", "--timeout", str(trial.deadline),
            "--store", str(self.store),
            "--no-controls", "--json", *(word for name in PROBES for word in ("--probe", name)),
            "--collectives" if trial.collectives else "--no-collectives",
        ]  # fmt: skip
        started = (
            ["salloc", "--quiet", "--nodes=3", "--exclusive", *check]
            if trial.inside
            else [*check, "--nodes", "3"]
        )
        plan = "".join(f"echo {kind} > plan/{node}\n" for node, kind in trial.plan.items())
        return (
            f"rm -f plan/*\n{plan}{shlex.join(started)} > {number}.json\n"
            f"echo $? > {number}.code\n{SETTLED}squeue --noheader >> left\n"
        )

    def _outcome(self, number: int, said: str) -> Outcome:
        answer = (self.folder / f"{number}.json").read_bytes()
        assert answer, said
        code = int((self.folder / f"{number}.code").read_text())
        return Outcome(code=code, cluster=msgspec.json.decode(answer, type=ClusterResult), said=said)


def named(cluster: ClusterResult) -> dict[str, set[str]]:
    """Return the probes in which each named node differs."""
    found: dict[str, set[str]] = {}
    for one in cluster.groups:
        for each in one.odd:
            found.setdefault(each.node, set()).add(each.answer.partition(" ")[0])
    return found


def prepare() -> None:
    """Fetch Slurm's packages, where they are not there yet."""
    done = subprocess.run(
        [*SLURM, "--folder", str(PACKAGES), "--", "true"],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ,
    )
    assert done.returncode == 0, done.stderr
