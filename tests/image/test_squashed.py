"""`diff` of a SIF and of a squashfs: read by a program of other authors, compared like any other image."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.compare.images.explain import ImageDiff, compare_images
from reprobuild.errors import BuildError, EngineError
from reprobuild.image.formats.single_file import write_singles
from reprobuild.image.formats.squashfs_read import is_squashed
from reprobuild.image.oci.read import Layout
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.report.difference import render_image_diff
from tests.image.layouts import image_of, write_image
from tests.image.made import BASE, file, folder

CUT_SHORT = "the file is damaged or cut short; export or copy the image again"
TREE = [folder(""), *BASE, file("opt/a.txt", b"one\ntwo\n", uid=7)]


def singles(root: Path, entries: list[tuple[TarEntry, bytes]], env: Mapping[str, str]) -> Layout:
    layout = write_image(root / "image", [entries])
    write_singles(image_of(layout), root, ("sif", "sqsh"), "Bootstrap: scratch\n", env, lambda text: None)
    return layout


def explained(one: Path, other: Path, env: Mapping[str, str]) -> ImageDiff:
    return compare_images(str(one), str(other), env, lambda text: None)


def test_a_sif_against_itself_another_and_the_layout(tmp_path: Path, squashfs: dict[str, str]) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    singles(one, TREE, squashfs)
    singles(other, [*TREE[:-1], file("opt/a.txt", b"one\n2\n", uid=7)], squashfs)
    same = explained(one / "image.sif", one / "image.sif", squashfs)
    assert (same.level, same.files, same.changes, same.one.form) == ("manifest", (), (), "SIF")
    assert is_squashed(one / "image.sif")
    assert not is_squashed(one)
    found = explained(one / "image.sif", other / "image.sif", squashfs)
    (change,) = found.files
    assert (change.kind, change.path, change.detail) == ("content", "opt/a.txt", "line 2: 'two' and '2'")
    whole = explained(one / "image", one / "image.sif", squashfs)
    added = {change.path for change in whole.files if change.kind == "added"}
    assert {change.kind for change in whole.files} <= {"added"}
    assert {".singularity.d/runscript", "etc/hosts"} <= added
    assert [c.kind for c in whole.changes if c.kind in ("runtime", "label")] == []
    assert "config: form: OCI layout -> SIF, without one" in render_image_diff(whole)


def test_a_squashfs_states_no_configuration(tmp_path: Path, squashfs: dict[str, str]) -> None:
    singles(tmp_path, TREE, squashfs)
    found = explained(tmp_path / "image", tmp_path / "image.sqsh", squashfs)
    assert (found.level, found.other.form) == ("different", "squashfs")
    assert f"{tmp_path}/image.sqsh states no configuration, so what runs is not known of it" in found.notes
    assert {change.path for change in found.files} == {"etc/environment", "etc/rc", "etc/fstab"}


def test_damaged_files(tmp_path: Path, squashfs: dict[str, str]) -> None:
    singles(tmp_path, TREE, squashfs)
    for name, words in (("image.sif", "is not a SIF that can be run"), ("image.sqsh", "is a damaged image")):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(whole[: 200 if name.endswith("sqsh") else len(whole) // 2])
        with pytest.raises(BuildError, match=words) as failed:
            explained(tmp_path / name, tmp_path / "image", squashfs)
        assert failed.value.hint
    assert failed.value.hint == CUT_SHORT


def test_without_the_program(tmp_path: Path, squashfs: dict[str, str]) -> None:
    singles(tmp_path, TREE, squashfs)
    with pytest.raises(EngineError, match="`sqfs2tar` is not on PATH, and is needed to read") as failed:
        explained(tmp_path / "image.sqsh", tmp_path / "image", {"PATH": str(tmp_path)})
    assert failed.value.hint == "install squashfs-tools-ng, which has it, or compare the output directories"


NAMES = (
    "a",
    "A",
    "a-b",
    "a.b",
    "ab",
    "a b",
    "b",
    "\u00e9",
    "z\u00e9",
    "~",
    ".hidden",
    "caf\udce9",
    *map(str, range(300)),
)


def squashed(tmp_path: Path, name: str, names: tuple[str, ...], env: Mapping[str, str]) -> Path:
    """Write a squashfs of a directory, with the names readable in its bytes."""
    for each in names:
        place = tmp_path / name / "d" / each
        place.mkdir(parents=True)
        (place / each).write_text(each, errors="surrogateescape")
    path = tmp_path / f"{name}.sqsh"
    options = ["-noI", "-noD", "-noF", "-noX", "-all-root", "-no-progress", "-quiet", "-no-exports"]
    argv = ["mksquashfs", tmp_path / name, path, *options]
    subprocess.run([os.fspath(each) for each in argv], env=dict(env), check=True, stdout=subprocess.DEVNULL)
    return path


def test_names_as_mksquashfs_orders_them(tmp_path: Path, squashfs: dict[str, str]) -> None:
    path = squashed(tmp_path, "honest", NAMES, squashfs)
    found = explained(path, path, squashfs)
    assert found.level == "manifest"


@pytest.mark.parametrize(
    ("names", "old", "new", "name"),
    [
        (("runY", "runZ"), b"runY", b"runZ", "runZ"),
        (("aQ", "bb"), b"aQ", b"zz", "bb"),
        (("Aa", "Bb"), b"Bb", b"AB", "AB"),
    ],
)
def test_a_folder_in_which_the_kernel_finds_other_files(
    tmp_path: Path, squashfs: dict[str, str], names: tuple[str, ...], old: bytes, new: bytes, name: str
) -> None:
    """The kernel opens the first of two names, and ends where a name is greater: the reader here gives both."""
    path = squashed(tmp_path, "evil", names, squashfs)
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new))
    words = f"is a damaged image: the name '{name}' stands in its directory twice, or out of order"
    with pytest.raises(BuildError, match=words) as failed:
        explained(path, path, squashfs)
    assert failed.value.hint == CUT_SHORT
