"""What every engine promises, on each kind of image store that Docker has and on podman."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprobuild import __version__
from reprobuild.doctor.disks import engine_directories
from reprobuild.engines import builtin, docker
from reprobuild.engines.model import Finished, Streams, Task
from reprobuild.engines.registry import find_engine
from reprobuild.errors import EngineError, ReproError
from reprobuild.image.layering.packed import MAKE_AGAIN
from reprobuild.image.model import ImageDigests
from tests.choices.samples import check_engine
from tests.engines.conftest import Running, Tiny, make_tiny

REFUSED = {
    "docker": "see the log of the Docker daemon",
    "podman": "`podman info` tells whether podman itself is well",
    "builtin": "take --network host or none, or choose another engine with --engine",
}
AWKWARD = {
    "QUOTES": 'it\'s "quoted" $HOME `id` \\n',
    "LINES": "one\ntwo\n\nfour\n",
    "LETTERS": "Grüße, 世界 🎲",
    "EMPTY": "",
    "EQUALS": "a=b=c",
}


@pytest.fixture(scope="module")
def loaded(engine: Running, tiny: Tiny) -> Iterator[Tiny]:
    assert engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env) is True
    yield tiny
    engine.client("rmi", tiny.reference)


@pytest.fixture
def name(engine: Running) -> Iterator[str]:
    """A name that no image of the engine has, also in the next run of the tests."""
    chosen = f"reprobuild-test/{uuid.uuid4().hex}:1"
    yield chosen
    if engine.client("images", "--quiet", chosen):
        engine.client("rmi", chosen)


def sh(image: Tiny, engine: Running, script: str, **more: Any) -> Finished:
    return engine.module.run(image.reference, Task(arguments=("sh", "-c", script), **more), engine.env)


def containers(image: Tiny, engine: Running) -> str:
    return engine.containers(image.reference)


def test_the_engines_are_the_ones_meant(engine: Running, request: pytest.FixtureRequest) -> None:
    assert find_engine(engine.module.NAME, engine.env) is engine.module
    assert find_engine(None, engine.env) is (docker if engine.env.get("DOCKER_HOST") else builtin)
    if engine.module is builtin:
        assert find_engine(None, {**engine.env, "DOCKER_HOST": ""}) is builtin
        assert engine.module.version(engine.env) == __version__
        return
    if request.node.callspec.id == "podman":
        assert engine.module.version(engine.env) == engine.client("--version").split()[-1]
        return
    said = engine.client("version", "--format", "{{.Server.Version}}").strip()
    assert engine.module.version(engine.env) == said
    if request.node.callspec.id != "in-use":
        assert "containerd" not in engine.client("info", "--format", "{{.Driver}} {{.DriverStatus}}")


def test_where_images_are_kept_is_known(engine: Running, loaded: Tiny) -> None:
    """The doctor looks at the disk of that directory, which the engine's settings may put anywhere."""
    if engine.module is builtin:
        assert engine_directories(["builtin"], engine.env) == {}  # it is one of `default_directories`
        return
    form = "{{.DockerRootDir}}" if engine.module is docker else "{{.Store.GraphRoot}}"
    kept = Path(engine.client("info", "--format", form).strip())
    found = engine_directories([engine.module.NAME], engine.env)[engine.module.NAME]
    assert found.is_relative_to(kept)
    assert any(found.iterdir())


