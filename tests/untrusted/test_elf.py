"""What an ELF file asks the loader for; damaged and hostile ones."""

from __future__ import annotations

import io
import struct
import sys
from pathlib import Path
from random import Random

import pytest

from reprobuild.infra.untrusted.elf import MOST_TAGS, MOST_VERSIONS, Elf, read_elf, read_search_path
from tests.untrusted.elves import AARCH64, elf

VERSIONS = {"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.34"], "libstdc++.so.6": ["GLIBCXX_3.4.29"]}
WHOLE = elf(["libGL.so.1", "libc.so.6"], "libcv.so.4", VERSIONS)


def read(data: bytes) -> Elf | None:
    return read_elf(io.BytesIO(data))


def test_a_made_one() -> None:
    assert read(WHOLE) == Elf(
        machine="EM_X86_64",
        soname="libcv.so.4",
        needed=("libGL.so.1", "libc.so.6"),
        versions=("GLIBC_2.2.5", "GLIBC_2.34", "GLIBCXX_3.4.29"),
    )
    other = read(elf(machine=AARCH64))
    assert other is not None
    assert (other.machine, other.needed, other.soname, other.versions) == ("EM_AARCH64", (), "", ())


def test_a_real_one() -> None:
    with Path(sys.executable).resolve().open("rb") as stream:
        found = read_elf(stream)
    assert found is not None
    assert "libc.so.6" in found.needed
    assert any(version.startswith("GLIBC_2.") for version in found.versions)


def test_cut_off_anywhere_it_is_damaged_or_asks_for_less() -> None:
    whole = read(WHOLE)
    assert whole is not None
    for size in range(len(WHOLE)):
        found = read(WHOLE[:size])
        assert found is None or set(found.needed) <= set(whole.needed)
    assert read(b"") is None
    assert read(b"\x7fELF") is None
    assert read(b"#!/bin/sh\n") is None


def test_changed_at_random_it_is_read_or_damaged_and_never_anything_else() -> None:
    random = Random(5)
    seen = set()
    for _ in range(4_000):
        data = bytearray(WHOLE)
        for _ in range(random.choice([1, 1, 2, 8])):
            place = random.randrange(4, len(data) - 8)
            if random.random() < 0.5:
                data[place] = random.randrange(256)
            else:
                data[place : place + 8] = struct.pack(
                    "<Q", random.choice([2**64 - 1, 2**63 - 1, 2**40, 0, len(data)])
                )
        found = read(bytes(data))
        seen.add(found is None)
        assert found is None or len(found.needed) <= MOST_TAGS
    assert seen == {True, False}


def test_a_list_that_leads_back_into_itself_ends() -> None:
    at = WHOLE.index(struct.pack("<HH", 1, 2))  # the first list: version 1, two entries
    following = at + 12
    for step in (2**32 - 16, 1):
        data = WHOLE[:following] + struct.pack("<I", step) + WHOLE[following + 4 :]
        found = read(data)
        assert found is None or len(found.versions) <= MOST_VERSIONS
    endless = bytearray(WHOLE[:at] + struct.pack("<HHIII", 1, 0, 0, 0, 0) * 3 + WHOLE[at + 48 :])
    struct.pack_into("<I", endless, at + 12, 16)
    struct.pack_into("<I", endless, at + 28, 16)
    assert read(bytes(endless)) is not None


def test_more_than_any_library_has_is_not_read() -> None:
    found = read(elf(f"lib{number}.so" for number in range(MOST_TAGS + 100)))
    assert found is not None
    assert found.needed == ()  # where the names stand is told behind the tags that are read
    assert read(elf(["x" * 256, "", "liba.so"])) == read(elf(["liba.so"]))


def test_names_that_are_no_text() -> None:
    found = read(elf(["libqq.so"]).replace(b"libqq.so", b"lib\xff\x1b.so"))
    assert found is not None
    assert found.needed == ("lib\\xff\x1b.so",)


@pytest.mark.parametrize("place", [2**62, 2**63, 2**64 - 1])
def test_a_place_that_no_file_has(place: int, tmp_path: Path) -> None:
    data = bytearray(WHOLE)
    struct.pack_into("<Q", data, 32, place)  # where the program headers stand
    path = tmp_path / "x.so"
    path.write_bytes(data)
    with path.open("rb") as stream:
        assert read_elf(stream) is None


def test_where_it_has_the_loader_look() -> None:
    both = elf(["libx.so.1"], search="/sw/python/lib:/sw/lib", old_search="/other")
    for data, text in ((both, b"/sw/python/lib:/sw/lib"), (elf(old_search="/other"), b"/other")):
        found = read_search_path(io.BytesIO(data))
        assert found is not None
        assert found.text == text
        assert data[found.place :].startswith(text + b"\0")
    assert read_search_path(io.BytesIO(WHOLE)) is None
    assert read_search_path(io.BytesIO(elf(search="/" + "x" * 5000))) is None  # longer than any path
    for size in range(len(both)):  # its strings stand at the end
        cut = read_search_path(io.BytesIO(both[:size]))
        assert cut is None or cut.text == b"/sw/python/lib:/sw/lib"
    random = Random(7)
    for _ in range(2_000):
        data = bytearray(both)
        data[random.randrange(len(data))] = random.randrange(256)
        changed = read_search_path(io.BytesIO(bytes(data)))
        assert changed is None or 0 <= changed.place <= len(data)
