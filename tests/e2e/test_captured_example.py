"""The example that `reprobuild capture` took: nothing of its work is lost, and the round trip has no surprise."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from reprobuild.engines import docker
from reprobuild.engines.model import Task
from reprobuild.output.directory import read_image
from reprobuild.snapshot.read import read_snapshot
from tests.conftest import ROOT, Built, reprobuild

pytestmark = pytest.mark.long  # a second base, and a second image with torch

SNAPSHOT = ROOT / "examples" / "cpu-capture" / "snapshot"


@pytest.fixture(scope="module")
def built(test_store: Path, built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The main job on it, with the store of the other example."""
    out = tmp_path_factory.mktemp("captured") / "out"
    done = reprobuild(
        "from-snapshot",
        SNAPSHOT,
        "--decisions",
        SNAPSHOT.parent / "reprobuild.yaml",
        "-o",
        out,
        "--store",
        built_example.store,
        "--no-probes",
        "--json",
    )
    assert done.returncode == 0, done.stderr + done.stdout
    lock, image = read_image(out)
    return Built(out=out, store=test_store, lock=lock, image=image, stdout=done.stdout, stderr=done.stderr)


def test_the_round_trip_has_no_surprise(built: Built) -> None:
    document = json.loads(built.stdout)
    assert document["verdict"]["round_trip"] == "explained"
    assert document["verdict"]["determinism"]["cpu"] == "identical"
    assert document["deviations"] == []
    verdict = json.loads((built.out / "verdict.json").read_text())
    codes = {difference["code"] for difference in verdict["differences"]}
    assert codes == {
        "base-provided", "host-only", "not-baked", "not-needed", "path-rewritten", "secret-withheld", "site-variable",
    }  # fmt: skip
    assert [d["captured"] for d in verdict["differences"] if d["code"] == "secret-withheld"] == [
        "WANDB_API_KEY"
    ]
    assert all(difference["reason"] for difference in verdict["differences"])


def test_every_file_of_the_repository_is_in_the_image(built: Built) -> None:
    captured = read_snapshot(SNAPSHOT).captured
    assert captured
    (repository,) = captured.repositories
    (source,) = built.lock.sources
    assert (source.name, source.editable, source.patch) == (
        "tinytrain",
        True,
        repository.bundle and repository.bundle.sha256,
    )
    assert repository.head != source.commit == repository.base
    files = "notes (draft).txt", "train.py", "tinytrain/window.bin", "tinytrain/data.py"
    script = "import json, sys; print(json.dumps([open(name, 'rb').read().hex() for name in sys.argv[1:]]))"
    task = Task(arguments=("sh", "-c", 'test ! -e README.md && exec python -c "$@"', "sh", script, *files))
    done = docker.run(built.image.reference, task, os.environ)
    assert done.code == 0, done.stderr
    notes, train, window, data = json.loads(done.stdout)
    assert bytes.fromhex(notes) == b"lr 2e-3 was better; dropout is still open\n"
    assert bytes.fromhex(window) == b"\0\1\2\xff"
    text = bytes.fromhex(train).decode()
    assert "lr=2e-3" in text  # staged
    assert "dropout=0.2)" in text  # changed after that
    assert "scale=0.4" in bytes.fromhex(data).decode()  # committed, and never pushed


def test_it_starts_where_the_job_did_with_its_folders(built: Built) -> None:
    script = "import os, sys; print(os.getcwd(), os.environ['PYTHONPATH'], 'LD_LIBRARY_PATH' in os.environ)"
    done = docker.run(built.image.reference, Task(arguments=("python", "-c", script)), os.environ)
    assert done.stdout.decode().split() == ["/src/tinytrain", "/src/tinytrain/scripts", "False"]
    assert built.lock.workdir == "/src/tinytrain"
    assert (
        hashlib.sha256((SNAPSHOT / "tinytrain.bundle").read_bytes()).hexdigest()
        == built.lock.sources[0].patch
    )


def test_what_a_freeze_leaves_out_is_there(built: Built) -> None:
    lines = {line.name: line.version for line in read_snapshot(SNAPSHOT).unlisted}
    assert sorted(lines) == ["pip", "setuptools"]
    for name, version in lines.items():
        script = f"import {name}; print({name}.__version__, {name}.__file__)"
        done = docker.run(built.image.reference, Task(arguments=("python", "-c", script)), os.environ)
        place = f"/opt/env/lib/python3.11/site-packages/{name}/__init__.py"
        assert done.stdout.decode().split() == [version, place], done.stderr
