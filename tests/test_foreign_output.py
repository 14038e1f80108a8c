"""`build` into an output directory of others: its name and its papers do not become those of the image made here."""

from __future__ import annotations

import hashlib
import json
import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.image.oci.write import name_annotations
from reprobuild.output.directory import IMAGE, LOCK, REPORT, VERDICT, engine_name, read_image
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.distribute.folders import certificate_of
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
    index["manifests"][0]["annotations"] = name_annotations(reference)
    (out / "image" / "index.json").write_text(json.dumps(index))
    (out / IMAGE).write_bytes(msgspec.json.encode(msgspec.structs.replace(image, reference=reference)))


def test_a_directory_in_the_place_of_a_report_stays(out: Path, made: Made) -> None:
    rename(out, FOREIGN)
    (out / REPORT).unlink(missing_ok=True)
    (out / REPORT / "x").mkdir(parents=True)
    done = build(out, made.store)
    assert done.returncode == 2, done.stderr
    assert f"error: {out / REPORT} is a directory" in done.stderr
    assert f"hint: a report is written there: name another with -o, or remove {out / REPORT}" in done.stderr
    assert (out / REPORT / "x").is_dir()


def test_a_build_that_fails_leaves_the_directory_one_of_others(out: Path, made: Made) -> None:
    rename(out, FOREIGN)
    (out / "Dockerfile").unlink()
    (out / "Dockerfile" / "x").mkdir(parents=True)
    assert build(out, made.store).returncode == 2
    assert name_of(out, made.store.root) != FOREIGN


@pytest.mark.parametrize("here", [False, True])
def test_a_rebuilt_image_has_the_name_that_the_user_gave(here: bool, out: Path, made: Made) -> None:
    """The name of a foreign directory does not become the user's own by a second build."""
    if here:
        assert build(out, made.store, "--tag", FOREIGN).returncode == 0
    else:
        rename(out, FOREIGN)
    done = reprobuild("rebuild", out, "--store", made.store.root, "--offline")
    assert done.returncode == 0, done.stderr
    assert (name_of(Path(f"{out}-rebuilt"), made.store.root) == FOREIGN) is here
    assert (f"the image names itself '{FOREIGN}', which could hide another image" in done.stderr) is not here


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


def test_a_replaced_image_of_another_lock_is_named(out: Path, made: Made, tmp_path: Path) -> None:
    _, former = read_image(out)
    line = f"this image replaces the image of lock sha256:{former.lock} in {out}"
    assert line not in build(out, made.store).stderr
    built(sealed(made, "beta"), tmp_path / "beta.lock", made.store, tmp_path / "other")
    done = reprobuild("build", tmp_path / "beta.lock", "-o", out, "--store", made.store.root, "--offline")
    assert done.returncode == 0, done.stderr
    assert line in done.stderr


# --- papers ------------------------------------------------------------------------------------


def papers(out: Path) -> bytes:
    """Write a certificate of the image, a page and a cluster, and return the certificate."""
    forged = certificate_of(*read_image(out))
    (out / VERDICT).write_bytes(forged)
    (out / REPORT).write_text("<script>1</script>")
    (out / "cluster.json").write_text("{}")
    return forged


@pytest.mark.parametrize("stated", [True, False])
def test_papers_of_others_do_not_become_those_of_the_image(stated: bool, out: Path, made: Made) -> None:
    """The certificate may be forged for the very image that the lock gives."""
    forged = papers(out)
    (out / "README.md").write_text("sh evil.sh")
    (out / "image.sif").write_bytes(b"#!/bin/sh")
    if not stated:
        (out / IMAGE).unlink()
    done = build(out, made.store)
    assert done.returncode == 0, done.stderr
    aside = out / f"verdict-{hashlib.sha256(forged).hexdigest()[:12]}.json"
    assert aside.read_bytes() == forged
    assert f"{out / VERDICT} is not known to be of this image: it is kept as {aside}" in done.stderr
    for name in (REPORT, "cluster.json", "image.sif"):
        assert not (out / name).exists()
        assert f"removed {out / name}: it is not known to be of this image" in done.stderr
    assert not (out / VERDICT).exists()
    assert f"not made by this command, and left in {out} as they are: README.md\n" in done.stderr
    assert (out / "README.md").read_text() == "sh evil.sh"


def test_papers_of_the_image_that_was_made_here_stay(out: Path, made: Made) -> None:
    assert build(out, made.store).returncode == 0
    papers(out)
    before = {path.name: path.stat().st_mtime_ns for path in out.iterdir() if path.name in (VERDICT, REPORT)}
    for more in ((), ("--tag", FOREIGN), ()):
        done = build(out, made.store, *more)
        assert done.returncode == 0, done.stderr
        assert "not known" not in done.stderr
        assert {name: (out / name).stat().st_mtime_ns for name in before} == before
    assert (out / "cluster.json").exists()


def test_papers_of_another_image_that_was_made_here_do_not_stay(out: Path, made: Made) -> None:
    assert build(out, made.store).returncode == 0
    papers(out)
    built(sealed(made, "beta"), out.parent / "other.lock", made.store, out)
    assert len(list(out.glob("verdict-*.json"))) == 1
    assert not {VERDICT, REPORT, "cluster.json"} & {path.name for path in out.iterdir()}


@pytest.mark.parametrize("kind", ["link", "text", "folder"])
def test_what_is_no_certificate_is_not_kept(kind: str, out: Path, made: Made) -> None:
    papers(out)
    mine = out.parent / "mine"
    (out / VERDICT).rename(mine)
    content = mine.read_bytes()
    if kind == "link":
        (out / VERDICT).symlink_to(mine)
    elif kind == "text":
        (out / VERDICT).write_text("{")
    else:
        (out / VERDICT).mkdir()
    assert build(out, made.store).returncode == (2 if kind == "folder" else 0)
    assert (out / VERDICT).is_dir() == (kind == "folder")
    assert list(out.glob("verdict-*.json")) == []
    assert mine.read_bytes() == content
