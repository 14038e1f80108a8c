"""Small images that would take gigabytes of memory or disk, or hours, are refused at a bound."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard

from reprobuild.compare.images.attribute import NONE, folder_owners, read_origins
from reprobuild.compare.images.scan import Known, scan_image
from reprobuild.errors import BuildError
from reprobuild.image.formats.squashfs_read import open_squashed
from reprobuild.image.layering import merge as merging
from reprobuild.image.layering.merge import merge
from reprobuild.image.layers.content import arrange_items, tar_items
from reprobuild.image.oci.open import open_path
from reprobuild.image.oci.read import layout_digest, read_layout
from reprobuild.infra.tar import entries as tar_entries
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.untrusted import budget
from reprobuild.infra.untrusted.names import HOSTILE, most_bytes
from tests.image.layouts import write_image
from tests.image.made import file
from tests.image.test_adopt import adopted, layout_files, write_folder


def refused(folder: Path, scratch: Path, words: str) -> None:
    """Both readers of layouts refuse an image."""
    with pytest.raises(BuildError, match=words) as caught:
        scan_image(open_path(folder, scratch), Known())
    assert caught.value.hint == HOSTILE
    with pytest.raises(BuildError, match=words):
        layout_digest(read_layout(folder))


def deep(number: int) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for index in range(number):
            tar.addfile(tarfile.TarInfo(f"{index:06d}/" + "a/" * 2042 + "a"))
    return stream.getvalue()


def test_deep_folders_that_no_layer_has(tmp_path: Path) -> None:
    """An image of 2 kB, which took gigabytes: each directory above a path is a path of its own."""
    write_image(tmp_path / "image", [deep(150)])
    refused(tmp_path / "image", tmp_path, "very many directories")
    write_image(tmp_path / "small", [deep(2)])
    assert len(scan_image(open_path(tmp_path / "small", tmp_path), Known()).tree) == 2 * 2044 + 1


def test_many_folders_that_no_layer_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "MOST_IMPLIED", 5)
    entries = [TarEntry(path=f"{number}/f", type="file", mode=0o644) for number in range(6)]
    assert len(merge([entries[:5]])) == 11
    with pytest.raises(BuildError, match="very many directories"):
        merge([entries])


def test_long_ways_through_links(monkeypatch: pytest.MonkeyPatch) -> None:
    links = [TarEntry(path="l", type="symlink", mode=0o777, target="a/" * 2000 + "a")]
    paths = [TarEntry(path=f"l/.wh.{number}", type="file", mode=0o644) for number in range(200)]
    monkeypatch.setattr(merging, "MOST_STEPS", 200_000)
    with pytest.raises(BuildError, match="very long ways"):
        merge([[*links, *paths]])
    assert len(merge([[*links, *paths[:40]]])) == 2


def test_layers_that_unpack_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The layers of an image count together, and a file that is there once counts once."""
    zeros = [file("zeros", bytes(1 << 20))]
    for count in (2, 9):
        write_image(tmp_path / str(count), [zeros] * count)
    monkeypatch.setattr(budget, "SMALLEST_BOUND", 5 << 20)
    first, many = (tmp_path / "2", tmp_path / "9")
    assert layout_digest(read_layout(first)) == scan_image(open_path(first, tmp_path), Known()).digest
    with pytest.raises(BuildError, match=r"is of an image of \d+ bytes that unpacks to more than \d+"):
        layout_digest(read_layout(many))


