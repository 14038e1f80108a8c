"""Zip archives that say two things, hide members, or would fill a disk: refused by name before a byte is used."""

from __future__ import annotations

import os
import stat
import struct
import zipfile
from pathlib import Path

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import names, zips
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.zips import open_zip, read_text
from tests.image.made import make_wheel

ORIGIN = "the wheel p-1.0-py3-none-any.whl"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return make_wheel(tmp_path / "p-1.0-py3-none-any.whl", {"p/a.py": b"a" * 100, "p/b.py": os.urandom(50)})


def refused(path: Path, *words: str) -> None:
    with pytest.raises(BuildError) as caught, open_zip(path, ORIGIN):
        pass
    assert str(caught.value).startswith(ORIGIN)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.hint == HOSTILE


def rewritten(path: Path, name: str, **fields: object) -> None:
    """Write the archive anew with other fields of the headers of one member."""
    with zipfile.ZipFile(path) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for info, content in members:
            if info.filename == name:
                for field, value in fields.items():
                    setattr(info, field, value)
            archive.writestr(info, content)


def at_local(path: Path, name: str, offset: int, value: bytes) -> None:
    """Change the local header of a member, and not the directory."""
    with zipfile.ZipFile(path) as archive:
        start = archive.getinfo(name).header_offset + offset
    content = bytearray(path.read_bytes())
    content[start : start + len(value)] = value
    path.write_bytes(content)


def test_a_sound_archive_is_given_with_its_files(path: Path) -> None:
    with open_zip(path, ORIGIN) as (archive, members):
        assert read_text(archive, members["p/a.py"], ORIGIN) == b"a" * 100
        assert len(members) == 5


@pytest.mark.parametrize(
    "name", ["C:/x", "c:x", "a\nb", "a\x1b[0m", "a\x7fb", "a\x85b", "a\u2028b", "é" * 128, "x/" * 2047 + "xx"]
)
def test_names_that_no_wheel_has(path: Path, name: str) -> None:
    rewritten(path, "p/a.py", filename=name)
    refused(path, repr(name[:9])[1:-1])


def test_a_name_that_is_cut_off_at_a_nul(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b"p/a.py", b"p/a\0py"))
    refused(path, r"'p/a\x00py'")


def test_names_that_differ_by_case_or_form_are_two_files_as_on_linux(tmp_path: Path) -> None:
    files = {"p/a": b"1", "p/A": b"2", "p/\u00e9": b"3", "p/e\u0301": b"4"}
    with open_zip(make_wheel(tmp_path / "p-1.0-py3-none-any.whl", files), ORIGIN) as (_, members):
        assert files.keys() < members.keys()


@pytest.mark.parametrize("bit", [stat.S_ISUID, stat.S_ISGID])
def test_a_file_that_sets_its_user_or_group(path: Path, bit: int) -> None:
    rewritten(path, "p/a.py", external_attr=(stat.S_IFREG | 0o755 | bit) << 16)
    refused(path, "p/a.py, which sets the user or group that runs it")


def test_devices(path: Path) -> None:
    rewritten(path, "p/a.py", external_attr=(stat.S_IFBLK | 0o666) << 16)
    refused(path, "p/a.py, which is neither a file nor a directory")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_uncommon_packing(path: Path, method: int) -> None:
    """Their decompressors take gigabytes of memory where the archive asks for it."""
    rewritten(path, "p/a.py", compress_type=method)
    refused(path, f"p/a.py, packed by method {method}")


def test_a_second_name_in_an_extra_field(path: Path) -> None:
    """Newer readers take it for the name, older ones do not."""
    second = struct.pack("<2HBL", 0x7075, 5 + 6, 1, 0) + b"p/evil"
    rewritten(path, "p/a.py", extra=second)
    refused(path, "p/a.py, which has a second name")


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        (0, b"PK\0\0"),  # no header at all
        (6, b"\1\0"),  # encrypted there alone
        (8, b"\0\0"),  # stored there, deflated in the directory
        (14, b"\0\0\0\0"),  # another CRC
        (18, b"\1\0\0\0"),  # another packed size
        (22, b"\1\0\0\0"),  # another size
        (30, b"q"),  # another name
    ],
)
def test_a_header_that_says_something_else_than_the_directory(path: Path, offset: int, value: bytes) -> None:
    at_local(path, "p/a.py", offset, value)
    refused(path, "describes p/a.py in two ways")


def test_a_header_of_zip64_is_understood_and_may_not_lie(tmp_path: Path) -> None:
    path = tmp_path / "p.whl"
    with zipfile.ZipFile(path, "w") as archive, archive.open("big", "w", force_zip64=True) as stream:
        stream.write(b"x" * 100)
    at_local(
        path, "big", 18, b"\xff" * 8
    )  # both sizes: see the extra field; old versions of Python do not write so
    with open_zip(path, ORIGIN) as (archive, members):
        assert archive.read(members["big"]) == b"x" * 100
    at_local(path, "big", 30 + 3 + 4, struct.pack("<Q", 1 << 60))
    refused(path, "describes big in two ways")


def test_members_that_share_bytes(path: Path) -> None:
    """The bomb of https://www.bamsoftware.com/hacks/zipbomb/: many members, one content."""
    with zipfile.ZipFile(path) as archive:
        first, second = archive.infolist()[:2]
        start = archive.start_dir
    content = bytearray(path.read_bytes())
    place = start + 46 + len(first.filename) + 42  # where the directory says where the second begins
    assert struct.unpack_from("<L", content, place)[0] == second.header_offset
    struct.pack_into("<L", content, place, first.header_offset)
    path.write_bytes(content)
    refused(path, "overlap")


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ALLOWANCE", 1 << 20)
    path = make_wheel(tmp_path / "p-1.0-py3-none-any.whl", {"p/zeros": bytes(9 << 20)})
    size = path.stat().st_size
    refused(path, f"has {size} bytes and unpacks to more than {(1 << 20) + 200 * size}")


def test_a_text_may_not_fill_the_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zips, "LONGEST_TEXT", 99)
    with (
        open_zip(path, ORIGIN) as (archive, members),
        pytest.raises(BuildError, match=r"p/a\.py of 100 bytes") as caught,
    ):
        read_text(archive, members["p/a.py"], ORIGIN)
    assert caught.value.hint == HOSTILE


def test_there_may_not_be_any_number_of_members(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zips, "MOST_MEMBERS", 4)
    refused(path, "more than 4 members")


def test_names_of_directories_are_bounded_together(path: Path) -> None:
    """Found by an attacker: 8 KB of wheel with one deep path made 4 MB of parents."""
    with zipfile.ZipFile(path, "a") as archive:
        for number in range(10):
            archive.writestr(f"{number:04d}/" + "a/" * 2000 + "f", b"")
    refused(path, "directories whose names have more than 16777216 characters")
