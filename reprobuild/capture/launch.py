"""`reprobuild capture`: the capture program, run by the interpreter of the environment that is to be captured."""

from __future__ import annotations

import errno
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import as_file, files
from pathlib import Path

from reprobuild.errors import EngineError, SnapshotError, UsageError
from reprobuild.infra import proc
from reprobuild.infra.display import escape_text
from reprobuild.infra.suggest import suggest_path

# Of the program: 0 done, 2 usage, 3 the directory cannot be written.
_CODES = (0, UsageError.exit_code, SnapshotError.exit_code)
# In an environment; the last two on Windows, by venv and by conda.
_PYTHONS = ("bin/python", "Scripts/python.exe", "python.exe")
# A Python so started runs no code of the current directory, of variables and of its `site-packages`.
ISOLATED = ("-I", "-S")
PROGRAM = "reprobuild capture"  # begins each line of the program
# Its notes.
_TAKEN = "the directory has a snapshot already, of an earlier run or of another rank of this one"
_OCCUPIED = " is not empty, and holds no snapshot of this program"
_UNWRITABLE = tuple(
    f" cannot be written: {os.strerror(number)}"
    for number in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST)
)
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID")  # set in a job, whose ranks capture together
_NAMES = 1000  # of directories that are tried for a hint


def read_capture_recipe() -> str:
    """Return the recipe in Bash."""
    return files("reprobuild_runtime").joinpath("capture.sh").read_text()


def find_interpreter(
    env: Mapping[str, str], default: str, say: Callable[[str], object] = lambda text: None
) -> str:
    """Return the Python of the active environment, else `default`, which is reprobuild's own.

    A relative path would name a program of the current directory, which may be anybody's.

    Args:
        env: of this process.
        default: the Python of reprobuild.
        say: takes a note on a variable that is not used.
    """
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        if not env.get(name):
            continue
        if not Path(env[name]).is_absolute():
            say(
                f"{name} is not an absolute path and is not used: activate the environment again, or name --python"
            )
        elif python := next(filter(Path.exists, map(Path(env[name]).joinpath, _PYTHONS)), None):
            return str(python)
    return default


def pack_interpreter(program: Path, folder: Path, env: Mapping[str, str]) -> bytes:
    """Pack a Python into a directory as `capture --include interpreter` does, and return its facts as JSON.

    Args:
        program: the interpreter, which runs isolated and without its `site-packages`.
        folder: takes the archive.
        env: the whole environment of the program.

    Raises:
        ProcessFailedError: it cannot be packed; the message ends with the reason.
        EngineError: it cannot be run.
    """
    with as_file(files("reprobuild_runtime").joinpath("capture.py")) as code:
        argv = [str(program), *ISOLATED, str(code.absolute()), "--pack-interpreter", str(folder.absolute())]
        return proc.run(argv, env=env, cwd=proc.SAFE, timeout=180, purpose="pack its own files")


def drop_coerced_locale(env: Mapping[str, str], at_start: bytes) -> dict[str, str]:
    """Return the environment without the LC_CTYPE that Python itself sets in the C locale (PEP 538).

    Args:
        env: of this process.
        at_start: entries between NULs as they were when this process started; empty where that is not known.
    """
    if not at_start or any(entry.startswith(b"LC_CTYPE=") for entry in at_start.split(b"\0")):
        return dict(env)
    return {name: value for name, value in env.items() if name != "LC_CTYPE"}


def capture(
    python: str,
    out: Path | None,
    *,
    env: Mapping[str, str],
    sink: Callable[[int, bytes], None],
    as_json: bool,
    accept: Sequence[str] = (),
    include: Sequence[str] = (),
) -> int:
    """Take a snapshot of the environment of an interpreter, and return the code to exit with.

    Args:
        python: the interpreter, or the directory of its environment; the distributions that it sees are captured.
        out: the directory; None for the program's own choice.
        env: the environment to capture.
        sink: takes the program's output as `proc.stream` gives it.
        as_json: whether one JSON document is to be printed.
        accept: files of repositories that look like secrets and are to be captured.
        include: files that are in no repository, or that git ignores, and are to be captured.

    Raises:
        SnapshotError: the interpreter cannot run the program.
        EngineError: there is no such interpreter.
    """
    python = _choose_program(python)
    with as_file(files("reprobuild_runtime").joinpath("capture.py")) as program:
        argv = [python, str(program), *(("-o", str(out)) if out else ()), *(("--json",) if as_json else ())]
        argv += [f"--accept={name}" for name in accept]
        argv += [f"--include={name}" for name in include]
        code = proc.stream(argv, env=env, purpose="capture its environment", sink=sink, exact=True)
    if code not in _CODES:
        raise SnapshotError(
            f"`{python}` could not run the capture: it exited {code}",
            hint="it must be Python 3.8 or newer; name another with --python",
        )
    return code


