"""Every launcher: the seed is in force, whether it starts the entrypoint or skips it, and what is lost is said.

`docs/launchers.md` has what is found here as a table, which is compared.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from reprobuild.recipe.image_config import image_config
from tests.conftest import ROOT, Built, reprobuild
from tests.e2e.launchers import SEED, Launchers, Way, open_launchers

PAGE = ROOT / "docs" / "launchers.md"
SKIPPED = "reprobuild: PYTHONHASHSEED was not set before this interpreter started; hash order is not seeded\n"
PROBE = """
import json, os, random, subprocess, sys
import numpy
code = "import random, numpy; print(random.random(), numpy.random.random(), hash('word'))"
child = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True, universal_newlines=True)
print(json.dumps({
    "draws": [random.random(), numpy.random.random()], "hash": hash("word"), "child": child.stdout.split(),
    "environ": dict(os.environ), "folder": os.getcwd(), "user": os.getuid(),
    "words": [os.fsencode(word).hex() for word in sys.argv[1:]],
}))
"""
TEXTS = (b"a b", b"", b"one\ntwo\n", b'it\'s "quoted" $HOME `id` \\ *', "Übung 世界".encode())
NO_TEXT = b"\xff\xfe"
READY = "import time; print('ready', flush=True); time.sleep(60)"


@pytest.fixture(scope="module")
def launchers(
    built_example: Built, podman_env: Mapping[str, str], apptainer_env: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Launchers]:  # fmt: skip
    folder = tmp_path_factory.mktemp("launchers")
    with open_launchers(built_example, podman_env, apptainer_env, folder) as opened:
        yield opened


@pytest.fixture(scope="module")
def found(launchers: Launchers) -> dict[str, tuple[dict[str, Any], str]]:
    """What the probe found, and standard error, by the way in which it was started."""
    made = {}
    for way in launchers.ways:
        done = way.run("python", "-c", PROBE, *TEXTS, NO_TEXT)
        assert (done.returncode, done.stdout != b"") == (0, True), (way.name, done.stderr)
        made[way.name] = json.loads(done.stdout), done.stderr.decode()
    return made


def test_the_seed_is_in_force_everywhere(found: dict[str, tuple[dict[str, Any], str]]) -> None:
    (first, _), *_ = found.values()
    for name, (one, _) in found.items():
        assert one["environ"]["REPROBUILD_SEED"] == SEED, name
        assert one["environ"]["REPROBUILD_SEED_EXPLICIT"] == "1", name
        assert one["environ"]["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8", name
        assert one["draws"] == first["draws"], name
        assert one["child"] == first["child"], name  # its hash order, too
        assert one["words"][:-1] == [word.hex() for word in TEXTS], name


def test_the_variables_of_the_image_are_there(
    found: dict[str, tuple[dict[str, Any], str]], built_example: Built
) -> None:
    pairs = (pair.partition("=") for pair in image_config(built_example.lock).env)
    wanted = {name: value for name, _, value in pairs}
    assert len(wanted) > 5
    for name, (one, _) in found.items():
        assert {key: one["environ"].get(key) for key in wanted} == wanted, name


def test_the_seed_is_logged_once_and_what_is_lost_is_said(
    found: dict[str, tuple[dict[str, Any], str]],
) -> None:
    (first, _), *_ = found.values()
    for name, (one, said) in found.items():
        expected = f"Using seed: {SEED}\n"
        if one["hash"] != first["hash"]:
            expected += SKIPPED
        assert said == expected, name


def term(way: Way, tmp_path: Path) -> str:
    """Return what comes of SIGTERM, sent as the launcher sends it: an exit code, or that nothing came of it."""
    argv = way.command([b"python", b"-c", READY.encode()])
    if way.ask != "process":
        argv[2:2] = [b"--cidfile", os.fsencode(tmp_path / "cid")]
    with subprocess.Popen(
        argv, env=dict(way.env), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout
        try:
            assert process.stdout.readline() == b"ready\n"
            if way.ask == "process":
                process.send_signal(signal.SIGTERM)
            else:
                tell(way, tmp_path, "TERM")
            try:
                code = process.wait(3)
            except subprocess.TimeoutExpired:
                return "is not heard"
            return f"ends it, {code if code >= 0 else 128 - code}"
        finally:
            if way.ask != "process" and process.poll() is None:
                tell(way, tmp_path, "KILL")
            process.kill()


def tell(way: Way, tmp_path: Path, name: str) -> None:
    argv = [str(way.ask), "kill", "--signal", name, (tmp_path / "cid").read_text()]
    subprocess.run(argv, env=dict(way.env), check=True, capture_output=True)


def test_the_table_says_what_was_found(
    found: dict[str, tuple[dict[str, Any], str]], launchers: Launchers, tmp_path: Path
) -> None:
    (first, _), *_ = found.values()
    head = ["started by", "seed, children", "logged", "hash order", "bytes that are no text", "SIGTERM"]
    rows = [head, ["---"] * len(head)]
    for way in launchers.ways:
        one, said = found[way.name]
        folder = tmp_path / str(len(rows))
        folder.mkdir()
        lost = "of the first interpreter lost, and said" if SKIPPED in said else "lost"
        rows.append([
            way.name,
            "in force" if (one["draws"], one["child"]) == (first["draws"], first["child"]) else "lost",
            "once" if said.count("Using seed: ") == 1 else "not once",
            "in force" if one["hash"] == first["hash"] else lost,
            "arrive" if one["words"][-1] == NO_TEXT.hex() else "are changed",
            term(way, folder) if way.ask else "is the shell's" if way.typed else "is the container's",
        ])  # fmt: skip
    table = "".join(f"| {' | '.join(row)} |\n" for row in rows)
    page = PAGE.read_text(encoding="utf-8")
    match = re.search(r"<!-- launchers -->\n(.*?)<!-- end -->", page, re.DOTALL)
    assert match
    assert match[1] == table, f"the table of {PAGE.name} is to be:\n{table}"


def test_without_a_seed_one_is_drawn_where_the_entrypoint_is_skipped(launchers: Launchers) -> None:
    done = launchers.docker(
        "run", "--rm", "--network", "none", "--entrypoint", "python", launchers.reference, "-c", PROBE
    )
    one, said = json.loads(done.stdout), done.stderr.decode()
    assert said == f"Using seed: {one['environ']['REPROBUILD_SEED']}\n"
    assert one["environ"]["REPROBUILD_SEED_EXPLICIT"] == "0"
    assert one["child"][2] != ""
    assert "CUBLAS_WORKSPACE_CONFIG" not in one["environ"]


def test_a_user_a_read_only_system_and_a_mounted_folder(launchers: Launchers, tmp_path: Path) -> None:
    """Under an init of the engine's, too; the work of torch, whose record has no place but the mounted directory."""
    code = f"import torch; torch.rand(1)\n{PROBE}"
    strict = ("run", "--rm", "--network", "none", "--user", "12345:12345", "--read-only", "--init")
    seed = ("--env", f"REPROBUILD_SEED={SEED}")
    for folder, written in ((tmp_path, True), (None, False)):
        place = ("--volume", f"{folder}:/work", "--workdir", "/work") if folder else ()
        tmp_path.chmod(0o777)
        done = launchers.docker(*strict, *seed, *place, launchers.reference, "python", "-c", code)
        assert done.returncode == 0, done.stderr
        one, lines = json.loads(done.stdout), done.stderr.decode().splitlines()
        assert (one["user"], one["environ"]["REPROBUILD_SEED"]) == (12345, SEED)
        assert lines[0] == f"Using seed: {SEED}"
        if written:
            assert one["folder"] == "/work"
            assert len(lines) == 1
            assert [path.name for path in tmp_path.iterdir()] == ["reprobuild-record"]
        else:
            assert len(lines) == 2
            assert "record" in lines[1]


