"""`build` into an output directory of others: its name and its papers do not become those of the image made here."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.image.oci import names
from reprobuild.results import IMAGE, LOCK, engine_name, read_image
from reprobuild.store import Store
from tests.conftest import reprobuild
from tests.image.made import Made
from tests.store.sealing import built, gc, sealed

FOREIGN = "localhost/myapp:latest"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


@pytest.fixture
def out(made: Made, tmp_path: Path) -> Path:
    """An output directory that others made: the caller's store remembers the image, not the directory."""
    built(sealed(made, "alpha"), tmp_path / "given.lock", made.store, tmp_path / "theirs")
    (tmp_path / "theirs").rename(tmp_path / "out")
    return tmp_path / "out"


def build(out: Path, store: Store, *more: str) -> subprocess.CompletedProcess[str]:
    return reprobuild("build", out / LOCK, "-o", out, "--store", store.root, "--offline", *more)


def name_of(out: Path, store: Path) -> str:
    """Return the name that a new process gives the image."""
    lock, image = read_image(out)
    return engine_name(lock, image, out, Store(store), [].append)


def rename(out: Path, reference: str) -> None:
    _, image = read_image(out)
    index = json.loads((out / "image" / "index.json").read_bytes())
    index["manifests"][0]["annotations"] = names(reference)
    (out / "image" / "index.json").write_text(json.dumps(index))
    (out / IMAGE).write_bytes(msgspec.json.encode(msgspec.structs.replace(image, reference=reference)))


def test_a_build_that_fails_leaves_the_directory_one_of_others(out: Path, made: Made) -> None:
    rename(out, FOREIGN)
    (out / "Dockerfile").unlink()
    (out / "Dockerfile" / "x").mkdir(parents=True)
    assert build(out, made.store).returncode == 2
    assert name_of(out, made.store.root) != FOREIGN


def test_the_name_that_the_user_gave_stays(out: Path, made: Made) -> None:
    """As long as OUT has its place and its lock; what `store gc` leaves is enough."""
    assert build(out, made.store, "--tag", FOREIGN).returncode == 0
    assert name_of(out, made.store.root) == FOREIGN
    gc(made.store)
    assert name_of(out, made.store.root) == FOREIGN
    assert build(out, made.store).returncode == 0
    assert name_of(out, made.store.root) != FOREIGN
    rename(out, FOREIGN)
    assert name_of(out, made.store.root) == FOREIGN  # the user gave it here before
