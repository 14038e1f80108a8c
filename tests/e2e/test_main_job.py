"""The promises of the main job, on the example, in a real engine."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from reprobuild.engines import docker
from reprobuild.engines.model import Finished, Task
from reprobuild.image.oci.read import read_layout
from reprobuild.lock.file import read_lock
from reprobuild.lock.model import SealedLock
from tests.conftest import EXAMPLE, PROGRAM, ROOT, Built, reprobuild
from tests.e2e.test_planted_secrets import below

SNAPSHOT = EXAMPLE / "snapshot"
DECISIONS = EXAMPLE / "reprobuild.yaml"


@pytest.fixture(scope="module")
def loaded(built_example: Built) -> Built:
    """The example, whose image Docker has."""
    image = built_example.image
    docker.load(built_example.out / "image", image.reference, image.digests, os.environ)
    return built_example


def train(built: Built, seed: int | None) -> Finished:
    task = Task(
        arguments=("python", "train.py", "--out", "/results/checkpoint.pt"),
        environment={} if seed is None else {"REPROBUILD_SEED": str(seed)},
        outputs="/results",
    )
    done = docker.run(built.image.reference, task, os.environ)
    assert done.code == 0, done.stderr.decode()
    return done


def test_it_ends_with_the_digests_and_the_verdict(built_example: Built) -> None:
    tail = built_example.stdout.splitlines()[-11:]
    out = built_example.out
    assert tail[0].startswith("lock      sha256:")
    assert tail[1:7] == [
        f"tree      {built_example.image.tree}",
        f"config    {built_example.image.config}",
        f"manifest  {built_example.image.manifest}",
        "",
        f"run it: reprobuild run {out} --seed 7 -- COMMAND",
        f"report: {out}/report.html",
    ]
    assert re.fullmatch(rf"image: {built_example.image.reference}, 3\d\d MB, in {out}/image", tail[7])
    assert re.fullmatch(r"time: (\d+ min )?[\d.]+ s", tail[8])
    assert tail[9] == "round trip: explained"
    assert re.fullmatch(
        r"determinism: cpu identical \(torch: \d+ probes; your work, 2 runs\), "
        "gpu not-applicable, collectives identical",
        tail[10],
    )


def test_every_captured_line_has_an_outcome(built_example: Built) -> None:
    rulings = {(ruling.file, ruling.line) for ruling in built_example.lock.rulings}
    for name in ("requirements.txt", "apt-packages.txt"):
        lines = (SNAPSHOT / name).read_text().splitlines()
        expected = {(name, number) for number, line in enumerate(lines, 1) if line and line != "Listing..."}
        assert expected <= rulings


def test_again_everything_but_the_verdict_is_reused(built_example: Built) -> None:
    before = (built_example.out / "verdict.json").read_bytes()
    aside = {*built_example.out.glob("verdict-*.json")}
    done = reprobuild(
        "from-snapshot",
        SNAPSHOT,
        "--decisions",
        DECISIONS,
        "-o",
        built_example.out,
        "--store",
        built_example.store,
        "--offline",
        "--no-probes",
        "--json",
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert document["lock"] == f"sha256:{built_example.lock.digest}"
    assert document["image"]["manifest"] == built_example.image.manifest
    assert document["verdict"]["determinism"] == {
        "cpu": "identical",  # the workload of the lock
        "gpu": "not-run",
        "collectives": "not-run",
    }
    assert "fetched" not in done.stderr
    assert "dpkg" not in done.stderr
    assert (built_example.out / "verdict.json").read_bytes() == before  # the whole check
    (part,) = {*built_example.out.glob("verdict-*.json")} - aside
    assert json.loads(part.read_bytes())["parts"] == ["round-trip", "workload"]
    part.unlink()


def test_the_recipe_alone_can_be_rendered_from_the_lock(built_example: Built, tmp_path: Path) -> None:
    done = reprobuild("render", built_example.out / "reprobuild.lock", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("Dockerfile", "Apptainer.def", "pylock.toml"):
        assert (tmp_path / name).read_text() == (built_example.out / name).read_text()


def test_two_empty_stores_one_lock_equal_manifests(built_example: Built, tmp_path: Path) -> None:
    """Another directory, user, umask, time zone and locale: the same bytes from an empty store."""
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents:
        if str(parent).startswith(os.environ.get("TMPDIR", "/tmp") + "/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    mine = tmp_path / "someone else's"
    mine.mkdir()
    os.chown(mine, 12345, 12345)
    lock = mine / "given.lock"
    lock.write_bytes((built_example.out / "reprobuild.lock").read_bytes())
    env = {**os.environ, "HOME": str(mine), "TZ": "Pacific/Kiritimati", "LC_ALL": "C", "USER": "someone"}
    env.pop("XDG_CACHE_HOME", None)
    env.pop("XDG_DATA_HOME", None)
    done = reprobuild(
        "from-snapshot", SNAPSHOT, "--decisions", DECISIONS, "-o", mine / "deep" / "er" / "out",
        "--store", mine / "store", "--lock", lock,
        "--no-verify", "--json", env=env, cwd=mine,
        prefix=["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", "--inh-caps=+dac_read_search",
                "--ambient-caps=+dac_read_search", "sh", "-c", 'umask 077; exec "$@"', "sh"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    image = json.loads(done.stdout)["image"]
    assert image["tree"] == built_example.image.tree
    assert image["config"] == built_example.image.config
    assert image["manifest"] == built_example.image.manifest


def test_one_seed_one_checkpoint(loaded: Built) -> None:
    one, two, other, drawn = (train(loaded, seed) for seed in (7, 7, 8, None))
    checkpoint = one.outputs["checkpoint.pt"]
    assert len(checkpoint) > 1000
    assert two.outputs["checkpoint.pt"] == checkpoint
    assert other.outputs["checkpoint.pt"] != checkpoint
    assert drawn.outputs["checkpoint.pt"] not in (checkpoint, other.outputs["checkpoint.pt"])
    logged = re.search(rb"Using seed: (\d+)", drawn.stderr)
    assert logged
    assert train(loaded, int(logged.group(1))).outputs == drawn.outputs


def test_the_uncommitted_change_is_in_effect(loaded: Built) -> None:
    patch = (SNAPSHOT / "tinytrain.diff").read_text()
    added = [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    names = re.findall(r"^\+\+\+ b/(\S+)", patch, re.MULTILINE)
    script = "import sys; sys.stdout.write(''.join(open(name).read() for name in sys.argv[1:]))"
    done = docker.run(loaded.image.reference, Task(arguments=("python", "-c", script, *names)), os.environ)
    assert added
    for line in added:
        assert line in done.stdout.decode().splitlines()


def contents(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Yield every file below a directory, and the decompressed form of what is compressed with zstd."""
    for path in sorted(below(folder)):
        if path.is_file():
            content = path.read_bytes()
            yield path, content
            if content[:4] == b"\x28\xb5\x2f\xfd":
                with path.open("rb") as stream:
                    yield path, zstandard.ZstdDecompressor().stream_reader(stream).read()


