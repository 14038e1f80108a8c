"""The main job's image in Apptainer: the same verdict, and the same bytes, as in Docker."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from reprobuild.verify.verdict import Verdict
from tests.conftest import Built, reprobuild


def test_every_check_says_in_apptainer_what_it_says_in_docker(
    built_example: Built, apptainer_env: Mapping[str, str], tmp_path: Path
) -> None:
    out = built_example.copy(tmp_path / "out")
    before = msgspec.json.decode(built_example.certificate, type=Verdict)
    (out / "verdict.json").unlink()
    env = {**apptainer_env, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    done = reprobuild("verify", out, "--engine", "apptainer", "--json", env=env)
    assert done.returncode == 0, done.stderr
    assert f"loaded {built_example.image.reference} into apptainer" in done.stderr
    said = json.loads(done.stdout)["verdict"]
    assert said == {
        "determinism": {"cpu": "identical", "gpu": "not-applicable", "collectives": "identical"},
        "round_trip": "explained",
    }
    after = msgspec.json.decode((out / "verdict.json").read_bytes(), type=Verdict)
    assert after.comparisons == before.comparisons  # with the digest of what was computed

    run = reprobuild("run", out, "--engine", "apptainer", "--seed", "7", "--", "sh", "-c", RUN, env=env)
    assert (run.returncode, run.stdout) == (3, f"{built_example.lock.workdir} 7\n")
    assert "Using seed: 7" in run.stderr


RUN = 'echo "$PWD $REPROBUILD_SEED"; exit 3'
