"""`capture` in jobs of a real Slurm with three nodes, with modules of a real Lmod: `dev/private_slurm.py`."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprobuild.snapshot.read import read_snapshot
from reprobuild_runtime import capture
from tests.capture.repositories import BASE, ENV, PROGRAM, ROOT, document
from tests.conftest import reprobuild

SLURM = (sys.executable, str(ROOT / "dev" / "private_slurm.py"), "run")
PACKAGES = ROOT / "build" / "engines" / "slurm"
LMOD = ". /usr/share/lmod/lmod/init/bash"
CAPTURE = f"{BASE} {PROGRAM}"
# A busy controller can fail to answer: the job is over when it answers with no line.
WAIT = 'until test "$(squeue --noheader --jobs $number 2>&1 || echo failed)" = ""; do sleep 0.1; done'
Cluster = Callable[[str], str]


@pytest.fixture(scope="session")
def packages() -> Path:
    """The directory of Slurm's packages, which are downloaded the first time."""
    argv = [*SLURM, "--folder", str(PACKAGES), "--", "true"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stderr
    return PACKAGES


@pytest.fixture
def cluster(packages: Path, tmp_path: Path) -> Cluster:
    """What runs a script of Bash on a new cluster, in an empty directory, and returns its standard output."""

    def run(script: str) -> str:
        argv = [*SLURM, "--folder", str(packages), "--", "bash", "-euc", script]
        done = subprocess.run(
            argv, cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=500, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return run


def plant_modules(folder: Path) -> Path:
    """Make a tree of modules as a site has them."""
    for name, words in {
        "cuda/12.4": 'setenv("CUDA_HOME", "/opt/cuda-12.4")\nprepend_path("LD_LIBRARY_PATH", "/opt/cuda-12.4/lib64")\n',
        "openmpi/4.1": 'depends_on("cuda/12.4")\nprepend_path("PATH", "/opt/openmpi-4.1/bin")\n',
    }.items():
        path = folder / f"{name}.lua"
        path.parent.mkdir(parents=True)
        path.write_text(words)
    return folder


def is_whole(folder: Path) -> dict[str, Any]:
    """Make sure that a snapshot is there, with nothing half done beside it; return what it says."""
    said = document(folder)
    outcomes = {name: part["outcome"] for name, part in said["parts"].items()}
    assert set(outcomes.values()) <= {"done", "not-there"}, outcomes
    assert {"env.txt", "env.nul", "requirements.txt", "capture.json"} <= {p.name for p in folder.iterdir()}
    assert [path.name for path in folder.parent.glob(".*")] == []
    return said


def test_the_job_script_of_the_documentation(cluster: Cluster, tmp_path: Path) -> None:
    modules = plant_modules(tmp_path / "modules")
    (tmp_path / "job.sh").write_text(
        f"#!/bin/bash\n#SBATCH --nodes=3 --ntasks=3 --job-name=train --output={tmp_path}/job.out\n"
        f"{LMOD}\nmodule use {modules}\nmodule load openmpi/4.1\nmodule list 2> {tmp_path}/modules.txt\n"
        f"{CAPTURE} -o {tmp_path}/repro/$SLURM_JOB_ID\n"
        "srun sh -c 'echo rank $SLURM_PROCID on $SLURMD_NODENAME'\n"
    )
    number = cluster(f"number=$(sbatch --parsable job.sh)\n{WAIT}\necho $number").strip()
    out = (tmp_path / "job.out").read_text().splitlines()
    assert sorted(line for line in out if line.startswith("rank")) == [
        f"rank {n} on n{n + 1}" for n in range(3)
    ]
    folder = tmp_path / "repro" / number
    said = is_whole(folder)
    job = said["scheduler"]["slurm"]
    names = ("SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_NTASKS", "SLURM_JOB_NAME", "SLURM_JOB_PARTITION")
    assert [job[name] for name in names] == [number, "n[1-3]", "3", "train", "p"]
    assert said["modules"]["loaded"] == ["cuda/12.4", "openmpi/4.1"]
    assert said["modules"]["system"] == "lmod"
    assert said["modules"]["files"] == [f"{modules}/cuda/12.4.lua", f"{modules}/openmpi/4.1.lua"]
    assert said["command"]["processes"][0]["program"] == "slurm_script"

    snapshot = read_snapshot(folder)
    recipe = tmp_path / "recipe"  # what Lmod itself prints is read alike
    recipe.mkdir()
    shutil.copy(tmp_path / "modules.txt", recipe)
    assert [module.name for module in snapshot.modules] == [
        module.name for module in read_snapshot(recipe).modules
    ]
    shown = reprobuild("show", folder, "--json", env={**os.environ})
    assert shown.returncode == 0, shown.stderr
    assert "openmpi/4.1" in shown.stdout
    assert "CUDA_HOME=/opt/cuda-12.4\n" in (folder / "env.txt").read_text()


@pytest.mark.parametrize("ranks", [3, 24])
def test_of_all_ranks_one_captures(ranks: int, cluster: Cluster, tmp_path: Path) -> None:
    cluster(
        f"srun --nodes=3 --ntasks={ranks} --kill-on-bad-exit sh -c "
        f"'{CAPTURE} -o repro/$SLURM_JOB_ID --json > said.$SLURM_PROCID'"
    )
    said = [json.loads((tmp_path / f"said.{rank}").read_text()) for rank in range(ranks)]
    assert sum(one["captured"] for one in said) == 1
    notes = {one["note"] for one in said if not one["captured"]}
    assert notes <= {capture.ALREADY_TAKEN, capture.BEING_TAKEN}
    (folder,) = (tmp_path / "repro").iterdir()
    assert is_whole(folder)["scheduler"]["slurm"]["SLURM_NTASKS"] == str(ranks)


def test_the_call_in_a_training_script(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        f"import os, sys\nsys.path.insert(0, {str(PROGRAM.parent)!r})\nfrom capture import capture\n"
        "found = capture('repro')\n"
        "print('captured' if found['captured'] else 'not', os.environ['SLURM_PROCID'], len(sys.argv))\n"
    )
    lines = cluster(f"srun --nodes=3 --ntasks=6 {BASE} train.py --lr 0.1 2>&1").splitlines()
    assert sorted(line.split()[0] for line in lines) == ["captured", *["not"] * 5]
    said = is_whole(tmp_path / "repro")
    assert said["command"]["argv"] == ["train.py", "--lr", "0.1"]
    assert said["command"]["processes"][1]["program"] == "slurmstepd"


@pytest.mark.parametrize("prolog", ["prolog", "task-prolog"])
def test_a_prolog(prolog: str, cluster: Cluster, tmp_path: Path) -> None:
    """The administrators' script on each node, and the one for each task, whose output Slurm reads as settings."""
    said = cluster(
        f"printf '#!/bin/sh\\n{CAPTURE} -o {tmp_path}/repro/$SLURM_JOB_ID\\n' > /run/slurm/{prolog}\n"
        "srun --nodes=3 --ntasks=6 --label sh -c 'echo done'"
    )
    assert sorted(said.splitlines()) == [f"{rank}: done" for rank in range(6)]
    (folder,) = (tmp_path / "repro").iterdir()
    assert is_whole(folder)["scheduler"]["slurm"]["SLURM_JOB_ID"] == folder.name


def test_a_job_that_is_cancelled_leaves_no_half_folder(cluster: Cluster, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "nvidia-smi"
    fake.parent.mkdir()
    fake.write_text(f"#!/bin/sh\ntouch {tmp_path}/begun\nexec sleep 1000\n")
    fake.chmod(0o755)
    (tmp_path / "scratch").mkdir()
    (tmp_path / "repro").mkdir()
    (tmp_path / "job.sh").write_text(
        f"#!/bin/bash\n#SBATCH --output={tmp_path}/job.out\nexport PATH={fake.parent}:$PATH TMPDIR={tmp_path}/scratch\n"
        f"{CAPTURE} -o {tmp_path}/repro/$SLURM_JOB_ID\n"
    )
    said = cluster(
        "number=$(sbatch --parsable job.sh)\n"
        "while ! test -e begun; do sleep 0.05; done\n"
        "ls -A repro\n"
        "scancel $number\n"
        f"{WAIT}\n"
        # Slurm follows no process whose parent has ended, so the job can be over before the capture is.
        "for _ in $(seq 100); do\n"
        "  left=$(ls -A repro scratch; grep -lx sleep /proc/[0-9]*/comm || true)\n"
        '  test "$(echo $left)" = "repro: scratch:" && break\n'
        "  sleep 0.1\n"
        "done\n"
        "echo left: $left\n"
    )
    number = said.splitlines()[0].split(".")[1]
    assert said.splitlines() == [f".{number}.capturing", "left: repro: scratch:"]


def test_what_kills_the_cluster_leaves_nothing(packages: Path, tmp_path: Path) -> None:
    """The control of all the others: the daemons are there, and they go with a program that could not end them."""
    argv = [*SLURM, "--folder", str(packages), "--", "sh", "-c", "echo ready; exec sleep 1000"]
    with subprocess.Popen(argv, cwd=tmp_path, env=ENV, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        wanted, below, deadline = {"munged", "slurmctld", "slurmd", "sleep"}, [], time.monotonic() + 20
        while wanted - {name_of(pid) for pid in below} and time.monotonic() < deadline:
            below = descendants(program.pid)  # `sh` may not have become `sleep` yet
        names = {name_of(pid) for pid in below}
        program.send_signal(signal.SIGKILL)
    assert wanted <= names
    deadline = time.monotonic() + 60
    while any(map(lives, below)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(lives, below))
    assert not Path("/run/slurm/slurm.conf").exists()


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def descendants(pid: int) -> list[int]:
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]
