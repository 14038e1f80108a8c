"""Standard input and a terminal in a container, with each engine: what is typed, what is shown, and what is left."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from reprobuild.engines import apptainer
from tests.conftest import ROOT
from tests.engines.conftest import Running, Tiny, make_tiny
from tests.screen import SECONDS, screen

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


def words(name: str, reference: str, script: str, terminal: str) -> list[str]:
    return [sys.executable, "-c", ATTACH, name, reference, script, terminal]


# Without job control: with it, dash fails at its end where its starter is in another namespace of processes.
SHELL = "exec sh -i +m"


def use_shell(name: str, reference: str, env: Env) -> int:
    """Work in a shell as a person does; return its exit code."""
    with screen(words(name, reference, SHELL, "terminal"), env) as shown:
        shown.type("test -t 0 && test -t 1 && echo term''inal\r")
        shown.wait_for("terminal\r\n")
        shown.type("stty size\r")
        shown.wait_for("30 90\r\n")
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


def flood(name: str, reference: str, env: Env) -> int:
    """Pipe more than all buffers hold to a container that reads none of it, and end `run` as a person does."""
    with subprocess.Popen(
        words(name, reference, "echo ready; exec sleep 60", "pipe"), cwd=ROOT, env=dict(env), stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdin
        assert process.stdout
        writing = threading.Thread(target=pour, args=(process.stdin,), daemon=True)
        writing.start()
        assert process.stdout.readline() == b"ready\n"
        time.sleep(1)  # until the buffers are full
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        return process.wait(SECONDS)


def pour(stream: IO[bytes]) -> None:
    with contextlib.suppress(OSError):
        while True:
            stream.write(bytes(1 << 20))


def test_a_shell(engine: Running, tiny: Tiny) -> None:
    engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env)
    try:
        assert use_shell(engine.module.NAME, tiny.reference, engine.env) == 7
        assert pipe_through(engine.module.NAME, tiny.reference, engine.env) == (3, b"hello", b"all read\n")
        assert flood(engine.module.NAME, tiny.reference, engine.env) != 0
    finally:
        engine.client("rmi", tiny.reference)


def test_a_shell_in_apptainer(apptainer_env: Env, tmp_path: Path) -> None:
    image = make_tiny(tmp_path / "image", "interactive:1")
    apptainer.load(image.layout, image.reference, image.digests, apptainer_env)
    assert use_shell("apptainer", image.reference, apptainer_env) == 7
    assert pipe_through("apptainer", image.reference, apptainer_env) == (3, b"hello", b"all read\n")
    assert flood("apptainer", image.reference, apptainer_env) != 0
