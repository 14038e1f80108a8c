"""The SIF container: its bytes as the format has them, and damage that the reader names."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprobuild.errors import BuildError
from reprobuild.image.formats.sif import DEFINITION, JSON, read_sif, system_offset, write_head

SMALL = [(DEFINITION, "", b"Bootstrap: scratch\n"), (JSON, "inspect-metadata.json", b"{}\n")]
START = 32768
HINT = "it is damaged, or made by something else: write it again with `reprobuild build LOCK -o OUT --format sif`"
DESCRIPTOR, COUNT, TABLE = 585, 48, 4096


def write(path: Path, architecture: str = "amd64") -> Path:
    path.write_bytes(bytes(START) + b"hsqs" + b"s" * 8188)
    with path.open("r+b") as file:
        write_head(file, SMALL, architecture)
    return path


def test_the_bytes_are_those_of_the_format(tmp_path: Path) -> None:
    """Each field by its place, as the format's own sources have it, and not as our writer packs it."""
    data = write(tmp_path / "x.sif").read_bytes()
    assert system_offset(SMALL) == START
    assert data[:32] == b"#!/usr/bin/env run-singularity\n\0"
    assert data[32:64] == b"SIF_MAGIC\x0001\x0002\0" + bytes(16)
    numbers = struct.unpack("<8q", data[64:128])
    zero = -62135596800
    assert numbers == (zero, zero, 45, 48, 4096, 28080, 32176, START + 8192 - 32176)
    assert not any(data[128:TABLE])

    first, second, third = (data[TABLE + n * DESCRIPTOR : TABLE + (n + 1) * DESCRIPTOR] for n in range(3))
    assert not any(data[TABLE + 3 * DESCRIPTOR : 32176])
    assert struct.unpack("<iBIII", first[:17]) == (0x4001, 1, 1, 0xF0000001, 0)
    assert struct.unpack("<7q", first[17:73]) == (32176, 19, 19, zero, zero, 0, 0)
    assert not any(first[73:])
    assert struct.unpack("<iBIII", second[:17]) == (0x4006, 1, 2, 0xF0000001, 0)
    assert struct.unpack("<3q", second[17:41]) == (32195, 3, 3)
    assert second[73:201] == b"inspect-metadata.json".ljust(128, b"\0")
    assert struct.unpack("<iBIII", third[:17]) == (0x4004, 1, 3, 0xF0000001, 0)
    assert struct.unpack("<3q", third[17:41]) == (START, 8192, START + 8192 - 32198)
    assert third[201:212] == struct.pack("<ii", 1, 2) + b"02\0"
    assert data[32176:32198] == b"Bootstrap: scratch\n{}\n"
    assert not any(data[32198:START])
    assert data[START : START + 4] == b"hsqs"


def test_what_was_written_is_read(tmp_path: Path) -> None:
    found = read_sif(write(tmp_path / "x.sif", "arm64"))
    assert found.architecture == "arm64"
    assert [(each.id, each.kind, each.name, each.size) for each in found.objects] == [
        (1, 0x4001, "", 19), (2, 0x4006, "inspect-metadata.json", 3), (3, 0x4004, "", 8192),
    ]  # fmt: skip
    assert (found.system.offset, found.system.id) == (START, 3)


def test_an_architecture_that_the_format_does_not_know(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="a SIF cannot be for the architecture 'sparc'") as caught:
        write(tmp_path / "x.sif", "sparc")
    assert caught.value.hint.startswith("it can be for 386, amd64, arm, arm64, ")


def at(offset: int, form: str, *values: object) -> Callable[[bytes], bytes]:
    """Return a change that packs values over the bytes at an offset."""
    new = struct.pack(form, *values)
    return lambda data: data[:offset] + new + data[offset + len(new) :]


