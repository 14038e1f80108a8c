"""What people type wrongly: each message has the cause, the place and a next command, and the command is followed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SNAPSHOT = ROOT / "examples" / "cpu-train" / "snapshot"
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command line in a directory with what people have; `sh` runs a line of a hint."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": str(tmp_path / "home"),
        "PYTHONPATH": str(ROOT), "DOCKER_HOST": "unix:///nowhere",
    }  # fmt: skip
    for name, text in {
        "typed/requirements.txt": "numpy==1.26.4\n",
        "mine/note.txt": "x",
        "uv/uv.lock": "version = 1\n",
        "poetry/poetry.lock": "",
        "yaml/bad.yaml": "sorces:\n  a: b\n",
        "verdict.json": '{"version": 3, "made": "x"}',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "empty").mkdir()
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "snapshot").symlink_to(SNAPSHOT)
    with tarfile.open(tmp_path / "snap.tar.gz", "w:gz") as archive:
        archive.add(SNAPSHOT, ".")

    def call(*argv: str, sh: str = "") -> subprocess.CompletedProcess[str]:
        words = ["sh", "-ec", sh] if sh else [sys.executable, "-m", "reprobuild.cli", *argv]
        return subprocess.run(
            words,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


CAPTURE = (
    "take one with `reprobuild capture -o DIR`, or name the directory that holds env.txt and requirements.txt"
)
CLONE = "clone it, activate its environment, and take a snapshot there: `reprobuild capture -o DIR`"
BASE = "write it as debian/bookworm or ubuntu/jammy"
UNPACK = "unpack it, and name the directory: `mkdir snapshot && tar -C snapshot -xf snap.tar.gz`"
MISTAKES: list[tuple[str, int, str, str]] = [
    ("show https://github.com/a/b", 3, "`https:/github.com/a/b` is an address", CLONE),
    ("show git@github.com:a/b", 3, "`git@github.com:a/b` is an address", CLONE),
    ("show nosuch", 3, "there is no directory `nosuch`", CAPTURE),
    ("show empty", 3, "`empty` is empty", CAPTURE),
    ("show mine", 3, "nothing captured in `mine`", CAPTURE),
    ("show outer", 3, "nothing captured in `outer`", "did you mean `outer/snapshot`?"),
    ("show snap.tar.gz", 3, "`snap.tar.gz` is an archive", UNPACK),
    ("show typed/requirements.txt", 3, "`typed/requirements.txt` is a file", "name the directory that it stands in"),
    ("show uv", 3, "nothing captured in `uv`: uv.lock is not read", "uv export --frozen --directory uv"),
    ("show poetry", 3, "in `poetry`: poetry.lock is not read", "`pip freeze --all > poetry/requirements.txt`"),
    ("show typed --python 3", 2, "'3' is not a version of Python", "write it as 3.11 or 3.11.2"),
    ("show typed --base ubuntu", 2, "`base: ubuntu` is not a distribution and a release", "debian/bookworm"),
    ("from-snapshot typed --base ubuntu", 2, "`base: ubuntu` is not a", BASE),
    ("from-snapshot typed --engine docker", 6, "no container engine answers", "ask `reprobuild doctor` what is"),
    ("show typed --decisions yaml/bad.yaml", 2, "yaml/bad.yaml: Object contains unknown field `sorces`", "`sources`?"),
    ("show typed --decisions nosuch.yaml", 2, "nosuch.yaml cannot be read: No such file", "check the path"),
    ("show typed --profile strikt", 2, "there is no profile 'strikt'", "name one of"),
    ("show typed --seed banana", 2, "'banana' is not a whole number from 0 to 4294967295", "reprobuild show --help"),
    ("run frozen --seed -1 -- true", 125, "'-1' is not a whole number from 0 to 4294967295", "reprobuild run --help"),
    ("run frozen true", 125, "the command to run stands after `--`, and there is no `--`", "reprobuild run --help"),
    ("run frozen -- true", 125, "there is no directory frozen", "build one with `reprobuild from-snapshot DIR -o OUT`"),
    ("verify typed", 2, "typed holds no image", "build one with `reprobuild from-snapshot DIR -o OUT`"),
    ("verify frozen --only probs", 2, "'probs' is not one of", "reprobuild verify --help"),
    ("verify frozen --only probes --no-probes", 2, "--only and --no-probes are given", "leave --no-probes out"),
    ("build verdict.json", 4, "verdict.json is not a lock: it names no interpreter", "`reprobuild lock DIR`"),
    ("build nosuch.lock", 4, "there is no lock at nosuch.lock", "make one with `reprobuild lock DIR`"),
    ("build typed", 4, "typed is a directory, and no lock", "make one with `reprobuild lock DIR`"),
    ("lock typed -o empty", 2, "empty is a directory", "name a file in it: -o empty/reprobuild.lock"),
    ("compare nosuch here", 6, "there is no file 'nosuch'", "give a snapshot, a lock, an output directory, an image"),
    ("verfy frozen", 2, "No such command 'verfy'", "did you mean `verify`?"),
    ("snapsho typed", 2, "No such command 'snapsho'", "did you mean `from-snapshot`?"),
    ("show typed --sorce a=b", 2, "No such option '--sorce'", "did you mean `--source`?"),
    ("show", 2, "Missing argument 'DIR'", "reprobuild show --help"),
    ("unbundle typed/requirements.txt -o new", 11, "typed/requirements.txt is no bundle", "is it a file that"),
    ("push frozen", 2, "Missing argument", "reprobuild push --help"),
    ("store gx", 2, "No such command 'gx'", "reprobuild store --help"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "code", "cause", "step"), MISTAKES, ids=[row[0] for row in MISTAKES])
def test_a_mistake_is_told_with_its_cause_and_a_next_step(
    line: str, code: int, cause: str, step: str, run: Run
) -> None:
    done = run(*line.split())
    error, _, hint = done.stderr.partition("hint: ")
    assert done.returncode == code, done.stderr
    assert cause in error
    assert hint.strip(), "no hint"
    assert step in hint
    assert "Traceback" not in done.stderr
    assert not re.search(r"--accept (?!LINE)\S*unknown", done.stderr), "it offers to leave out what is needed"


@pytest.mark.parametrize("line", ["show snap.tar.gz", "show outer"])
def test_the_hint_leads_to_the_snapshot(line: str, run: Run) -> None:
    hint = run(*line.split()).stderr.partition("hint: ")[2]
    (command,) = re.findall(r"`([^`]*)`", hint)
    if line.endswith(".gz"):
        assert run(sh=command).returncode == 0
        command = "snapshot"
    done = run("show", command)
    assert done.returncode == 0, done.stderr
    assert "49 distributions" in done.stdout


def test_the_hint_for_a_lock_of_uv_leads_to_a_snapshot(run: Run, tmp_path: Path) -> None:
    project = '[project]\nname = "job"\nversion = "1"\nrequires-python = ">=3.10"\n'
    (tmp_path / "uv" / "pyproject.toml").write_text(project)
    (tmp_path / "uv" / "uv.lock").unlink()
    assert run(sh="uv lock --offline --directory uv").returncode == 0
    (command,) = re.findall(r"`(uv export[^`]*)`", run("show", "uv").stderr)
    done = run(sh=command)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "uv" / "requirements.txt").is_file()
    assert run("show", "uv").returncode == 0
