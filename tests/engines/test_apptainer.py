"""What `engines.apptainer` promises: as the caller, and as a user without privileges."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.engines import apptainer
from reprobuild.engines.apptainer_cache import FOLDER, Cache
from reprobuild.engines.model import Finished, Streams, Task
from reprobuild.engines.registry import find_engine
from reprobuild.errors import BuildError, EngineError
from reprobuild.image.model import ImageDigests
from tests.choices.samples import check_engine
from tests.conftest import apptainer_environment
from tests.engines.conftest import Tiny, make_tiny

AWKWARD = {
    "QUOTES": 'it\'s "quoted" $HOME `id` \\n',
    "LINES": "one\ntwo\n\nfour\n",
    "LETTERS": "Grüße, 世界 🎲",
    "EMPTY": "",
    "EQUALS": "a=b=c",
    "COMMAS": 'a,b,"c"',
    "TEMPLATE": "{{ name }}",
}
SECRET = "s3cr3t"

Env = Mapping[str, str]


@pytest.fixture(scope="module")
def loaded(apptainer_env: Env, tiny: Tiny) -> Tiny:
    apptainer.load(tiny.layout, tiny.reference, tiny.digests, apptainer_env)
    return tiny


def sh(image: Tiny, env: Env, script: str, **more: Any) -> Finished:
    return apptainer.run(image.reference, Task(arguments=("sh", "-c", script), **more), env)


def sifs(env: Env) -> list[Path]:
    return sorted((Path(env["XDG_CACHE_HOME"]) / FOLDER).glob("*.sif"))


def test_it_is_found_by_name(apptainer_env: Env) -> None:
    said = subprocess.run(
        ["apptainer", "version"], env=apptainer_env, capture_output=True, text=True, check=True
    )
    assert find_engine("apptainer", apptainer_env) is apptainer
    assert apptainer.version(apptainer_env) == said.stdout.strip()


def test_load_once(apptainer_env: Env, tmp_path: Path) -> None:
    env = {**apptainer_env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    image = make_tiny(tmp_path, "name:1", {"big": bytes(range(256)) * 10_000})
    assert apptainer.load(image.layout, "name:1", image.digests, env) is True
    assert apptainer.load(image.layout, "name:1", image.digests, env) is False
    assert apptainer.load(image.layout, "other/name:1", image.digests, env) is True
    (written,) = sifs(env)
    assert (Path(env["XDG_CACHE_HOME"]) / FOLDER).stat().st_mode & 0o77 == 0
    assert image.digests[1] == f"sha256:{written.stem}"
    for name in ("name:1", "other/name:1"):
        done = apptainer.run(name, Task(arguments=("head", "-c", "256", "/big"), bypass=True), env)
        assert done.stdout == bytes(range(256))


@pytest.mark.parametrize("damage", ["changed", "cut", "gone", "record", "name"])
def test_a_damaged_file_in_the_cache_is_noticed(apptainer_env: Env, tmp_path: Path, damage: str) -> None:
    env = {**apptainer_env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    image = make_tiny(tmp_path, "name:1")
    assert apptainer.load(image.layout, "name:1", image.digests, env) is True
    (written,) = sifs(env)
    good = written.read_bytes()
    if damage == "changed":
        written.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    elif damage == "cut":
        written.write_bytes(good[:-4096])
    elif damage == "gone":
        written.unlink()
    elif damage == "record":
        written.with_suffix(".json").write_text("{}")
    else:
        (name,) = (written.parent / "names").iterdir()
        name.write_text("../../etc/passwd")
    assert apptainer.load(image.layout, "name:1", image.digests, env) is True
    assert written.read_bytes() == good
    assert apptainer.load(image.layout, "name:1", image.digests, env) is False


def test_another_image_of_the_same_name_is_replaced(apptainer_env: Env, tmp_path: Path) -> None:
    env = {**apptainer_env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for word in ("one", "two"):
        image = make_tiny(tmp_path / word, "name:1", {"etc/word": word.encode()})
        left = tmp_path / "cache" / FOLDER / "new.part"
        left.mkdir(parents=True, mode=0o700)  # of a process that was killed
        (left / "image.sif").write_bytes(b"half")
        assert apptainer.load(image.layout, "name:1", image.digests, env) is True
        assert sh(image, env, "cat /etc/word").stdout == word.encode()
        assert len(sifs(env)) == 1
        assert not left.exists()


def test_an_image_that_is_not_the_one_meant(apptainer_env: Env, tiny: Tiny) -> None:
    with pytest.raises(EngineError, match=r"holds sha256:.*, not sha256:def with sha256:abc") as failed:
        apptainer.load(tiny.layout, tiny.reference, ImageDigests("sha256:abc", "sha256:def"), apptainer_env)
    assert failed.value.hint == "it was built again meanwhile: run the command again"


def test_output_without_end_is_kept_up_to_a_bound(
    loaded: Tiny, apptainer_env: Env, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Streams, "LARGEST", 1000)
    done = sh(loaded, apptainer_env, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; echo $i >&2; done")
    assert (done.code, len(done.stdout), len(done.stderr)) == (0, 1001, 1000)


def test_streams_apart_and_exit_code(loaded: Tiny, apptainer_env: Env) -> None:
    done = sh(loaded, apptainer_env, "echo out; echo err >&2; exit 42")
    assert done == Finished(code=42, stdout=b"out\n", stderr=b"err\n", outputs={})
    assert sh(loaded, apptainer_env, "cat /etc/hello; exit 255") == Finished(
        code=255, stdout=b"hello\n", stderr=b""
    )
    assert sh(loaded, apptainer_env, "kill -9 $$").code == 137


def test_the_entrypoint_and_past_it(loaded: Tiny, apptainer_env: Env) -> None:
    assert sh(loaded, apptainer_env, 'echo "$ENTRYPOINT $IN_IMAGE"').stdout == b"passed yes\n"
    assert sh(loaded, apptainer_env, 'echo "$ENTRYPOINT $IN_IMAGE"', bypass=True).stdout == b" yes\n"


def test_the_environment_arrives_byte_for_byte_and_nothing_of_the_host(
    loaded: Tiny, apptainer_env: Env
) -> None:
    env = {
        **apptainer_env, "TOKEN": SECRET, "APPTAINERENV_TOKEN": SECRET, "SINGULARITYENV_TOKEN": SECRET,
        "APPTAINER_ENV": f"TOKEN={SECRET}", "APPTAINER_BIND": "/etc/hosts:/etc/hello", "HTTPS_PROXY": f"http://me:{SECRET}@h",
    }  # fmt: skip
    task = Task(arguments=("env", "-0"), environment={**AWKWARD, "IN_IMAGE": "changed"})
    done = apptainer.run(loaded.reference, task, env)
    seen = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert {name: seen[name] for name in AWKWARD} == AWKWARD
    assert seen["IN_IMAGE"] == "changed"
    assert SECRET not in done.stdout.decode()
    assert sh(loaded, env, "cat /etc/hello").stdout == b"hello\n"


@pytest.mark.parametrize("network", ["none", "host", "bridge"])
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "http_proxy", "all_proxy", "NO_PROXY"])
def test_no_proxy_of_the_user_reaches_a_container_unless_a_task_names_it(network: str, name: str) -> None:
    env = {"PATH": "/bin", name: f"http://me:{SECRET}@proxy.example:3128"}
    task = Task(arguments=("env",), network=network)
    assert apptainer._program_environment("apptainer", task, env) == {"PATH": "/bin"}
    task = Task(arguments=("env",), network=network, environment={name: env[name]})
    assert apptainer._program_environment("apptainer", task, env) == {
        "PATH": "/bin", f"APPTAINERENV_{name}": env[name],
    }  # fmt: skip


def test_the_library_path_of_an_image_stays_as_it_is(apptainer_env: Env, tmp_path: Path) -> None:
    """Apptainer adds a directory for libraries of the host; here there are none."""
    image = make_tiny(tmp_path, "name:1", variables=["LD_LIBRARY_PATH=/x:/y"])
    apptainer.load(image.layout, "name:1", image.digests, apptainer_env)
    for bypass in (True, False):
        assert sh(image, apptainer_env, 'echo "$LD_LIBRARY_PATH"', bypass=bypass).stdout == b"/x:/y\n"


@pytest.mark.parametrize("name", ["A-B", "HOME", ""])
def test_a_variable_that_cannot_be_set(loaded: Tiny, apptainer_env: Env, name: str) -> None:
    with pytest.raises(EngineError, match="Apptainer cannot set the variable") as failed:
        sh(loaded, apptainer_env, "echo", environment={name: "x"})
    assert failed.value.hint == "it sets HOME itself, and by a shell all that a shell can name"


def test_arguments_are_no_shell_line(loaded: Tiny, apptainer_env: Env) -> None:
    words = ("a b", "", "$HOME", "'", "*", "ü")
    task = Task(arguments=("sh", "-c", 'for word; do echo "<$word>"; done', "sh", *words))
    said = apptainer.run(loaded.reference, task, apptainer_env).stdout.decode()
    assert said == "".join(f"<{word}>\n" for word in words)


WRITES = (
    "for at in /etc /tmp /var/tmp $HOME /bin /results; do [ -e $at/new ] || echo x >$at/new && echo ok; done"
)
NETWORK = "while read line; do echo x; done </proc/net/route"


def test_there_is_no_network_but_the_hosts_on_request(loaded: Tiny, apptainer_env: Env) -> None:
    assert sh(loaded, apptainer_env, NETWORK).stdout == b"x\n"
    here = len(Path("/proc/net/route").read_text().splitlines())
    assert sh(loaded, apptainer_env, NETWORK, network="host").stdout == b"x\n" * here


def test_choices_of_compilers(loaded: Tiny, apptainer_env: Env, tmp_path: Path) -> None:
    check_engine(lambda task: apptainer.run(loaded.reference, task, apptainer_env).code, tmp_path)


def test_a_program_can_write_and_nothing_stays(loaded: Tiny, apptainer_env: Env) -> None:
    for _ in range(2):
        assert sh(loaded, apptainer_env, WRITES, outputs="/results").stdout == b"ok\n" * 6
    head = "head -c 200000000 /dev/zero >/tmp/big && echo ok"
    assert sh(loaded, apptainer_env, head).stdout == b"ok\n"


def test_outputs(loaded: Tiny, apptainer_env: Env) -> None:
    script = "cd /results; echo a >a; echo c >'b c'; : >empty; echo x >/etc/other; exit 3"
    done = sh(loaded, apptainer_env, script, outputs="/results")
    assert done.code == 3
    assert done.outputs == {"a": b"a\n", "b c": b"c\n", "empty": b""}
    assert sh(loaded, apptainer_env, "echo /results/*", outputs="/results").outputs == {}


def test_outputs_that_are_kept_in_a_folder(loaded: Tiny, apptainer_env: Env, tmp_path: Path) -> None:
    done = sh(loaded, apptainer_env, "cd /results; echo c >'b c'; exit 3", outputs="/results", kept=tmp_path)
    assert (done.code, done.outputs) == (3, {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"b c": b"c\n"}


def test_no_link_in_the_outputs_is_followed(loaded: Tiny, apptainer_env: Env, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "file").symlink_to(tmp_path / "secret")
    (planted / "folder").symlink_to(tmp_path)
    (planted / "closed").mkdir(mode=0)
    os.mkfifo(planted / "pipe")
    assert apptainer._collect_outputs(planted) == {}


def test_megabytes_of_output(loaded: Tiny, apptainer_env: Env) -> None:
    script = (
        "head -c 6000000 /dev/zero; head -c 3000000 /dev/zero >&2; head -c 5000000 /dev/zero >/results/file"
    )
    done = sh(loaded, apptainer_env, script, outputs="/results")
    assert (len(done.stdout), len(done.stderr), len(done.outputs["file"])) == (
        6_000_000,
        3_000_000,
        5_000_000,
    )


@pytest.mark.parametrize("name", ["given", "a b:c,d", 'quo"te'])
def test_a_volume(loaded: Tiny, apptainer_env: Env, tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "given").write_text("given")
    done = sh(
        loaded, apptainer_env, "cat /a\\ b/given >/a\\ b/made", volumes=((str(tmp_path / name), "/a b"),)
    )
    assert (done.code, (tmp_path / name / "made").read_text()) == (0, "given")


def test_past_the_timeout(loaded: Tiny, apptainer_env: Env) -> None:
    with pytest.raises(EngineError, match=r"did not end within 2 s: sh -c sleep 61\.5") as failed:
        sh(loaded, apptainer_env, "sleep 61.5", timeout=2)
    assert (
        failed.value.hint == "is the command waiting for input or for the network? There is none in a check"
    )
    assert not still_running("61.5", loaded)


def still_running(argument: str, image: Tiny) -> list[str]:
    """Return the processes of a container that was ended: its own, and those that mount its image."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if argument.encode() in words or image.digests[1].partition(":")[2].encode() in b" ".join(words):
            found.append(b" ".join(words).decode())
    return found