def field(number: int, offset: int, form: str, *values: object) -> Callable[[bytes], bytes]:
    """Return a change of a field of the descriptor of an object."""
    return at(TABLE + (number - 1) * DESCRIPTOR + offset, form, *values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: b"", "the header is cut off"),
        (lambda data: data[:100], "the header is cut off"),
        (at(32, "<9s", b"SIF_MAGIK"), "its magic is another"),
        (at(0, "<32s", b"#!/home/me/evil.sh\n"), "the program that starts it is another than '#!/usr/bin/env run-sing"),
        (at(30, "<2s", b"2\n"), "the program that starts it is another"),
        (at(31, "<1s", b"x"), "the program that starts it is another"),
        (at(0, "<32s", b""), "the program that starts it is another"),
        (at(42, "<2s", b"02"), "its version is b'02"),
        (at(88, "<q", 47), "its table of 47 descriptors has 28080 bytes"),
        (at(88, "<q", 2**40), "its table of 1099511627776 descriptors"),
        (at(96, "<q", 64), "its header, descriptors and objects overlap"),
        (at(112, "<q", 5000), "its header, descriptors and objects overlap"),
        (lambda data: data[:20_000], "the table of descriptors is cut off"),
        (at(80, "<q", 44), "it has 3 objects, and says 4"),
        (lambda data: data[:32190], "object 1 is cut off"),
        (lambda data: data[:-1], "object 3 is cut off"),
        (field(1, 17, "<q", 32000), "object 1 overlaps with the table of descriptors"),
        (field(2, 17, "<q", 32180), "object 2 overlaps with object 1"),
        (field(2, 25, "<q", 2**62), "object 2 is cut off"),
        (field(2, 25, "<q", -1), "object 2 is cut off"),
        (field(2, 5, "<I", 1), "two of its objects have one number"),
        (field(2, 73, "<2s", b"\xff\xfe"), "codec can't decode"),
        (field(3, 205, "<i", 3), "it has 0 partitions to run"),
        (field(3, 201, "<i", 2), "what it runs is no squashfs for an architecture"),
        (field(3, 209, "<2s", b"99"), "what it runs is no squashfs for an architecture"),
        (at(START, "<4s", b"hsqx"), "what it runs is no squashfs"),
    ],
)  # fmt: skip
def test_damage_is_named(change: Callable[[bytes], bytes], words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "x.sif")
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(BuildError, match=words) as caught:
        read_sif(path)
    assert str(caught.value).startswith(f"{path} is not a SIF that can be run: ")
    assert caught.value.hint == HINT


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="No such file"):
        read_sif(tmp_path / "gone.sif")


def with_fourth(path: Path, kind: int, role: int) -> Path:
    """Add an object behind the partition that is run: one of a squashfs, for the same architecture."""
    data = write(path).read_bytes()
    head = struct.pack("<iBIII7q", kind, 1, 4, 0xF0000001, 0, len(data), 4, 4, 0, 0, 0, 0)
    fourth = head.ljust(201, b"\0") + struct.pack("<ii3s", 1, role, b"02")
    data = at(TABLE + 3 * DESCRIPTOR, f"<{DESCRIPTOR}s", fourth)(at(80, "<q", 44)(data)) + b"hsqs"
    path.write_bytes(data)
    return path


def test_two_partitions_to_run(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="it has 2 partitions to run"):
        read_sif(with_fourth(tmp_path / "x.sif", 0x4004, 2))


@pytest.mark.parametrize(
    ("kind", "role"), [(0x4004, 4), (0x4004, 3), (0x4004, 1), (0x400A, 0), (0x400B, 0)],
    ids=["overlay", "data", "system", "oci-root-index", "oci-blob"],
)  # fmt: skip
def test_a_file_system_beside_the_one_to_run(kind: int, role: int, tmp_path: Path) -> None:
    """`apptainer run` mounts an overlay of the file over the root, which no digest of the root tells."""
    with pytest.raises(BuildError, match="object 4 is a file system beside the one to run") as caught:
        read_sif(with_fourth(tmp_path / "x.sif", kind, role))
    assert caught.value.hint == HINT


@pytest.mark.parametrize("kind", [0x4001, 0x4002, 0x4003, 0x4005, 0x4006, 0x4007, 0x4009])
def test_descriptions_and_signatures_are_no_file_systems(kind: int, tmp_path: Path) -> None:
    found = read_sif(with_fourth(tmp_path / "x.sif", kind, 4))
    assert (found.system.id, found.objects[-1].kind) == (3, kind)


def test_objects_that_were_deleted_and_added_are_no_damage(tmp_path: Path) -> None:
    """As `apptainer sign` adds one at the end, and `apptainer sif del` frees a descriptor."""
    path = write(tmp_path / "x.sif")
    data = field(1, 4, "<B", 0)(path.read_bytes())
    signature = struct.pack("<iBIII7q", 0x4005, 1, 1, 0xF0000000, 0xF0000001, len(data), 4, 4, 0, 0, 0, 0)
    data = at(TABLE + 3 * DESCRIPTOR, f"<{len(signature)}s", signature)(data) + b"sign"
    path.write_bytes(data)
    found = read_sif(path)
    assert [each.kind for each in found.objects] == [0x4006, 0x4004, 0x4005]


@given(
    st.lists(
        st.tuples(st.integers(0, TABLE + 4 * DESCRIPTOR), st.binary(min_size=1, max_size=9)),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=300, deadline=None)
def test_any_damage_is_an_error_or_harmless(sif: Path, changes: list[tuple[int, bytes]]) -> None:
    """Nothing else is raised, and what is accepted lies inside the file."""
    data = bytearray(sif.read_bytes())
    for offset, new in changes:
        data[offset : offset + len(new)] = new
    path = sif.with_suffix(".changed")
    path.write_bytes(data)
    try:
        found = read_sif(path)
    except BuildError:
        return
    assert all(0 < each.offset <= each.offset + each.size <= len(data) for each in found.objects)


@pytest.fixture(scope="module")
def sif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("sif") / "x.sif")
