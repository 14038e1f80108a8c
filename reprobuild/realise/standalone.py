"""A standalone or captured build of Python, unpacked and relocated.

It is unpacked at its path in the image, and its files are updated for that path.

Archives of https://github.com/astral-sh/python-build-standalone hold one directory `python`, with `bin` and `lib`
(https://gregoryszorc.com/docs/python-build-standalone/main/distributions.html#install-only-archive). Their files state
that they were installed to /install by a clang; extensions that are built against them need the actual path and an
available compiler, which uv writes into its installations as well. An archive of `capture` has the same layout, names
the prefix of the captured machine, and may look for its own libraries there.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from pathlib import Path
from typing import IO, cast

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.elf import read_elf, read_search_path
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.regular_files import is_unlinked, open_plain
from reprobuild.infra.untrusted.relocation import (
    find_build_prefix,
    relocate_program,
    relocate_search_path,
    relocate_text,
)
from reprobuild.lock.python import Interpreter
from reprobuild.realise.unpack import extract
from reprobuild.store.store import Store

_TOP = "python"
_LARGEST = 4 << 20  # of a text that is rewritten; real ones have some 50 KB
_LARGEST_PROGRAM = 128 << 20  # as `capture` packs
_INSTALLED = "/install"
_COMPILER = re.compile(r"('(AR|BLDSHARED|CC|CXX|LDCXXSHARED|LDSHARED|LINKCC)': ')([^\s']+)")
_EVERYWHERE = ("ar", "c++", "cc", "g++", "gcc")
_NAMES = {"AR": "ar", "CXX": "c++", "LDCXXSHARED": "c++"}  # of the others: cc
_HINT = "take a build of the kind install_only, of this version of Python"


def unpack_standalone(interpreter: Interpreter, store: Store, tree: Path) -> None:
    """Unpack a standalone or captured interpreter at its image path.

    Args:
        interpreter: `file` is in the store.
        tree: a directory that has the path, empty.

    Raises:
        BuildError: it is damaged or malicious, or does not hold the interpreter.
        FetchError: it is not in the store.
    """
    assert interpreter.file is not None
    origin = interpreter.file.filename
    archive = store.verified(interpreter.file.sha256, origin)
    place = tree / interpreter.home[1:]
    with store.workspace() as scratch:
        try:
            with gzip.open(archive) as stream, tars.open_stream(cast("IO[bytes]", stream)) as tar:
                extract(tar, scratch, origin, packed=archive.stat().st_size)
        except (*tars.UNREADABLE, gzip.BadGzipFile, zlib.error) as err:
            raise BuildError(f"{origin} cannot be unpacked: {err}", hint=HOSTILE) from None
        names = sorted(path.name for path in scratch.iterdir())
        if names != [_TOP] or (scratch / _TOP).is_symlink() or not (scratch / _TOP).is_dir():
            raise BuildError(
                f"{origin} holds {', '.join(names)[:200]!r} instead of one directory python", hint=_HINT
            )
        place.rmdir()
        (scratch / _TOP).rename(place)
    program = place / "bin" / interpreter.executable.rpartition("/")[2]
    if not program.is_symlink() and not program.is_file():
        raise BuildError(f"{origin} holds no {_TOP}/bin/{program.name}", hint=_HINT)
    _update_paths(place, interpreter)


def _update_paths(place: Path, interpreter: Interpreter) -> None:
    """Update the paths and compilers in an interpreter's files."""
    library = f"lib/python{interpreter.minor}"
    configs = sorted(place.glob(f"{library}/_sysconfigdata_*.py"))
    scripts = place.glob(f"bin/python{interpreter.minor}-config")
    texts = [
        *configs,
        *place.glob("lib/pkgconfig/*.pc"),
        *place.glob(f"{library}/config-*/Makefile"),
        *place.glob(f"{library}/config-*/python-config.py"),
        *scripts,
    ]
    captured = interpreter.kind == "captured"
    old = _INSTALLED
    if captured:
        old = next(filter(None, (find_build_prefix(_text(place, path)) for path in configs)), "")
    compiler = _captured_compiler if captured else _compiler
    for path in texts if old else ():
        text = _text(place, path)
        new_text = _COMPILER.sub(compiler, relocate_text(text, old, interpreter.home))
        if new_text != text:
            path.write_text(new_text)
    if captured:
        _move_program(place, place / "bin" / f"python{interpreter.minor}", old, interpreter.home)
        libraries = [*place.glob("lib/*.so*"), *place.glob(f"{library}/lib-dynload/*.so")]
        for path in sorted(libraries) if old else ():
            _move_search_path(place, path, old, interpreter.home)


def _text(place: Path, path: Path) -> str:
    """Return a text below a directory, or an empty string.

    It is empty if a link leads to the file, or if the file is too large or not text.
    """
    if not is_unlinked(place, path.relative_to(place).as_posix()):
        return ""  # it is a file of the machine
    with contextlib.suppress(OSError, UnicodeDecodeError):
        stream, size = open_plain(path, links=False)
        with stream:
            return stream.read(_LARGEST).decode() if size <= _LARGEST else ""
    return ""


def _move_program(place: Path, path: Path, old: str, new: str) -> None:
    """Update the program's search path for its own libraries, if any."""
    if not is_unlinked(place, path.relative_to(place).as_posix()):
        return
    with contextlib.suppress(OSError):
        with open_plain(path, links=False)[0] as stream:
            elf, search = read_elf(stream), read_search_path(stream)
            stream.seek(0)
            data = stream.read(_LARGEST_PROGRAM)
        has_libraries = elf is not None and any(
            (place / "lib" / name).exists() for name in elf.needed if "/" not in name
        )
        moved = relocate_program(data, search, old, new) if has_libraries else None
        if moved is not None and moved != data:
            path.write_bytes(moved)


def _move_search_path(place: Path, path: Path, old: str, new: str) -> None:
    """Update an ELF file's search path for its libraries.

    Only the string itself is replaced. A linker may store another string as its end, which would be lost; names of
    symbols do not end like a path.
    """
    if not is_unlinked(place, path.relative_to(place).as_posix()):
        return
    with contextlib.suppress(OSError):
        with open_plain(path, links=False)[0] as stream:
            search = read_search_path(stream)
        moved = relocate_search_path(search.text, old, new) if search else None
        if search and moved is not None and moved != search.text:
            with path.open("r+b") as stream:
                stream.seek(search.place)
                stream.write(moved)


def _compiler(match: re.Match[str]) -> str:
    return match[1] + _NAMES.get(match[2], "cc")


def _captured_compiler(match: re.Match[str]) -> str:
    """Return a compiler that exists on other machines, by its name.

    Names that every machine with compilers has are kept.
    """
    return match[0] if match[3] in _EVERYWHERE else _compiler(match)