def test_bytes_behind_the_layers_of_a_builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They count for the image, as the members do."""
    tar = deep(1)
    for name, size in (("small", 1 << 10), ("large", 20 << 20)):
        files = layout_files([tar + bytes(size)] * 2, zstandard.ZstdCompressor().compress, "+zstd")
        write_folder(files, tmp_path / name)
    monkeypatch.setattr(budget, "SMALLEST_BOUND", 5 << 20)
    adopted(tmp_path / "small", tmp_path / "out")
    with pytest.raises(
        BuildError, match=r"is of an image of \d+ bytes that unpacks to more than \d+"
    ) as caught:
        adopted(tmp_path / "large", tmp_path / "other")
    assert caught.value.hint == HOSTILE


def test_one_layer_many_times_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(tmp_path / "image", [[file("zeros", bytes(1 << 20))]] * 20)
    monkeypatch.setattr(budget, "SMALLEST_BOUND", 3 << 20)
    assert len(scan_image(open_path(tmp_path / "image", tmp_path), Known()).packing) == 20


def test_members_and_names_of_all_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image(
        tmp_path / "image", [[file(f"f{number}{index}", b"") for index in range(4)] for number in range(3)]
    )
    monkeypatch.setattr(budget, "MOST_PATHS", 11)
    refused(tmp_path / "image", tmp_path, "more than 11 members")
    monkeypatch.setattr(budget, "MOST_PATHS", 12)
    scan_image(open_path(tmp_path / "image", tmp_path), Known())
    monkeypatch.setattr(budget, "MOST_TEXT", 30)
    refused(tmp_path / "image", tmp_path, "whose names need more than 30 bytes")


def test_a_squashfs_that_unpacks_to_too_much(tmp_path: Path, squashfs: Mapping[str, str]) -> None:
    """One of 4 kB with a file of holes filled TMPDIR."""
    (tmp_path / "tree").mkdir()
    with (tmp_path / "tree" / "hole").open("wb") as stream:
        stream.truncate(1 << 30)
    small = tmp_path / "small.sqsh"
    argv = ["mksquashfs", tmp_path / "tree", small, "-quiet", "-no-progress"]
    subprocess.run([str(word) for word in argv], env=dict(squashfs), check=True, capture_output=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with pytest.raises(BuildError, match="unpacks to more than") as caught:
        open_squashed(small, scratch, squashfs)
    assert caught.value.hint == HOSTILE
    assert sum(path.stat().st_size for path in scratch.iterdir()) <= most_bytes(small.stat().st_size)


def test_a_long_key_above_many_values(tmp_path: Path) -> None:
    """The place of each value repeats the key: `diff` took gigabytes for 120 kB."""
    with pytest.raises(BuildError, match="the places of values in its JSON"):
        write_image(tmp_path / "image", [[]], **{"k" * 60_000: [0] * 30_000})
    with pytest.raises(BuildError, match="the places of values in its JSON"):
        open_path(tmp_path / "image", tmp_path)


@pytest.mark.parametrize("number", [80_000, 4_000_000])
def test_lists_of_packages_with_paths_of_many_steps(number: int) -> None:
    """A line of 160 kB took 6 GB: only a directory of the image has an owner."""
    steps = "a/" * number
    lists = {
        "var/lib/dpkg/info/first.list": f"/{steps}f\n/etc/first/x\n/etc/first/gone/x\n",
        "var/lib/dpkg/info/other.list": f"/{steps}f\n/etc/other\n/etc/other/x\n",
        "opt/env/lib/pkg-1.dist-info/RECORD": f"{steps[:100_000]}f,,\npkg/a.py,,\npkg/removed.py,,\n",
        "opt/env/conda-meta/c-1-0.json": f'{{"files": ["{steps[:4000]}f", "share/c"]}}',
    }
    paths = [*lists, "etc/first/x", "etc/other/x", "opt/env/lib/pkg/a.py", "opt/env/share/c"]
    tree = merge([[file(path, lists.get(path, "").encode())[0] for path in paths]])
    origins = read_origins(tree, lambda entry: lists[entry.path].encode(), None)
    removed = {"opt/env/lib/pkg/removed.py"}
    assert set(origins.paths) == {*paths, "opt/env/lib/pkg-1.dist-info"} | removed
    owners = folder_owners(origins, tree)
    assert owners.keys() <= tree.keys()
    assert owners["etc"] == owners["opt/env"] == NONE
    assert owners["etc/first"] == ("system", "first")
    assert owners["opt/env/lib/pkg"] == owners["opt/env/lib"] == ("python", "pkg")


def test_deep_files_of_a_source(tmp_path: Path) -> None:
    """A tar of 10 kB took 2 GB: a layer has each directory above a file."""
    for number in (2, 20):
        (tmp_path / "source.tar").write_bytes(deep(number))
        with tar_items(tmp_path / "source.tar", "the source x", prefix="src/x") as items:
            if number == 2:
                assert len(arrange_items(items)) == 2 * 2044 + 2
                continue
            words = f"more than {tar_entries.MOST_CHARACTERS} characters together, at src/x/0000"
            with pytest.raises(BuildError, match=words) as caught:
                arrange_items(items)
            assert caught.value.hint == HOSTILE