def test_no_timeout(loaded: Tiny, apptainer_env: Env) -> None:
    assert sh(loaded, apptainer_env, "exit 5", timeout=0).code == 5


def test_attach(loaded: Tiny, apptainer_env: Env) -> None:
    came: list[tuple[float, int, bytes]] = []
    task = Task(arguments=("sh", "-c", "echo 1; echo 2 >&2; sleep 1; echo 3; exit 9"), timeout=0)
    code = apptainer.attach(
        loaded.reference,
        task,
        apptainer_env,
        lambda stream, data: came.append((time.monotonic(), stream, data)),
    )
    assert code == 9
    assert b"".join(data for _, stream, data in came if stream == 1) == b"1\n3\n"
    assert b"".join(data for _, stream, data in came if stream == 2) == b"2\n"
    assert came[-1][0] - came[0][0] > 0.7


def test_attach_when_the_reader_stops(loaded: Tiny, apptainer_env: Env) -> None:
    def broken(stream: int, data: bytes) -> None:
        raise BrokenPipeError

    task = Task(arguments=("sh", "-c", "while :; do echo more; done", "61.25"))
    with pytest.raises(BrokenPipeError):
        apptainer.attach(loaded.reference, task, apptainer_env, broken)
    assert not still_running("61.25", loaded)


