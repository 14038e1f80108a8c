"""Files of a container that go into a directory of the host: whole, and nowhere else."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprobuild.engines.output_files import (
    LARGEST,
    Pieces,
    keep_directory,
    keep_tar,
    read_directory,
    read_files,
    spool_small,
)
from reprobuild.errors import EngineError


def tar(*members: tuple[str, bytes] | tarfile.TarInfo) -> io.BytesIO:
    """Return a tar of files (name, content) and of members without content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as made:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                made.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                made.addfile(info, io.BytesIO(member[1]))
    stream.seek(0)
    return stream


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_regular_files_lose_the_first_part_of_their_name(tmp_path: Path) -> None:
    keep_tar(tar(("out/a", b"1"), ("out/deep/b c", b"2" * 3_000_000), link("out/l", "/etc/passwd")), tmp_path)
    assert tree(tmp_path) == {"a": b"1", "deep/b c": b"2" * 3_000_000}
    assert not (tmp_path / "l").is_symlink()


@pytest.mark.parametrize("name", ["out/../../x", "out//etc/x", "out/a\x1b[2J", "x", "out/a\nb"])
def test_a_strange_name_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(EngineError, match="a strange name") as failed:
        keep_tar(tar((name, b"x")), tmp_path / "in")
    assert failed.value.hint == "let the command write it under a plain name"
    assert tree(tmp_path) == {}


def test_a_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="File exists"):
        keep_tar(tar(("out/a", b"1"), ("out/a", b"2")), tmp_path)


def test_a_damaged_tar(tmp_path: Path) -> None:
    stream = io.BytesIO(tar(("out/a", b"1" * 5000)).getvalue()[:3000])
    with pytest.raises(EngineError, match="what a container wrote cannot be read") as failed:
        keep_tar(stream, tmp_path)
    assert failed.value.hint == "see the log of the engine"


def test_a_folder_is_moved_without_its_links(tmp_path: Path) -> None:
    source, folder = tmp_path / "source", tmp_path / "folder"
    (source / "deep").mkdir(parents=True)
    folder.mkdir()
    (source / "deep" / "a").write_bytes(b"1")
    (source / "l").symlink_to("/etc/passwd")
    os.mkfifo(source / "pipe")
    keep_directory(source, folder)
    assert tree(folder) == {"deep/a": b"1"}
    assert sorted(path.name for path in source.rglob("*")) == ["deep", "l", "pipe"]


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk(small: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (source / "a").write_bytes(b"1" * 3_000_000)
    for keep in (
        lambda: keep_tar(tar(("out/a", b"1" * 3_000_000)), small),
        lambda: keep_directory(source, small),
    ):
        with pytest.raises(
            EngineError, match=r"No space left on device|3000000 bytes, and \d+ are free"
        ) as failed:
            keep()
        assert failed.value.hint == "free space there, or let TMPDIR name a directory with more room"
        for path in small.iterdir():
            path.unlink()


def test_a_file_larger_than_the_disk_is_refused_before_it_fills_it(small: Path) -> None:
    """A file of holes is as long as its command likes, and takes all of that here."""
    info = tarfile.TarInfo("out/holes")
    info.size = 1 << 40
    head = info.tobuf(tarfile.GNU_FORMAT)
    with pytest.raises(EngineError, match=f"a file has {1 << 40} bytes"):
        keep_tar(io.BytesIO(head + b"\0" * 100_000), small)
    assert tree(small) == {}


def holes(tmp_path: Path) -> tarfile.TarInfo:
    """Return a file of 1 TiB as GNU tar writes one of holes."""
    with (tmp_path / "holes").open("wb") as stream:
        stream.truncate(1 << 40)
    packed = subprocess.run(
        ["tar", "--sparse", "-cC", str(tmp_path), "holes"], check=True, stdout=subprocess.PIPE
    ).stdout
    (tmp_path / "holes").unlink()
    (tmp_path / "tar").write_bytes(packed)
    with tarfile.open(tmp_path / "tar") as found:
        return found.getmembers()[0]


def test_files_for_the_memory_are_bounded(tmp_path: Path) -> None:
    """A capture in a hostile image gives what it likes: a file of holes takes no room there."""
    sparse = tmp_path / "out"
    sparse.mkdir()
    with (sparse / "freeze.txt").open("wb") as stream:
        stream.truncate(1 << 40)
    assert holes(tmp_path).size == 1 << 40
    pieces = (bytes(1 << 20) for _ in range((LARGEST >> 20) + 1))
    for read in (
        lambda: read_directory(sparse),
        lambda: read_files(io.BytesIO((tmp_path / "tar").read_bytes())),
        lambda: spool_small(pieces, io.BytesIO()),
    ):
        with pytest.raises(EngineError, match="wrote more than 256 MiB where lists of a capture") as failed:
            read()
        assert failed.value.hint == (
            "its programs are not those of reprobuild: build the image again from its lock"
        )


def test_files_for_the_memory(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a").write_bytes(b"1")
    (tmp_path / "l").symlink_to("/etc/passwd")
    assert read_directory(tmp_path) == {"deep/a": b"1"}
    assert read_files(tar(("out/deep/a", b"1"), link("out/l", "/etc/passwd"))) == {"deep/a": b"1"}
    with pytest.raises(EngineError, match="what a container wrote cannot be read"):
        read_files(io.BytesIO(tar(("out/a", b"1" * 5000)).getvalue()[:3000]))


@pytest.mark.parametrize(
    "read", [read_directory, lambda source: keep_directory(source, source.parent / "kept")]
)
def test_folders_deeper_than_the_stack_are_refused(
    read: Callable[[Path], object], deep: Callable[[Path], Path], tmp_path: Path
) -> None:
    with pytest.raises(EngineError, match="cannot be read: more than 100 directories") as failed:
        read(deep(tmp_path / "out"))
    assert failed.value.hint == "let the command write plain files, in few directories"


def test_pieces_are_a_file() -> None:
    file = Pieces([b"ab", b"cdef", b"", b"g"])
    assert [file.read(size) for size in (1, 4, 0, 9, 1)] == [b"a", b"bcde", b"", b"fg", b""]
