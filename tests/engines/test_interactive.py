"""Standard input and a terminal in a container, with each engine: what is typed, what is shown, and what is left."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.engines import apptainer
from tests.conftest import ROOT
from tests.engines.conftest import Running, Tiny, make_tiny

Env = Mapping[str, str]
ATTACH = """
import os, sys
from importlib import import_module
from reprobuild.cli.interrupt import install_signal_handlers, leave_signals_to_jobs
from reprobuild.engines.model import Task
install_signal_handlers()
leave_signals_to_jobs()
name, reference, script, terminal = sys.argv[1:]
task = Task(
    arguments=("sh", "-c", script), bypass=True, timeout=0, stdin=True, terminal=terminal == "terminal",
)
def sink(stream, data):
    os.write(stream, data)
sys.exit(import_module("reprobuild.engines." + name).attach(reference, task, os.environ, sink))
"""
SECONDS = 60


def words(name: str, reference: str, script: str, terminal: str) -> list[str]:
    return [sys.executable, "-c", ATTACH, name, reference, script, terminal]


class Screen:
    """A terminal with a program on it: a person types, and reads."""

    def __init__(self, upper: int, process: subprocess.Popen[bytes]) -> None:
        self.upper, self.process, self.text = upper, process, ""

    def type(self, text: str) -> None:
        os.write(self.upper, text.encode())

    def wait_for(self, text: str) -> None:
        """Read until the screen has a text, from where the last one was."""
        deadline = time.monotonic() + SECONDS
        while text not in self.text:
            ready, _, _ = select.select([self.upper], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"no {text!r} on the screen: {self.text!r}"
            try:
                self.text += os.read(self.upper, 4096).decode(errors="replace")
            except OSError:  # the program has ended
                pytest.fail(f"no {text!r} on the screen: {self.text!r}")
        self.text = self.text.partition(text)[2]

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.upper, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextlib.contextmanager
def screen(argv: list[str], env: Env) -> Iterator[Screen]:
    """Start a program at a terminal of 30 rows and 90 columns; its settings must be as before at the end."""
    upper, lower = pty.openpty()
    fcntl.ioctl(upper, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
    before = termios.tcgetattr(lower)
    with subprocess.Popen(argv, cwd=ROOT, env=dict(env), stdin=lower, stdout=lower, stderr=lower) as process:
        try:
            yield Screen(upper, process)
            process.wait(SECONDS)
            assert termios.tcgetattr(lower) == before
        finally:
            process.kill()
            os.close(lower)
            os.close(upper)


# Without job control: with it, dash fails at its end where its starter is in another namespace of processes.
SHELL = "exec sh -i +m"


def use_shell(name: str, reference: str, env: Env) -> int:
    """Work in a shell as a person does; return its exit code."""
    with screen(words(name, reference, SHELL, "terminal"), env) as shown:
        shown.type("test -t 0 && test -t 1 && echo term''inal\r")
        shown.wait_for("terminal\r\n")
        shown.type("stty size\r")
        shown.wait_for("\n30 90\r\n")
        shown.resize(40, 100)
        shown.type("until test \"$(stty size)\" = '40 100'; do sleep 0.1; done; echo lar''ger\r")
        shown.wait_for("larger\r\n")
        shown.type("trap 'echo st''opped' INT; sleep 60\r")
        shown.wait_for("sleep 60\r\n")
        time.sleep(0.5)  # until sleep runs
        shown.type("\x03")
        shown.wait_for("stopped\r\n")
        shown.type("read line; echo =$line=\r")
        shown.wait_for("=$line=\r\n")
        shown.type("typed words\r")
        shown.wait_for("=typed words=\r\n")
        shown.type("exit 7\r")
    return shown.process.returncode


def pipe_through(name: str, reference: str, env: Env) -> tuple[int, bytes, bytes]:
    """Pipe bytes through a container, more than a pipe holds, to the end of them."""
    done = subprocess.run(
        words(name, reference, "head -c 5; cat >/dev/null; echo >&2 all read; exit 3", "pipe"), cwd=ROOT,
        env=dict(env), input=b"hello" + bytes(300_000), capture_output=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


def test_a_shell(engine: Running, tiny: Tiny) -> None:
    engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env)
    try:
        assert use_shell(engine.module.NAME, tiny.reference, engine.env) == 7
        assert pipe_through(engine.module.NAME, tiny.reference, engine.env) == (3, b"hello", b"all read\n")
    finally:
        engine.client("rmi", tiny.reference)


def test_a_shell_in_apptainer(apptainer_env: Env, tmp_path: Path) -> None:
    image = make_tiny(tmp_path / "image", "interactive:1")
    apptainer.load(image.layout, image.reference, image.digests, apptainer_env)
    assert use_shell("apptainer", image.reference, apptainer_env) == 7
    assert pipe_through("apptainer", image.reference, apptainer_env) == (3, b"hello", b"all read\n")