def test_an_image_that_is_not_there(apptainer_env: Env) -> None:
    for call in (
        lambda: apptainer.run("reprobuild-test/nothing:1", Task(arguments=("true",)), apptainer_env),
        lambda: apptainer.attach(
            "reprobuild-test/nothing:1", Task(arguments=()), apptainer_env, lambda *_: None
        ),
    ):
        with pytest.raises(EngineError, match="the engine has no image reprobuild-test/nothing:1") as failed:
            call()
        assert failed.value.hint == "`reprobuild verify OUT` loads it"


def test_what_apptainer_refuses(loaded: Tiny, apptainer_env: Env) -> None:
    with pytest.raises(EngineError, match=r"^Apptainer refused: .*network requires root") as failed:
        sh(loaded, apptainer_env, "echo", network="nowhere")
    assert failed.value.hint == "try the SIF by hand: apptainer exec FILE true"
    with pytest.raises(EngineError, match=r"^Apptainer refused: .*no-such-program"):
        apptainer.run(loaded.reference, Task(arguments=("no-such-program",), bypass=True), apptainer_env)


@pytest.mark.parametrize("users", ["user", "plain"])
def test_a_user_without_privileges(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, users: str
) -> None:
    """No network, directories that can be written, and no trace of the host: with and without subordinate users."""
    caller = apptainer_environment(tmp_path, "--own")
    env = apptainer_environment(tmp_path, "--own", users=users)
    assert apptainer.version(env) == apptainer.version(caller)
    apptainer.load(tiny.layout, tiny.reference, tiny.digests, caller)
    kept = Cache.open_user_cache(caller).find(tiny.reference)
    assert kept
    task = Task(arguments=("sh", "-c", f"{WRITES}; {NETWORK}; echo $ENTRYPOINT; exit 7"), outputs="/results")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    with tempfile.TemporaryDirectory(dir="/tmp") as above:
        folder = Path(above)
        for name in (".", "work", "outputs"):
            (folder / name).mkdir(exist_ok=True)
            (folder / name).chmod(0o777)
        (folder / "sif").write_bytes(sifs(caller)[0].read_bytes())
        argv = ["apptainer", "--silent", *apptainer._container_arguments(folder / "sif", kept, task, folder)]
        done = subprocess.run(argv, env=env, capture_output=True, cwd="/", check=False)
        assert (done.returncode, done.stdout, done.stderr) == (7, b"ok\n" * 6 + b"x\npassed\n", b"")
        assert apptainer._collect_outputs(folder / "outputs") == {"new": b"x\n"}


