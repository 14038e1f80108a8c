"""Engines that are not there, hang, or go away."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.builders.registry import BUILDERS, find_builder
from reprobuild.compare.environments.open import Running, compare
from reprobuild.compare.images.explain import compare_images
from reprobuild.engines import apptainer, builtin, docker, podman
from reprobuild.engines.model import Task
from reprobuild.engines.registry import ENGINES, HINT, find_engine
from reprobuild.errors import EngineError
from tests.engines.conftest import Tiny, daemon

pytestmark = pytest.mark.usefixtures("sockets_that_the_sdk_forgets")

GONE = "start it again, and run the command again"
TASK = Task(arguments=("sh", "-c", "echo started; sleep 60"))


def test_an_unknown_engine() -> None:
    with pytest.raises(EngineError, match="there is no engine named 'lxc'") as failed:
        find_engine("lxc", {})
    assert failed.value.hint == "the engines are: builtin, docker, podman, apptainer"
    assert failed.value.exit_code == 6


@pytest.mark.parametrize(
    "host", ["unix:///nonexistent/docker.sock", "tcp://127.0.0.1:9", "nonsense", "ssh://"]
)
def test_nobody_at_the_address(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtin, "find_obstacle", lambda: "made")
    env = {**os.environ, "DOCKER_HOST": host, "PATH": "/nonexistent"}
    assert docker.version(env) is None
    assert podman.version(env) is None
    assert apptainer.version(env) is None
    for name, tried in ((None, "docker, builtin, podman, apptainer"), *((name, name) for name in ENGINES)):
        with pytest.raises(EngineError, match=rf"no container engine answers \(tried {tried}\)") as failed:
            find_engine(name, env)
        assert failed.value.hint == HINT
    with pytest.raises(EngineError, match=f"Docker does not answer at {host}: ") as failed:
        docker.run("image:1", TASK, env)
    assert failed.value.hint == "start the Docker daemon, or point DOCKER_HOST at one that runs"


def test_a_builder_that_is_not_there() -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": "/nonexistent"}
    for name in BUILDERS:
        with pytest.raises(EngineError, match=f"the builder {name} does not answer") as failed:
            find_builder(name, env)
        assert failed.value.hint == "start or install it, or leave --builder out"
    with pytest.raises(EngineError, match="there is no builder named 'kaniko'") as failed:
        find_builder("kaniko", env)
    assert failed.value.hint == "the builders are: native, docker, podman, apptainer"


def test_podman_answers_where_docker_does_not(
    podman_env: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = {**podman_env, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    assert find_engine(None, alone) is builtin
    assert find_engine("podman", alone) is podman
    monkeypatch.setattr(podman, "version", lambda env: "made")
    assert find_engine(None, {**alone, "CONTAINER_CONNECTION": "made"}) is podman  # the user configures it


def test_an_image_that_is_no_file_where_no_engine_answers() -> None:
    env = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    with pytest.raises(
        EngineError, match="there is no file 'gone:1', and no Docker engine answers"
    ) as failed:
        compare_images("gone:1", "gone:1", env, lambda text: None)
    assert failed.value.hint.startswith(
        "give an output directory, an OCI layout, an archive of `docker save`"
    )


def test_compare_of_a_name_that_neither_a_file_nor_an_engine_has() -> None:
    env = {"DOCKER_HOST": "unix:///nonexistent/docker.sock", "PATH": os.defpath}
    with pytest.raises(EngineError, match="there is no file 'repro/4242'") as failed:
        compare("repro/4242", "here", Running(python="python3", env={}), env, lambda text: None)
    assert failed.value.hint.startswith("give a snapshot, a lock, an output directory, an image, or the word")


def test_the_registry_has_the_modules() -> None:
    assert list(ENGINES) == [builtin.NAME, docker.NAME, podman.NAME, apptainer.NAME]


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def get_request(self) -> tuple[socket.socket, str]:
        connection, _ = super().get_request()
        return connection, "client"


Reply = Callable[[http.server.BaseHTTPRequestHandler], None]


@contextlib.contextmanager
def fake_daemon(
    folder: Path, reply: Reply, removed: Callable[[], object] = lambda: None
) -> Iterator[Mapping[str, str]]:
    """A daemon that says its version, knows no image and one container, and does anything else as it is told."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def address_string(self) -> str:
            return "client"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def answer(self, code: int, document: object) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            path = self.path.split("?")[0]
            if path.endswith("/version"):
                self.answer(200, {"ApiVersion": "1.43", "Version": "fake"})
            elif path.endswith("/info"):
                self.answer(200, {"DriverStatus": [["driver-type", "io.containerd.snapshotter.v1"]]})
            elif "/containers/" in path:
                self.answer(200, {"Id": path.split("/")[-2]})
            else:
                self.answer(404, {"message": "No such image: " + path})

        def do_POST(self) -> None:
            reply(self)

        def do_DELETE(self) -> None:
            removed()
            self.answer(204, None)

    path = folder / "fake.sock"
    with Server(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield {**os.environ, "DOCKER_HOST": f"unix://{path}"}
        finally:
            server.shutdown()
            thread.join()


def load(tiny: Tiny, env: Mapping[str, str]) -> EngineError:
    with pytest.raises(EngineError) as failed:
        docker.load(tiny.layout, tiny.reference, tiny.digests, env)
    return failed.value


def test_it_hangs_up_when_an_image_is_loaded(tiny: Tiny, tmp_path: Path) -> None:
    with fake_daemon(tmp_path, lambda request: None) as env:
        assert docker.version(env) == "fake"
        err = load(tiny, env)
    assert str(err).startswith("the Docker daemon went away: ")
    assert err.hint == GONE


def test_it_hangs_up_in_the_middle_of_its_answer(tiny: Tiny, tmp_path: Path) -> None:
    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n{")

    with fake_daemon(tmp_path, reply) as env:
        err = load(tiny, env)
    assert str(err).startswith("the Docker daemon went away: ")
    assert err.hint == GONE


def test_it_refuses_to_load(tiny: Tiny, tmp_path: Path) -> None:
    line = json.dumps({"errorDetail": {}, "error": "no space left on device"}).encode()

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(line), line))

    with fake_daemon(tmp_path, reply) as env:
        err = load(tiny, env)
    assert str(err) == "Docker cannot load the image: no space left on device"
    assert err.hint == "see the daemon's log"


