"""A reader and writer of SIF, Apptainer's image format, version 01.

It covers header and descriptors. https://github.com/apptainer/sif/tree/main/pkg/sif describes the fields. All
numbers are little-endian and without padding: a header of 128 bytes, a table of 48 descriptors of 585 bytes
at 4096, then the objects one after the other, a partition at the next multiple of 4096.

The identity is the nil UUID and the time is Go's zero time, as Apptainer 1.5 writes them if SOURCE_DATE_EPOCH
is set: a signature added later is then deterministic, too. The epoch is in the labels.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from msgspec import Struct

from reprobuild.errors import BuildError

LAUNCH = b"#!/usr/bin/env run-singularity\n"
MAGIC, VERSION = b"SIF_MAGIC", b"01"
NO_TIME = -62135596800  # the first of January of the year 1, in seconds
ALIGNMENT = 4096
CAPACITY = 48  # free ones are needed for signatures

DEFINITION, PARTITION, JSON = 0x4001, 0x4004, 0x4006
# Programs mount a further partition over the root, or run the contents of an OCI index in place of the root.
ROOT_INDEX, BLOB = 0x400A, 0x400B
SQUASHFS, PRIMARY = 1, 2
_SQUASHFS_MAGIC = b"hsqs"
_GROUP = 0xF0000000  # set in every number of a group
ARCHITECTURES = {
    "386": "01", "amd64": "02", "arm": "03", "arm64": "04", "ppc64": "05", "ppc64le": "06", "mips": "07",
    "mipsle": "08", "mips64": "09", "mips64le": "10", "s390x": "11", "riscv64": "12",
}  # fmt: skip

_HEADER = struct.Struct("<32s10s3s3s16sqqqqqqqq")
_DESCRIPTOR = struct.Struct("<iBIIIqqqqqqq128s384s")
_FILESYSTEM = struct.Struct("<ii3s")
TABLE = 4096
DATA = TABLE + CAPACITY * _DESCRIPTOR.size
_WRITE_AGAIN = (
    "it is damaged, or made by something else: write it again with "
    "`reprobuild build LOCK -o OUT --format sif`"
)


class Object(Struct, frozen=True, kw_only=True):
    """An object of a SIF: the location of its bytes.

    `kind` is a data type of the format (0x4001 and on).
    """

    id: int
    kind: int
    name: str
    offset: int
    size: int
    extra: bytes = b""


class Sif(Struct, frozen=True, kw_only=True):
    """The contents of a SIF.

    `system` is the partition to run, and `architecture` its Go name.
    """

    architecture: str
    objects: tuple[Object, ...]
    system: Object


def system_offset(small: Sequence[tuple[int, str, bytes]]) -> int:
    """Return the offset of the squashfs after small objects."""
    return _align(DATA + sum(len(content) for _, _, content in small))


def architecture_code(name: str) -> str:
    """Return the format's number of an architecture, two digits.

    Raises:
        BuildError: the format has none.
    """
    if name not in ARCHITECTURES:
        known = ", ".join(ARCHITECTURES)
        raise BuildError(f"a SIF cannot be for the architecture {name!r}", hint=f"it can be for {known}")
    return ARCHITECTURES[name]


def write_head(file: IO[bytes], small: Sequence[tuple[int, str, bytes]], architecture: str) -> None:
    """Make a SIF of a file that holds a squashfs.

    The squashfs begins at `system_offset(small)`, after zeros.

    Args:
        file: open for reading and writing.
        small: (kind, name, content) of the objects before the squashfs, in order.
        architecture: Go's name of it.
    """
    code = architecture_code(architecture).encode()
    start, end = system_offset(small), file.seek(0, os.SEEK_END)
    descriptors, position = [], DATA
    for number, (kind, name, content) in enumerate(small, start=1):
        descriptors.append(_descriptor(number, kind, name, position, len(content), 0))
        file.seek(position)
        file.write(content)
        position += len(content)
    extra = _FILESYSTEM.pack(SQUASHFS, PRIMARY, code)
    gap = start - position
    descriptors.append(_descriptor(len(small) + 1, PARTITION, "", start, end - start, gap, extra))
    file.seek(0)
    file.write(
        _HEADER.pack(
            LAUNCH, MAGIC, VERSION, code, bytes(16), NO_TIME, NO_TIME, CAPACITY - len(descriptors), CAPACITY,
            TABLE, CAPACITY * _DESCRIPTOR.size, DATA, end - DATA,
        )
    )  # fmt: skip
    file.seek(TABLE)
    file.write(b"".join(descriptors))


def _descriptor(
    number: int, kind: int, name: str, offset: int, size: int, gap: int, extra: bytes = b""
) -> bytes:
    return _DESCRIPTOR.pack(
        kind, 1, number, 1 | _GROUP, 0, offset, size, size + gap, NO_TIME, NO_TIME, 0, 0, name.encode(), extra
    )


def _align(position: int) -> int:
    return position + -position % ALIGNMENT


def read_sif(path: Path) -> Sif:
    """Read a SIF, from any builder, signed or not.

    Raises:
        BuildError: it is not a SIF, is cut short, names another program to start it, its objects overlap or
            are outside, it does not hold exactly one squashfs to run, or has another file system beside it.
    """
    try:
        with path.open("rb") as file:
            return _parse_sif(file)
    except (OSError, ValueError, struct.error) as err:
        raise BuildError(f"{path} is not a SIF that can be run: {err}", hint=_WRITE_AGAIN) from None


def _parse_sif(file: IO[bytes]) -> Sif:
    length = file.seek(0, os.SEEK_END)
    head = _HEADER.unpack(_read_bytes(file, 0, _HEADER.size, length, "the header"))
    magic, version, (total, table, table_size, data) = head[1], head[2], head[8:12]
    if magic.rstrip(b"\0") != MAGIC:
        raise ValueError("its magic is another")
    if head[0].rstrip(b"\0") != LAUNCH:
        raise ValueError(f"the program that starts it is another than {LAUNCH.decode().strip()!r}")
    if version.rstrip(b"\0") != VERSION:
        raise ValueError(f"its version is {version!r}")
    if table_size != total * _DESCRIPTOR.size or not 0 < total <= 2**16:
        raise ValueError(f"its table of {total} descriptors has {table_size} bytes")
    if table < _HEADER.size or data < table + table_size:
        raise ValueError("its header, descriptors and objects overlap")
    objects = _objects(_read_bytes(file, table, table_size, length, "the table of descriptors"))
    if len(objects) != total - head[7]:
        raise ValueError(f"it has {len(objects)} objects, and says {total - head[7]}")
    _check_places(objects, data, length)
    architecture, system = _find_system(objects)
    if _read_bytes(file, system.offset, 4, length, "the squashfs") != _SQUASHFS_MAGIC:
        raise ValueError("what it runs is no squashfs")
    return Sif(architecture=architecture, objects=tuple(objects), system=system)


def _read_bytes(file: IO[bytes], offset: int, size: int, length: int, name: str) -> bytes:
    if not 0 <= offset <= offset + size <= length:
        raise ValueError(f"{name} is cut off")
    file.seek(offset)
    return file.read(size)


def _objects(table: bytes) -> list[Object]:
    objects = []
    for kind, used, number, _, _, offset, size, _, _, _, _, _, name, extra in _DESCRIPTOR.iter_unpack(table):
        if used:
            text = name.rstrip(b"\0").decode()
            objects.append(Object(id=number, kind=kind, name=text, offset=offset, size=size, extra=extra))
    if len({item.id for item in objects}) != len(objects):
        raise ValueError("two of its objects have one number")
    return objects


def _check_places(objects: Sequence[Object], start: int, length: int) -> None:
    end, former = start, "the table of descriptors"
    for item in sorted(objects, key=lambda item: (item.offset, item.size)):
        if item.size < 0 or item.offset + item.size > length:
            raise ValueError(f"object {item.id} is cut off")
        if item.offset < end:
            raise ValueError(f"object {item.id} overlaps with {former}")
        end, former = item.offset + item.size, f"object {item.id}"


def _find_system(objects: Sequence[Object]) -> tuple[str, Object]:
    """Return the only runnable partition, and its architecture.

    The architecture comes first.
    """
    partitions = [(item, _FILESYSTEM.unpack_from(item.extra)) for item in objects if item.kind == PARTITION]
    primary = [(item, kind, code) for item, (kind, role, code) in partitions if role == PRIMARY]
    if len(primary) != 1:
        raise ValueError(f"it has {len(primary)} partitions to run")
    further = [
        item for item in objects if item.kind in (PARTITION, ROOT_INDEX, BLOB) and item != primary[0][0]
    ]
    if further:
        raise ValueError(f"object {further[0].id} is a file system beside the one to run")
    system, kind, code = primary[0]
    names = [name for name, number in ARCHITECTURES.items() if number.encode() == code.rstrip(b"\0")]
    if kind != SQUASHFS or not names:
        raise ValueError("what it runs is no squashfs for an architecture that is known")
    return names[0], system
