"""What a command is given in a container beside its image: directory, user, mounts, shared memory, limits, secrets."""

from __future__ import annotations

import itertools
import os
import re
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.engines import apptainer
from reprobuild.engines.docker_options import container_user as docker_user
from reprobuild.engines.limits import REFUSED, hard_limit, limits_of_caller, may_raise, start_with_limits
from reprobuild.engines.model import Finished, Limit, Port, Task, identity_variables
from reprobuild.engines.podman_options import OF_PODMAN, container_options
from reprobuild.errors import EngineError
from reprobuild.run.pyxis import OF_SRUN
from tests.engines.conftest import Running, Tiny, make_tiny

SECRET = "s3cr3t-value"
SCRIPT = "pwd; echo $ENTRYPOINT $T; cat /proc/self/limits; echo x >made; echo x >/ro/no"
ENTRY = ("/bin/env", "ENTRYPOINT=passed", "sh", "-c")
Env = Mapping[str, str]


@pytest.fixture(scope="module")
def loaded(engine: Running, tiny: Tiny) -> Iterator[Tiny]:
    engine.module.load(tiny.layout, tiny.reference, tiny.digests, engine.env)
    yield tiny
    engine.client("rmi", tiny.reference)


def sh(image: Tiny, engine: Running, script: str, **more: Any) -> Finished:
    return engine.module.run(image.reference, Task(arguments=("sh", "-c", script), **more), engine.env)


def limits(text: bytes) -> dict[str, list[str]]:
    """Return {name: [soft, hard]} of /proc/self/limits."""
    found = re.findall(r"^Max (.+?)  +(\S+) +(\S+)", text.decode(), re.MULTILINE)
    return {name: [soft, hard] for name, soft, hard in found}


def test_mounts(loaded: Tiny, engine: Running, tmp_path: Path) -> None:
    (tmp_path / "given").write_text("given")
    folder = str(tmp_path)
    done = sh(
        loaded, engine, "cat /one/given >/two/made; echo no >/one/no", read_only=frozenset({"/one"}),
        volumes=((folder, "/one"), (folder, "/two")),
    )  # fmt: skip
    assert done.code != 0
    assert b"ead-only" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "made"]
    with pytest.raises(EngineError):
        sh(loaded, engine, "true", volumes=((str(tmp_path / "gone"), "/one"),))
    assert not (tmp_path / "gone").exists()


