"""A standalone build of Python, unpacked to its place in the image, and told where that is.

Archives of https://github.com/astral-sh/python-build-standalone hold one folder `python`, with `bin` and `lib`
(https://gregoryszorc.com/docs/python-build-standalone/main/distributions.html#install-only-archive). They say of
themselves that they were installed to /install by a clang; extensions that are built against them need the place and a
compiler that are there, which uv writes into its installations as well.
"""

from __future__ import annotations

import contextlib
import gzip
import re
import zlib
from pathlib import Path
from typing import IO, cast

from reprobuild.errors import BuildError
from reprobuild.guard import tars
from reprobuild.guard.names import HOSTILE
from reprobuild.guard.plain import is_unlinked, open_plain
from reprobuild.lock import Interpreter
from reprobuild.realise.unpack import extract
from reprobuild.store import Store

_TOP = "python"
_LARGEST = 4 << 20  # of a text that is rewritten; real ones have some 50 KB
_INSTALLED = re.compile(r"(?<![\w./-])/install(?![\w.-])|(?<=-[IL])/install(?![\w.-])")
_COMPILER = re.compile(r"('(AR|BLDSHARED|CC|CXX|LDCXXSHARED|LDSHARED|LINKCC)': ')[^\s']+")
_NAMES = {"AR": "ar", "CXX": "c++", "LDCXXSHARED": "c++"}  # of the others: cc
_HINT = "take a build of the kind install_only, of this version of Python"


def unpack_standalone(interpreter: Interpreter, store: Store, tree: Path) -> None:
    """Unpack the archive of a standalone interpreter into a folder, at its place in the image.

    Args:
        interpreter: `file` is in the store.
        tree: a folder that has the place, empty.

    Raises:
        BuildError: it is damaged or hostile, or does not hold the interpreter.
        FetchError: it is not in the store.
    """
    assert interpreter.file is not None
    origin = interpreter.file.filename
    archive = store.verified(interpreter.file.sha256, origin)
    place = tree / interpreter.home[1:]
    with store.scratch() as scratch:
        try:
            with gzip.open(archive) as stream, tars.open_stream(cast("IO[bytes]", stream)) as tar:
                extract(tar, scratch, origin, packed=archive.stat().st_size)
        except (*tars.UNREADABLE, gzip.BadGzipFile, zlib.error) as err:
            raise BuildError(f"{origin} cannot be unpacked: {err}", hint=HOSTILE) from None
        found = sorted(path.name for path in scratch.iterdir())
        if found != [_TOP] or (scratch / _TOP).is_symlink() or not (scratch / _TOP).is_dir():
            raise BuildError(
                f"{origin} holds {', '.join(found)[:200]!r} instead of one folder python", hint=_HINT
            )
        place.rmdir()
        (scratch / _TOP).rename(place)
    program = place / "bin" / interpreter.executable.rpartition("/")[2]
    if not program.is_symlink() and not program.is_file():
        raise BuildError(f"{origin} holds no {_TOP}/bin/{program.name}", hint=_HINT)
    _tell_place(place, interpreter)


def _tell_place(place: Path, interpreter: Interpreter) -> None:
    """Rewrite what `sysconfig` and pkg-config say of the place and the compilers."""
    library = place / "lib" / f"python{interpreter.minor}"
    for path in (*library.glob("_sysconfigdata_*.py"), *place.glob("lib/pkgconfig/*.pc")):
        if not is_unlinked(place, path.relative_to(place).as_posix()):
            continue  # it is of the machine
        with contextlib.suppress(OSError, UnicodeDecodeError):
            stream, size = open_plain(path, links=False)
            with stream:
                text = stream.read(_LARGEST).decode() if size <= _LARGEST else ""
            told = _COMPILER.sub(_compiler, _INSTALLED.sub(interpreter.home, text))
            if told != text:
                path.write_text(told)


def _compiler(found: re.Match[str]) -> str:
    return found[1] + _NAMES.get(found[2], "cc")
