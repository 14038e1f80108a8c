"""Small ELF files made here: what the loader reads of a shared library, and nothing else."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Mapping

X86_64, AARCH64 = 62, 183
_HEADER, _SEGMENT, _AT = 64, 56, 64 + 2 * 56
_NEEDED, _STRTAB, _SONAME, _STRSZ, _RPATH, _RUNPATH = 1, 5, 14, 10, 15, 29
_VERNEED, _VERNEEDNUM = 0x6FFFFFFE, 0x6FFFFFFF


def elf(
    needed: Iterable[str] = (),
    soname: str = "",
    versions: Mapping[str, Iterable[str]] | None = None,
    machine: int = X86_64,
    search: str = "",
    old_search: str = "",
) -> bytes:
    """Return a shared object of 64 bits.

    Args:
        needed: the libraries that it needs.
        soname: its own name.
        versions: library to the versions of its symbols that it needs (`GLIBC_2.34`).
        machine: of the header.
        search: where it has the loader look (DT_RUNPATH).
        old_search: the same in the older form (DT_RPATH).
    """
    strings = bytearray(b"\0")

    def at(text: str) -> int:
        strings.extend(text.encode() + b"\0")
        return len(strings) - len(text.encode()) - 1

    tags = [(_NEEDED, at(name)) for name in needed]
    tags += [(_SONAME, at(soname))] if soname else []
    tags += [(_RPATH, at(old_search))] if old_search else []
    tags += [(_RUNPATH, at(search))] if search else []
    lists = b""
    for number, (library, names) in enumerate((versions or {}).items(), 1):
        names = list(names)
        last = number == len(versions or {})
        lists += struct.pack("<HHIII", 1, len(names), at(library), 16, 0 if last else 16 + 16 * len(names))
        for position, name in enumerate(names, 1):
            following = 0 if position == len(names) else 16
            lists += struct.pack("<IHHII", zlib.crc32(name.encode()), 0, 2, at(name), following)
    count = len(tags) + (4 if versions else 2) + 1
    place = _AT + 16 * count
    tags += [(_STRTAB, place + len(lists)), (_STRSZ, len(strings))]
    tags += [(_VERNEED, place), (_VERNEEDNUM, len(versions))] if versions else []
    dynamic = b"".join(struct.pack("<qQ", *tag) for tag in [*tags, (0, 0)])
    content = dynamic + lists + bytes(strings)
    head = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    head += struct.pack("<HHIQQQIHHHHHH", 3, machine, 1, 0, _HEADER, 0, 0, _HEADER, _SEGMENT, 2, 64, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, _AT + len(content), _AT + len(content), 4096)
    link = struct.pack("<IIQQQQQQ", 2, 6, _AT, _AT, _AT, len(dynamic), len(dynamic), 8)
    return head + load + link + content
