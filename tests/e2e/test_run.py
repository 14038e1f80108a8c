"""`run` by each engine, as a person calls it: directories, user, secrets, exit code; and what other users see of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.conftest import PROGRAM, Built, reprobuild
from tests.screen import screen

# No other test has it: the watch sees the command lines of all of them.
TOKEN = "ghp_" + "Q7wE2rT9yU4iO1pA6sD3fG8hJ5kL0zX2cV4b"
SCRIPT = (
    "pwd; echo ${#HF_TOKEN} ${#DOCKER_TOKEN} $REPROBUILD_SEED $SLURM_JOB_ID; echo x >made; echo x >/ro/no; "
    "df -m /dev/shm | tail -1 >shm; sleep 2; exit 5"
)


class Watch(threading.Thread):
    """Looks at every command line of the machine, as `ps` shows them, until it is told to stop."""

    def __init__(self, word: bytes) -> None:
        super().__init__(daemon=True)
        self.word, self.end, self.looks = word, threading.Event(), 0
        self.seen: list[bytes] = []

    def run(self) -> None:
        while not self.end.wait(0.02):
            for path in Path("/proc").glob("[0-9]*"):
                try:
                    line = (path / "cmdline").read_bytes()
                except OSError:  # it has ended
                    continue
                if self.word in line:
                    self.seen.append(line)
            self.looks += 1


def test_the_watch_sees_a_command_line() -> None:
    watch = Watch(b"visible-" + b"word")
    watch.start()
    reprobuild("show", "visible-" + "word")
    watch.end.set()
    watch.join()
    assert watch.seen


@pytest.mark.parametrize("engine", ["builtin", "docker", "podman", "apptainer"])
def test_run(
    engine: str, built_example: Built, podman_env: Mapping[str, str], apptainer_env: Mapping[str, str], tmp_path: Path
) -> None:  # fmt: skip
    env = {"builtin": os.environ, "docker": os.environ, "podman": podman_env, "apptainer": apptainer_env}[
        engine
    ]
    given = {**env, "HF_TOKEN": TOKEN, "DOCKER_TOKEN": TOKEN, "SLURM_JOB_ID": "11", "PRIVATE": "x"}
    watch = Watch(TOKEN.encode())
    watch.start()
    done = reprobuild(
        "run", built_example.out, "--engine", engine, "--seed", "7", "--workdir", "/work", "-v", f"{tmp_path}:/work",
        "-v", f"{tmp_path}:/ro:ro", "--secret", "HF_TOKEN", "--secret", "DOCKER_TOKEN", "--ulimit", "core=0", "--gpu",
        "none", "--", "sh", "-c", SCRIPT, env=given,
    )  # fmt: skip
    watch.end.set()
    watch.join()
    assert (done.returncode, done.stdout) == (5, f"/work\n{len(TOKEN)} {len(TOKEN)} 7 11\n"), done.stderr
    assert "Using seed: 7" in done.stderr
    assert "ead-only" in done.stderr
    made = (tmp_path / "made").stat()
    assert (made.st_uid, made.st_gid) == (os.geteuid(), os.getegid())
    assert not (tmp_path / "no").exists()
    assert int((tmp_path / "shm").read_text().split()[1]) >= 1024
    assert watch.looks > 5
    assert watch.seen == []
    assert TOKEN not in done.stderr


def test_a_shell(built_example: Built, tmp_path: Path) -> None:
    """Bash in the image, with its own prompt; Ctrl-D ends it, and what it left in a mounted directory stays."""
    words = (
        "--engine",
        "docker",
        "--gpu",
        "none",
        "--seed",
        "7",
        "-v",
        f"{tmp_path}:/work",
        "-it",
        "--",
        "bash",
        "--norc",
    )
    with screen([*PROGRAM, "run", str(built_example.out), *words], {**os.environ, "TERM": "xterm"}) as shown:
        shown.wait_for("Using seed: 7\r\n")
        shown.wait_for("# ")
        shown.type("python -c 'import random; print(random.random())' | tee /work/number\r")
        shown.wait_for("0.32383276483316237\r\n")
        shown.wait_for("# ")  # before its prompt, Bash does not take Ctrl-D for an end
        shown.type("\x04")
    assert shown.process.returncode == 0
    assert (tmp_path / "number").read_text() == "0.32383276483316237\n"


def test_a_folder_that_is_not_there(built_example: Built, tmp_path: Path) -> None:
    done = reprobuild(
        "run", built_example.out, "--engine", "docker", "-v", f"{tmp_path}/gone:/data", "--", "true"
    )
    assert done.returncode == 125
    assert "gone" in done.stderr
    assert not (tmp_path / "gone").exists()
