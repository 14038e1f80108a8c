"""Files below a directory: no name and no link leads out of it, and nothing is written through another name."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import write_below


def move(source: Path, top: Path, name: str) -> None:
    above, file = os.open(source.parent, os.O_RDONLY), os.open(source, os.O_RDONLY)
    try:
        write_below.move_below(source.name, top, name, above=above, file=file)
    finally:
        os.close(above)
        os.close(file)


Writer = Callable[[Path, str, Path], object]
WRITERS: dict[str, Writer] = {
    "write": lambda top, name, source: write_below.write_below(top, name, b"new"),
    "replace": lambda top, name, source: write_below.write_below(top, name, b"new", replace=True),
    "link": lambda top, name, source: write_below.link_below(source, top, name),
    "move": lambda top, name, source: move(source, top, name),
    "symlink": lambda top, name, source: write_below.symlink_below("/etc/passwd", top, name),
    "make": lambda top, name, source: write_below.make_below(top, name),
}
OUT = (
    "/victim",
    "../victim",
    "a/../../victim",
    "a/..",
    "..",
    ".",
    "",
    "a//b",
    "a/",
    "./a",
    "a/\0b",
    "../" * 24 + "tmp/x",
)


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    (tmp_path / "outside").mkdir()
    (tmp_path / "source").write_bytes(b"source")
    return tmp_path / "top"


def tree(folder: Path) -> dict[str, bytes | None]:
    """Return what is below a directory; links are not followed."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() and not path.is_symlink() else None
        for path in folder.rglob("*")
    }


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("writer", WRITERS)
def test_a_name_that_leads_out(top: Path, writer: str, name: str) -> None:
    before = tree(top.parent)
    with pytest.raises(BuildError, match="unsafe path") as caught:
        WRITERS[writer](top, name, top.parent / "source")
    assert "made to harm" in str(caught.value.hint)
    assert tree(top.parent) == before


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("target", ["../outside", "/tmp", "file", "loop"])
def test_a_link_on_the_way(top: Path, writer: str, target: str) -> None:
    (top / "file").touch()
    (top / "loop").symlink_to("loop")
    (top / "way").symlink_to(target)
    before = tree(top.parent)
    with pytest.raises(BuildError, match=r"'way/x' leads through 'way', which is a link or a file") as caught:
        WRITERS[writer](top, "way/x", top.parent / "source")
    assert "made to harm" in str(caught.value.hint)
    assert tree(top.parent) == before


def test_a_link_inside_is_not_followed_either(top: Path) -> None:
    (top / "folder").mkdir()
    (top / "way").symlink_to("folder")
    with pytest.raises(BuildError, match="leads through 'way'"):
        write_below.write_below(top, "way/x", b"")


@pytest.mark.parametrize("writer", ["write", "link", "symlink"])
@pytest.mark.parametrize("kind", ["link", "hard link", "file", "directory", "dangling"])
def test_what_is_there_is_not_written_through(top: Path, writer: str, kind: str) -> None:
    victim = top.parent / "outside" / "victim"
    victim.write_bytes(b"old")
    there(top / "a", kind, victim)
    with pytest.raises(FileExistsError):
        WRITERS[writer](top, "a", top.parent / "source")
    assert victim.read_bytes() == b"old"
    assert not (top.parent / "nothing").exists()


@pytest.mark.parametrize("writer", ["replace", "move"])
@pytest.mark.parametrize("kind", ["link", "hard link", "file", "dangling"])
def test_what_is_there_is_replaced_and_its_target_stays(top: Path, writer: str, kind: str) -> None:
    victim = top.parent / "outside" / "victim"
    victim.write_bytes(b"old")
    there(top / "a", kind, victim)
    WRITERS[writer](top, "a", top.parent / "source")
    assert victim.read_bytes() == b"old"
    assert not (top / "a").is_symlink()
    assert (top / "a").read_bytes() in (b"new", b"source")
    assert (top / "a").stat().st_nlink == 1
    assert not (top.parent / "nothing").exists()


def there(path: Path, kind: str, victim: Path) -> None:
    if kind == "link":
        path.symlink_to(victim)
    elif kind == "hard link":
        path.hardlink_to(victim)
    elif kind == "directory":
        path.mkdir()
    elif kind == "dangling":
        path.symlink_to("../nothing")
    else:
        path.write_bytes(b"there")


def test_files_and_directories_are_made(top: Path) -> None:
    source = top.parent / "source"
    write_below.write_below(top, "a/b/c", b"1")
    write_below.link_below(source, top, "a/b/d")
    write_below.symlink_below("../x", top, "a/e")
    write_below.make_below(top, "f/g")
    write_below.make_below(top, "f/g")
    with write_below.open_below(top, "f/g/h") as stream:
        stream.write(b"2")
    assert tree(top) == {
        "a": None, "a/b": None, "a/b/c": b"1", "a/b/d": b"source", "a/e": None, "f": None, "f/g": None, "f/g/h": b"2",
    }  # fmt: skip
    assert (top / "a/b/d").stat().st_ino == source.stat().st_ino
    assert str((top / "a/e").readlink()) == "../x"
    move(source, top, "f/i")
    assert not source.exists()
    assert (top / "f/i").stat().st_nlink == 2


def test_directories_get_their_mode(top: Path) -> None:
    former = os.umask(0o077)
    try:
        with write_below.open_below(top, "a/b/c", mode=0o755):
            pass
    finally:
        os.umask(former)
    assert [(top / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o755, 0o755]


def test_another_file_system(top: Path) -> None:
    """Where no hard link and no renaming can be, the bytes are copied; the refusals are the same."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        source = Path(memory, "source")
        source.write_bytes(b"other")
        source.chmod(0o444)
        assert source.stat().st_dev != top.stat().st_dev
        write_below.link_below(source, top, "a/b")
        assert (top / "a/b").read_bytes() == b"other"
        assert (top / "a/b").stat().st_mode & 0o777 == 0o444
        with pytest.raises(FileExistsError):
            write_below.link_below(source, top, "a/b")
        (top / "victim").write_bytes(b"old")
        (top / "way").symlink_to("victim")
        move(source, top, "way")
        assert (top / "victim").read_bytes() == b"old"
        assert (top / "way").read_bytes() == b"other"
        assert not source.exists()


def test_another_file_that_took_the_place_is_not_moved(top: Path) -> None:
    source = top.parent / "source"
    above, file = os.open(source.parent, os.O_RDONLY), os.open(source, os.O_RDONLY)
    source.unlink()
    source.symlink_to("/etc/passwd")
    with pytest.raises(BuildError, match="'a' was replaced while it was moved"):
        write_below.move_below("source", top, "a", above=above, file=file)
    os.close(above)
    os.close(file)
    assert tree(top) == {}


def test_an_error_of_the_disk_is_no_refusal(top: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_below.write_below(top / "absent", "a", b"")
