"""The words of `run`: what they mean, and what is said of those that mean nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.api.context import open_context
from reprobuild.engines.model import DEFAULT_NETWORK, Limit, Port
from reprobuild.errors import UsageError
from reprobuild.run import slurm
from reprobuild.run.options import (
    RunOptions,
    read_limits,
    read_ports,
    read_size,
    read_user,
    read_variables,
    read_volumes,
)
from reprobuild.run.run import prepare
from tests.verify.samples import make_lock

FORM = (
    "for example --ulimit nofile=1048576, --ulimit memlock=unlimited; "
    "NAME is one of memlock, stack, nofile, nproc, core"
)
USERS = "caller, image, or numbers: --user 1000:1000, --user $(id -u):$(id -g)"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def test_volumes() -> None:
    pairs, read_only = read_volumes(("/a b:/c d:ro", "/e:/f", "/e:/g:rw"))
    assert pairs == (("/a b", "/c d"), ("/e", "/f"), ("/e", "/g"))
    assert read_only == {"/c d"}


@pytest.mark.parametrize(
    "text", ["AWS*", "*", "*=x", "A*B=x", "=x", "", "a b=c", "A\nB=c", "A\x1b[2J=c", "-e=c", "1A=c", "a.b=c"]
)
def test_a_name_that_no_shell_sets_is_refused(text: str) -> None:
    """A name that ends in `*` is a pattern to podman, and would bring each variable of the caller that it fits."""
    with pytest.raises(UsageError, match="is not the name of a variable") as failed:
        read_variables(RunOptions(variables=(text,)), {"AWS_KEY": "x", text: "y"})
    assert failed.value.hint == (
        "a name has letters, digits and _, and begins with no digit; give several options for several variables: "
        "--env A=1 --env B"
    )


@pytest.mark.parametrize(
    ("text", "size"), [("8g", 8 << 30), ("512M", 512 << 20), ("64", 64), ("1k", 1024), ("2GiB", 2 << 30), ("7b", 7)]
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert read_size(text) == size


def test_limits() -> None:
    assert read_limits(("nofile=10:20", "memlock=unlimited", "stack=5:-1")) == (
        Limit(name="nofile", soft=10, hard=20),
        Limit(name="memlock", soft=-1, hard=-1),
        Limit(name="stack", soft=5, hard=-1),
    )


def test_ports() -> None:
    assert read_ports(("8888:80", "0.0.0.0:1:65535", "[::1]:9:9")) == (
        Port(address="127.0.0.1", host=8888, inside=80),
        Port(address="0.0.0.0", host=1, inside=65535),
        Port(address="::1", host=9, inside=9),
    )


def test_a_port_needs_a_network() -> None:
    """It can be reached from this machine alone, and the command can reach others, which is said."""
    ready = prepare(make_lock(), (), RunOptions(ports=("8888:80",)), {})
    assert ready.task.network == DEFAULT_NETWORK
    assert "network: the engine's own, for -p; the command can reach other machines" in ready.said
    assert prepare(make_lock(), (), RunOptions(ports=("8888:80",), network="mine"), {}).task.network == "mine"


def test_a_profile() -> None:
    variables = read_variables(RunOptions(seed=7, profile="strict, torch"), {})
    assert variables == {"REPROBUILD_SEED": "7", "REPROBUILD_PROFILE": "strict,torch"}


def test_users() -> None:
    assert [read_user(text) for text in ("image", "caller", "5", "5:6")] == ["", "caller", "5:5", "5:6"]


@pytest.mark.parametrize(
    ("read", "what", "hint"),
    [
        (lambda: read_volumes(("a:b",)), "--volume a:b: not of the form", "for example --volume data:/data:ro"),
        (lambda: read_volumes(("a:/b:rx",)), "--volume a:/b:rx: not of the form", "for example --volume"),
        (lambda: read_volumes((":/b",)), "--volume :/b: not of the form", "for example --volume"),
        (lambda: read_size("0"), "--shm-size 0: not a size", "for example --shm-size 8g"),
        (lambda: read_size("-1g"), "--shm-size -1g: not a size", "for example --shm-size 8g"),
        (lambda: read_limits(("rss=1",)), "--ulimit rss=1: not of the form", FORM),
        (lambda: read_limits(("nofile=2:1",)), "--ulimit nofile=2:1: not of the form", "for example --ulimit nofile="),
        (lambda: read_limits(("nofile",)), "--ulimit nofile: not of the form", "for example --ulimit nofile="),
        (lambda: read_limits(("core=unlimited:5",)), "--ulimit core=unlimited:5: not", "for example --ulimit nofile="),
        *(
            (
                lambda text=text: read_ports((text,)), f"--publish {text}: not of the form [ADDRESS:]HOST:CONTAINER",
                "for example -p 8888:8888, or -p 0.0.0.0:8888:8888 to let other machines reach it",
            )
            for text in ("8888", "0:80", "80:65536", "localhost:80:80", "80:80/udp", "::1:80:80")
        ),
        *(
            (
                lambda name=name: prepare(make_lock(), (), RunOptions(ports=("1:1",), network=name), {}),
                f"-p and --network {name}: no port is published from there",
                "leave --network out; or with --network host leave -p out: a server is reached at its own port",
            )
            for name in ("none", "host")
        ),
        *(
            (
                lambda stdin=stdin: prepare(make_lock(), (), RunOptions(stdin=stdin, terminal=True), {}),
                "-t needs -i, and a terminal as standard input",
                "-it gives a shell at a terminal; in a pipe or a script, leave -t out",
            )
            for stdin in (True, False)
        ),
        (
            lambda: read_variables(RunOptions(profile="strict"), {}),
            "--profile without --seed: a profile is in force for a chosen seed alone", "choose a seed, too: --seed 7",
        ),
        (
            lambda: read_variables(RunOptions(seed=7, profile="srtict"), {}),
            "--profile: there is no profile 'srtict'", "name one of ",
        ),
        (lambda: read_user("root"), "--user root: not a user", USERS),
        (
            lambda: read_variables(RunOptions(hidden=("GONE",)), {}),
            "--secret GONE: it is not set here, or empty", "export it before: read -rs GONE; export GONE",
        ),
        (
            lambda: prepare(make_lock(), (), RunOptions(workdir="data"), {}),
            "--workdir data: not a path in the container",
            "it begins with /; mount a directory of this machine with -v HOST:CONTAINER",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be(read: Callable[[], object], what: str, hint: str) -> None:
    with pytest.raises(UsageError) as failed:
        read()
    assert str(failed.value).startswith(what)
    assert hint in failed.value.hint


def test_a_secret_on_the_command_line_is_refused_and_not_repeated() -> None:
    with pytest.raises(UsageError, match="--secret takes the name of a variable alone") as failed:
        read_variables(RunOptions(hidden=(f"HF_TOKEN={TOKEN}",)), {})
    assert TOKEN not in str(failed.value)
    assert failed.value.hint == "export the variable first, and give its name: --secret WANDB_API_KEY"


def test_several_ranks_have_no_terminal_and_no_port(tmp_path: Path) -> None:
    context = open_context(tmp_path / "store")
    with pytest.raises(UsageError, match="-i, -t and -p are for one container") as failed:
        slurm.run(Path("out"), ("bash",), context, lambda *_: None, RunOptions(stdin=True), "-N 2")
    assert failed.value.hint == "start `run` itself in the job: srun --pty reprobuild run OUT -it -- bash"