def test_it_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker, "ANSWER_SECONDS", 0.5)
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent.sock"))
        silent.listen()
        began = time.monotonic()
        assert docker.version({"DOCKER_HOST": f"unix://{tmp_path / 'silent.sock'}"}) is None
    assert time.monotonic() - began < 5


@pytest.mark.parametrize(
    "call",
    [
        lambda reference, env: docker.run(reference, TASK, env),
        lambda reference, env: docker.attach(reference, TASK, env, lambda *_: None),
    ],
    ids=["run", "attach"],
)
def test_it_is_killed_while_a_container_runs(
    tiny: Tiny, call: Callable[[str, Mapping[str, str]], object]
) -> None:
    with daemon("killed", share=True) as running:
        docker.load(tiny.layout, tiny.reference, tiny.digests, running.env)
        timer = threading.Timer(1.5, running.process.kill)  # and all that it looks after
        timer.start()
        with pytest.raises(EngineError, match="the Docker daemon went away: ") as failed:
            call(tiny.reference, running.env)
        timer.join()
        assert failed.value.hint == GONE
        assert docker.version(running.env) is None


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        # what crun 1.8 and runc 1.1 say, through podman 4.3
        ("Error: crun: cgroups in hybrid mode not supported, drop all controllers from cgroupv2: Invalid argument",
         'install runc, and write `runtime = "runc"` below [engine] in ~/.config/containers/containers.conf'),
        ("runc: runc create failed: error setting rlimits for ready process: error setting rlimit type 7: "
         "operation not permitted: OCI permission denied",
         "podman asks for higher limits than you may have: write `default_ulimits = "
         '["nofile=1024:1024", "nproc=1000:1000"]` below [containers] in ~/.config/containers/containers.conf'),
        ("something else", "`podman info` tells whether podman itself is well"),
    ],
)  # fmt: skip
def test_the_remedy_for_what_runtimes_refuse(said: str, hint: str) -> None:
    assert podman.podman_error(126, f"before\n{said}\n", "what").hint == hint


def test_podman_that_was_killed() -> None:
    killed = podman.podman_error(-9, "", "what")
    assert str(killed) == "podman was ended by signal 9"
    assert (
        killed.hint
        == "start the command again; `podman ps --all --external` lists what an interrupted one left"
    )


def test_a_container_gets_no_proxy_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = "http://me:pass" + "word@proxy.example:3128"
    (tmp_path / "config.json").write_text(json.dumps({"proxies": {"default": {"httpProxy": proxy}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    bodies: list[dict[str, object]] = []

    def reply(request: http.server.BaseHTTPRequestHandler) -> None:
        bodies.append(json.loads(request.rfile.read(int(request.headers["Content-Length"]))))
        request.wfile.write(b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n")

    with fake_daemon(tmp_path, reply) as env:
        for task in (TASK, Task(arguments=("env",), environment={"http_proxy": proxy})):
            with pytest.raises(EngineError, match="Docker refused"):
                docker.run("image:1", task, env)
    assert [body["Env"] for body in bodies] == [[], [f"http_proxy={proxy}"]]
