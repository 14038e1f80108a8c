"""Untrusted ELF files: their requests to the loader, bounded.

They are read as by the loader. Only the file header, the program headers, the dynamic segment and its strings
are read, for any size of the file. Format: https://refspecs.linuxfoundation.org/elf/gabi4+/ch5.dynamic.html
and, for versions of symbols,
https://refspecs.linuxfoundation.org/LSB_5.0.0/LSB-Core-generic/LSB-Core-generic/symversion.html
"""

from __future__ import annotations

from typing import IO

from msgspec import Struct

MAGIC = b"\x7fELF"
# The maxima of 40 wheels with 1900 files (docs/libraries.md) are 16 segments (Qt), 73 tags (VTK), 54 versions
# (Open3D).
MOST_SEGMENTS = 256
MOST_TAGS = 4096
MOST_VERSIONS = 4096
LONGEST_NAME = 255  # of a file


class Elf(Struct, frozen=True, kw_only=True):
    """The requests of an ELF file to the loader.

    `machine` is pyelftools' name (`EM_X86_64`); `soname` may be empty. `needed` are names of libraries;
    `versions` names of versions of symbols (`GLIBC_2.34`).
    """

    machine: str
    soname: str
    needed: tuple[str, ...]
    versions: tuple[str, ...]


class SearchPath(Struct, frozen=True, kw_only=True):
    """A file's library search path (DT_RUNPATH, else DT_RPATH).

    `place` is its offset in the file.
    """

    place: int
    text: bytes


def read_elf(stream: IO[bytes]) -> Elf | None:
    """Return the requests of an ELF file, or None.

    None means that it is damaged: no loader would accept it either.

    Args:
        stream: the file; it must be seekable.
    """
    from reprobuild.infra.untrusted import (
        elf_reading,  # pyelftools takes 50 ms, and most files were read before
    )

    return elf_reading.read(stream)


def read_search_path(stream: IO[bytes]) -> SearchPath | None:
    """Return the search path of an ELF file, or None.

    None means that it has none, or is damaged.

    Args:
        stream: the file; it must be seekable.
    """
    from reprobuild.infra.untrusted import elf_reading

    return elf_reading.read_search_path(stream)
