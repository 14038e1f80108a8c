"""What `engines.docker` promises, on each kind of image store that Docker has."""

from __future__ import annotations

import random
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.engines import docker, find_engine
from reprobuild.engines.model import Finished, Task
from reprobuild.errors import EngineError, ReproError
from reprobuild.explain import explain
from reprobuild.image.oci import MAKE_AGAIN
from tests.engines.conftest import Tiny, make_tiny

AWKWARD = {
    "QUOTES": 'it\'s "quoted" $HOME `id` \\n',
    "LINES": "one\ntwo\n\nfour\n",
    "LETTERS": "Grüße, 世界 🎲",
    "EMPTY": "",
    "EQUALS": "a=b=c",
}

Env = Mapping[str, str]


@pytest.fixture(scope="module")
def loaded(engine_env: Env, tiny: Tiny) -> Iterator[Tiny]:
    assert docker.load(tiny.layout, tiny.reference, tiny.digests, engine_env) is True
    yield tiny
    client(engine_env, "rmi", tiny.reference)


@pytest.fixture
def name(engine_env: Env) -> Iterator[str]:
    """A name that no image of the engine has, also in the next run of the tests."""
    chosen = f"reprobuild-test/{uuid.uuid4().hex}:1"
    yield chosen
    if client(engine_env, "images", "--quiet", chosen):
        client(engine_env, "rmi", chosen)


def sh(image: Tiny, env: Env, script: str, **more: Any) -> Finished:
    return docker.run(image.reference, Task(arguments=("sh", "-c", script), **more), env)


def client(env: Env, *arguments: str) -> str:
    done = subprocess.run(["docker", *arguments], env=dict(env), capture_output=True, text=True, check=True)
    return done.stdout


def containers(image: Tiny, env: Env) -> str:
    return client(env, "ps", "--all", "--quiet", "--filter", f"ancestor={image.reference}")


def test_the_stores_are_the_ones_meant(engine_env: Env, request: pytest.FixtureRequest) -> None:
    driver = client(engine_env, "info", "--format", "{{.Driver}} {{.DriverStatus}}")
    assert find_engine("docker", engine_env) is docker
    assert find_engine(None, engine_env) is docker
    assert (
        docker.version(engine_env) == client(engine_env, "version", "--format", "{{.Server.Version}}").strip()
    )
    if request.node.callspec.id != "in-use":
        assert "containerd" not in driver


