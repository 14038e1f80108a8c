"""`Dockerfile.base` builds from the context of any folder of results, and gives the system alone."""

from __future__ import annotations

import subprocess

from tests.conftest import ROOT, Built


def test_the_base_alone(built_example: Built) -> None:
    name = "reprobuild-test:base"
    context = built_example.out / "context"
    subprocess.run(
        ["docker", "build", "--network=none", "--file", ROOT / "Dockerfile.base", "--tag", name, context],
        capture_output=True, check=True,
    )  # fmt: skip
    try:
        shown = subprocess.run(
            ["docker", "run", "--rm", "--network=none", "--pull=never", name,
             "dpkg-query", "--show", "--showformat", "${Package} ${Version}\\n"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    finally:
        subprocess.run(["docker", "image", "rm", name], capture_output=True, check=True)
    locked = [f"{deb.name} {deb.version}" for deb in built_example.lock.base.packages]
    assert sorted(shown.stdout.splitlines()) == sorted(locked)
