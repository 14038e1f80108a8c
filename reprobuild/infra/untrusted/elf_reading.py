"""A reader of ELF files with pyelftools, imported on demand.

`untrusted.elf` describes the parts that are read.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from itertools import islice
from typing import IO, Any, TypeVar

from elftools.common.exceptions import ELFError
from elftools.common.utils import struct_parse
from elftools.elf.elffile import ELFFile

from reprobuild.infra.untrusted.elf import (
    LONGEST_NAME,
    MOST_SEGMENTS,
    MOST_TAGS,
    MOST_VERSIONS,
    Elf,
    SearchPath,
)

# pyelftools' errors for damaged files, beside its own: impossible sizes, invalid text.
_DAMAGED = (ELFError, ValueError, OverflowError, KeyError, IndexError, TypeError, AttributeError, EOFError)
_LONGEST_PATH = 4096  # of a search path
_Found = TypeVar("_Found")


def read(stream: IO[bytes]) -> Elf | None:
    """Implement `untrusted.elf.read_elf`."""
    return _try_read(_read, stream)


def read_search_path(stream: IO[bytes]) -> SearchPath | None:
    """Implement `untrusted.elf.read_search_path`."""
    return _try_read(_search_path, stream)


def _try_read(read: Callable[[ELFFile, IO[bytes]], _Found], stream: IO[bytes]) -> _Found | None:
    try:
        return read(ELFFile(stream), stream)
    except _DAMAGED:
        return None
    except OSError as err:
        if err.errno == errno.EINVAL:  # an offset that no file can have
            return None
        raise


class _Strings:
    """The names of the dynamic segment, read one by one.

    All together they may be 80 MB (tensorflow).
    """

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        self._stream, self._start, self._size = stream, start, size

    def name_at(self, place: int) -> str:
        """Return the name at an offset, or "".

        It is empty if it is missing, or longer than a file's name can be.
        """
        if place >= self._size:
            return ""
        self._stream.seek(self._start + place)
        name, end, _ = self._stream.read(min(LONGEST_NAME + 1, self._size - place)).partition(b"\0")
        return name.decode("utf-8", "backslashreplace") if end else ""


def _read(elf: ELFFile, stream: IO[bytes]) -> Elf:
    header, structs = elf.header, elf.structs
    segments = _segments(elf, stream)
    tags = list(_tags(structs, stream, segments))
    values = dict(reversed(tags))  # the first of a kind counts
    start = _place(values["DT_STRTAB"], segments) if "DT_STRTAB" in values else 0
    strings = _Strings(stream, start, values.get("DT_STRSZ", 0) if start else 0)
    needed = [strings.name_at(value) for tag, value in tags if tag == "DT_NEEDED"]
    versions: Iterator[str] = iter(())
    if "DT_VERNEED" in values:
        versions = islice(
            _versions(structs, stream, _place(values["DT_VERNEED"], segments), strings), MOST_VERSIONS
        )
    return Elf(
        machine=str(header["e_machine"]),
        soname=strings.name_at(values["DT_SONAME"]) if "DT_SONAME" in values else "",
        needed=tuple(dict.fromkeys(name for name in needed if name)),
        versions=tuple(dict.fromkeys(name for name in versions if name)),
    )


def _segments(elf: ELFFile, stream: IO[bytes]) -> list[Any]:
    header = elf.header
    return [
        struct_parse(elf.structs.Elf_Phdr, stream, header["e_phoff"] + number * header["e_phentsize"])
        for number in range(min(header["e_phnum"], MOST_SEGMENTS))
    ]


def _search_path(elf: ELFFile, stream: IO[bytes]) -> SearchPath | None:
    segments = _segments(elf, stream)
    values = dict(reversed(list(_tags(elf.structs, stream, segments))))
    at = values.get("DT_RUNPATH", values.get("DT_RPATH"))
    if at is None or not 0 <= at < values["DT_STRSZ"]:
        return None
    place = _place(values["DT_STRTAB"], segments) + at
    stream.seek(place)
    text, end, _ = stream.read(min(_LONGEST_PATH, values["DT_STRSZ"] - at)).partition(b"\0")
    return SearchPath(place=place, text=text) if end else None


def _tags(structs: Any, stream: IO[bytes], segments: list[Any]) -> Iterator[tuple[str, int]]:
    """Yield (kind, value) of the dynamic segment.

    There are at most `MOST_TAGS`.
    """
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
    """Return the file offset of an address.

    Raises:
        ValueError: no segment holds it.
    """
    for segment in segments:
        if segment["p_type"] == "PT_LOAD" and 0 <= address - segment["p_vaddr"] < segment["p_filesz"]:
            return int(address - segment["p_vaddr"] + segment["p_offset"])
    raise ValueError(f"no segment holds the address {address}")


def _versions(structs: Any, stream: IO[bytes], at: int, strings: _Strings) -> Iterator[str]:
    """Yield the required symbol versions in their linked order.

    It never ends if a list leads into itself.
    """
    while True:
        file = struct_parse(structs.Elf_Verneed, stream, at)
        below = at + file["vn_aux"]
        for _ in range(file["vn_cnt"]):
            version = struct_parse(structs.Elf_Vernaux, stream, below)
            yield strings.name_at(version["vna_name"])
            if not version["vna_next"]:
                break
            below += version["vna_next"]
        else:
            yield ""  # so that an empty list ends, too
        if not file["vn_next"]:
            return
        at += file["vn_next"]
