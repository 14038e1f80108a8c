"""The time of a recipe from HPCCM, neurodocker and repo2docker.

The packages are those of the same lock.

All are whole processes, from a file with the packages to a Dockerfile on standard output (ours also writes
Apptainer.def and pylock.toml). The others pin by name and version alone. Neither side resolves: our lock is given.
repo2docker is told not to build. The others are installed from PyPI into an environment of their own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.measure import PROGRAM, Figure, NotRunError, alternate, compare, time_process
from benchmarks.rendering import DEBS, MODULES, WHEELS, make_lock
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock

PAIRS = 9
PROJECTS = ("hpccm", "neurodocker", "jupyter-repo2docker")


def install(folder: Path) -> Path:
    """Return the directory of the programs.

    They are installed below `folder` at the first call.

    Raises:
        NotRunError: they cannot be had.
    """
    programs = folder / "bin"
    if not all((programs / name).exists() for name in PROJECTS):
        # Debian's venv has no pip without python3-venv; this one's pip installs into the other.
        into = ["-m", "pip", "--python", str(programs / "python"), "--quiet", "install", *PROJECTS]
        for step in (["-m", "venv", "--without-pip", str(folder)], into):
            done = subprocess.run([sys.executable, *step], capture_output=True, text=True, check=False)
            if done.returncode:
                raise NotRunError(f"`python {step[0]} {step[1]}` failed: {done.stderr.strip()[-200:]}")
    return programs


def commands(lock: Lock, programs: Path, folder: Path) -> dict[str, list[str]]:
    """Return each program's command to write a Dockerfile.

    It has the packages of a lock.
    """
    wheels = [f"{wheel.name}=={wheel.version}" for wheel in lock.wheels]
    debs = [f"{deb.name}={deb.version}" for deb in lock.base.packages]
    (folder / "recipe.py").write_text(
        f"Stage0 += baseimage(image='debian:bookworm', _distro='debian12')\nStage0 += apt_get(ospackages={debs})\n"
        f"Stage0 += pip(packages={wheels}, pip='pip3')\n"
    )
    (folder / "project").mkdir()
    (folder / "project" / "requirements.txt").write_text("\n".join(wheels) + "\n")
    return {
        "hpccm": [str(programs / "hpccm"), "--recipe", str(folder / "recipe.py")],
        "neurodocker": [
            str(programs / "neurodocker"), "generate", "docker", "--pkg-manager", "apt", "--base-image",
            "debian:bookworm", "--install", " ".join(debs), "--run", f"pip install {' '.join(wheels)}",
        ],
        "repo2docker": [
            str(programs / "jupyter-repo2docker"), "--no-build", "--no-run", "--debug", str(folder / "project"),
        ],
    }  # fmt: skip


def measure(folder: Path, wheels: int = WHEELS, debs: int = DEBS, pairs: int = PAIRS) -> list[Figure]:
    """Return a ratio for each of the others.

    Args:
        folder: the directory of their installation, which stays.

    Raises:
        NotRunError: they cannot be had.
    """
    programs = install(folder / "peers")
    with tempfile.TemporaryDirectory(prefix="reprobuild-bench-") as scratch:
        place = Path(scratch)
        lock = make_lock(wheels, debs)
        write_lock(lock, place / "reprobuild.lock")
        ours = [*PROGRAM, "render", str(place / "reprobuild.lock"), "-o", str(place / "out")]
        figures = []
        for name, argv in commands(lock, programs, place).items():
            both = alternate(partial(time_process, ours), partial(time_process, argv), pairs)
            title = f"`reprobuild render`, {wheels} wheels"
            figures.append(
                compare(
                    title,
                    *both,
                    name,
                    modules=(*MODULES, "reprobuild/cli", "reprobuild/pipeline"),
                )
            )
    return figures