def test_load_once(
    engine_env: Env, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A layer of some size goes in as a stream; the second call finds the image there, by config or manifest."""
    big = make_tiny(tmp_path, name, {"big": bytes(range(256)) * 100_000})
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    assert docker.load(big.layout, name, big.digests, engine_env) is True
    assert docker.load(big.layout, name, big.digests, engine_env) is False
    known = client(engine_env, "image", "inspect", "--format", "{{.Id}}", name).strip()
    assert known in big.digests
    assert docker.load(big.layout, name, [known], engine_env) is False
    assert sh(big, engine_env, "cat /big | head -c 256").stdout == bytes(range(256))
    client(engine_env, "rmi", name)
    assert docker.load(big.layout, name, big.digests, engine_env) is True


def test_another_image_of_the_same_name_is_replaced(engine_env: Env, tmp_path: Path, name: str) -> None:
    one, two = (make_tiny(tmp_path / word, name, {"etc/word": word.encode()}) for word in ("one", "two"))
    for image, word in ((one, b"one"), (two, b"two"), (one, b"one")):
        assert docker.load(image.layout, name, image.digests, engine_env) is True
        assert sh(image, engine_env, "cat /etc/word").stdout == word


def test_an_image_that_is_not_the_one_meant(engine_env: Env, loaded: Tiny) -> None:
    with pytest.raises(
        EngineError, match=f"loaded {loaded.reference} as sha256:.*, not as sha256:abc or x"
    ) as failed:
        docker.load(loaded.layout, loaded.reference, ["sha256:abc", "x"], engine_env)
    assert failed.value.hint == "another image has this name; choose one with --tag"


def test_streams_apart_and_exit_code(loaded: Tiny, engine_env: Env) -> None:
    done = sh(loaded, engine_env, "echo out; echo err >&2; exit 42")
    assert done == Finished(code=42, stdout=b"out\n", stderr=b"err\n", outputs={})
    assert sh(loaded, engine_env, "cat /etc/hello").stdout == b"hello\n"
    assert sh(loaded, engine_env, "sh -c 'kill -9 $$'; exit $?").code == 137
    assert containers(loaded, engine_env) == ""


def test_the_entrypoint_and_past_it(loaded: Tiny, engine_env: Env) -> None:
    assert sh(loaded, engine_env, 'echo "$ENTRYPOINT $IN_IMAGE"').stdout == b"passed yes\n"
    assert sh(loaded, engine_env, 'echo "$ENTRYPOINT $IN_IMAGE"', bypass=True).stdout == b" yes\n"


def test_the_environment_arrives_byte_for_byte(loaded: Tiny, engine_env: Env) -> None:
    task = Task(arguments=("env", "-0"), environment={**AWKWARD, "IN_IMAGE": "changed"})
    done = docker.run(loaded.reference, task, engine_env)
    seen = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert {name: seen[name] for name in AWKWARD} == AWKWARD
    assert seen["IN_IMAGE"] == "changed"


def test_arguments_are_no_shell_line(loaded: Tiny, engine_env: Env) -> None:
    words = ("a b", "", "$HOME", "'", "*", "ü")
    task = Task(arguments=("sh", "-c", 'for word; do echo "<$word>"; done', "sh", *words))
    said = docker.run(loaded.reference, task, engine_env).stdout.decode()
    assert said == "".join(f"<{word}>\n" for word in words)


def test_there_is_no_network(loaded: Tiny, engine_env: Env) -> None:
    assert sh(loaded, engine_env, "while read line; do echo; done </proc/net/route").stdout == b"\n"


def test_outputs(loaded: Tiny, engine_env: Env) -> None:
    script = "cd /results; echo a >a; echo c >'b c'; : >empty; echo x >/etc/other; ln -s a link 2>/dev/null; exit 3"
    done = sh(loaded, engine_env, script, outputs="/results")
    assert done.code == 3
    assert done.outputs == {"a": b"a\n", "b c": b"c\n", "empty": b""}
    assert sh(loaded, engine_env, "echo /results/*", outputs="/results").outputs == {}


def test_megabytes_of_output(loaded: Tiny, engine_env: Env) -> None:
    script = (
        "head -c 6000000 /dev/zero; head -c 3000000 /dev/zero >&2; head -c 5000000 /dev/zero >/results/file"
    )
    done = sh(loaded, engine_env, script, outputs="/results")
    assert (len(done.stdout), len(done.stderr), len(done.outputs["file"])) == (
        6_000_000,
        3_000_000,
        5_000_000,
    )


def test_a_volume(loaded: Tiny, engine_env: Env, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("given")
    done = sh(loaded, engine_env, "cat /data/given >/data/made", volumes=((str(tmp_path), "/data"),))
    assert (done.code, (tmp_path / "made").read_text()) == (0, "given")


def test_past_the_timeout(loaded: Tiny, engine_env: Env) -> None:
    with pytest.raises(EngineError, match="did not end within 1 s: sh -c sleep 60") as failed:
        sh(loaded, engine_env, "sleep 60", timeout=1)
    assert (
        failed.value.hint == "is the command waiting for input or for the network? There is none in a check"
    )
    assert containers(loaded, engine_env) == ""


def test_no_timeout(loaded: Tiny, engine_env: Env) -> None:
    assert sh(loaded, engine_env, "exit 5", timeout=0).code == 5


def test_attach(loaded: Tiny, engine_env: Env, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output comes while the command runs, also after a silence longer than an answer of the API may take."""
    monkeypatch.setattr(docker, "API_SECONDS", 2)
    came: list[tuple[float, int, bytes]] = []
    task = Task(arguments=("sh", "-c", "echo 1; echo 2 >&2; sleep 3; echo 3; exit 9"), timeout=0)
    code = docker.attach(
        loaded.reference, task, engine_env, lambda stream, data: came.append((time.monotonic(), stream, data))
    )
    assert code == 9
    assert b"".join(data for _, stream, data in came if stream == 1) == b"1\n3\n"
    assert b"".join(data for _, stream, data in came if stream == 2) == b"2\n"
    assert came[-1][0] - came[0][0] > 2
    assert containers(loaded, engine_env) == ""


def test_attach_when_the_reader_stops(loaded: Tiny, engine_env: Env) -> None:
    def broken(stream: int, data: bytes) -> None:
        raise BrokenPipeError

    task = Task(arguments=("sh", "-c", "while :; do echo more; done"))
    with pytest.raises(BrokenPipeError):
        docker.attach(loaded.reference, task, engine_env, broken)
    assert containers(loaded, engine_env) == ""


def test_an_image_that_is_not_there(engine_env: Env) -> None:
    for call in (
        lambda: docker.run("reprobuild-test/nothing:1", Task(arguments=("true",)), engine_env),
        lambda: docker.attach("reprobuild-test/nothing:1", Task(arguments=()), engine_env, lambda *_: None),
    ):
        with pytest.raises(EngineError, match="the engine has no image reprobuild-test/nothing:1") as failed:
            call()
        assert failed.value.hint == "`reprobuild verify OUT` loads it"


def test_an_image_is_saved_as_it_was_loaded(loaded: Tiny, engine_env: Env) -> None:
    """`diff` of the layout and of the engine's image: the same tree and configuration, with any image store."""
    said: list[str] = []
    found = explain(str(loaded.layout), loaded.reference, engine_env, said.append)
    assert (found.level in ("config", "manifest"), found.files) == (True, ())
    assert found.other.form.endswith(" of docker")
    assert found.other.config == loaded.digests[0]
    assert f"{loaded.reference} is no file: saving the image of that name from docker" in said
    with pytest.raises(
        EngineError, match="Docker has no image 'reprobuild-test/nothing:1', and there is"
    ) as failed:
        explain("reprobuild-test/nothing:1", "x", engine_env, said.append)
    assert failed.value.hint == "`docker images` lists what it has"


def test_what_docker_refuses(loaded: Tiny, engine_env: Env) -> None:
    with pytest.raises(EngineError, match=r"^Docker refused: .*nowhere") as failed:
        sh(loaded, engine_env, "echo", network="nowhere")
    assert failed.value.hint == "see the log of the Docker daemon"
    with pytest.raises(EngineError, match=r"^Docker refused: .*no-such-program"):
        docker.run(loaded.reference, Task(arguments=("no-such-program",), bypass=True), engine_env)
    assert containers(loaded, engine_env) == ""


def damage(image: Tiny) -> None:
    largest = max((image.layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.unlink()
    largest.write_bytes(content)


def test_a_damaged_layout_is_not_loaded(engine_env: Env, tmp_path: Path, name: str) -> None:
    noise = random.Random(name).randbytes(5_000_000)  # a daemon takes no layer that it knows
    image = make_tiny(tmp_path, name, {"noise": noise})
    damage(image)
    threads = threading.active_count()
    with pytest.raises(ReproError, match=r"^Docker cannot load the image|^layer ") as failed:
        docker.load(image.layout, name, image.digests, engine_env)
    assert failed.value.hint in ("see the daemon's log", MAKE_AGAIN)
    assert not client(engine_env, "images", "--quiet", name)
    assert threading.active_count() == threads
