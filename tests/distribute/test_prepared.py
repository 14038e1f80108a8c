"""Folders that come with a bundle, prepared to lead the unpacking elsewhere."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.distribute.standalone import unbundle as form
from reprobuild.distribute.text import render_unbundled
from tests.distribute.conftest import Results
from tests.distribute.test_bundle import alone, take

DEEP = 3000  # directories, one in the other


def prepare(file: Path, out: Path) -> Path:
    """Make the directory of unfinished work as a killed run leaves it, and return the part of this bundle."""
    with form.open_bundle(str(file)) as bundle:
        name = hashlib.sha256(bundle.manifest).hexdigest()
    tree = out.parent / f".{out.name}.unbundling" / name
    tree.parent.mkdir(mode=0o700)
    tree.mkdir()
    return tree


def as_link(tree: Path, victim: Path) -> None:
    tree.rmdir()
    tree.symlink_to(victim)


def with_manifest(tree: Path, victim: Path) -> None:
    (tree / "bundle.json").symlink_to(victim / "precious")


def with_hard_links(tree: Path, victim: Path) -> None:
    for name in ("bundle.json", "README.md"):
        (tree / name).hardlink_to(victim / "precious")


def with_more(tree: Path, victim: Path) -> None:
    """Put files there that the bundle does not have, one below more directories than a program can call itself."""
    (tree / "context").mkdir(mode=0o777)
    (tree / "context").chmod(0o777)
    (tree / "context" / "evil.sh").write_text("#!/bin/sh\n")
    (tree / "context" / "below").symlink_to(victim)
    os.mkfifo(tree / "README.md")
    here = os.open(tree, os.O_RDONLY)
    for _ in range(DEEP):
        os.mkdir("d", dir_fd=here)
        lower = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = lower
    os.close(here)


def through(name: str) -> Callable[[Path, Path], None]:
    def link(tree: Path, victim: Path) -> None:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).symlink_to(victim)

    return link


@pytest.mark.parametrize("by_us", [True, False], ids=["reprobuild", "unbundle.py"])
@pytest.mark.parametrize(
    "harm",
    [through("context"), through("image"), through("image/blobs/sha256"), through("README.md"), through("../part"),
     through("../other"), as_link, with_manifest, with_hard_links, with_more],
    ids=["context", "image", "deeper", "file", "part", "other", "tree", "manifest", "hard links", "more"],
)  # fmt: skip
def test_prepared_work_leads_nowhere(
    harm: Callable[[Path, Path], None], by_us: bool, results: Results, tmp_path: Path
) -> None:
    file, out, victim = tmp_path / "b.tar", tmp_path / "out", tmp_path / "victim"
    results.bundle(file)
    victim.mkdir()
    (victim / "precious").write_text("x")
    before = (victim / "precious").stat()
    harm(prepare(file, out), victim)
    if by_us:
        assert take(file, out, tmp_path / "store").new
    else:
        assert alone(file, "-o", out).returncode == 0
    assert [path.name for path in victim.iterdir()] == ["precious"]
    assert (victim / "precious").read_text() == "x"
    after = (victim / "precious").stat()
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    with form.open_bundle(str(file)) as bundle:
        wanted = {member.path for member in bundle.members} | {"bundle.json"}
    there = [path for path in out.rglob("*") if not path.is_dir() or path.is_symlink()]
    assert {path.relative_to(out).as_posix() for path in there} <= wanted
    assert not [path for path in out.rglob("*") if path.is_symlink() or path.stat().st_mode & 0o022]
    assert not list(tmp_path.glob(".out.unbundling"))


def test_what_was_whole_is_kept(results: Results, tmp_path: Path) -> None:
    file, out = tmp_path / "b.tar", tmp_path / "out"
    results.bundle(file)
    assert alone(file, "-o", tmp_path / "first").returncode == 0
    tree = prepare(file, out)
    tree.rmdir()
    shutil.copytree(tmp_path / "first", tree)
    blob = max((tree / "image" / "blobs" / "sha256").iterdir(), key=lambda path: path.stat().st_size)
    number = blob.stat().st_ino
    assert alone(file, "-o", out).returncode == 0
    assert (out / blob.relative_to(tree)).stat().st_ino == number


def test_a_folder_that_another_one_replaced_is_not_taken(results: Results, tmp_path: Path) -> None:
    file, out = tmp_path / "b.tar", tmp_path / "out"
    results.bundle(file)

    def replace(tree: str) -> None:
        Path(tree).rename(tree + ".mine")
        Path(tree).mkdir()

    with form.open_bundle(str(file)) as bundle, pytest.raises(form.RefusedError) as caught:
        form.unpack(bundle, str(out), settle=replace)
    assert "is another directory than before" in str(caught.value)
    assert caught.value.hint == "name a directory where nobody else can write"
    assert not out.exists()


@pytest.mark.parametrize("name", ["README.md", "context", "bundle.json"])
def test_links_in_a_folder_that_is_there_are_not_followed(
    name: str, results: Results, tmp_path: Path
) -> None:
    file, out = tmp_path / "b.tar", tmp_path / "out"
    results.bundle(file)
    assert alone(file, "-o", out).returncode == 0
    (out / name).rename(tmp_path / "elsewhere")
    (out / name).symlink_to(tmp_path / "elsewhere")
    said = alone(file, "-o", out)
    assert said.returncode == 11
    assert ("holds another bundle" if name == "bundle.json" else "is missing or changed") in said.stderr


PLANTED = ("Makefile", "cluster.json", "image.sif", "sitecustomize.py", "within/")


def plant(out: Path) -> None:
    """Put files into a directory of a bundle, and change those that a check of the receiver would change."""
    for name in PLANTED:
        (out / name).write_text("<script>") if not name.endswith("/") else (out / name).mkdir()
    (out / "within" / "below").write_text("")
    (out / "report.html").write_text("<script>")
    verdict = json.loads((out / "verdict.json").read_text())
    (out / "verdict.json").write_text(json.dumps({**verdict, "made": "1999-01-01T00:00:00Z"}))


CHANGED = (*(name.rstrip("/") for name in PLANTED), "report.html", "verdict.json")


def test_files_beside_those_of_a_bundle_are_named(results: Results, tmp_path: Path) -> None:
    file, out = tmp_path / "b.tar", tmp_path / "out"
    results.bundle(file)
    assert alone(file, "-o", out).returncode == 0
    assert "not of the bundle" not in alone(file, "-o", out).stderr
    plant(out)
    said = alone(file, "-o", out).stderr
    assert f"not of the bundle, and were not compared: {', '.join(sorted(CHANGED))}; if you" in said
    done = take(file, out, tmp_path / "store")
    assert (done.new, sorted(done.strangers), done.certified) == (False, sorted(CHANGED), False)
    assert "--against" not in render_unbundled(done)
    assert (out / "report.html").read_text() != "<script>"
    new = take(file, tmp_path / "new", tmp_path / "store")  # as the message says
    assert (new.new, new.strangers, new.certified) == (True, (), True)


def test_of_many_files_beside_those_of_a_bundle_some_are_named(results: Results, tmp_path: Path) -> None:
    file, out = tmp_path / "b.tar", tmp_path / "out"
    results.bundle(file)
    take(file, out, tmp_path / "store")
    for number in range(100):
        (out / f"{number}").mkdir()
    assert len(take(file, out, tmp_path / "store").strangers) == form.MOST_NAMED
    assert ", ...; if you" in alone(file, "-o", out).stderr


def test_apptainer_makes_its_image_of_layers_that_were_compared(results: Results, tmp_path: Path) -> None:
    file, out, program = tmp_path / "b.tar", tmp_path / "out", tmp_path / "bin" / "apptainer"
    results.bundle(file)
    assert alone(file, "-o", out).returncode == 0
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (out / "image.sif").symlink_to(victim)
    program.parent.mkdir()
    program.write_text('#!/bin/sh\necho "$@" > "$2"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}"}
    assert alone(file, "-o", out, "--load", "apptainer", env=env).returncode == 0
    assert victim.read_text() == "mine"
    assert re.fullmatch(r"build \.image\.\w+\.sif oci:image\n", (out / "image.sif").read_text())
    assert not list(out.glob(".image.*"))
