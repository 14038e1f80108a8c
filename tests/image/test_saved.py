"""The forms of `docker save` beside each other: each must lead to one image, and none costs more than its bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from reprobuild.image.oci.members import DirectoryFiles
from reprobuild.image.oci.open import open_path
from reprobuild.image.oci.read import layout_digest, open_layer, read_layout
from tests.image.images import archived, make_layout, saved, tar_of
from tests.image.made import file, symlink
from tests.image.test_opened import ENTRIES, TOP, fails, read


@pytest.fixture
def layout(tmp_path: Path) -> Path:
    return make_layout(tmp_path / "layout", ENTRIES, TOP)


def with_oldest(path: Path, chain: list[tuple[str, bytes | str]], tags: Any = None) -> None:
    """Add the form before Docker 1.10: `repositories`, and a directory with `json` for each layer or link to one."""
    ids = [f"{number + 1:064x}" for number in range(len(chain))]
    rows = [file("repositories", json.dumps(tags or {"small": {"1": ids[-1]}}).encode())]
    for number, (each, layer) in enumerate(chain):
        parent = {"parent": ids[number - 1]} if number else {}
        rows.append(file(f"{ids[number]}/VERSION", b"1.0"))
        rows.append(file(f"{ids[number]}/json", json.dumps({"id": each, **parent}).encode()))
        name = f"{ids[number]}/layer.tar"
        rows.append(symlink(name, layer) if isinstance(layer, str) else file(name, layer))
    with tarfile.open(path, "a") as tar, tarfile.open(fileobj=io.BytesIO(tar_of(rows))) as more:
        for info in more:
            tar.addfile(info, more.extractfile(info) if info.isreg() else None)


def layers_of(layout: Path) -> list[tuple[str, bytes]]:
    """Return the diff_id and the tar of each layer."""
    found = read_layout(layout)
    pairs = []
    for index, (_, _, diff_id) in enumerate(found.layers):
        with open_layer(found, index) as stream:
            pairs.append((diff_id, stream.read()))
    return pairs


def test_the_oldest_form_beside_manifest_json(layout: Path, tmp_path: Path) -> None:
    """As `docker save` wrote it from 1.10 to 24, Podman with links, and Docker since 25 without the layers."""
    layers = layers_of(layout)
    wanted = layout_digest(read_layout(layout))
    links = [(diff_id, f"../{diff_id}/layer.tar") for diff_id, _ in layers]
    newer = {"small": {"1": layers[-1][0], "2": layers[-1][0]}}
    for number, (chain, tags) in enumerate(((layers, None), (links, None), ([], newer), ([], {}))):
        path = saved(layout, tmp_path / f"{number}.tar")
        with_oldest(path, chain, tags or ({"a": {}} if not chain else None))
        assert read(path, tmp_path / "s").digest == wanted
    evil = [*layers[:-1], ("e", tar_of([file("evil", b"evil")]))]
    orders = {"evil": evil, "fewer": layers[1:], "more": [*layers, layers[0]], "turned": layers[::-1]}
    for name, chain in orders.items():
        path = saved(layout, tmp_path / f"{name}.tar")
        with_oldest(path, chain)
        fails(path, tmp_path, "its repositories leads to other layers than manifest.json")
    path = saved(layout, tmp_path / "two.tar")
    with_oldest(path, layers, {"small": {"1": "1" * 64, "2": "2" * 64}})
    fails(path, tmp_path, "its repositories names 2 images")


def test_the_oldest_form_beside_an_index_alone(layout: Path, tmp_path: Path) -> None:
    """Dockers of the classic store load it, where manifest.json is missing."""
    path = archived(layout, tmp_path / "oci.tar")
    with_oldest(path, layers_of(layout))
    fails(path, tmp_path, "engines load another image by its repositories, since it has no manifest.json")
    (layout / "repositories").write_text("{}")
    fails(layout, tmp_path, "engines load another image by its repositories, since it has no manifest.json")


def test_a_file_that_manifest_json_repeats_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighteen thousand rows with one layer of 20 MB took an hour."""
    tar = tar_of([file("a", b"1")])
    layout = make_layout(tmp_path / "many", *[[file("a", b"1")]] * 50, packing="none")
    found = read_layout(layout)
    assert {digest for _, digest, _ in found.layers} == {hashlib.sha256(tar).hexdigest()}
    row = {"Config": f"blobs/sha256/{found.config_digest[7:]}", "RepoTags": None, "Layers": ["y"] * 50}
    (layout / "manifest.json").write_text(json.dumps([row]))
    (layout / "y").write_bytes(tar)
    opened: list[str] = []
    opener = DirectoryFiles.open
    monkeypatch.setattr(DirectoryFiles, "open", lambda self, name: opened.append(name) or opener(self, name))
    assert open_path(layout, tmp_path).form == "OCI layout"
    assert opened.count("y") == 1
