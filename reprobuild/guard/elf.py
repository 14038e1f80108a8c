"""ELF files of others: what one asks the loader for, read as the loader finds it and within bounds.

Only the file header, the program headers, the dynamic segment and its strings are read, whatever the size of the file.
Format: https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html and, for versions of symbols,
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import islice
from typing import IO, Any

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile
from msgspec import Struct

MAGIC = b"\x7fELF"
# libtorch_cuda of torch 2.5, which has the most of all, has 14 segments, 60 tags and 3 MB of strings.
MOST_SEGMENTS = 256
MOST_TAGS = 4096
MOST_VERSIONS = 4096
MOST_STRINGS = 64 << 20
LONGEST_NAME = 255  # of a file
# What pyelftools raises for damaged files, beside its own: sizes that no file has, text that is none.
_DAMAGED = (ELFError, ValueError, OverflowError, KeyError, IndexError, TypeError, AttributeError, EOFError)


class Elf(Struct, frozen=True, kw_only=True):
    """What one file asks for. `machine` is pyelftools' word (`EM_X86_64`); `soname` may be empty.

    `needed` are names of libraries; `versions` names of versions of symbols (`GLIBC_2.34`).
    """

    machine: str
    soname: str
    needed: tuple[str, ...]
    versions: tuple[str, ...]


def read_elf(stream: IO[bytes]) -> Elf | None:
    """Return what an ELF file asks the loader for, or None where it is damaged: no loader would take it either.

    Args:
        stream: the file; it must be able to seek.
    """
    try:
        return _read(ELFFile(stream), stream)
    except _DAMAGED:
        return None
    except OSError as err:
        if err.errno == errno.EINVAL:  # a place that no file can have
            return None
        raise


def _read(elf: ELFFile, stream: IO[bytes]) -> Elf:
    header, structs = elf.header, elf.structs
    segments = [
        struct_parse(structs.Elf_Phdr, stream, header["e_phoff"] + number * header["e_phentsize"])
        for number in range(min(header["e_phnum"], MOST_SEGMENTS))
    ]
    tags = list(_tags(structs, stream, segments))
    values = dict(reversed(tags))  # the first of a kind counts
    strings = _strings(stream, segments, values)
    found = tuple(dict.fromkeys(_name(strings, value) for tag, value in tags if tag == "DT_NEEDED"))
    return Elf(
        machine=str(header["e_machine"]),
        soname=_name(strings, values["DT_SONAME"]) if "DT_SONAME" in values else "",
        needed=tuple(name for name in found if name),
        versions=tuple(dict.fromkeys(_versions(structs, stream, segments, values, strings))),
    )


def _tags(structs: Any, stream: IO[bytes], segments: list[Any]) -> Iterator[tuple[str, int]]:
    """Yield (kind, value) of the dynamic segment, to its end or `MOST_TAGS`."""
    for segment in segments:
        if segment["p_type"] == "PT_DYNAMIC":
            stream.seek(segment["p_offset"])
            for _ in range(min(segment["p_filesz"] // structs.Elf_Dyn.sizeof(), MOST_TAGS)):
                entry = struct_parse(structs.Elf_Dyn, stream)
                if entry["d_tag"] == "DT_NULL":
                    return
                yield str(entry["d_tag"]), entry["d_val"]
            return


def _place(address: int, segments: list[Any]) -> int:
    """Return where in the file the byte of an address stands.

    Raises:
        ValueError: in no segment.
    """
    for segment in segments:
        if segment["p_type"] == "PT_LOAD" and 0 <= address - segment["p_vaddr"] < segment["p_filesz"]:
            return int(address - segment["p_vaddr"] + segment["p_offset"])
    raise ValueError(f"no segment holds the address {address}")


def _strings(stream: IO[bytes], segments: list[Any], values: dict[str, int]) -> bytes:
    if "DT_STRTAB" not in values:
        return b""
    stream.seek(_place(values["DT_STRTAB"], segments))
    return stream.read(min(values.get("DT_STRSZ", 0), MOST_STRINGS))


def _name(strings: bytes, at: int) -> str:
    """Return the string that begins there; empty where there is none, or one longer than a file's name can be."""
    end = strings.find(b"\0", at, at + LONGEST_NAME + 1)
    return strings[at:end].decode("utf-8", "backslashreplace") if 0 <= at < end else ""


def _versions(
    structs: Any, stream: IO[bytes], segments: list[Any], values: dict[str, int], strings: bytes
) -> Iterator[str]:
    """Yield the versions of symbols that it needs, as the lists of the segment are linked; `MOST_VERSIONS` at most."""
    if "DT_VERNEED" in values:
        yield from islice(
            _linked(structs, stream, _place(values["DT_VERNEED"], segments), strings), MOST_VERSIONS
        )


def _linked(structs: Any, stream: IO[bytes], at: int, strings: bytes) -> Iterator[str]:
    """Yield for ever where a list leads back into itself."""
    while True:
        file = struct_parse(structs.Elf_Verneed, stream, at)
        below = at + file["vn_aux"]
        for _ in range(file["vn_cnt"]):
            one = struct_parse(structs.Elf_Vernaux, stream, below)
            yield _name(strings, one["vna_name"])
            if not one["vna_next"]:
                break
            below += one["vna_next"]
        else:
            yield ""  # so that a list of nothing ends, too
        if not file["vn_next"]:
            return
        at += file["vn_next"]
