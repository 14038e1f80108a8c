"""Blocks and attributes of a squashfs that the kernel cannot read, or reads otherwise than `sqfs2tar`, are refused."""

from __future__ import annotations

import lzma
import os
import random
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from reprobuild.errors import BuildError
from reprobuild.image.formats.squashfs_blocks import make_unpacker
from reprobuild.image.formats.squashfs_tables import check_tables
from tests.image.test_squashfs_tables import inodes_of, write

GZIP, XZ, ZSTD = 1, 4, 6
BLOCK = 128 << 10
TEXT = b"some text, " * 1000


def xz(check: int = lzma.CHECK_CRC32, size: int = BLOCK, *before: dict[str, Any]) -> bytes:
    filters = [*before, {"id": lzma.FILTER_LZMA2, "dict_size": size}]
    return lzma.compress(TEXT, lzma.FORMAT_XZ, check, filters=filters)


def zstd(**options: Any) -> bytes:
    parameters = zstandard.ZstdCompressionParameters.from_level(3, **options)
    return zstandard.ZstdCompressor(compression_params=parameters).compress(TEXT)


def windowed(log: int) -> bytes:
    """Return a frame that states a window, and no size of its content."""
    parameters = zstandard.ZstdCompressionParameters.from_level(3, window_log=log, write_content_size=False)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(TEXT) + stream.flush()


HONEST = {
    "gzip": (GZIP, zlib.compress(TEXT)),
    "xz": (XZ, xz()),
    "xz without a check": (XZ, xz(lzma.CHECK_NONE)),
    "xz with a small dictionary": (XZ, xz(lzma.CHECK_CRC32, 12288)),
    "xz for x86": (XZ, xz(lzma.CHECK_CRC32, BLOCK, {"id": lzma.FILTER_X86})),
    "zstd": (ZSTD, zstd()),
    "zstd without a size": (ZSTD, windowed(17)),
}
SKIPPED = struct.pack("<2I", 0x184D2A50, 4) + bytes(4)
FOREIGN = {
    "a second gzip stream": (GZIP, zlib.compress(TEXT) + zlib.compress(b"x"), "more than one stream"),
    "a second xz stream": (XZ, xz() + xz(), "more than one stream"),
    "xz with CRC64": (XZ, xz(lzma.CHECK_CRC64), "a check that the kernel does not know"),
    "xz with SHA-256": (XZ, xz(lzma.CHECK_SHA256), "a check that the kernel does not know"),
    "xz with a large dictionary": (XZ, xz(lzma.CHECK_CRC32, 8 << 20), "a larger dictionary"),
    "xz with delta": (XZ, xz(lzma.CHECK_CRC32, BLOCK, {"id": lzma.FILTER_DELTA, "dist": 1}), "the filter 0x3"),
    "a second frame": (ZSTD, zstd() + zstd(), "more than one frame"),
    "a frame that is skipped": (ZSTD, SKIPPED + zstd(), "is no frame of zstd"),
    "a large window": (ZSTD, windowed(23), "a larger window"),
}  # fmt: skip


@pytest.mark.parametrize(("number", "packed"), HONEST.values(), ids=HONEST)
def test_what_the_kernel_reads_is_read(number: int, packed: bytes) -> None:
    assert make_unpacker(number, BLOCK)(packed, BLOCK) == TEXT


@pytest.mark.parametrize(("number", "packed", "words"), FOREIGN.values(), ids=FOREIGN)
def test_what_the_kernel_does_not_read_is_refused(number: int, packed: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make_unpacker(number, BLOCK)(packed, BLOCK)


@pytest.mark.parametrize("options", ["", "-Xdict-size 16K", "-Xbcj x86", "-b 1M", "-b 4K"])
def test_each_option_of_xz_is_taken(options: str, tmp_path: Path, squashfs: dict[str, str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(random.Random(0).randbytes(3000) * 100)
    check_tables(write(tree, squashfs, "-comp", "xz", *options.split()))


@pytest.mark.parametrize("name", [".wh.run", ".wh..wh..opq", ".wh."])
def test_a_file_that_a_layer_would_take_for_a_whiteout(
    name: str, tmp_path: Path, squashfs: dict[str, str]
) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / name).write_text("payload")
    with pytest.raises(ValueError, match="is that of a whiteout in a layer"):
        check_tables(write(tree, squashfs))


def attributed(tmp_path: Path, *names: str) -> Path:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_text("x")
    for name in names:
        os.setxattr(tree / "file", name, b"value")
    return tree


def test_attributes_are_taken(tmp_path: Path, squashfs: dict[str, str]) -> None:
    check_tables(write(attributed(tmp_path, "user.one", "user.two"), squashfs, "-xattrs"))


def test_an_attribute_whose_name_ends_elsewhere_in_a_tar(tmp_path: Path, squashfs: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="'a=b' has a name or type that is none"):
        check_tables(write(attributed(tmp_path, "user.a=b"), squashfs, "-xattrs"))


@pytest.mark.parametrize(
    ("new", "words"), [(b"one", "'one' twice"), (b"t\0o", "a name or type that is none")]
)
def test_an_attribute_that_stands_twice_or_has_an_end_in_its_name(
    new: bytes, words: str, tmp_path: Path, squashfs: dict[str, str]
) -> None:
    path = write(attributed(tmp_path, "user.one", "user.two"), squashfs, "-xattrs", "-noX")
    path.write_bytes(path.read_bytes().replace(b"two", new))
    with pytest.raises(ValueError, match=words):
        check_tables(path)


def test_a_block_of_another_size_than_its_place_needs(tmp_path: Path, squashfs: dict[str, str]) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "file").write_bytes(random.Random(0).randbytes(2 * BLOCK))
    path = write(tree, squashfs, "-noI", "-no-fragments")
    content = bytearray(path.read_bytes())
    (at,) = inodes_of(content, 2)
    (word,) = struct.unpack_from("<I", content, at + 32)
    assert word == BLOCK | 1 << 24  # stored as it is
    struct.pack_into("<I", content, at + 32, word - 1)
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a block of a file has another size than its place needs"):
        check_tables(path)


def test_any_change_is_taken_or_refused_in_words(tmp_path: Path, squashfs: dict[str, str]) -> None:
    tree = attributed(tmp_path, "user.one", "user.two")
    (tree / "large").write_bytes(b"text of a file\n" * 20_000)
    path, chance = write(tree, squashfs, "-xattrs", "-noI", "-noX", "-noF"), random.Random(0)
    honest, refused = path.read_bytes(), 0
    for _ in range(2000):
        content = bytearray(honest)
        for _ in range(chance.randint(1, 3)):
            content[chance.randrange(len(content))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
        path.write_bytes(content)
        try:
            check_tables(path)
        except (ValueError, BuildError):
            refused += 1
    assert refused > 200
