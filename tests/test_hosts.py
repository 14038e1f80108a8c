"""The commands that work on macOS and Windows, on an imitation of these systems.

`tests/foreign_host.py` imitates them on Linux, and says how far. Each answer is held against that of Linux.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reprobuild.cli.main import COMMANDS, NEED_LINUX, ON_WINDOWS, run_line
from tests.conftest import EXAMPLE, ROOT
from tests.distribute.conftest import Results, make_results

IMITATION = (sys.executable, "-X", "warn_default_encoding", str(ROOT / "tests" / "foreign_host.py"))
SYSTEMS = ("win32", "darwin")
SNAPSHOT = EXAMPLE / "snapshot"
OTHER = ROOT / "examples" / "gpu-train" / "snapshot"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a command on a system, "linux" or one of `SYSTEMS`, and check that it used no default encoding."""

    def run_there(system: str, *words: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        prefix = [sys.executable] if system == "linux" else [*IMITATION, system]
        return start([*prefix, "-m", "reprobuild", *map(str, words)], tmp_path, cwd)

    return run_there


def start(argv: Sequence[str], tmp_path: Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Start a program that has the user's directories below `tmp_path`."""
    names = {"HOME": "home", "XDG_DATA_HOME": "data", "XDG_CACHE_HOME": "cache"}
    env = {**os.environ, **{name: str(tmp_path / folder) for name, folder in names.items()}}
    done = subprocess.run(argv, check=False, cwd=cwd, env=env, capture_output=True, text=True)
    complaints = [line for line in done.stderr.splitlines() if "EncodingWarning" in line]
    assert [line for line in complaints if "/reprobuild" in line.removeprefix(str(ROOT.parent))[:40]] == []
    assert "this is a bug" not in done.stderr, done.stderr
    return done


def imitate(system: str, code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run code of this project on a system."""
    program = tmp_path / "program.py"
    program.write_text(code)
    return start([*IMITATION, system, str(program)], tmp_path)


def contents(top: Path) -> dict[str, bytes]:
    """Return the files below a directory."""
    return {path.relative_to(top).as_posix(): path.read_bytes() for path in top.rglob("*") if path.is_file()}


LACKING = {
    "win32": {
        "import fcntl": "ModuleNotFoundError",
        "from pwd import getpwuid": "ModuleNotFoundError",
        "import resource": "ModuleNotFoundError",
        "import os; os.geteuid()": "AttributeError",
        "from os import O_NOFOLLOW": "ImportError",
        "import signal; signal.SIGHUP": "AttributeError",
        "import socket; socket.AF_UNIX": "AttributeError",
        "import os; os.open('.', os.O_RDONLY)": "PermissionError",
        "import os; os.open('pyproject.toml', os.O_RDONLY)": "AssertionError",
        "import os; os.mkdir('new', dir_fd=0)": "NotImplementedError",  # as Python on Windows
        "import os; os.listdir(0)": "TypeError",
        "import os, selectors; selectors.DefaultSelector().register(os.pipe()[0], 1)": "OSError",
        "import pathlib\nwith open(FILE): pathlib.Path(FILE).unlink()": "PermissionError",
        "import pathlib; pathlib.Path(FILE).rename(FILE)": "FileExistsError",
    },
    "darwin": {
        "import os; os.O_PATH": "AttributeError",
        "import os; os.sched_getaffinity(0)": "AttributeError",
        "open('/proc/self/environ')": "FileNotFoundError",
        "import os; os.stat('/proc/self')": "FileNotFoundError",
        "import fcntl, pwd, resource": "",
    },
}
TRYING = """
for code in {codes!r}:
    try:
        exec(code, {{"__name__": "__main__", "FILE": __file__}})
    except Exception as err:
        print(type(err).__name__)
    else:
        print()
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_the_imitation_lacks(system: str, tmp_path: Path) -> None:
    done = imitate(system, TRYING.format(codes=list(LACKING[system])), tmp_path)
    assert dict(zip(LACKING[system], done.stdout.splitlines(), strict=True)) == LACKING[system]


@pytest.mark.parametrize(
    "words",
    [("--help",), ("show", SNAPSHOT), ("compare", SNAPSHOT, OTHER, "--json"), ("completion", "bash")],
    ids=lambda words: words[0],
)
def test_an_answer_is_that_of_linux(words: tuple[str, ...], run: Run) -> None:
    expected = run("linux", *words)
    assert expected.returncode == (1 if words[0] == "compare" else 0)
    for system in SYSTEMS:
        done = run(system, *words)
        assert (done.returncode, done.stdout) == (expected.returncode, expected.stdout)


def test_import_writes_the_files_of_linux(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "requirements.txt"
    source.write_text("six==1.16.0\n")
    for name in ("linux", *SYSTEMS):
        assert run(name, "import", source, "-o", tmp_path / name).returncode == 0
        assert contents(tmp_path / name) == contents(tmp_path / "linux")


@pytest.mark.parametrize("system", SYSTEMS)
def test_doctor_names_the_system(system: str, run: Run) -> None:
    done = run(system, "doctor", "--offline", "--json")
    assert done.returncode == 6
    finding = next(item for item in json.loads(done.stdout)["findings"] if item["name"] == "system")
    assert finding["state"] == "problem"
    assert "WSL 2" in finding["fix"]


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Results, Path]:
    """Return an output directory and its bundle."""
    folder = tmp_path_factory.mktemp("bundled")
    results, target = make_results(folder / "sender"), folder / "frozen.tar"
    results.bundle(target)
    return results, target


@pytest.mark.parametrize("system", SYSTEMS)
def test_unbundle_unpacks_the_files_of_linux(
    system: str, bundled: tuple[Results, Path], run: Run, tmp_path: Path
) -> None:
    file = bundled[1]
    for name in ("linux", system, system):  # the second time, it is unpacked already
        done = run(name, "unbundle", file, "-o", tmp_path / name, "--store", tmp_path / f"{name}-store")
        assert done.returncode == 0, done.stderr
    assert contents(tmp_path / system) == contents(tmp_path / "linux")
    blobs = [contents(tmp_path / f"{name}-store" / "blobs") for name in (system, "linux")]
    assert blobs[0] == blobs[1]
    assert len(blobs[0]) == 4


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_program_that_unbundles_alone(system: str, bundled: tuple[Results, Path], tmp_path: Path) -> None:
    file = bundled[1]
    program, out = str(file.parent / "unbundle.py"), str(tmp_path / "out")
    expected = tmp_path / "expected"
    subprocess.run([sys.executable, program, str(file), "-o", str(expected)], check=True)
    (tmp_path / "out").mkdir()
    assert start([*IMITATION, system, program, str(file), "-o", out], tmp_path).returncode == 0
    assert contents(Path(out)) == contents(expected)


def test_unbundle_refuses_a_link_on_windows(bundled: tuple[Results, Path], run: Run, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".out.unbundling").symlink_to(tmp_path / "elsewhere")
    done = run("win32", "unbundle", bundled[1], "-o", tmp_path / "out", "--store", tmp_path / "store")
    assert done.returncode == 11
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.fixture
def python(tmp_path: Path) -> Callable[[str], Path]:
    """Return the path of a program that is Python on a system."""

    def write(system: str) -> Path:
        path = tmp_path / f"python-{system}"
        path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{IMITATION[-1]}" {system} "$@"\n')
        path.chmod(0o755)
        return path

    return write


@pytest.mark.parametrize("system", ["win32", pytest.param("darwin", marks=pytest.mark.long)])
def test_capture_has_the_repository_of_linux(
    system: str, run: Run, python: Callable[[str], Path], tmp_path: Path
) -> None:
    project = tmp_path / "project"
    (project / "inner").mkdir(parents=True)
    (project / "inner" / "train.py").write_text("print(1)\n")
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *words], check=True)
    (project / "inner" / "train.py").write_text("print(2)\n")
    (project / "inner" / "notes.txt").write_text("new\n")
    for name in ("linux", system):
        program = sys.executable if name == "linux" else python(name)
        include = ("--include", project / "inner" / "notes.txt")
        (tmp_path / name).mkdir()
        done = run(name, "capture", "--python", program, "-o", tmp_path / name, *include, cwd=project)
        assert done.returncode == 0, done.stderr
    foreign, expected = contents(tmp_path / system), contents(tmp_path / "linux")
    assert foreign.keys() == expected.keys()
    for name in ("project.patch", "project.bundle", "requirements.txt"):
        assert foreign[name] == expected[name]
    assert b"print(2)" in foreign["project.patch"]
    document = json.loads(foreign["capture.json"])
    outcomes = {name: part["outcome"] for name, part in document["parts"].items()}
    assert "failed" not in outcomes.values()
    assert outcomes["machine"] == outcomes["command"] == "done"
    assert document["machine"]["uname"][0] == {"win32": "Windows", "darwin": "Linux"}[system]
    assert run(system, "show", tmp_path / system).returncode == 0


def test_every_command_is_for_some_system() -> None:
    assert {*ON_WINDOWS, *NEED_LINUX} <= COMMANDS.keys()
    assert not {*ON_WINDOWS} & {*NEED_LINUX}


@pytest.mark.parametrize(
    ("system", "verb"),
    [("win32", verb) for verb in COMMANDS if verb not in ON_WINDOWS]
    + [("darwin", verb) for verb in NEED_LINUX],
)
def test_another_command_needs_linux(
    system: str, verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    assert run_line([verb, "--help"]) == (125 if verb == "run" else 2)
    first, _, hint = capsys.readouterr().err.partition("\n\n")
    assert first == f"error: `reprobuild {verb}` needs Linux"
    assert hint.startswith("hint: use WSL 2 or a virtual machine; here these work: capture, show,")


STARTING = """
import sys
from reprobuild.cli.main import COMMANDS, NEED_LINUX, ON_WINDOWS, cli
for verb in ON_WINDOWS if sys.platform == "win32" else COMMANDS.keys() - {*NEED_LINUX}:
    cli.main([verb, "--help"], standalone_mode=False)
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_each_other_command_starts(system: str, tmp_path: Path) -> None:
    done = imitate(system, STARTING, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


WRITING = """
from pathlib import Path
from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.infra.untrusted.write_below import write_below
top = Path(__file__).parent / "top"
(top / "real").mkdir(parents=True)
(top / "link").symlink_to(top / "real")
write_below(top, "new/file", b"content")
write_below(top, "real/file", b"first")
write_below(top, "real/file", b"second", replace=True)
for call in (
    lambda: write_below(top, "link/file", b""), lambda: write_below(top, "../file", b""),
    lambda: write_below(top, "new/file", b""), lambda: open_within(top, "link/file"), lambda: open_within(top, "real"),
    lambda: write_below(top, "C:file", b""), lambda: write_below(top, "a/nul.txt", b""),
    lambda: open_within(top, "real/file::$DATA"),
):
    try:
        call()
    except (BuildError, OSError) as err:
        print(type(err).__name__)
with open_within(top, "real/file")[0] as stream:
    print(stream.read())
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_link_on_the_way_is_refused(system: str, tmp_path: Path) -> None:
    done = imitate(system, WRITING, tmp_path)
    names = ["BuildError", "BuildError", "FileExistsError", "OSError", "IsADirectoryError"]
    names[3] = "OSError" if system == "win32" else "NotADirectoryError"
    names += ["BuildError", "BuildError"] * (system == "win32") + ["FileNotFoundError"]
    assert done.stdout.splitlines() == [*names, "b'second'"], done.stderr


LEADING_OUT = """
from pathlib import Path
from reprobuild_portable.host import host
top = Path(__file__).parent
number = host.open(top, host.O_RDONLY | host.O_DIRECTORY)
(top / "file").write_bytes(b"x")
for name in ("file", ".", "C:file", "..", "a/b", "a\\\\b", "aux", "file.", "file:stream"):
    try:
        host.stat(name, dir_fd=number)
        print(name)
    except FileNotFoundError as err:
        print(err.strerror)
"""


def test_a_name_that_windows_reads_otherwise_is_absent(tmp_path: Path) -> None:
    done = imitate("win32", LEADING_OUT, tmp_path)
    assert done.stdout.splitlines() == ["file", ".", *["Windows has no file of this name"] * 7], done.stderr


PROGRAMS = """
import sys
from reprobuild.errors import EngineError
from reprobuild.infra import proc
def python(code, **options):
    return proc.run([sys.executable, "-c", code], env={}, purpose="try it", **options)
echo = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
print(len(python(echo, stdin=b"x" * 1000000)))
for code, options in (
    ("import time; time.sleep(60)", {"timeout": 0.5}), ("print('x' * 100)", {"most": 10}), ("raise SystemExit(3)", {}),
):
    try:
        python(code, **options)
    except EngineError as err:
        print(type(err).__name__)
pieces = []
def stream(code, **options):
    sink = lambda number, piece: pieces.append((number, piece))
    return proc.stream([sys.executable, "-c", code], env={}, purpose="try it", sink=sink, **options)
print(stream("import sys; print('out'); print('err', file=sys.stderr); sys.exit(4)"))
print(sorted(pieces))
for options in ({"timeout": 0.5}, {"silence": 0.5}):
    try:
        stream("import time; time.sleep(60)", **options)
    except EngineError as err:
        print(type(err).__name__)
"""


@pytest.mark.parametrize("system", SYSTEMS)
def test_programs_and_their_output(system: str, tmp_path: Path) -> None:
    done = imitate(system, PROGRAMS, tmp_path)
    assert done.stdout.splitlines() == [
        "1000000", "ProcessTimeoutError", "EngineError", "ProcessFailedError", "4", r"[(1, b'out\n'), (2, b'err\n')]",
        "ProcessTimeoutError", "ProcessTimeoutError",
    ], done.stderr  # fmt: skip