def test_another_folder_and_user(loaded: Tiny, engine: Running, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    task = Task(
        arguments=(*ENTRY, "pwd; echo $HOME $USER $ENTRYPOINT; echo x >made"), bypass=True, workdir="/data",
        volumes=((str(tmp_path), "/data"),), user="4321:1234",
    )  # fmt: skip
    done = engine.module.run(loaded.reference, task, engine.env)
    assert (done.code, done.stdout) == (0, b"/data\n/tmp u4321 passed\n"), done.stderr
    written = (tmp_path / "made").stat()
    assert (written.st_uid, written.st_gid) == (4321, 1234)


def test_shared_memory_and_limits(loaded: Tiny, engine: Running) -> None:
    asked = (Limit(name="nofile", soft=500, hard=600), Limit(name="core", soft=0, hard=0))
    script = "cat /proc/self/limits; cat /proc/mounts"
    done = sh(loaded, engine, script, shared_memory=3 << 30, limits=asked)
    assert done.code == 0, done.stderr
    found = limits(done.stdout)
    assert found["open files"] == ["500", "600"]
    assert found["core file size"] == ["0", "0"]
    assert re.search(rb" /dev/shm tmpfs \S*size=3145728k", done.stdout)


def test_generous_limits_as_far_as_the_engine_may(loaded: Tiny, engine: Running) -> None:
    lines: list[bytes] = []
    task = Task(arguments=("cat", "/proc/self/limits"), generous=True, timeout=0)
    code = engine.module.attach(loaded.reference, task, engine.env, lambda _, data: lines.append(data))
    found = limits(b"".join(lines))
    assert code == 0
    done = engine.module.run(loaded.reference, task, engine.env)
    assert (done.code, limits(done.stdout)) == (0, found)
    if may_raise():
        assert found["locked memory"] == ["unlimited", "unlimited"]
        assert found["stack size"] == [str(64 << 20), "unlimited"]
    elif engine.module.NAME == "podman":
        assert found["locked memory"][1] == str(hard_limit("memlock")).replace("-1", "unlimited")


def test_refused_generous_limits_are_left_out() -> None:
    started: list[bool] = []

    def start(task: Task) -> str:
        started.append(task.generous)
        if task.generous:
            raise EngineError(f"{REFUSED} type 8: operation not permitted", hint="x")
        return "done"

    task = Task(arguments=("true",), generous=True)
    assert start_with_limits(start, task) == "done"
    assert started == [True, False]


def test_another_refusal_is_not_tried_again() -> None:
    started: list[bool] = []

    def start(task: Task) -> str:
        started.append(task.generous)
        raise EngineError("no space left on device", hint="x")

    with pytest.raises(EngineError, match="no space"):
        start_with_limits(start, Task(arguments=("true",), generous=True))
    assert started == [True]


def test_limits_that_no_engine_may_raise(loaded: Tiny, engine: Running) -> None:
    """What the daemon's own limits allow cannot be seen from here; where it refuses, it is said why."""
    most = Limit(name="nofile", soft=2**31, hard=2**31)  # more than fs.nr_open of any kernel
    with pytest.raises(EngineError) as failed:
        sh(loaded, engine, "true", limits=(most,))
    hints = {
        "docker": "the daemon may not raise limits that far: ask for less with --ulimit, or leave it out"
    }
    if engine.module.NAME in hints:
        assert failed.value.hint == hints[engine.module.NAME]
    else:
        assert "rlimit" in str(failed.value) or "more than you may have here" in str(failed.value)


def test_secrets_of_any_name(loaded: Tiny, engine: Running) -> None:
    hidden = {"WANDB_API_KEY": SECRET, "DOCKER_AUTH_TOKEN": f"{SECRET} # x", "HTTP_TOKEN": SECRET}
    script = 'echo "$WANDB_API_KEY|$DOCKER_AUTH_TOKEN|$HTTP_TOKEN"'
    done = sh(loaded, engine, script, environment=hidden, hidden=frozenset(hidden))
    assert done.stdout.decode() == f"{SECRET}|{SECRET} # x|{SECRET}\n"


def test_podman_is_told_no_secret_on_its_command_line() -> None:
    values = {"A_TOKEN": SECRET, "DOCKER_AUTH_TOKEN": SECRET, "TMPDIR": "/x"}
    task = Task(arguments=(), environment=values, hidden=frozenset({"A_TOKEN", "DOCKER_AUTH_TOKEN"}))
    options, env, told = container_options(task, {}, {})
    assert SECRET not in " ".join(options)
    assert "TMPDIR=/x" in options
    assert (env, told) == ({"A_TOKEN": SECRET}, f"DOCKER_AUTH_TOKEN={SECRET}\n".encode())
    several = Task(arguments=(), environment={"SSL_KEY": "a\nb"}, hidden=frozenset({"SSL_KEY"}))
    with pytest.raises(EngineError, match="podman cannot be given SSL_KEY out of sight") as failed:
        container_options(several, {}, {})
    assert (
        failed.value.hint
        == "give it another name, mount it as a file with -v, or choose another engine with --engine"
    )


def test_podman_is_told_no_pattern() -> None:
    """A name without a value that ends in `*` would bring each variable of the caller that it fits."""
    values = {"AWS*": "x", "B*": SECRET, "A": "y"}
    options, env, told = container_options(
        Task(arguments=(), environment=values, hidden=frozenset({"B*"})), {}, {}
    )
    given = [value for word, value in itertools.pairwise(options) if word == "--env"]
    assert given == ["AWS*=x", "A"]
    assert (env, told) == ({"A": "y"}, f"B*={SECRET}\n".encode())


@pytest.mark.parametrize("pattern", [OF_PODMAN, OF_SRUN])
@pytest.mark.parametrize(
    "name", ["GCONV_PATH", "GLIBC_TUNABLES", "BASH_ENV", "BASH_FUNC_x", "ENV", "IFS", "LD_PRELOAD", "LOCPATH",
             "MALLOC_PERTURB_", "PATH", "HOME", "TMPDIR"],
)  # fmt: skip
def test_a_variable_that_changes_each_program_is_in_no_environment_of_one(
    pattern: re.Pattern[str], name: str
) -> None:
    assert pattern.fullmatch(name)
    assert not pattern.fullmatch("NCCL_DEBUG")


def test_more_than_the_caller_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda number: (100, 200))
    asked = Task(arguments=(), limits=(Limit(name="nofile", soft=100, hard=201),))
    with pytest.raises(
        EngineError, match="--ulimit nofile: 201 is more than you may have here, 200"
    ) as failed:
        limits_of_caller(asked)
    assert failed.value.hint == (
        "ask for no more, or let the administrator raise it "
        "(/etc/security/limits.conf, Slurm's PropagateResourceLimits)"
    )
    assert limits_of_caller(Task(arguments=(), generous=True)) == [
        Limit(name="memlock", soft=200, hard=200),
        Limit(name="stack", soft=200, hard=200),
    ]


def test_apptainer(apptainer_env: Env, tmp_path: Path) -> None:
    image = make_tiny(tmp_path / "image", "wishes:1")
    apptainer.load(image.layout, image.reference, image.digests, apptainer_env)
    data = tmp_path / "data"
    data.mkdir()
    task = Task(
        arguments=(*ENTRY, SCRIPT), bypass=True,
        workdir="/data", volumes=((str(data), "/data"), (str(data), "/ro")), read_only=frozenset({"/ro"}),
        user="caller", generous=True, limits=(Limit(name="nofile", soft=500, hard=600),), environment={"T": SECRET},
        hidden=frozenset({"T"}), shared_memory=3 << 30,
    )  # fmt: skip
    done = apptainer.run(image.reference, task, apptainer_env)
    assert done.stdout.startswith(f"/data\npassed {SECRET}\n".encode()), done.stderr
    assert limits(done.stdout)["open files"] == ["500", "600"]
    assert b"ead-only" in done.stderr
    assert [path.name for path in data.iterdir()] == ["made"]
    other = Task(arguments=("true",), user="4321:1234")
    with pytest.raises(EngineError, match="as the user who calls it, and not as 4321:1234") as failed:
        apptainer.run(image.reference, other, apptainer_env)
    assert failed.value.hint == "leave --user out, or choose another engine with --engine"
    server = Task(arguments=("true",), ports=(Port(address="127.0.0.1", host=8888, inside=8888),))
    with pytest.raises(EngineError, match="Apptainer publishes no ports") as failed:
        apptainer.run(image.reference, server, apptainer_env)
    assert failed.value.hint == (
        "replace -p by --network host: a server is then reached at the port that it listens on"
    )


def test_the_caller_in_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "getegid", lambda: 100)
    assert docker_user("caller", rootless=False) == "1000:100"
    assert docker_user("caller", rootless=True) == ""  # root in the container is the user of the daemon
    assert docker_user("", rootless=False) == ""
    assert docker_user("5:6", rootless=True) == "5:6"
    assert identity_variables("1000:100") == {"HOME": "/tmp", "USER": "u1000", "LOGNAME": "u1000"}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert docker_user("caller", rootless=False) == ""
