"""Trackers and package managers from the index, each group in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# `pkg_resources`, which guild and sacred import, left setuptools with 81.
_RESOURCES = "setuptools<81"
GROUPS = {
    "trackers": (
        "wandb==0.31.0", "sacred==0.8.7", "hydra-core==1.3.8", "mlflow-skinny==3.17.2", "numpy", "pandas", _RESOURCES,
    ),
    "old": ("wandb==0.18.7", _RESOURCES),
    "guild": ("guildai==0.9.0", "pip", _RESOURCES),
    "dvc": ("dvc==3.67.1",),
    "poetry": ("poetry==2.5.1",),
    "pdm": ("pdm==2.29.4", "hishel>=1,<2", "unearth==0.19.0"),
    "conda-lock": ("conda-lock==4.0.3",),
    "pipenv": ("pipenv==2026.10.3",),
}  # fmt: skip


class Tools:
    """Programs of the groups, which are installed when the first of their programs runs."""

    def __init__(self, home: Path) -> None:
        """Keep the environments, and a home directory for the programs, below a directory."""
        self._home = home

    def run(self, group: str, program: str, *words: str, cwd: Path, **variables: str) -> None:
        """Run a program of a group in a directory.

        Args:
            group: a key of GROUPS.
            program: its name in `bin`.
            words: its arguments.
            cwd: the directory.
            variables: further environment variables.
        """
        environment = self._home / group
        if not environment.exists():
            uv = [sys.executable, "-m", "uv", "-q"]
            subprocess.run([*uv, "venv", "--python", sys.executable, str(environment)], check=True)
            python = str(environment / "bin" / "python")
            subprocess.run([*uv, "pip", "install", "--python", python, *GROUPS[group]], check=True)
        home = self._home / "home"
        home.mkdir(exist_ok=True)
        known = {"HOME": str(home), "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}
        left = {"VIRTUAL_ENV", "PYTHONPATH", "UV_PYTHON_DOWNLOADS_JSON_URL"}
        inherited = {name: value for name, value in os.environ.items() if name not in left}
        done = subprocess.run(
            [str(environment / "bin" / program), *words],
            cwd=cwd, env=inherited | known | variables, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