def script(folder: Path, name: str, text: str) -> Env:
    """A program of that name, alone on PATH with what a shell script needs."""
    folder.mkdir(exist_ok=True)
    program = folder / name
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)
    return {"PATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}


@pytest.mark.parametrize(
    ("name", "said", "version", "usable"),
    [
        ("apptainer", "1.4.5", "1.4.5", True),
        ("apptainer", "1.5-rc1", "1.5-rc1", True),
        ("apptainer", "1.0.3-1.el8", "1.0.3-1.el8", False),
        ("singularity", "4.1.0-rc.1+27-g1", "4.1.0-rc.1+27-g1", True),
        ("singularity", "3.8.7", "3.8.7", False),
        ("singularity", "unknown", None, False),
        ("podman", "5.0", None, False),
    ],
)
def test_versions(
    tiny: Tiny, tmp_path: Path, name: str, said: str, version: str | None, usable: bool
) -> None:
    env = script(tmp_path / "bin", name, f"echo {said}")
    assert apptainer.version(env) == version
    with pytest.raises(EngineError) as failed:
        apptainer.load(tiny.layout, tiny.reference, tiny.digests, env)
    if usable:
        assert str(failed.value).startswith("`mksquashfs` is not on PATH")
        assert (
            failed.value.hint == "install squashfs-tools 4.5 or newer, or choose another engine with --engine"
        )
        return
    assert failed.value.hint == "install Apptainer 1.1 or newer, or choose another engine with --engine"
    assert ("is too old: it would evaluate variables" if version else "neither `apptainer` nor") in str(
        failed.value
    )


def test_a_network_that_cannot_be_cut_off(loaded: Tiny, apptainer_env: Env, tmp_path: Path) -> None:
    """What an administrator's settings can forbid; nothing is run with the network instead."""
    log = tmp_path / "log"
    env = script(
        tmp_path / "bin", "apptainer",
        f'[ "$1" = version ] && echo 1.4.5 && exit; echo run >>{log}; '
        'echo "FATAL:   container creation failed: network setup: none is not permitted" >&2; exit 255',
    )  # fmt: skip
    with pytest.raises(
        EngineError, match=r"^Apptainer cannot cut the network off: .*not permitted"
    ) as failed:
        sh(loaded, {**env, "XDG_CACHE_HOME": apptainer_env["XDG_CACHE_HOME"]}, "echo")
    assert failed.value.hint == (
        "nothing was run with a network; let the site's apptainer.conf allow `--net --network none`, "
        "or choose another engine with --engine"
    )
    assert log.read_text() == "run\n"


def test_a_cache_that_others_can_change(loaded: Tiny, apptainer_env: Env, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER).chmod(0o777)
    with pytest.raises(EngineError, match="can be changed by other users") as failed:
        apptainer.load(
            loaded.layout, "name:1", loaded.digests, {**apptainer_env, "XDG_CACHE_HOME": str(tmp_path)}
        )
    assert failed.value.hint == "let XDG_CACHE_HOME name a directory of your own, or remove this one"


def test_no_place_for_a_cache(loaded: Tiny, apptainer_env: Env, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {**apptainer_env, "XDG_CACHE_HOME": str(tmp_path / "file")}
    with pytest.raises(EngineError, match=r"no SIF can be kept in .*: File exists") as failed:
        apptainer.load(loaded.layout, "name:1", loaded.digests, env)
    assert failed.value.hint == "let XDG_CACHE_HOME name a directory that can be written"


def test_a_damaged_layout_leaves_nothing(apptainer_env: Env, tmp_path: Path) -> None:
    env = {**apptainer_env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    image = make_tiny(tmp_path, "name:1")
    largest = max((image.layout / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    largest.unlink()
    largest.write_bytes(content)
    with pytest.raises(BuildError, match=r"^layer "):
        apptainer.load(image.layout, "name:1", image.digests, env)
    assert sorted(path.name for path in (tmp_path / "cache" / FOLDER).iterdir()) == ["lock", "names"]
