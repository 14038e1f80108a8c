"""Untrusted zip archives, checked before a byte is used.

The two descriptions of each member must agree.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.names import HOSTILE, MOST_MEMBERS, check_path, check_total

# Errors of a damaged zip file, from zipfile and zlib.
UNREADABLE = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, TypeError, ValueError, OverflowError,
    NotImplementedError, RuntimeError,
)  # fmt: skip
# The longest text of a wheel (RECORD, a script) that is read into memory; torch's RECORD has 1 MB.
LONGEST_TEXT = 32 << 20
_MOST_CHARACTERS = 16 << 20  # of the names of all directories; the largest wheels have some hundred thousand

_CONTROL = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029]")
_DRIVE = re.compile("[A-Za-z]:")
_ENCRYPTED = 0x1 | 0x40 | 0x2000
_DESCRIPTOR = 0x8  # sizes and CRC are after the content, not in the local header
_UTF8 = 0x800
_UNICODE_PATH = 0x7075  # an extra field that gives some readers another name
_LOCAL = struct.Struct("<4s5H3L2H")
_PIECE = 512  # of the archive, enough for most local headers
_WIDE = 0xFFFFFFFF  # the size is in the extra field of zip64

Members = dict[str, zipfile.ZipInfo]


@contextlib.contextmanager
def open_zip(path: Path, origin: str) -> Iterator[tuple[zipfile.ZipFile, Members]]:
    """Yield an archive and its files by name.

    Directories create no files and are left out. Format:
    https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT

    Args:
        path: the file, under any name.
        origin: the archive's name for the user.

    Raises:
        BuildError: it is not a zip; a name is unsafe or repeated; a member is encrypted, a link, sets an
            owner's rights or is compressed in an uncommon way; members overlap; or a local header differs
            from the central directory.
    """
    try:
        archive = zipfile.ZipFile(path)
    except (*UNREADABLE, OSError) as err:
        raise BuildError(f"{origin} is not a zip archive: {err}", hint=HOSTILE) from None
    with archive:
        members = _files(archive, origin)
        stream = archive.fp
        assert stream is not None
        size = stream.seek(0, 2)
        check_total(sum(info.file_size for info in members.values()), size, origin)
        try:
            _check_places(archive, stream, origin)
        except (struct.error, ValueError, OverflowError, OSError) as err:
            raise BuildError(f"{origin} is damaged: {err}", hint=HOSTILE) from None
        yield archive, members


def read_text(archive: zipfile.ZipFile, info: zipfile.ZipInfo, origin: str) -> bytes:
    """Return the content of a small member.

    Raises:
        BuildError: it is longer than `LONGEST_TEXT`.
    """
    if info.file_size > LONGEST_TEXT:
        raise BuildError(
            f"{origin} holds {info.filename} of {info.file_size} bytes, and at most {LONGEST_TEXT} are read",
            hint=HOSTILE,
        )
    return archive.read(info)


def _files(archive: zipfile.ZipFile, origin: str) -> Members:
    files: Members = {}
    infos = archive.infolist()
    if len(infos) > MOST_MEMBERS:
        raise BuildError(f"{origin} holds more than {MOST_MEMBERS} members", hint=HOSTILE)
    for info in infos:
        name = info.filename
        # On a system with backslashes as separators, such a name leads to another place.
        if _CONTROL.search(info.orig_filename) or _DRIVE.match(name) or "\\" in name:
            raise BuildError(f"{origin} holds the unsafe path {info.orig_filename!r}", hint=HOSTILE)
        check_path(name.removesuffix("/"), origin)
        _check_kind(info, origin)
        if name.endswith("/"):
            continue
        if name in files:
            raise BuildError(f"{origin} holds {name} twice", hint=HOSTILE)
        files[name] = info
    directories: set[str] = set()
    characters = 0
    for name in files:
        above = name.rpartition("/")[0]
        while above and above not in directories:
            if above in files:
                raise BuildError(f"{origin} holds {above} as a file and as a directory", hint=HOSTILE)
            directories.add(above)
            characters += len(above)
            if characters > _MOST_CHARACTERS:
                raise BuildError(
                    f"{origin} holds directories whose names have more than {_MOST_CHARACTERS} characters",
                    hint=HOSTILE,
                )
            above = above.rpartition("/")[0]
    return files


def _check_kind(info: zipfile.ZipInfo, origin: str) -> None:
    name, mode = info.filename, info.external_attr >> 16
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise BuildError(f"{origin} holds {name}, which is neither a file nor a directory", hint=HOSTILE)
    if mode & (stat.S_ISUID | stat.S_ISGID) and not name.endswith("/"):
        raise BuildError(f"{origin} holds {name}, which sets the user or group that runs it", hint=HOSTILE)
    if info.flag_bits & _ENCRYPTED:
        raise BuildError(f"{origin} holds {name}, which is encrypted", hint=HOSTILE)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise BuildError(
            f"{origin} holds {name}, packed by method {info.compress_type}, and wheels are deflated or stored",
            hint=HOSTILE,
        )
    if _UNICODE_PATH in _parse_extra(info.extra):
        raise BuildError(f"{origin} holds {name}, which has a second name", hint=HOSTILE)


def _check_places(archive: zipfile.ZipFile, stream: IO[bytes], origin: str) -> None:
    """Compare local headers with the directory, and refuse overlaps."""
    end, number = 0, stream.fileno()
    for info in sorted(archive.infolist(), key=lambda info: info.header_offset):
        if info.header_offset < end:
            raise BuildError(f"{origin} holds {info.filename}: its members overlap", hint=HOSTILE)
        head = os.pread(number, _PIECE, info.header_offset)
        magic, _, flags, method, _, _, crc, packed, plain, name_size, extra_size = _LOCAL.unpack_from(head)
        if _LOCAL.size + name_size + extra_size > len(head):
            head = os.pread(number, _LOCAL.size + name_size + extra_size, info.header_offset)
        name = head[_LOCAL.size : _LOCAL.size + name_size]
        extra = _parse_extra(head[_LOCAL.size + name_size : _LOCAL.size + name_size + extra_size])
        if _WIDE in (packed, plain) and 1 in extra:
            wide = iter(struct.unpack(f"<{len(extra[1]) // 8}Q", extra[1][: len(extra[1]) // 8 * 8]))
            plain = next(wide, plain) if plain == _WIDE else plain
            packed = next(wide, packed) if packed == _WIDE else packed
        header = (name.decode("utf-8" if flags & _UTF8 else "cp437"), flags & _ENCRYPTED, method)
        if magic != b"PK\3\4" or header != (info.orig_filename, 0, info.compress_type):
            raise _mismatch_error(info, origin)
        sizes = (crc, packed, plain)
        if not flags & _DESCRIPTOR and sizes != (info.CRC, info.compress_size, info.file_size):
            raise _mismatch_error(info, origin)
        if _UNICODE_PATH in extra:
            raise BuildError(f"{origin} holds {info.filename}, which has a second name", hint=HOSTILE)
        end = info.header_offset + _LOCAL.size + name_size + extra_size + info.compress_size
    if end > archive.start_dir:
        raise BuildError(f"{origin}: its members overlap with the directory of the archive", hint=HOSTILE)


def _mismatch_error(info: zipfile.ZipInfo, origin: str) -> BuildError:
    return BuildError(
        f"{origin} describes {info.filename} in two ways that do not agree: its header is not what the directory says",
        hint=HOSTILE,
    )


def _parse_extra(field: bytes) -> dict[int, bytes]:
    """Return the parts of an extra field by their kind.

    An incomplete part is left out.
    """
    parts: dict[int, bytes] = {}
    while len(field) >= 4:
        kind, size = struct.unpack_from("<2H", field)
        parts.setdefault(kind, field[4 : 4 + size])
        field = field[4 + size :]
    return parts