def test_the_planted_token_is_nowhere(loaded: Built) -> None:
    captured = (SNAPSHOT / "env.txt").read_text()
    found = re.search(r"^WANDB_API_KEY=(\S+)$", captured, re.MULTILINE)
    assert found
    token = found.group(1).encode()
    traces = [token, base64.b64encode(token).rstrip(b"="), bytes.fromhex(token.decode())]
    history = subprocess.run(
        ["docker", "history", "--no-trunc", loaded.image.reference], capture_output=True, check=True
    ).stdout
    inspected = subprocess.run(
        ["docker", "inspect", loaded.image.reference], capture_output=True, check=True
    ).stdout
    assert b"LD_PRELOAD" in inspected
    seen = 0
    logs = (loaded.stdout + loaded.stderr).encode()
    for name, content in [("history", history), ("inspect", inspected), ("logs", logs)]:
        assert not any(trace in content for trace in traces), name
    for folder in (loaded.out, loaded.store):
        for path, content in contents(folder):
            seen += len(content)
            assert not any(trace in content for trace in traces), path
    assert seen > 500_000_000
    assert b"WANDB_API_KEY" in (loaded.out / "reprobuild.lock").read_bytes()


def test_ctrl_c_leaves_nothing_half_written(built_example: Built, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        *PROGRAM,
        "from-snapshot",
        SNAPSHOT,
        "--decisions",
        DECISIONS,
        "-o",
        out,
        "--store",
        built_example.store,
        "--no-verify",
    ]
    with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stderr
        said = ""
        for line in process.stderr:
            said += line
            if "python:" in line:
                break
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        said += process.stderr.read()
    assert process.returncode == 130
    assert "error: interrupted" in said
    assert "Traceback" not in said
    assert [path.name for path in out.rglob("*") if path.name.endswith(".part")] == []
    done = reprobuild(*map(str, command[len(PROGRAM):]))  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_layout_is_what_its_digests_say(built_example: Built) -> None:
    layout = read_layout(built_example.out / "image")
    assert len(layout.layers) == built_example.image.layers
    assert isinstance(read_lock(built_example.out / "reprobuild.lock"), SealedLock)


@pytest.mark.parametrize(
    "name",
    [
        "reprobuild.lock",
        "pylock.toml",
        "Dockerfile",
        "Apptainer.def",
        "times.json",
        "verdict.json",
        "report.html",
        "badge.svg",
    ],
)
def test_out_holds_what_was_promised(built_example: Built, name: str) -> None:
    assert (built_example.out / name).stat().st_size > 100
