"""The memory of `reprobuild diff` for two images of 6 GB.

It must not grow with the size of their files.

Two layouts are made: in each layer one large file and many small ones, 6 GB in all; one file is half of that. The
contents are almost all zeros, so that zstd makes little of them on the disk; every byte is read, hashed and compared
all the same. Every layer differs between the two, so that none is read only for its hash. One large file and some small
ones differ, so that contents are fetched and looked into.

The figure is the greatest resident memory of the whole process, as the kernel has it (getrusage(2), ru_maxrss), in MiB.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import zstandard

from benchmarks.measure import PROGRAM, Figure, peak_of
from reprobuild.image.oci.write import CONFIG, INDEX, LAYER, MANIFEST, encode

LIMIT_MIB = 512
SIZE = 6 << 30
LAYERS = 6
SMALL_FILES = 8000  # in a layer, of some KB: 48 000 in all, more than the example's image has
MODULES = ("reprobuild/image", "reprobuild/compare/images", "reprobuild/infra/tar")


class Filled:
    """A file of `size` bytes: a mark, then zeros."""

    def __init__(self, mark: bytes, size: int) -> None:
        self._mark = mark
        self._left = size

    def read(self, size: int = -1) -> bytes:
        size = self._left if size < 0 else min(size, self._left)
        head, self._mark = self._mark[:size], self._mark[size:]
        self._left -= size
        return head + bytes(size - len(head))


class Packer:
    """A stream that hashes and compresses a tar into `target`.

    The compressed bytes are hashed, too.
    """

    def __init__(self, target: IO[bytes]) -> None:
        self._target = target
        self._zstd = zstandard.ZstdCompressor(level=1).compressobj()
        self.diff_id, self.digest = hashlib.sha256(), hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.diff_id.update(data)
        self._keep(self._zstd.compress(data))
        return len(data)

    def finish(self) -> None:
        self._keep(self._zstd.flush())

    def _keep(self, packed: bytes) -> None:
        self.digest.update(packed)
        self._target.write(packed)


def make_image(folder: Path, size: int, small_files: int, word: str) -> int:
    """Write a layout of about `size` bytes, uncompressed.

    `word` goes into the files that differ. Returns the bytes.
    """
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    rows, diff_ids, total = [], [], 0
    for layer in range(LAYERS):
        large = size // 2 if layer == 0 else size // 2 // (LAYERS - 1)
        part = folder / "part"
        with part.open("wb") as target:
            packer = Packer(target)
            with tarfile.open(fileobj=cast("IO[bytes]", packer), mode="w|", bufsize=1 << 20) as tar:
                for name, mark, length in members(layer, large, small_files, word):
                    info = tarfile.TarInfo(name)
                    info.size = length
                    tar.addfile(info, cast("IO[bytes]", Filled(mark, length)))
                    total += length
            packer.finish()
        part.rename(blobs / packer.digest.hexdigest())
        digest = f"sha256:{packer.digest.hexdigest()}"
        rows.append(
            {"mediaType": f"{LAYER}+zstd", "digest": digest, "size": (blobs / digest[7:]).stat().st_size}
        )
        diff_ids.append(f"sha256:{packer.diff_id.hexdigest()}")
    image = encode({"os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": diff_ids}})
    config = write_blob(blobs, CONFIG, image)
    manifest = encode({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": rows})
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [write_blob(blobs, MANIFEST, manifest)]}
    (folder / "index.json").write_bytes(encode(index))
    return total


def members(layer: int, large: int, small_files: int, word: str) -> Iterator[tuple[str, bytes, int]]:
    """Yield (name, beginning, length) of the files of a layer."""
    mark = word if layer == 0 else "the same"
    yield f"opt/layer-{layer}/large.so", f"{layer} {mark}".encode(), large
    for number in range(small_files):
        folder = f"opt/layer-{layer}/folder-{number % 200:03}/inner"
        yield f"{folder}/file-{number:05}.py", f"{layer} {number}\n".encode(), 2000 + number % 1000
    yield f"opt/layer-{layer}/differs.txt", f"{layer}\n{word}\n".encode(), 60


def write_blob(blobs: Path, media_type: str, content: bytes) -> dict[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    (blobs / digest).write_bytes(content)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def measure(size: int = SIZE, small_files: int = SMALL_FILES) -> list[Figure]:
    """Return the figure of the greatest memory.

    A document that does not name exactly the changed files is an error.
    """
    with tempfile.TemporaryDirectory(prefix="reprobuild-bench-") as scratch:
        folders = [Path(scratch) / word for word in ("one", "other")]
        sizes = [make_image(folder, size, small_files, folder.name) for folder in folders]
        peak, seconds, output = peak_of([*PROGRAM, "diff", *map(str, folders), "--json"], 1)
        found = {file["path"] for file in json.loads(output)["files"]}
    changed = {"opt/layer-0/large.so", *(f"opt/layer-{layer}/differs.txt" for layer in range(LAYERS))}
    if found != changed:
        raise RuntimeError(f"diff told of {sorted(found)[:9]}, and {sorted(changed)} were changed")
    details = {
        "bytes of each image": sizes[0],
        "files of each image": LAYERS * (small_files + 2),
        "largest file": size // 2,
        "seconds": round(seconds, 1),
    }
    name = f"`reprobuild diff`, two images of {sizes[0] / 1e9:.1f} GB"
    return [
        Figure(
            name,
            peak / 1024,
            "MiB",
            "greatest resident memory",
            limit=LIMIT_MIB,
            modules=MODULES,
            details=details,
        )
    ]
