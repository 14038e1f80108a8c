"""A standalone build of Python, unpacked to its place in the image.

Archives of https://github.com/astral-sh/python-build-standalone hold one folder `python`, with `bin` and `lib`
(https://gregoryszorc.com/docs/python-build-standalone/main/distributions.html#install-only-archive).
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import IO, cast

from reprobuild.errors import BuildError
from reprobuild.guard import tars
from reprobuild.guard.names import HOSTILE
from reprobuild.lock import Interpreter
from reprobuild.realise.unpack import extract
from reprobuild.store import Store

_TOP = "python"
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
