"""image.sif and image.sqsh of the example, as a person asks for them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from reprobuild.image.formats.sif import read_sif
from reprobuild.image.tree_digest import tree_digest
from reprobuild.output.directory import read_image
from reprobuild.recipe.runtime_config import read_runtime_config
from tests.conftest import Built, reprobuild
from tests.squashfs import squashfs_tree


@pytest.fixture(scope="module")
def out(built_example: Built, squashfs: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An output directory with both files, from the layers that are in the store."""
    out = tmp_path_factory.mktemp("singles") / "out"
    done = reprobuild(
        "build", built_example.out / "reprobuild.lock", "-o", out, "--store", built_example.store, "--offline",
        "--format", "sif", "--format", "squashfs", "--json", env=squashfs,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    image = json.loads(done.stdout)["image"]
    for kind in ("sif", "sqsh"):
        with (out / f"image.{kind}").open("rb") as file:
            digest = hashlib.sha256()
            while chunk := file.read(1 << 20):
                digest.update(chunk)
        assert image[kind] == f"sha256:{digest.hexdigest()}"
    assert image["tree"] == built_example.image.tree
    return out


@pytest.mark.long
def test_the_sif_holds_the_image(out: Path, built_example: Built, squashfs: dict[str, str]) -> None:
    """Its tree, less what is Apptainer's, and its configuration give the image's tree digest."""
    sif = read_sif(out / "image.sif")
    assert sif.architecture == "amd64"
    data = {}
    with (out / "image.sif").open("rb") as file:
        for each in sif.objects[:-1]:
            file.seek(each.offset)
            data[each.name] = file.read(each.size)
    assert data[""] == (out / "Apptainer.def").read_bytes()
    tree = squashfs_tree(out / "image.sif", squashfs, sif.system.offset)
    own = [path for path in tree if path.startswith(".singularity.d")] + ["etc/hosts", "etc/resolv.conf"]
    for path in own:
        assert tree.pop(path).size <= len(data[""])
    assert (
        tree_digest(tree, read_runtime_config(json.loads(data["oci-config.json"])))
        == built_example.image.tree
    )


def test_the_shell_lines_are_those_of_the_definition_file(out: Path, squashfs: dict[str, str]) -> None:
    sif = read_sif(out / "image.sif")
    (metadata,) = (each for each in sif.objects if each.name == "inspect-metadata.json")
    with (out / "image.sif").open("rb") as file:
        file.seek(metadata.offset)
        attributes = json.loads(file.read(metadata.size))["data"]["attributes"]
    sections: dict[str, list[str]] = {}
    for line in (out / "Apptainer.def").read_text().splitlines():
        if line.startswith("%"):
            sections[line] = lines = []
        elif line.startswith("    ") and sections:
            lines.append(line.strip())
    assert attributes["runscript"].splitlines()[1:] == sections["%runscript"]
    environment = attributes["environment"]["/.singularity.d/env/90-environment.sh"]
    assert environment.splitlines()[1:] == sections["%environment"]
    assert attributes["labels"] == dict(line.split(" ", 1) for line in sections["%labels"])


def test_a_later_build_keeps_what_is_of_its_image(out: Path, built_example: Built) -> None:
    _, before = read_image(out)
    assert before.sif.startswith("sha256:")
    arguments = ("build", built_example.out / "reprobuild.lock", "-o", out, "--store", built_example.store)
    done = reprobuild(*arguments, "--offline", "--json")
    assert done.returncode == 0, done.stderr
    assert read_image(out)[1] == before
    assert json.loads(done.stdout)["image"]["sqsh"] == before.sqsh


def test_without_mksquashfs_nothing_is_begun(built_example: Built, tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "HOME": str(tmp_path)}
    done = reprobuild(
        "build", built_example.out / "reprobuild.lock", "-o", tmp_path / "out", "--store", tmp_path / "store",
        "--format", "sif", env=env,
    )  # fmt: skip
    assert done.returncode == 6
    assert done.stderr.startswith(
        "error: `mksquashfs` is not on PATH, and is needed to write a squashfs\n\nhint: "
    )
    assert [path.name for path in tmp_path.iterdir()] == ["store"]
    # The store knows the lock, and has got nothing for it.
    assert {path.name for path in (tmp_path / "store").iterdir()} <= {"kept", "tmp", "in-use"}
