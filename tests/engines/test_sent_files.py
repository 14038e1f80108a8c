"""An engine gets the files of an image, and no other file of its directory."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from reprobuild.engines import docker, podman
from reprobuild.errors import BuildError
from reprobuild.image.oci.read import MAKE_AGAIN, Layout, open_layer, read_layout
from tests.image.layouts import write_image
from tests.image.made import file

HUGE = 1 << 26  # bytes, of a file without blocks on disk
NAME = "reprobuild:0123456789ab"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return write_image(tmp_path / "image", [[file("etc/a", b"a")], [file("etc/b", b"b")]])


class Counted(io.BytesIO):
    """A stream that takes no more than an image needs."""

    def write(self, data: Any, /) -> int:
        assert self.tell() < 1 << 20, "more than the image is sent"
        return super().write(data)


def sent(layout: Layout) -> dict[str, bytes]:
    """Return the files that Docker gets."""
    stream = Counted()
    docker._write_layout_tar(layout.folder, NAME, stream)
    stream.seek(0)
    with tarfile.open(fileobj=stream) as tar:
        return {info.name: opened.read() for info in tar if (opened := tar.extractfile(info))}


def stretch(path: Path) -> None:
    with path.open("ab") as stream:
        stream.truncate(HUGE)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def test_files_that_are_not_of_the_image_are_not_sent(layout: Layout, tmp_path: Path) -> None:
    expected = {f"./blobs/sha256/{digest}": layout.blob(digest).read_bytes() for digest in layout.blobs}
    assert len(expected) == 4
    stretch(layout.folder / "blobs" / "huge")
    stretch(layout.blob("0" * 64))
    stretch(layout.folder / "oci-layout")
    (layout.folder / "blobs" / "sha256" / "secret").symlink_to(tmp_path)
    files = sent(layout)
    index = files.pop("./index.json")
    assert NAME.encode() in index
    assert files == {"./oci-layout": b'{"imageLayoutVersion":"1.0.0"}', **expected}


@pytest.mark.parametrize("change", [stretch, link, pipe, Path.unlink])
def test_a_layer_of_other_bytes_is_not_sent(
    change: Callable[[Path], None], layout: Layout, tmp_path: Path
) -> None:
    change(layout.blob(layout.layers[1][1]))
    with pytest.raises(
        BuildError, match=f"blob {layout.layers[1][1]} of .* (is not what|cannot be)"
    ) as caught:
        sent(layout)
    assert caught.value.hint == MAKE_AGAIN
    with pytest.raises(BuildError, match=r"is not what it states|cannot be read"):
        podman._link_layout(layout.folder, NAME, "reprobuild-x", tmp_path)
    assert not (tmp_path / "reprobuild-x").exists()


def test_a_pipe_as_a_layer_is_not_waited_for(layout: Layout) -> None:
    pipe(layout.blob(layout.layers[0][1]))
    with (
        pytest.raises(BuildError, match=r"cannot be read: .*it is no plain file"),
        open_layer(read_layout(layout.folder), 0) as stream,
    ):
        stream.read()
