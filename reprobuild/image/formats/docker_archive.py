"""The format of `docker save`, for engines without OCI layouts.

Docker 20.10 is an example. Layers are plain tars.
"""

from __future__ import annotations

from typing import IO

from reprobuild.image.oci.open import LARGEST_JSON
from reprobuild.image.oci.read import Layout, open_layer
from reprobuild.image.oci.write import encode
from reprobuild.infra.tar.entries import CHUNK, TarEntry
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.regular_files import read_plain


def write_docker_archive(layout: Layout, stream: IO[bytes]) -> None:
    """Write a layout as a tar for `docker load`.

    The same layout gives the same bytes. A layer's length must precede it, so each is decompressed twice. The
    configuration is the same file, hence the image has the same id.

    Args:
        layout: the result of `oci.read.read_layout`.
        stream: takes the bytes in order; it stays open.

    Raises:
        BuildError: a layer is damaged: see `oci.read.open_layer`.
    """
    writer = TarWriter(stream, 0)
    config = layout.config_digest.removeprefix("sha256:")
    names = [f"{diff_id}/layer.tar" for _, _, diff_id in layout.layers]
    tags = [layout.reference] if layout.reference else []
    manifest = encode([{"Config": f"{config}.json", "Layers": names, "RepoTags": tags}])
    writer.file("manifest.json", manifest)
    writer.file(f"{config}.json", read_plain(layout.blob(config), LARGEST_JSON))
    for index, name in enumerate(names):
        if name in names[:index]:
            continue
        size = _length(layout, index)
        writer.directory(name.partition("/")[0])
        with open_layer(layout, index) as content:
            writer.add(TarEntry(path=name, type="file", mode=0o644, size=size), content)
    writer.close()


def _length(layout: Layout, index: int) -> int:
    size = 0
    with open_layer(layout, index) as content:
        while chunk := content.read(CHUNK):
            size += len(chunk)
    return size