def test_load_once(
    engine: Running, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """A layer of some size goes in as a stream; the second call finds the image there."""
    big = make_tiny(tmp_path, name, {"big": bytes(range(256)) * 100_000})
    if engine.module is not builtin:  # whose tar answers into one
        monkeypatch.setattr(tempfile, "TemporaryFile", None)
    assert engine.module.load(big.layout, name, big.digests, engine.env) is True
    assert engine.module.load(big.layout, name, big.digests, engine.env) is False
    known = engine.client("image", "inspect", "--format", "{{.Id}}", name).strip()
    known = known if known.startswith("sha256:") else f"sha256:{known}"
    assert known in big.digests
    assert sh(big, engine, "cat /big | head -c 256").stdout == bytes(range(256))
    engine.client("rmi", name)
    assert engine.module.load(big.layout, name, big.digests, engine.env) is True


def test_another_image_of_the_same_name_is_replaced(engine: Running, tmp_path: Path, name: str) -> None:
    one, two = (make_tiny(tmp_path / word, name, {"etc/word": word.encode()}) for word in ("one", "two"))
    for image, word in ((one, b"one"), (two, b"two"), (one, b"one")):
        assert engine.module.load(image.layout, name, image.digests, engine.env) is True
        assert sh(image, engine, "cat /etc/word").stdout == word


def test_an_image_that_is_not_the_one_meant(engine: Running, loaded: Tiny) -> None:
    with pytest.raises(
        EngineError, match=f"(loaded {loaded.reference} as|holds) sha256:.*, not (as )?sha256:(abc|def)"
    ) as failed:
        engine.module.load(
            loaded.layout, loaded.reference, ImageDigests("sha256:abc", "sha256:def"), engine.env
        )
    assert failed.value.hint in (
        "another image has this name; choose one with --tag",
        "is the layout of another build? Make it again with `reprobuild build`",
        "it was built again meanwhile: run the command again",
    )
    assert sh(loaded, engine, "cat /etc/hello").stdout == b"hello\n"


def test_output_without_end_is_kept_up_to_a_bound(
    loaded: Tiny, engine: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "LARGEST", 1000)
    done = sh(loaded, engine, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; echo $i >&2; done")
    assert (done.code, len(done.stdout), len(done.stderr)) == (0, 1001, 1000)
    assert done.stdout.startswith(b"1\n2\n")
    assert done.stderr.endswith(b"19999\n20000\n")


def test_streams_apart_and_exit_code(loaded: Tiny, engine: Running) -> None:
    done = sh(loaded, engine, "echo out; echo err >&2; exit 42")
    assert done == Finished(code=42, stdout=b"out\n", stderr=b"err\n", outputs={})
    assert sh(loaded, engine, "cat /etc/hello").stdout == b"hello\n"
    assert sh(loaded, engine, "sh -c 'kill -9 $$'; exit $?").code == 137
    assert containers(loaded, engine) == ""


def test_the_entrypoint_and_past_it(loaded: Tiny, engine: Running) -> None:
    assert sh(loaded, engine, 'echo "$ENTRYPOINT $IN_IMAGE"').stdout == b"passed yes\n"
    assert sh(loaded, engine, 'echo "$ENTRYPOINT $IN_IMAGE"', bypass=True).stdout == b" yes\n"


def test_the_environment_arrives_byte_for_byte(loaded: Tiny, engine: Running) -> None:
    task = Task(arguments=("env", "-0"), environment={**AWKWARD, "IN_IMAGE": "changed"})
    done = engine.module.run(loaded.reference, task, engine.env)
    seen = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert {name: seen[name] for name in AWKWARD} == AWKWARD
    assert seen["IN_IMAGE"] == "changed"


def test_arguments_are_no_shell_line(loaded: Tiny, engine: Running) -> None:
    words = ("a b", "", "$HOME", "'", "*", "ü")
    task = Task(arguments=("sh", "-c", 'for word; do echo "<$word>"; done', "sh", *words))
    said = engine.module.run(loaded.reference, task, engine.env).stdout.decode()
    assert said == "".join(f"<{word}>\n" for word in words)


def test_there_is_no_network(loaded: Tiny, engine: Running) -> None:
    assert sh(loaded, engine, "while read line; do echo; done </proc/net/route").stdout == b"\n"


def test_outputs(loaded: Tiny, engine: Running) -> None:
    script = "cd /results; echo a >a; echo c >'b c'; : >empty; echo x >/etc/other; ln -s a link 2>/dev/null; exit 3"
    done = sh(loaded, engine, script, outputs="/results")
    assert done.code == 3
    assert done.outputs == {"a": b"a\n", "b c": b"c\n", "empty": b""}
    assert sh(loaded, engine, "echo /results/*", outputs="/results").outputs == {}


def test_outputs_that_are_kept_in_a_folder(loaded: Tiny, engine: Running, tmp_path: Path) -> None:
    script = "cd /results; head -c 5000000 /dev/zero >file; echo c >'b c'; exit 3"
    done = sh(loaded, engine, script, outputs="/results", kept=tmp_path)
    assert (done.code, done.outputs) == (3, {})
    assert {path.name: path.stat().st_size for path in tmp_path.iterdir()} == {"file": 5_000_000, "b c": 2}


def test_megabytes_of_output(loaded: Tiny, engine: Running) -> None:
    script = (
        "head -c 6000000 /dev/zero; head -c 3000000 /dev/zero >&2; head -c 5000000 /dev/zero >/results/file"
    )
    done = sh(loaded, engine, script, outputs="/results")
    assert (len(done.stdout), len(done.stderr), len(done.outputs["file"])) == (
        6_000_000,
        3_000_000,
        5_000_000,
    )


def test_a_volume(loaded: Tiny, engine: Running, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("given")
    done = sh(loaded, engine, "cat /data/given >/data/made", volumes=((str(tmp_path), "/data"),))
    assert (done.code, (tmp_path / "made").read_text()) == (0, "given")


def test_choices_of_compilers(loaded: Tiny, engine: Running, tmp_path: Path) -> None:
    check_engine(lambda task: engine.module.run(loaded.reference, task, engine.env).code, tmp_path)


def test_past_the_timeout(loaded: Tiny, engine: Running) -> None:
    with pytest.raises(EngineError, match="did not end within 1 s: sh -c sleep 60") as failed:
        sh(loaded, engine, "sleep 60", timeout=1)
    assert (
        failed.value.hint == "is the command waiting for input or for the network? There is none in a check"
    )
    assert containers(loaded, engine) == ""


def test_no_timeout(loaded: Tiny, engine: Running) -> None:
    assert sh(loaded, engine, "exit 5", timeout=0).code == 5


def test_attach(loaded: Tiny, engine: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output comes while the command runs, also after a silence longer than an answer of the API may take."""
    monkeypatch.setattr(docker, "API_SECONDS", 2)
    came: list[tuple[float, int, bytes]] = []
    task = Task(arguments=("sh", "-c", "echo 1; echo 2 >&2; sleep 3; echo 3; exit 9"), timeout=0)
    code = engine.module.attach(
        loaded.reference, task, engine.env, lambda stream, data: came.append((time.monotonic(), stream, data))
    )
    assert code == 9
    assert b"".join(data for _, stream, data in came if stream == 1) == b"1\n3\n"
    assert b"".join(data for _, stream, data in came if stream == 2) == b"2\n"
    assert came[-1][0] - came[0][0] > 2
    assert containers(loaded, engine) == ""


def test_attach_when_the_reader_stops(loaded: Tiny, engine: Running) -> None:
    def broken(stream: int, data: bytes) -> None:
        raise BrokenPipeError

    task = Task(arguments=("sh", "-c", "trap exit TERM; while :; do echo more; done"))
    with pytest.raises(BrokenPipeError):
        engine.module.attach(loaded.reference, task, engine.env, broken)
    assert containers(loaded, engine) == ""


def test_an_image_that_is_not_there(engine: Running) -> None:
    for call in (
        lambda: engine.module.run("reprobuild-test/nothing:1", Task(arguments=("true",)), engine.env),
        lambda: engine.module.attach(
            "reprobuild-test/nothing:1", Task(arguments=()), engine.env, lambda *_: None
        ),
    ):
        with pytest.raises(EngineError, match="the engine has no image reprobuild-test/nothing:1") as failed:
            call()
        assert failed.value.hint == "`reprobuild verify OUT` loads it"


def test_what_the_engine_refuses(loaded: Tiny, engine: Running) -> None:
    with pytest.raises(
        EngineError,
        match=r"(?s)^(Docker refused|could not make a container|the built-in engine has no network).*nowhere",
    ) as failed:
        sh(loaded, engine, "echo", network="nowhere")
    assert failed.value.hint == REFUSED[engine.module.NAME], failed.value.hint
    with pytest.raises(
        EngineError,
        match=r"^(Docker refused|podman could not|the built-in engine cannot)( run a container)?: .*no-such-program",
    ):
        engine.module.run(loaded.reference, Task(arguments=("no-such-program",), bypass=True), engine.env)
    assert containers(loaded, engine) == ""


def damage(image: Tiny) -> None:
    largest = max((image.layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.unlink()
    largest.write_bytes(content)


def test_a_damaged_layout_is_not_loaded(engine: Running, tmp_path: Path, name: str) -> None:
    noise = random.Random(name).randbytes(5_000_000)  # a daemon takes no layer that it knows
    image = make_tiny(tmp_path, name, {"noise": noise})
    damage(image)
    threads = threading.active_count()
    with pytest.raises(
        ReproError, match=r"^Docker cannot load|^layer |^blob .* is not what it states$"
    ) as failed:
        engine.module.load(image.layout, name, image.digests, engine.env)
    assert failed.value.hint in ("see the daemon's log", MAKE_AGAIN, REFUSED["podman"])
    assert not engine.client("images", "--quiet", name)
    assert threading.active_count() == threads