def _choose_program(python: str) -> str:
    """Return the program of a user's word: a path, the directory of an environment, or a name on PATH.

    Raises:
        EngineError: there is no such path, or the directory has no Python.
    """
    path = Path(python)
    if path.is_dir() and (inner := next(filter(Path.exists, map(path.joinpath, _PYTHONS)), None)):
        return str(inner)
    if path.name == python:
        return python
    if path.is_dir():
        raise EngineError(
            f"{escape_text(python)} is a directory without a Python",
            hint="name the Python of the environment, or its directory: `--python ENV`",
        )
    if not path.exists():
        raise EngineError(
            f"there is no {escape_text(python)}",
            hint=suggest_path(path) or "name the Python of the environment, or its directory: `--python ENV`",
        )
    return python


def closing_notes(
    output: bytes,
    python: str,
    out: Path | None,
    env: Mapping[str, str],
    *,
    default: bool,
    options: Sequence[str] = (),
) -> list[str]:
    """Return the notes after the output of the program.

    They name the captured interpreter, or the command for another directory if this one is not free.

    Args:
        output: of the program, on standard error.
        python: the interpreter.
        out: the directory; None for the program's own choice.
        env: of this process.
        default: whether no environment is active and the interpreter is that of reprobuild.
        options: of this command, without the directory; a hint repeats them.
    """
    lines = output.decode(errors="replace").splitlines()
    folder = out or Path("snapshot")
    if f"{PROGRAM}: {_TAKEN}" in lines:
        if any(map(env.get, _JOBS)):
            return []
        remedy = f"to capture again, name another one: `{_command(options, _free_name(folder))}`"
        return [f"hint: {escape_text(str(folder))} has a snapshot; {remedy}"]
    if any(line.startswith(f"{PROGRAM}: ") and line.endswith(_OCCUPIED) for line in lines):
        return [f"hint: name another directory: `{_command(options, _free_name(folder))}`"]
    if any(line.startswith(f"{PROGRAM}: ") and line.endswith(_UNWRITABLE) for line in lines):
        place = _find_writable(folder, env)
        return [f"hint: name a directory that you can write: `{_command(options, place)}`"]
    if not any(line.startswith(f"{PROGRAM}: ") and line.endswith(": captured") for line in lines):
        return []
    name = shlex.quote(shutil.which(python) or python)
    warning = (
        "warning: no environment is active, and reprobuild's own was captured: "
        "activate yours and capture again with another -o DIR, or name its interpreter with --python PATH"
    )
    return [*([warning] if default else []), f"{PROGRAM}: the captured environment is that of {name}"]


def _command(options: Sequence[str], place: str) -> str:
    return escape_text(shlex.join(("reprobuild", "capture", *options, "-o", place)))


def _free_name(out: Path) -> str:
    names = (f"{out}-{number}" for number in range(2, _NAMES))
    return next((name for name in names if not os.path.lexists(name)), "DIR")


def _find_writable(out: Path, env: Mapping[str, str]) -> str:
    """Return a free path of the same name in a directory that this user can write, or `DIR`."""
    for folder in ("", env.get("HOME"), env.get("TMPDIR"), "/tmp"):
        if folder is not None and os.access(folder or ".", os.W_OK | os.X_OK):
            path = Path(folder, out.name or "snapshot")
            return _free_name(path) if os.path.lexists(path) else str(path)
    return "DIR"


def capture_into(
    out: Path, python: str, *, env: Mapping[str, str], accept: Sequence[str] = (), include: Sequence[str] = ()
) -> None:
    """Take a snapshot into a directory without printing.

    Raises:
        SnapshotError: the capture did not end well; the message has its output.
        EngineError: there is no such interpreter.
    """
    output: list[bytes] = []
    code = capture(
        python,
        out,
        env=env,
        sink=lambda _, data: output.append(data),
        as_json=False,
        accept=accept,
        include=include,
    )
    if code:
        lines = b"".join(output).decode(errors="replace").strip().splitlines()
        text = "\n".join(map(escape_text, lines))
        raise SnapshotError(
            f"the capture ended with exit code {code}: {text}",
            hint="mend the cause that it names, and capture again",
        )
