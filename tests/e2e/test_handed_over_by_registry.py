"""The example through a registry with a login: pushed, pulled by its digest into another store, run, built, changed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reprobuild.output.directory import read_image
from reprobuild_portable.hashing import hash_file
from tests.conftest import EXAMPLE, Built, reprobuild
from tests.distribute.counted import Counted
from tests.registry.conftest import HTPASSWD, PASSWORD, ROOT, docker_login, encoded

sys.path.insert(0, str(ROOT / "dev"))
from private_registry import Registry, prepare  # a script of dev/, which is no package


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    program = prepare(ROOT / "build" / "engines" / "registry")
    with Registry(program, tmp_path_factory.mktemp("registry"), HTPASSWD) as running:
        yield running


def held(registry: Registry) -> dict[str, int]:
    """Return the size of every blob that a registry keeps; it keeps manifests as blobs, too."""
    found = (registry.storage / "docker/registry/v2/blobs/sha256").glob("*/*/data")
    return {f"sha256:{path.parent.name}": path.stat().st_size for path in found}


def done(*arguments: str | Path, env: dict[str, str]) -> dict[str, Any]:
    run = reprobuild(*arguments, "--json", env=env)
    assert run.returncode == 0, run.stderr
    assert PASSWORD not in run.stdout + run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


@pytest.mark.long
def test_the_example_through_a_registry(
    built_example: Built, registry: Registry, example_copy: Path, tmp_path: Path
) -> None:
    with Counted(registry.host) as counted:
        login = docker_login(tmp_path / "docker", counted.host)
        env = {**os.environ, "DOCKER_CONFIG": login["DOCKER_CONFIG"], "NO_PROXY": "127.0.0.1"}
        name = f"{counted.host}/team/train"
        pushed = done("push", built_example.out, f"{name}:1", env=env)
        assert pushed["digest"] == built_example.image.manifest
        assert pushed["sent_bytes"] < counted.up < 1.1 * pushed["sent_bytes"]
        first, gone = held(registry), counted.up
        assert set(json_of(registry, pushed["digest"])) <= set(first)

        again = done("push", built_example.out, f"{name}:1", env=env)
        assert (again["sent"], held(registry)) == (0, first)
        assert counted.up - gone < 100_000

        out, store = tmp_path / "pulled", tmp_path / "store"
        pulled = done("pull", pushed["reference"], "-o", out, "--store", store, env=env)
        certificate = f"verdict-{hash_file(built_example.out / 'verdict.json')}.json"
        assert (out / certificate).read_bytes() == (built_example.out / "verdict.json").read_bytes()
        assert {one["kind"]: one["file"] for one in pulled["referrers"]} == {
            "lock": "reprobuild.lock", "certificate": certificate, "sbom": "sbom.cdx.json",
            "provenance": "provenance.intoto.json",
        }  # fmt: skip
        assert {one["digest"] for one in pulled["referrers"]} == {one["digest"] for one in pushed["attached"]}
        assert read_image(out) == (built_example.lock, built_example.image)
        for file in ("reprobuild.lock", "Dockerfile", "pylock.toml", "image/index.json"):
            assert (out / file).read_bytes() == (built_example.out / file).read_bytes(), file
        for path in (path for path in (*out.rglob("*"), *store.rglob("*")) if path.is_file()):
            assert not {PASSWORD.encode(), encoded().encode()} & set(path.read_bytes()[:100_000].split(b'"'))

        understood(out, built_example, env)
        changed(example_copy, built_example, counted, registry, tmp_path / "changed", env)


def json_of(registry: Registry, digest: str) -> list[str]:
    """Return the digests of the layers of an image that a registry holds."""
    place = registry.storage / "docker/registry/v2/blobs/sha256" / digest[7:9] / digest[7:] / "data"
    return [one["digest"] for one in json.loads(place.read_bytes())["layers"]]


def understood(out: Path, built: Built, env: dict[str, str]) -> None:
    """The other verbs work with what was pulled."""
    run = reprobuild(
        "run",
        out,
        "--seed",
        "1",
        "--",
        "python",
        "-c",
        "import tinytrain, torch; print(torch.rand(1))",
        env=env,
    )
    there = reprobuild(
        "run", built.out, "--seed", "1", "--", "python", "-c", "import torch; print(torch.rand(1))", env=env
    )
    assert (run.returncode, there.returncode) == (0, 0), run.stderr
    assert run.stdout == there.stdout
    verified = reprobuild("verify", out, "--no-probes", "--no-controls", "--runs", "2", "--json", env=env)
    told = json.loads(verified.stdout)
    before = json.loads(built.certificate)
    assert told["verdict"]["round_trip"] == before["round_trip"], verified.stderr
    assert told["verdict"]["determinism"]["cpu"] == "identical"  # the workload of the lock
    made = done("build", out / "reprobuild.lock", "-o", out, "--store", built.store, "--offline", env=env)
    assert made["image"]["manifest"] == built.image.manifest


def edit(diff: Path, folder: Path) -> None:
    """Let the captured project differ in one line, as if the job had been captured with that."""
    shutil.copytree(EXAMPLE / "project", folder)
    subprocess.run(["git", "apply", diff], cwd=folder, check=True)
    file = folder / "train.py"
    before, text = blob_id(file), file.read_text()
    assert text.count("dropout=0.25") == 1
    file.write_text(text.replace("dropout=0.25", "dropout=0.35"))
    captured = diff.read_text()
    assert captured.count(f"..{before} ") == captured.count("dropout=0.25") == 1
    changed = captured.replace(f"..{before} ", f"..{blob_id(file)} ")
    diff.write_text(changed.replace("dropout=0.25", "dropout=0.35"))


def blob_id(file: Path) -> str:
    """Return what a diff says of a file's content."""
    run = subprocess.run(["git", "hash-object", file], capture_output=True, text=True, check=True)
    return run.stdout[:7]


def changed(
    example: Path, built: Built, counted: Counted, registry: Registry, out: Path, env: dict[str, str]
) -> None:
    """After a change of one line of the project only its layer travels, and what tells of the image."""
    edit(example / "snapshot" / "tinytrain.diff", out.with_name("edited"))
    given = ("--decisions", example / "reprobuild.yaml", "--store", built.store)
    done("from-snapshot", example / "snapshot", "-o", out, *given, "--no-verify", env=env)
    before, gone = held(registry), counted.up
    pushed = done("push", out, f"{counted.host}/team/train:2", env=env)
    new = {digest: size for digest, size in held(registry).items() if digest not in before}
    layers, old = (json_of(registry, one) for one in (pushed["digest"], built.image.manifest))
    fresh = [layer for layer in layers if layer not in old]
    assert fresh == [layer for layer in layers if layer in new]
    assert (len(layers), len(fresh)) == (len(old), 1)  # that of the project
    assert counted.up - gone < 1.1 * sum(new.values()) + 100_000
    assert sum(new.values()) < sum(before.values()) / 100
