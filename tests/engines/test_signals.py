"""What a container hears of the signals that `run` gets, and what comes of it: with each engine the same."""

from __future__ import annotations

import dataclasses
import http.server
import json
import os
import select
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from reprobuild.engines import apptainer, podman
from tests.conftest import ROOT
from tests.engines.conftest import Running, Tiny
from tests.engines.test_gone import fake_daemon

Env = Mapping[str, str]
Process = subprocess.Popen[str]

ATTACH = """
import os, sys
from importlib import import_module
from reprobuild.infra.proc import signals
from reprobuild.cli.interrupt import install_signal_handlers, leave_signals_to_jobs
from reprobuild.engines.model import Task
install_signal_handlers()
leave_signals_to_jobs()
name, reference, script, seconds = sys.argv[1:]
signals.GRACE_SECONDS = float(seconds)
task = Task(arguments=("sh", "-c", script), bypass=True, timeout=0)
def sink(stream, data):
    os.write(stream, data)
sys.exit(import_module("reprobuild.engines." + name).attach(reference, task, os.environ, sink))
"""
SAVES = (
    "trap 'echo got USR1' USR1; trap 'echo got TERM; exit 5' TERM; trap 'echo got INT; exit 6' INT; "
    "echo ready; while :; do sleep 0.05; done"
)
STUBBORN = "trap 'echo not yet' TERM INT; echo ready; while :; do sleep 0.05; done"


