"""`reprobuild doctor` as people call it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.conftest import reprobuild
from tests.doctor.test_fitting import certificate, copied, lock_of
from tests.doctor.test_host import programs

ALONE = {**os.environ, "PATH": "/nonexistent", "DOCKER_HOST": "unix:///nonexistent/docker.sock"}


def test_a_bare_machine(tmp_path: Path) -> None:
    done = reprobuild("doctor", "--offline", "--store", tmp_path / "store", env={**ALONE, "COLUMNS": "90"})
    assert done.returncode == 6, done.stderr
    assert done.stderr.endswith(" s] looking at this machine\n")
    assert "problem    sandbox " in done.stdout
    assert "ok         builtin " in done.stdout  # it needs no program on PATH
    assert "not-asked  services " in done.stdout
    assert "not-asked  indexes " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("this machine: it is not ready (")
    assert not (tmp_path / "store").exists()
    marked = [line.split()[0] for line in done.stdout.splitlines() if line[:1].isalpha()]
    assert f"({marked.count('problem')} problem, {marked.count('warning')} warning" in done.stdout
    assert max(map(len, done.stdout.splitlines())) > 90  # a pipe has no width, whatever COLUMNS says


@pytest.mark.parametrize("option", [[], ["--json"]])
def test_for_an_image(option: list[str], tmp_path: Path) -> None:
    out = copied(tmp_path, lock_of(), None)
    done = reprobuild("doctor", out, "--store", tmp_path / "store", *option, env=ALONE)
    assert done.returncode == 9
    assert done.stderr.endswith(" s] looking at this machine\n")
    if not option:
        assert done.stdout.splitlines()[-1].startswith(
            f"this machine for {out}: it may not do, as some findings could not be judged ("
        )
        return
    found = json.loads(done.stdout)
    assert found["state"] == "unknown"
    assert {one["name"]: one["state"] for one in found["findings"]}["verdict"] == "unknown"
    assert found["host"]["system"] == "Linux"


def test_what_cannot_be_judged(tmp_path: Path) -> None:
    done = reprobuild("doctor", tmp_path / "gone")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: there is no file or directory {tmp_path / 'gone'}\n\n"
        "hint: name an output directory of `reprobuild from-snapshot`, or a reprobuild.lock\n"
    )
    done = reprobuild("doctor", tmp_path)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr.startswith("error: there is no lock at ")
    out = copied(tmp_path, lock_of(), certificate())
    assert reprobuild("doctor", out).returncode == 2
    done = reprobuild("doctor", "--offline", "--service", "no-such=https://made.test/")
    assert done.returncode == 2
    assert "there is no service named 'no-such'" in done.stderr


def test_an_error_of_docker_has_no_login_in_json(tmp_path: Path) -> None:
    env = programs(tmp_path / "bin", docker='echo "cannot connect to $DOCKER_HOST" >&2; exit 1')
    env = {**os.environ, **env, "DOCKER_HOST": "tcp://ada:hunter2xQ81kd@127.0.0.1:1"}
    done = reprobuild("doctor", "--offline", "--store", tmp_path / "store", "--json", env=env)
    assert "cannot connect to tcp://127.0.0.1:1" in done.stdout, done.stderr
    assert "hunter2x" not in done.stdout
