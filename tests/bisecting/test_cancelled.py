"""A search that a signal ends leaves no container and no process, and the next one goes on from there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.lock.file import write_lock
from tests.bisecting.small import PROLOGUE, Bench
from tests.bisecting.test_together import command_line
from tests.conftest import PROGRAM

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs engines")

ENDED = 6  # runs, before the others hang: A and B twice, and two trials
# Each run that begins leaves a file, and each that ends a line that identifies its mixture.
SCRIPT = (
    PROLOGUE + "import tempfile, time\nbegun = len(os.listdir('/log/begun'))\n"
    "tempfile.mkstemp(dir='/log/begun')\n"
    f"time.sleep(300 if begun >= {ENDED} and not os.path.exists('/log/quick') else 0)\n"
    "files = [(n, open('/src/tool/' + n).read()) for n in sorted(os.listdir('/src/tool'))]\n"
    "names = 'PYTHONPATH GONE NEW LD_PRELOAD REPROBUILD_SEED REPROBUILD_PROFILE'.split()\n"
    "line = repr((alpha, beta, delta, v('gamma'), v('epsilon'), omp, list(map(e, names)), files, os.getcwd(),"
    " os.stat('/opt/env/bin').st_mtime))\n"
    "open('/log/ended', 'a').write(line + chr(10))\n"
    "sys.exit(alpha == 2 and omp == '4')\n"
)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> tuple[str, Mapping[str, str]]:
    """The name of an engine, and the environment that leads to it."""
    name = str(request.param)
    return name, os.environ if name == "builtin" else request.getfixturevalue(f"{name}_env")


def containers(name: str, env: Mapping[str, str]) -> str:
    """Return what podman has; the processes of the others are all that they have."""
    if name != "podman":
        return ""
    argv = ["podman", "ps", "--all", "--external", "--quiet"]
    return subprocess.run(argv, env=dict(env), capture_output=True, text=True, check=True).stdout


def processes(mark: str) -> list[bytes]:
    """Return the command lines with a mark; the kernel removes those of killed containers a moment later."""
    deadline = time.monotonic() + 10
    while True:
        found = [line for line in map(command_line, Path("/proc").glob("[1-9]*")) if mark.encode() in line]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("engine", "signum", "jobs"),
    [
        ("builtin", signal.SIGINT, 1),
        ("builtin", signal.SIGTERM, 1),
        ("builtin", signal.SIGTERM, 3),
        # Each takes a minute: `pytest --long`.
        pytest.param("podman", signal.SIGINT, 1, marks=pytest.mark.long),
        pytest.param("podman", signal.SIGTERM, 1, marks=pytest.mark.long),
        pytest.param("podman", signal.SIGTERM, 3, marks=pytest.mark.long),
        pytest.param("apptainer", signal.SIGINT, 1, marks=pytest.mark.long),
        pytest.param("apptainer", signal.SIGTERM, 1, marks=pytest.mark.long),
        pytest.param("apptainer", signal.SIGTERM, 3, marks=pytest.mark.long),
    ],
    indirect=["engine"],
)
def test_a_signal_ends_all(
    bench: Bench, tmp_path: Path, engine: tuple[str, Mapping[str, str]], signum: signal.Signals, jobs: int
) -> None:
    name, env = engine
    before = containers(name, env)
    for file, lock in (("a.lock", bench.first), ("b.lock", bench.second)):
        write_lock(lock, tmp_path / file)
    (tmp_path / "log" / "begun").mkdir(parents=True)
    (tmp_path / "tmp").mkdir()
    mark = f"{time.time_ns()}"  # of this search
    arguments = (
        *PROGRAM, "bisect", str(tmp_path / "a.lock"), str(tmp_path / "b.lock"), "--json", "--store", str(bench.store),
        "--offline", "--engine", name, "-j", f"{jobs}", "-v", f"{tmp_path / 'log'}:/log:rw", "--",
        "python", "-c", SCRIPT, mark,
    )  # fmt: skip
    own = {**env, "TMPDIR": str(tmp_path / "tmp")}
    process = subprocess.Popen(
        arguments, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 400
    while len(list((tmp_path / "log" / "begun").iterdir())) < ENDED + jobs and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.send_signal(signum)
    output, errors = process.communicate(timeout=100)
    assert process.returncode == 130, errors
    assert json.loads(output)["error"]["message"] == "interrupted"
    assert processes(mark) == []
    assert containers(name, env) == before
    assert list((tmp_path / "tmp").iterdir()) == []
    (tmp_path / "log" / "quick").touch()
    done = subprocess.run(arguments, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    assert sorted(document["differences"][number]["name"] for number in document["guilty"]) == [
        "OMP_NUM_THREADS", "alpha",
    ]  # fmt: skip
    assert document["remembered"] == ENDED
    ended = Counter((tmp_path / "log" / "ended").read_text().splitlines())
    assert sorted(ended.values())[-3:] == [1, 2, 2]  # A and B
    assert containers(name, env) == before
