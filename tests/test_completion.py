"""Completion in real shells: bash of this machine, zsh and fish of Debian, each at a terminal of its own."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.cli import main as cli
from tests.conftest import ROOT, reprobuild
from tests.unpacked import unpack_packages

PACKAGES = (
    "zsh", "zsh-common", "fish", "fish-common", "libpcre2-32-0", "libtinfo6", "libncursesw6", "libcap2",
)  # fmt: skip
PROMPT = "ready>"
SECONDS = 120


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """A directory with the files of zsh and fish, and an environment in which they and this program start."""
    folder = tmp_path_factory.mktemp("shells")
    libraries = unpack_packages(PACKAGES, folder)
    program = folder / "bin" / "reprobuild"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nunset LD_LIBRARY_PATH\nPYTHONPATH={ROOT} exec {sys.executable} -m reprobuild.cli "$@"\n'
    )
    program.chmod(0o755)
    env = {
        "PATH": f"{program.parent}:{os.environ['PATH']}", "LD_LIBRARY_PATH": libraries, "TERM": "dumb",
        "HOME": str(folder), "LC_ALL": "C.UTF-8",
    }  # fmt: skip
    return folder / "root", env


class Terminal:
    """A shell at a terminal: keys go in, and what it shows comes out."""

    def __init__(self, main: int) -> None:
        self._main, self.seen = main, ""

    def type(self, keys: str) -> None:
        self.seen = ""
        os.write(self._main, keys.encode())

    def wait_for(self, text: str) -> str:
        end = time.monotonic() + SECONDS
        while text not in self.seen:
            left = end - time.monotonic()
            assert left > 0, f"{text!r} did not come, but {self.seen!r}"
            if select.select([self._main], [], [], left)[0]:
                self.seen += os.read(self._main, 1 << 12).decode(errors="replace")
        return self.seen


@contextlib.contextmanager
def at_terminal(argv: list[str], env: Mapping[str, str]) -> Iterator[Terminal]:
    main, other = pty.openpty()
    with subprocess.Popen(
        argv, env=dict(env), stdin=other, stdout=other, stderr=other, process_group=0
    ) as process:
        os.close(other)
        try:
            yield Terminal(main)
        finally:
            process.kill()
            os.close(main)


def complete(terminal: Terminal) -> None:
    """Type the beginnings of words, and see their ends."""
    for typed, ended in (
        ("reprobuild fro", "reprobuild from-snapshot"),
        ("reprobuild verify --eng", "reprobuild verify --engine"),
        ("reprobuild verify --engine appt", "reprobuild verify --engine apptainer"),
        ("reprobuild store ch", "reprobuild store check"),
    ):
        terminal.type(f"{typed}\t")
        terminal.wait_for(ended.removeprefix(typed))
        terminal.type("\x15")  # the line goes


def test_bash(shells: tuple[Path, dict[str, str]]) -> None:
    bash = shutil.which("bash")
    assert bash
    env = {**shells[1], "PS1": PROMPT}
    del env["LD_LIBRARY_PATH"]
    with at_terminal([bash, "--norc", "--noprofile", "-i"], env) as terminal:
        terminal.wait_for(PROMPT)
        terminal.type("source <(reprobuild completion bash); echo d''one\n")
        terminal.wait_for("done")
        complete(terminal)


def test_zsh(shells: tuple[Path, dict[str, str]]) -> None:
    root, env = shells
    (modules,) = root.glob("usr/lib/*/zsh/*")
    folders = [str(path) for path in (root / "usr/share/zsh/functions").rglob("*") if path.is_dir()]
    setup = f"PS1='{PROMPT}'; module_path=({modules}); fpath=({' '.join(folders)}); autoload -U compinit"
    setup = f"{setup}; compinit -u -D; source <(reprobuild completion zsh); echo d''one"
    (Path(env["HOME"]) / "setup").write_text(setup)
    with at_terminal([str(root / "bin/zsh"), "-f", "-i"], env) as terminal:
        terminal.type(f"source {env['HOME']}/setup\n")
        terminal.wait_for("done")
        complete(terminal)


def test_fish(shells: tuple[Path, dict[str, str]]) -> None:
    root, env = shells
    asked = ("reprobuild fro", "reprobuild verify --engine p", "reprobuild store ch")
    script = "; ".join(["reprobuild completion fish | source", *(f'complete -C "{line}"' for line in asked)])
    argv = [str(root / "usr/bin/fish"), "--no-config", "-c", script]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=SECONDS)
    assert done.stdout.splitlines() == [
        f"from-snapshot\t{cli.COMMANDS['from-snapshot']}", "podman",
        "check\tVerify every file of the store",
    ]  # fmt: skip


def test_what_shells_ask(tmp_path: Path) -> None:
    """Verbs are completed without importing any of them, and a completion ends with 0."""
    env = {
        **os.environ,
        "_REPROBUILD_COMPLETE": "bash_complete",
        "COMP_WORDS": "reprobuild ",
        "COMP_CWORD": "1",
    }
    done = reprobuild(env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"plain,{name}" for name in cli.COMMANDS]
    script = "import sys; from reprobuild.cli import main as cli; cli.run_line([]); print(*sys.modules)"
    argv = [sys.executable, "-c", script]
    loaded = subprocess.run(
        argv, env=env, cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    assert "reprobuild.cli" in loaded
    assert "reprobuild.cli.verify" not in loaded
    options = reprobuild(env={**env, "COMP_WORDS": "reprobuild --v"})
    assert options.stdout == "plain,--version\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_as_json(shell: str) -> None:
    done = reprobuild("completion", shell, "--json")
    found = json.loads(done.stdout)
    assert found == {"version": 1, "shell": shell, "script": reprobuild("completion", shell).stdout}
    assert "_REPROBUILD_COMPLETE=" in found["script"]