@contextmanager
def attached(name: str, reference: str, env: Env, script: str, seconds: float = 60) -> Iterator[Process]:
    """Run a container by a program of its own that listens as `run` does, in a group of processes of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", ATTACH, name, reference, script, str(seconds)], cwd=ROOT, env=dict(env), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout
        assert process.stderr
        try:
            said = process.stdout.readline()
            assert said == "ready\n", process.stderr.read()
            yield process
        finally:
            process.kill()


def hear(process: Process, signum: signal.Signals) -> str:
    assert process.stdout
    os.killpg(process.pid, signum)
    assert select.select([process.stdout], [], [], 60)[0], f"nothing was heard of {signum.name}"
    return process.stdout.readline()


def what_is_heard(name: str, reference: str, env: Env) -> None:
    with attached(name, reference, env, SAVES) as process:
        assert [hear(process, signal.SIGUSR1) for _ in range(2)] == ["got USR1\n"] * 2
        assert hear(process, signal.SIGTERM) == "got TERM\n"
        assert process.wait(30) == 5
    for signum, word, code in ((signal.SIGINT, "INT", 6), (signal.SIGHUP, "TERM", 5)):
        with attached(name, reference, env, SAVES) as process:
            assert hear(process, signum) == f"got {word}\n"
            assert process.wait(30) == code


def what_will_not_end(name: str, reference: str, env: Env) -> None:
    with attached(name, reference, env, STUBBORN, seconds=1) as process:
        assert hear(process, signal.SIGTERM) == "not yet\n"
        assert process.wait(30) == 137
    with attached(name, reference, env, STUBBORN) as process:
        assert hear(process, signal.SIGINT) == "not yet\n"
        os.killpg(process.pid, signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]


@pytest.fixture(scope="module")
def loaded(engine: Running, tiny: Tiny) -> Iterator[Tiny]:
    engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env)
    yield tiny
    engine.client("rmi", tiny.reference)


def containers(image: Tiny, engine: Running) -> str:
    return engine.containers(image.reference)


def test_a_container_hears_each_signal_once(loaded: Tiny, engine: Running) -> None:
    what_is_heard(engine.module.NAME, loaded.reference, engine.env)
    assert containers(loaded, engine) == ""


def test_a_container_that_will_not_end_is_removed(loaded: Tiny, engine: Running) -> None:
    what_will_not_end(engine.module.NAME, loaded.reference, engine.env)
    assert containers(loaded, engine) == ""


@pytest.mark.parametrize("verb", ["create", "rm"])
def test_podman_that_a_signal_ends_leaves_no_container(
    verb: str, podman_env: Env, tiny: Tiny, tmp_path: Path
) -> None:
    """The signal comes when `create` has made the container, or when `rm` begins."""
    own = dataclasses.replace(tiny, reference=f"{tiny.reference}-{verb}")
    podman.load(own.layout, own.reference, own.digests, podman_env)
    real = shutil.which("podman", path=podman_env["PATH"])
    first = f'{real} "$@"' if verb == "create" else "true"
    wrapper = tmp_path / "podman"
    wrapper.write_text(
        f'#!/bin/sh\nif [ "$1" = {verb} ] && mkdir {tmp_path}/once; then {first}; kill -INT $PPID; sleep 30; fi\n'
        f'exec {real} "$@"\n'
    )
    wrapper.chmod(0o755)
    env = {**podman_env, "PATH": f"{tmp_path}:{podman_env['PATH']}"}
    argv = [sys.executable, "-c", ATTACH, "podman", own.reference, "true", "60"]
    done = subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert (tmp_path / "once").is_dir()
    assert "KeyboardInterrupt" in done.stderr
    running = Running(podman, podman_env)
    assert containers(own, running) == ""
    running.client("rmi", own.reference)


def test_apptainer(apptainer_env: Env, tiny: Tiny) -> None:
    apptainer.load(tiny.layout, tiny.reference, tiny.digests, apptainer_env)
    what_is_heard("apptainer", tiny.reference, apptainer_env)
    what_will_not_end("apptainer", tiny.reference, apptainer_env)


# --- what Docker is asked for, by a daemon that writes it down --------------------------------------


class Containers:
    """One container: it says a word for each signal, and ends by SIGKILL, or by SIGTERM unless it is stubborn."""

    def __init__(self, *, stubborn: bool) -> None:
        self.ends = {"9": 137} | ({} if stubborn else {"15": 143})
        self.heard: list[str] = []
        self.removed = threading.Event()
        self._ended = threading.Event()
        self._output: Any = None
        self._code = 0

    def reply(self, request: http.server.BaseHTTPRequestHandler) -> None:
        path, _, query = request.path.partition("?")
        if path.endswith("/attach"):
            request.wfile.write(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
            self._output = request.wfile
            self._ended.wait(60)
            request.close_connection = True
        elif path.endswith("/kill"):
            self._kill(query.partition("signal=")[2])
            _answer(request, 204, b"")
        elif path.endswith("/wait"):
            _answer(request, 200, json.dumps({"StatusCode": self._code}).encode())
        elif path.endswith("/create"):
            request.rfile.read(int(request.headers["Content-Length"]))
            _answer(request, 201, b'{"Id": "c0ffee"}')
        else:
            self._say("ready")
            _answer(request, 204, b"")

    def _say(self, word: str) -> None:
        while self._output is None:
            time.sleep(0.01)
        data = word.encode() + b"\n"
        self._output.write(struct.pack(">BxxxL", 1, len(data)) + data)

    def _kill(self, signum: str) -> None:
        self.heard.append(signum)
        self._say(f"heard {signum}")
        if signum in self.ends:
            self._code = self.ends[signum]
            self._ended.set()


def _answer(request: http.server.BaseHTTPRequestHandler, code: int, body: bytes) -> None:
    request.send_response(code)
    request.send_header("Content-Type", "application/json")
    request.send_header("Content-Length", str(len(body)))
    request.end_headers()
    request.wfile.write(body)


def test_docker_is_told_of_each_signal(tmp_path: Path) -> None:
    container = Containers(stubborn=False)
    with fake_daemon(tmp_path, container.reply, container.removed.set) as env:
        with attached("docker", "image:1", env, "") as process:
            assert hear(process, signal.SIGUSR1) == "heard 10\n"
            assert hear(process, signal.SIGUSR2) == "heard 12\n"
            assert hear(process, signal.SIGINT) == "heard 2\n"
            assert hear(process, signal.SIGHUP) == "heard 15\n"
            assert process.wait(30) == 143
        assert container.removed.is_set()
    assert container.heard == ["10", "12", "2", "15"]


def test_docker_is_told_to_kill_what_will_not_end(tmp_path: Path) -> None:
    container = Containers(stubborn=True)
    with fake_daemon(tmp_path, container.reply, container.removed.set) as env:
        with attached("docker", "image:1", env, "", seconds=0.5) as process:
            assert hear(process, signal.SIGTERM) == "heard 15\n"
            assert process.wait(30) == 137
        assert container.removed.is_set()
    assert container.heard == ["15", "9"]


def test_docker_removes_at_once_what_is_interrupted_twice(tmp_path: Path) -> None:
    container = Containers(stubborn=True)
    with fake_daemon(tmp_path, container.reply, container.removed.set) as env:
        with attached("docker", "image:1", env, "") as process:
            assert hear(process, signal.SIGINT) == "heard 2\n"
            os.killpg(process.pid, signal.SIGINT)
            assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
        assert container.removed.is_set()
        container._ended.set()
