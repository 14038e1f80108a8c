"""A search path that a program is given: the loader follows it, and nothing else of the program changes."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest

from reprobuild.infra.untrusted.elf import SearchPath, read_elf, read_search_path
from reprobuild.infra.untrusted.elf_search import with_search_path
from reprobuild.infra.untrusted.relocation import relocate_program
from tests.interpreters import PROGRAM
from tests.untrusted.elves import elf

REAL = PROGRAM.read_bytes()
OLD, NEW = "/sw/python/3.11.7", "/opt/python"


def loaded(program: Path) -> str:
    """Return the libraries that a Python has in memory."""
    code = "print(open('/proc/self/maps').read())"
    return subprocess.run([program, "-I", "-c", code], check=True, capture_output=True, text=True).stdout


def library(program: Path) -> Path:
    """Return a library that the real program is linked with, which no other file of the system's Python brings."""
    said = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    return Path(re.findall(r"(/\S*lib(?:expat|z)\.so\.1) ", said)[0])


def test_the_loader_follows_it(tmp_path: Path) -> None:
    shutil.copy(library(PROGRAM), tmp_path)
    name = library(PROGRAM).name
    program = tmp_path / "python"
    assert str(tmp_path / name) not in loaded(PROGRAM)
    made = with_search_path(REAL, str(tmp_path).encode())
    assert made is not None
    program.write_bytes(made)
    program.chmod(0o755)
    assert str(tmp_path / name) in loaded(program)
    assert with_search_path(made, b"/nowhere") is None  # the room is taken


def test_nothing_else_changes() -> None:
    made = with_search_path(REAL, b"/opt/python/lib")
    assert made is not None
    assert len(made) == len(REAL)
    assert sum(one != other for one, other in zip(REAL, made, strict=True)) < 40
    assert read_elf(io.BytesIO(made)) == read_elf(io.BytesIO(REAL))
    found = read_search_path(io.BytesIO(made))
    assert found is not None
    assert found.text == b"/opt/python/lib"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", b"/a"), (b"\x7fELF", b"/a"), (b"\x7fELF\x02\x01", b"/a"), (REAL[:4000], b"/a"),
        (elf(["libx.so.1"]), b"/a"), (REAL, b"/" + b"x" * 4096), (b"\x7fELF\x01" + REAL[5:], b"/a"),
        (REAL[:32] + b"\xff" * 8 + REAL[40:], b"/a"),  # its segments begin beyond any file
    ],
)  # fmt: skip
def test_without_room_there_is_none(data: bytes, text: bytes) -> None:
    assert with_search_path(data, text) is None


def test_damaged_programs_are_refused_or_keep_their_size() -> None:
    random = Random(3)
    head = len(REAL[:1000])
    for _ in range(60):
        data = bytearray(REAL)
        for _ in range(random.choice([1, 4])):
            data[random.randrange(head)] = random.randrange(256)
        made = with_search_path(bytes(data), b"/opt/python/lib")
        assert made is None or len(made) == len(data)


@pytest.mark.parametrize(
    ("search", "moved"),
    [
        (f"{OLD}/lib", b"/opt/python/lib"),
        (f"{OLD}/lib:/usr/lib", b"/opt/python/lib:/usr/lib"),
        ("$ORIGIN/../lib", b"$ORIGIN/../lib"),
        ("/a/long/folder/of/another/place/lib", b"/opt/python/lib:/a/long/folder/of/another/place/lib"),
    ],
)
def test_a_program_that_is_moved(search: str, moved: bytes) -> None:
    data = elf(["libpython3.11.so.1.0"], search=search)
    found = read_search_path(io.BytesIO(data))
    made = relocate_program(data, found, OLD, NEW)
    if len(moved) > len(search):  # and this file has no room
        assert made is None
        return
    assert made is not None
    after = read_search_path(io.BytesIO(made))
    assert isinstance(after, SearchPath)
    assert after.text == moved
    assert len(made) == len(data)


def test_a_program_without_a_search_path_that_is_moved() -> None:
    made = relocate_program(REAL, None, "", NEW)
    assert made is not None
    found = read_search_path(io.BytesIO(made))
    assert found is not None
    assert found.text == b"/opt/python/lib"
    short = with_search_path(REAL, b"/py/lib")
    assert short is not None
    assert relocate_program(short, read_search_path(io.BytesIO(short)), "/py", NEW) is None
