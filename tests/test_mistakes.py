"""What people type wrongly: each message has the cause, the place and a next command, and the command is followed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.engines import gpu
from reprobuild.engines.cdi import find_edits
from reprobuild.errors import EngineError
from reprobuild.lock.file import write_lock
from tests.verify.samples import make_lock, wheel

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
        "broken.zip": "PK",
        "trained/image.json": "{}",
        "verdict.json": '{"version": 3, "made": "x"}',
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    for name, project in (("a.lock", "torch"), ("b.lock", "numpy")):
        write_lock(make_lock(wheels=(wheel(project),)), tmp_path / name)
    (tmp_path / "empty").mkdir()
    (tmp_path / "outer").mkdir()
    (tmp_path / "outer" / "snapshot").symlink_to(SNAPSHOT)
    (tmp_path / "image.tar").write_bytes(bytes(10240))
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
COMPARE = "`reprobuild compare"
BASE = "write it as debian/bookworm or ubuntu/jammy"
UNQUOTED = (
    "name the output directory first, and quote the whole command: "
    "`reprobuild verify OUT --workload 'python t.py'`"
)
MISTAKES: list[tuple[str, int, str, str]] = [
    ("show https://github.com/a/b", 3, "`https:/github.com/a/b` is an address", CLONE),
    ("show git@github.com:a/b", 3, "`git@github.com:a/b` is an address", CLONE),
    ("from-snapshot typed -o typed", 2, "typed is the snapshot, and the image would be",
     "name another directory: -o typed-frozen"),
    ("show a.lock", 3, "`a.lock` is a lock of reprobuild", "build its image: `reprobuild build a.lock -o OUT`"),
    ("show nosuch", 3, "there is no directory or file `nosuch`", CAPTURE),
    ("show typed/requirments.txt", 3, "no directory or file `typed/requirments.txt`", "mean `typed/requirements.txt`?"),
    ("run frozen --nv -- python -c pass", 125, "No such option '--nv'",
     "`--gpu auto` gives the command all GPUs, and is the default: `reprobuild run frozen -- python -c pass`"),
    ("show typed --verbose", 2, "No such option '--verbose'", "`reprobuild show typed --json`"),
    ("show empty", 3, "`empty` is empty", CAPTURE),
    ("show mine", 3, "nothing captured in `mine`", CAPTURE),
    ("show outer", 3, "nothing captured in `outer`", "did you mean `outer/snapshot`?"),
    ("show verdict.json", 3, "`verdict.json` is of no known format", "these are read: Guild run, W&B run"),
    ("show broken.zip", 3, "`broken.zip` cannot be unpacked", "unpack it yourself, and name the directory"),
    ("show uv", 3, "uv.lock: uv cannot read it", "in the project, `uv lock` writes it again"),
    ("show poetry", 3, "poetry.lock: `poetry.lock` names no package", "`reprobuild capture -o DIR`"),
    ("import nosuch", 3, "there is no directory or file `nosuch`", CAPTURE),
    ("capture repro/1", 2, "unexpected extra argument (repro/1)", "`reprobuild capture -o repro/1`"),
    ("capture --json repro/1", 2, "(repro/1)", "-o: `reprobuild capture --json -o repro/1`; otherwise see"),
    ("capture python train.py", 2, "unexpected extra argument", "see `reprobuild capture --help`"),
    ("import typed/requirements.txt -o mine", 2, "mine exists", "name a new directory with -o"),
    ("show typed --python 3", 2, "'3' is not a version of Python", "write it as 3.11 or 3.11.2"),
    ("show typed --base ubuntu", 2, "`base: ubuntu` is not a distribution and a release", "debian/bookworm"),
    ("from-snapshot typed --base ubuntu", 2, "`base: ubuntu` is not a", BASE),
    ("from-snapshot typed --engine docker", 6, "no container engine answers", "ask `reprobuild doctor` what is"),
    ("show typed --decisions yaml/bad.yaml", 2, "yaml/bad.yaml: Object contains unknown field `sorces`", "`sources`?"),
    ("show typed --decisions nosuch.yaml", 2, "nosuch.yaml cannot be read: No such file", "check the path"),
    ("show typed --profile strikt", 2, "there is no profile 'strikt'", "name one of"),
    ("show typed --seed banana", 2, "'banana' is not a whole number from 0 to 4294967295", "reprobuild show --help"),
    ("run frozen --seed -1 -- true", 125, "'-1' is not a whole number from 0 to 4294967295", "reprobuild run --help"),
    ("run frozen", 125, "the command to run stands after `--`, and there is no `--`", "reprobuild run --help"),
    ("run frozen true", 125, "and there is no `--`", "`reprobuild run frozen -- true`"),
    ("run --seed 7 f python t.py --lr 3", 125, "no `--`", "`reprobuild run --seed 7 f -- python t.py --lr 3`"),
    ("run -- python t.py", 125, "missing argument OUT before `--`", "`reprobuild run OUT -- python t.py`"),
    ("run --seed 7 -- env", 125, "missing argument OUT before `--`", "image: `reprobuild run --seed 7 OUT -- env`"),
    ("run --seed 7 env A=1", 125, "and there is no `--`", "image: `reprobuild run --seed 7 OUT -- env A=1`"),
    ("run frozen --", 125, "Missing argument", "reprobuild run --help"),
    ("bisect a.lock b.lock sh t.sh --lr 3", 2, "no `--`", "`reprobuild bisect a.lock b.lock -- sh t.sh --lr 3`"),
    ("bisect --metric x a.lock b.lock env", 2, "no `--`", "`reprobuild bisect --metric x a.lock b.lock -- env`"),
    ("bisect --since a.lock python t.py", 2, "no `--`", "`reprobuild bisect --since a.lock -- python t.py`"),
    ("bisect a.lock b.lock", 2, "there is no `--`", "`reprobuild bisect a.lock b.lock -- COMMAND`"),
    ("bisect a.lock", 2, "there is no `--`", "name both, and the command: `reprobuild bisect a.lock B -- COMMAND`"),
    ("bisect a.lock -- env", 2, "missing argument B before `--`", "name both: `reprobuild bisect a.lock B -- env`"),
    ("bisect a.lck b.lock -- env", 2, "there is nothing at a.lck", "did you mean `a.lock`?"),
    ("run trainde -- true", 125, "there is no directory trainde", "did you mean `trained`?"),
    ("run frozen -- true", 125, "there is no directory frozen", "build one with `reprobuild from-snapshot DIR -o OUT`"),
    ("verify --workload python t.py", 2, "no directory t.py", UNQUOTED),
    ("verify o --workload python t.py", 2, "extra argument", "whole command: --workload 'python t.py'; otherwise see"),
    ("verify o --workload a b --lr 3 --runs 2", 2, "No such option '--lr'", "command: --workload 'a b --lr 3'"),
    ("verify typed", 2, "typed holds no image", "build one with `reprobuild from-snapshot DIR -o OUT`"),
    ("verify frozen --only probs", 2, "'probs' is not one of", "reprobuild verify --help"),
    ("verify frozen --only probes --no-probes", 2, "--only and --no-probes are given", "leave --no-probes out"),
    ("build verdict.json", 4, "verdict.json is not a lock: it names no interpreter", "`reprobuild lock DIR`"),
    ("build nosuch.lock", 4, "there is no lock at nosuch.lock", "make one with `reprobuild lock DIR`"),
    ("build a.lck", 4, "there is no lock at a.lck", "did you mean `a.lock`?"),
    ("fetch a.lck", 4, "there is no lock at a.lck", "did you mean `a.lock`?"),
    ("render a.lck", 4, "there is no lock at a.lck", "did you mean `a.lock`?"),
    ("doctor a.lck", 2, "there is no file or directory a.lck", "did you mean `a.lock`?"),
    ("compare a.lck b.lock", 6, "there is no file 'a.lck'", "did you mean `a.lock`?"),
    ("show a.lck", 3, "there is no directory or file `a.lck`", "did you mean `a.lock`?"),
    ("build typed", 4, "typed is a directory, and no lock", "make one with `reprobuild lock DIR`"),
    ("lock typed -o empty", 2, "empty is a directory", "name a file in it: -o empty/reprobuild.lock"),
    ("diff a.lock b.lock", 2, "a.lock is a text file such as a lock, and not an image", f"{COMPARE} a.lock b.lock`"),
    ("diff typed outer/snapshot", 2, "a snapshot, and not", f"{COMPARE} typed outer/snapshot` compares environments"),
    ("diff image.tar b.lock", 2, "b.lock is a text file such as a lock", f"{COMPARE} image.tar b.lock`"),
    ("diff typd image.tar", 6, "there is no file 'typd'", "did you mean `typed`?"),
    ("compare typed typd", 6, "there is no file 'typd'", "did you mean `typed`?"),
    ("compare nosuch here", 6, "there is no file 'nosuch'", "give a snapshot, a lock, an output directory, an image"),
    ("compare typed", 2, "Missing argument 'B'", "running environment: `reprobuild compare typed here`"),
    ("compare here", 2, "Missing argument 'B'", "is compared with: `reprobuild compare SNAPSHOT here`"),
    ("compare", 2, "Missing argument 'A'", "is compared with: `reprobuild compare SNAPSHOT here`"),
    ("compare typed hier", 2, "there is no directory or file 'hier'", "did you mean `here`? Otherwise give a snapshot"),
    ("verfy frozen", 2, "No such command 'verfy'", "did you mean `verify`?"),
    ("snapsho typed", 2, "No such command 'snapsho'", "did you mean `from-snapshot`?"),
    ("show typed --sorce a=b", 2, "No such option '--sorce'", "did you mean `--source`?"),
    ("show", 2, "Missing argument 'DIR'", "reprobuild show --help"),
    ("bundle frozen", 2, "Missing option '-o'", "for example `reprobuild bundle frozen -o frozen.tar"),
    ("restore snapshot", 2, "Missing argument 'NAME'", "for example `reprobuild restore repro/4242 mylib -o"),
    ("rebuild trained/typo.lock", 2, "no directory trained/typo.lock", "name the output directory: `trained`"),
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


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("run -- sh -c 'exit 3'", "reprobuild run frozen -- sh -c 'exit 3'"),
        ("run env A=1", "reprobuild run frozen -- env A=1"),
        ("compare here", "reprobuild compare frozen here"),
    ],
)
def test_the_usual_directory_stands_in_the_corrected_command(
    line: str, command: str, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "frozen").mkdir()
    (tmp_path / "frozen" / "reprobuild.lock").symlink_to(tmp_path / "a.lock")
    hint = run(*shlex.split(line)).stderr.partition("hint: ")[2]
    assert f": `{command}`;" in hint
    followed = run(*shlex.split(command)[1:]).stderr
    assert "issing argument" not in followed
    assert "and there is no `--`" not in followed


def test_a_gpu_of_a_machine_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "MACHINE", tmp_path)
    with pytest.raises(
        EngineError, match=r"^this machine has no GPU: unresolvable CDI devices nvidia\.com/gpu=0"
    ) as err:
        find_edits(gpu.parse_gpu_option("0"), (tmp_path,))
    assert err.value.hint.startswith(
        "run without a GPU: --gpu none; if it has one, install the NVIDIA Container"
    )
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia0").touch()
    with pytest.raises(EngineError, match=r"^unresolvable CDI devices"):
        find_edits("0", (tmp_path,))


def test_a_corrected_command_repeats_no_secret(run: Run) -> None:
    for secret in ("HF_TOKEN=hf_" + "x" * 34, "PASSWORD=" + "hunter" * 3, "hf_" + "abcdefGHIJ" * 3 + "klmn"):
        done = run("run", "frozen", "--env", secret, "true")
        assert done.returncode == 125
        assert secret.partition("=")[2] not in done.stderr or "=" not in secret
        assert secret not in done.stderr


def test_the_hint_leads_to_the_snapshot(run: Run) -> None:
    hint = run("show", "outer").stderr.partition("hint: ")[2]
    (directory,) = re.findall(r"`([^`]*)`", hint)
    done = run("show", directory)
    assert done.returncode == 0, done.stderr
    assert "49 distributions" in done.stdout


@pytest.mark.parametrize(("first", "second"), [("a.lock", "b.lock"), ("typed", "outer/snapshot")])
def test_the_hint_leads_to_the_comparison(first: str, second: str, run: Run) -> None:
    hint = run("diff", first, second).stderr.partition("hint: ")[2]
    (command,) = re.findall(r"`reprobuild ([^`]*)`", hint)
    done = run(*shlex.split(command))
    assert done.returncode == 1, done.stderr
    assert "numpy" in done.stdout or "torch" in done.stdout


@pytest.mark.parametrize(("path", "count"), [("snap.tar.gz", 49), ("typed/requirements.txt", 1)])
def test_a_file_is_shown_as_the_snapshot_that_it_holds(path: str, count: int, run: Run) -> None:
    done = run("show", path)
    assert done.returncode == 0, done.stderr
    assert f"{count} distribution" in done.stdout


def test_the_hint_for_a_damaged_lock_of_uv_is_followed(run: Run, tmp_path: Path) -> None:
    project = '[project]\nname = "job"\nversion = "1"\nrequires-python = ">=3.10"\n'
    backend = '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
    (tmp_path / "uv" / "pyproject.toml").write_text(project + backend)
    (command,) = re.findall(r"`(uv lock)`", run("show", "uv").stderr)
    (tmp_path / "uv" / "uv.lock").unlink()
    assert run(sh=f"cd uv && {command}").returncode == 0
    done = run("import", "uv", "-o", "snapshot")
    assert done.returncode == 0, done.stderr
    assert f"-e {tmp_path}/uv" in (tmp_path / "snapshot" / "requirements.txt").read_text()
    assert run("show", "snapshot").returncode == 0
