"""A squashfs in which the kernel would find other files than `sqfs2tar` lists is refused; honest ones are taken."""

from __future__ import annotations

import os
import struct
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from reprobuild.compare.images.explain import compare_images
from reprobuild.errors import BuildError
from reprobuild.image.formats.squashfs_tables import check_tables

INODES, DIRECTORIES = 64, 72  # where the superblock says where these tables begin
EXTENDED = 8
TIME = 1_700_000_000
CUT_SHORT = "the file is damaged or cut short; export or copy the image again"
Change = Callable[[bytearray], None]


def write(tree: Path, env: Mapping[str, str], *options: str) -> Path:
    """Write the squashfs of a directory; its tables are not packed where `options` says so."""
    path = tree.with_suffix(".sqsh")
    argv = ["mksquashfs", tree, path, "-quiet", "-no-progress", "-noappend", "-all-root", *options]
    subprocess.run([*argv, "-all-time", str(TIME)], check=True, env=dict(env), stdout=subprocess.DEVNULL)
    return path


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A directory that is large enough for an index, and a hard link."""
    folder = tmp_path / "tree"
    (folder / "bin").mkdir(parents=True)
    for number in range(600):
        (folder / "bin" / f"f{number:03d}-{'x' * 60}").touch()
    (folder / "bin" / "python3").write_text("honest")
    (folder / "bin" / "link").hardlink_to(folder / "bin" / "python3")
    return folder


def numbers(content: bytes) -> tuple[int, int]:
    inodes, directories = struct.unpack_from("<2Q", content, INODES)
    return inodes, directories


def inodes_of(content: bytes, *kinds: int) -> list[int]:
    """Return where inodes of some types stand, in a file whose tables are not packed."""
    start, end = numbers(content)
    heads = ((at, *struct.unpack_from("<4HI", content, at)) for at in range(start, end - 16))
    return [at for at, kind, mode, _, _, when in heads if kind in kinds and when == TIME and mode < 0o1000]


@pytest.mark.parametrize("packer", ["gzip", "xz", "zstd"])
def test_what_mksquashfs_writes_is_taken(packer: str, tree: Path, squashfs: dict[str, str]) -> None:
    check_tables(write(tree, squashfs, "-comp", packer))


def test_a_real_tree_is_taken(tmp_path: Path, squashfs: dict[str, str]) -> None:
    path = tmp_path / "library.sqsh"
    argv = ["mksquashfs", Path(os.__file__).parent, path, "-quiet", "-no-progress", "-noD", "-noF"]
    subprocess.run(argv, check=True, env=squashfs, stdout=subprocess.DEVNULL)
    check_tables(path)


def another_block(content: bytearray) -> None:
    (at,) = [at for at in inodes_of(content, EXTENDED) if struct.unpack_from("<H", content, at + 32)[0]]
    (position,) = struct.unpack_from("<I", content, at + 40)
    struct.pack_into("<I", content, at + 40, position + 1)


def another_name(content: bytearray) -> None:
    (at,) = [at for at in inodes_of(content, EXTENDED) if struct.unpack_from("<H", content, at + 32)[0]]
    content[at + 40 + 12] = ord("a")


def the_number_of_another(content: bytearray) -> None:
    first, second, *_ = inodes_of(content, 2, 9)
    content[second + 12 : second + 16] = content[first + 12 : first + 16]


def the_type_in_the_mode(content: bytearray) -> None:
    first, *_ = inodes_of(content, 2, 9)
    struct.pack_into("<H", content, first + 2, 0o020755)


def an_unknown_type(content: bytearray) -> None:
    first, *_ = inodes_of(content, 2, 9)
    struct.pack_into("<H", content, first, 15)


def a_huge_directory(content: bytearray) -> None:
    (at,) = [at for at in inodes_of(content, EXTENDED) if struct.unpack_from("<H", content, at + 32)[0]]
    struct.pack_into("<I", content, at + 20, 70 << 20)


def an_end_in_a_name(content: bytearray) -> None:
    content[content.index(b"python3", numbers(content)[1]) + 3] = 0


def hidden_attributes(content: bytearray) -> None:
    (flags,) = struct.unpack_from("<H", content, 24)
    struct.pack_into("<H", content, 24, flags | 0x200)
    struct.pack_into("<Q", content, 56, len(content) - 100)


def no_inodes(content: bytearray) -> None:
    struct.pack_into("<Q", content, INODES, len(content) - 1)


def another_packer(content: bytearray) -> None:
    struct.pack_into("<H", content, 20, 5)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (another_block, "the index of a directory leads elsewhere than its rows"),
        (another_name, "the index of a directory leads elsewhere than its rows"),
        (the_number_of_another, "is another one than the row of its directory says"),
        (the_type_in_the_mode, "an inode has the impossible mode 20755"),
        (an_unknown_type, "an inode has the unknown type 15"),
        (an_end_in_a_name, r"the name 'pyt\\x00on3' is none of a file"),
        (hidden_attributes, "it says that it has no extended attributes, and has them"),
        (a_huge_directory, "a directory has 73400317 bytes of rows, and at most 67108864 are read"),
        (no_inodes, "a table of metadata cannot be read"),
        (another_packer, "it is packed by another program than gzip, xz or zstd"),
    ],
)
def test_what_programs_would_read_in_two_ways_is_refused(
    change: Change, words: str, tree: Path, squashfs: dict[str, str]
) -> None:
    path = write(tree, squashfs, "-noI")
    honest = tree.with_suffix(".honest")
    honest.write_bytes(path.read_bytes())
    content = bytearray(path.read_bytes())
    change(content)
    assert content != honest.read_bytes()
    path.write_bytes(content)
    with pytest.raises(BuildError, match=words) as failed:
        compare_images(str(honest), str(path), squashfs, lambda text: None)
    assert failed.value.hint == CUT_SHORT


def test_a_block_that_states_any_size_is_refused(tree: Path, squashfs: dict[str, str]) -> None:
    path = write(tree, squashfs, "-comp", "zstd")
    content = bytearray(path.read_bytes())
    frame = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 2**62) + b"\x01\x00\x00"
    at = numbers(content)[0]
    struct.pack_into("<H", content, at, len(frame))
    content[at + 2 : at + 2 + len(frame)] = frame
    path.write_bytes(content)
    with pytest.raises(ValueError, match="a larger window than the kernel has"):
        check_tables(path)


def table(content: bytes) -> bytes:
    """Return the blocks of a table of metadata, not packed."""
    parts = [content[at : at + 8192] for at in range(0, len(content), 8192)]
    return b"".join(struct.pack("<H", 0x8000 | len(part)) + part for part in parts)


def sharing(folders: int) -> bytes:
    """Return a squashfs with directories that share the rows of as many names of one file: the square of rows."""

    def place(number: int) -> tuple[int, int]:
        return 40 * number // 8192 * 8194, 40 * number % 8192

    def rows(kind: int, numbers: list[int]) -> bytes:
        found = b""
        for at, number in enumerate(numbers):
            block, offset = place(number)
            found += struct.pack("<3I", 0, block, number) + struct.pack("<HhHH", offset, 0, kind, 6)
            found += b"%07d" % at
        return found

    def folder(number: int, size: int, at: int) -> bytes:
        head = struct.pack("<4H2I", EXTENDED, 0o755, 0, 0, 0, number)
        return head + struct.pack("<4I2HI", 2, size + 3, at // 8192 * 8194, 1, 0, at % 8192, 0xFFFFFFFF)

    names, below = rows(2, [1] * folders), rows(1, list(range(2, folders + 2)))
    file = struct.pack("<4H2I", 2, 0o755, 0, 0, 0, 1) + struct.pack("<4I", 0, 0xFFFFFFFF, 0, 0)
    inodes = folder(0, len(below), len(names)) + file + bytes(8)
    inodes += b"".join(folder(number, len(names), 0) for number in range(2, folders + 2))
    first, second = table(inodes), table(names + below)
    end = 96 + len(first) + len(second)
    numbers = (0, end, end, 2**64 - 1, 96, 96 + len(first), 2**64 - 1, 2**64 - 1)
    return struct.pack("<5I6H8Q", 0x73717368, 1, 0, 1 << 17, 0, 1, 17, 0, 1, 4, 0, *numbers) + first + second


def test_directories_that_share_their_rows_are_bounded_together(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqsh"
    path.write_bytes(sharing(30))
    check_tables(path)
    path.write_bytes(sharing(2000))
    with pytest.raises(ValueError, match="its directories have more than 1000000 rows"):
        check_tables(path)


def indexed(positions: list[int]) -> bytes:
    """Return a squashfs with a directory of two headers, and an index with these numbers of headers."""
    rows = b"".join(
        struct.pack("<3I", 0, 0, 1) + struct.pack("<HhHH", 0, 0, 2, 0) + name for name in (b"a", b"b")
    )
    entries = [struct.pack("<3I", 21 * number, 0, 0) + b"ab"[number : number + 1] for number in positions]
    file = struct.pack("<4H2I", 2, 0o755, 0, 0, 0, 1) + struct.pack("<4I", 0, 0xFFFFFFFF, 0, 0)
    folder = struct.pack("<4H2I", EXTENDED, 0o755, 0, 0, 0, 0)
    folder += struct.pack("<4I2HI", 2, len(rows) + 3, 0, 1, len(entries), 0, 0xFFFFFFFF)
    first, second = table(file + folder + b"".join(entries)), table(rows)
    end = 96 + len(first) + len(second)
    numbers = (len(file), end, end, 2**64 - 1, 96, 96 + len(first), 2**64 - 1, 2**64 - 1)
    return struct.pack("<5I6H8Q", 0x73717368, 1, 0, 1 << 17, 0, 1, 17, 0, 1, 4, 0, *numbers) + first + second


def test_an_index_that_repeats_a_place_is_refused(tmp_path: Path) -> None:
    """Each entry would unpack all blocks before its place: 65535 of them in half a megabyte took half an hour."""
    path = tmp_path / "indexed.sqsh"
    for positions in ([], [1], [0, 1]):
        path.write_bytes(indexed(positions))
        check_tables(path)
    for positions in ([1, 1], [1, 0]):
        path.write_bytes(indexed(positions))
        with pytest.raises(ValueError, match="the index of a directory has a place twice, or out of order"):
            check_tables(path)


def test_two_inodes_with_one_number_are_refused(tree: Path, squashfs: dict[str, str]) -> None:
    """Rows and inodes agree, and the second file has the number of the first."""
    (tree / "bin" / "zz").write_text("other")
    path = write(tree, squashfs, "-noI")
    content = bytearray(path.read_bytes())
    row = content.index(b"zz", numbers(content)[1]) - 8
    (difference,) = struct.unpack_from("<h", content, row + 2)
    (inode,) = [
        at for at in inodes_of(content, 2) if struct.unpack_from("<I", content, at + 28)[0] == len("other")
    ]  # fmt: skip
    (number,) = struct.unpack_from("<I", content, inode + 12)
    struct.pack_into("<I", content, inode + 12, number - 1)
    struct.pack_into("<h", content, row + 2, difference - 1)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"two inodes have the number {number - 1}"):
        check_tables(path)
