"""The Python that becomes a command of an image: a copy in memory, and the check where there is no copy."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from reprobuild.engines import builtin
from reprobuild.engines.model import Task
from reprobuild.infra.proc.own_python import own_sealed_module
from reprobuild.infra.sandbox import own_interpreter, seal
from reprobuild.infra.sandbox.own_interpreter import refuse_own_interpreter
from tests.engines.conftest import make_tiny
from tests.system.conftest import shared_tmp

__all__ = ["shared_tmp"]  # a fixture
SEALED = f"/memfd:{seal.NAME} (deleted)"
CHANGE = "import os; os.chmod('/proc/self/exe', 0o6777); print(os.readlink('/proc/self/exe'))"


@pytest.fixture
def python(tmp_path: Path) -> Path:
    """A copy of this Python, whose mode a program may change."""
    return Path(shutil.copy2(os.path.realpath(sys.executable), tmp_path / "python"))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], capture_output=True, text=True, check=False)


def test_a_change_of_the_running_program_changes_a_copy(python: Path) -> None:
    done = run(python, "-I", "-S", seal.__file__, python, "-I", "-c", CHANGE)
    assert (done.stdout, done.stderr) == (f"{SEALED}\n", "")
    assert stat.S_IMODE(python.stat().st_mode) == 0o755
    assert run(python, "-I", "-c", CHANGE).stdout == f"{python}\n"  # without it
    assert stat.S_IMODE(python.stat().st_mode) == 0o6777


def test_nothing_writes_to_the_copy() -> None:
    copy = seal.copy_own_program()
    try:
        with pytest.raises(PermissionError):
            os.write(copy, b"x")
        with pytest.raises(PermissionError):
            os.ftruncate(copy, 0)
    finally:
        os.close(copy)


def test_a_python_with_libraries_relative_to_its_file_is_no_copy(python: Path) -> None:
    """It would not find them: the check of programs is the remedy."""
    with python.open("ab") as stream:
        stream.write(b"$ORIGIN/../lib")
    done = run(python, "-I", "-S", seal.__file__, python, "-I", "-c", CHANGE.replace("0o6777", "0o700"))
    assert (done.stdout, done.stderr) == (f"{python}\n", "")


def test_the_command_keeps_its_arguments_and_its_packages() -> None:
    code = "import sys, msgspec; print(sys.executable, sys.argv[1:])"
    sealing = own_sealed_module("x")[:4]
    done = run(*sealing, sys.executable, "-I", "-c", code, "a b", "--c", "")
    assert done.stdout == f"{sys.executable} ['a b', '--c', '']\n", done.stderr


def test_the_processes_of_a_container_run_from_the_copy(tmp_path: Path) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    image = make_tiny(tmp_path, "reprobuild-test/sealed:1", {"etc/word": b"x"})
    builtin.load(image.layout, image.reference, image.digests, env)
    found: set[str] = set()
    ended = threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            found.update(programs_of(os.getpid()))

    looking = threading.Thread(target=look)
    looking.start()
    try:
        done = builtin.run(image.reference, Task(arguments=("sh", "-c", "sleep 2"), bypass=True), env)
    finally:
        ended.set()
        looking.join()
    assert done.code == 0
    assert SEALED in found


def programs_of(parent: int) -> set[str]:
    """Return the files of the processes that this one started and that run its launcher of containers."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            ours = f"\nPPid:\t{parent}\n" in (process / "status").read_text()
            if ours and b"reprobuild.infra.sandbox.container" in (process / "cmdline").read_bytes():
                found.add(str((process / "exe").readlink()))
        except OSError:
            continue
    return found


def elf(machine: bytes) -> bytes:
    own = Path("/proc/self/exe").read_bytes()[:64]
    return own[:18] + machine + own[20:]


@pytest.mark.parametrize("sealed", [True, False])
def test_a_program_that_binfmt_misc_may_start_by_another_one(
    sealed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its interpreter is a path in the image, which the check cannot know."""
    monkeypatch.setattr(own_interpreter, "is_sealed", lambda: sealed)
    own = Path("/proc/self/exe").read_bytes()[18:20]
    for name, content, refused in (
        ("own", elf(own), False), ("other", elf(b"\xff\xfe"), True), ("compiled.pyc", b"\xa7\r\r\n", True),
        ("empty", b"", False), ("script", b"#!/bin/sh\n", False),
    ):  # fmt: skip
        (tmp_path / name).write_bytes(content)
        if refused and not sealed:
            with pytest.raises(
                OSError, match="it is no program of this machine, so its interpreter is unkno"
            ):
                refuse_own_interpreter(str(tmp_path / name))
        else:
            refuse_own_interpreter(str(tmp_path / name))


@pytest.mark.parametrize("sealed", [True, False])
def test_a_script_that_cannot_be_read(sealed: bool, shared_tmp: Path) -> None:
    """The kernel starts it nevertheless."""
    hidden = shared_tmp / "hidden"
    hidden.write_text("#!/proc/self/exe\n")
    hidden.chmod(0o711)
    code = (
        "import os, sys; from reprobuild.infra.sandbox import own_interpreter\n"
        f"own_interpreter.is_sealed = lambda: {sealed}\n"
        "os.setresuid(12345, 12345, 12345); own_interpreter.refuse_own_interpreter(sys.argv[1])"
    )
    done = run(sys.executable, "-I", "-c", code, hidden)
    assert done.returncode == (0 if sealed else 1), done.stderr
    assert ("it cannot be read, so its interpreter is unknown" in done.stderr) is not sealed