def test_no_tmp(launchers: Launchers) -> None:
    entrypoint = "/usr/bin/python3.11 -I -S /opt/reprobuild/lib/reprobuild_runtime/entrypoint.py"
    script = f"rmdir /tmp /var/tmp && exec {entrypoint}"
    done = launchers.docker(
        "run", "--rm", "--network", "none", "--env", f"REPROBUILD_SEED={SEED}", "--entrypoint", "sh",
        launchers.reference, "-c", f'{script} "$@"', "sh", "python", "-c", PROBE, "x",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["words"] == [b"x".hex()]
    assert done.stderr.decode() == f"Using seed: {SEED}\n"


ORPHANS = "(sleep 0.1 & sleep 0.15 &); sleep 0.6; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"


def test_what_process_1_does_and_what_a_container_keeps(launchers: Launchers) -> None:
    """Orphans of a second command are reaped; nothing in the container was changed; the job's own code is the end."""
    name = launchers.docker("run", "--detach", "--network", "none", launchers.reference, "sh", "-c", WAITING)
    container = name.stdout.decode().strip()
    try:
        assert launchers.docker("exec", container, "sh", "-c", ORPHANS).stdout == b"0\n"
        assert launchers.docker("exec", container, "python", "-c", PROBE).returncode == 0
        changed = launchers.docker("diff", container).stdout.decode().splitlines()
        assert {line for line in changed if not line.startswith("C ")} <= {
            line for line in changed if line.startswith("A /opt/reprobuild/lib/") and "__pycache__" in line
        }
        began = time.monotonic()
        launchers.docker("stop", "-t", "30", container)
        assert time.monotonic() - began < 20
        assert launchers.docker("wait", container).stdout == b"41\n"
    finally:
        launchers.docker("rm", "--force", container)


WAITING = "trap 'exit 41' TERM; while :; do sleep 0.1; done"


def test_a_gpu_that_is_not_there_is_an_error_of_the_program(built_example: Built) -> None:
    done = reprobuild("run", built_example.out, "--gpu", "all", "--", "true")
    assert done.returncode == 125, done.stderr
    assert "nvidia.com/gpu=all" in done.stderr
    assert "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml" in done.stderr
    done = reprobuild("run", built_example.out, "--gpu", "a b", "--", "true")
    assert (done.returncode, "'a b' is no GPU" in done.stderr) == (125, True)
