"""Readers of `.deb` files."""

from __future__ import annotations

import contextlib
import lzma
import os
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import zstandard
from debian.deb822 import Deb822
from msgspec import Struct

from reprobuild.ecosystems.apt.relations import Group, parse_relations
from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import tars

_DAMAGED = "remove the file from the store and run `reprobuild fetch LOCK` again"
_LONGEST_CONTROL = 1 << 20  # bytes; the longest of Debian 12, of librust-winapi-dev, has some 76,000


class DebControl(Struct, frozen=True, kw_only=True):
    """The relations of a package, from its control file."""

    name: str
    architecture: str
    multi_arch: str
    before: tuple[Group, ...]
    needs: tuple[Group, ...]
    provides: tuple[str, ...]


@contextlib.contextmanager
def open_part(deb: Path, part: str, name: str) -> Iterator[tarfile.TarFile]:
    """Open `control.tar` or `data.tar` of a package (deb(5)).

    It is a tar stream, decompressed.

    Args:
        deb: the package's file.
        part: `control.tar` or `data.tar`.
        name: the file's name for an error.

    Raises:
        BuildError: the file is not a package.
    """
    try:
        with deb.open("rb") as stream:
            member = _find_member(stream, part)
            if member.name.endswith(".zst"):
                with (
                    zstandard.ZstdDecompressor().stream_reader(member) as plain,  # type: ignore[arg-type]  # only read() is called
                    tars.open_stream(plain) as tar,
                ):
                    yield tar
            else:
                with tars.open_stream(member, "r|*") as tar:  # type: ignore[arg-type]  # likewise
                    yield tar
    except (*tars.UNREADABLE, lzma.LZMAError, zlib.error, zstandard.ZstdError) as err:
        raise BuildError(f"{name} is not a Debian package: {str(err) or part}", hint=_DAMAGED) from None


class _Member:
    """A member of an `ar` archive, to be read once."""

    def __init__(self, stream: IO[bytes], name: str, size: int) -> None:
        self._stream = stream
        self.left = size
        self.name = name

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(self.left if size < 0 else min(size, self.left))
        self.left -= len(data)
        return data


def _find_member(stream: IO[bytes], name: str) -> _Member:
    """Return a part of a package, as dpkg does.

    The members must have the order of deb(5): `debian-binary`, `control.tar`, `data.tar`; members whose name
    begins with `_` may be between them.
    """
    if stream.read(8) != b"!<arch>\n":
        raise ValueError("it is no ar archive")
    for part in ("debian-binary", "control.tar", "data.tar"):
        member = _next_member(stream)
        while member.name.startswith("_") and part != "debian-binary":
            _skip_member(stream, member)
            member = _next_member(stream)
        if member.name != part and not (part != "debian-binary" and member.name.startswith(f"{part}.")):
            raise ValueError(f"{member.name!r} stands in the place of {part}")
        if part == name:
            return member
        if part == "debian-binary" and member.read(2) != b"2.":
            raise ValueError("its format is not 2.0")
        _skip_member(stream, member)
    raise AssertionError(name)


def _next_member(stream: IO[bytes]) -> _Member:
    """Return the next member of an `ar` archive (ar(5))."""
    header = stream.read(60)
    if len(header) < 60 or header[58:] != b"`\n":
        raise ValueError("a member is cut off, or there are too few")
    name, size = header[:16].rstrip().removesuffix(b"/"), header[48:58].strip()
    if not size.isdigit() or not name.isascii():
        raise ValueError("the header of a member cannot be read")
    return _Member(stream, name.decode(), int(size))


def _skip_member(stream: IO[bytes], member: _Member) -> None:
    stream.seek(member.left, os.SEEK_CUR)
    stream.seek(stream.tell() % 2, os.SEEK_CUR)  # members begin at even offsets


def control_text(deb: Path, name: str) -> bytes:
    """Return the control file of a package.

    Raises:
        BuildError: the file is not a package, or has no control file.
    """
    with open_part(deb, "control.tar", name) as tar:
        for info in tars.members(tar, name, packed=deb.stat().st_size):
            if info.name.removeprefix("./") == "control" and info.isreg() and info.size <= _LONGEST_CONTROL:
                stream = tar.extractfile(info)
                return stream.read() if stream else b""
    raise BuildError(f"{name} is not a Debian package: it has no control file", hint=_DAMAGED)


def read_control(deb: Path, name: str) -> DebControl:
    """Return the relations of a package.

    Raises:
        BuildError: as `control_text`.
    """
    fields = Deb822(control_text(deb, name).decode(errors="replace").splitlines())
    return DebControl(
        name=fields.get("Package", ""),
        architecture=fields.get("Architecture", ""),
        multi_arch=fields.get("Multi-Arch", ""),
        before=parse_relations(fields.get("Pre-Depends", "")),
        needs=parse_relations(fields.get("Depends", "")),
        provides=tuple(r.name for g in parse_relations(fields.get("Provides", "")) for r in g),
    )
