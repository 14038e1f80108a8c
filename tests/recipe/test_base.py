"""`Dockerfile.base` builds from the context of any output directory, and gives the system alone."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, Built


def docker(*arguments: str | Path) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.long
def test_the_base_alone(built_example: Built) -> None:
    name = "reprobuild-test:base"
    context = built_example.out / "context"
    docker("build", "--network=none", "--file", ROOT / "Dockerfile.base", "--tag", name, context)
    try:
        shown = docker(
            "run", "--rm", "--network=none", "--pull=never", name,
            "dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n",
        )  # fmt: skip
    finally:
        docker("image", "rm", name)
    locked = [f"{deb.name} {deb.version}" for deb in built_example.lock.base.packages]
    assert sorted(shown.splitlines()) == sorted(locked)
