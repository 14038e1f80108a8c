"""The archive of the interpreter itself."""

from __future__ import annotations

import io
import os
import platform
import re
import stat
import sys
from typing import IO, Any, Dict, List, Set

from reprobuild_portable.capture.files import _path, _sha256
from reprobuild_portable.capture.limits import (
    BUNDLE,
    INTERPRETER_COUNT,
    INTERPRETER_FILE,
    INTERPRETER_TOTAL,
    LISTED,
)
from reprobuild_portable.capture.model import Context, GaveUpError, Taken
from reprobuild_portable.capture.repositories.search import _places
from reprobuild_portable.host import host
from reprobuild_portable.secrets.files import secret_file

INTERPRETER = "interpreter"  # the word of --include
PACKED = "interpreter.tar.gz"
# Distributions are captured elsewhere, an image makes bytecode itself, and tests hold keys.
_NOT_PACKED = frozenset({"__pycache__", "site-packages", "dist-packages", "test", "tests", "idle_test"})
_NOT_RUN = (".a", ".o", ".pyc", ".exe")  # for the linker, or of another system
_LIBRARY = re.compile(rb"\0(lib[A-Za-z0-9_.+-]{1,100}\.so[0-9.]{0,20})(?=\0)")


def take_interpreter(context: Context) -> Taken:
    """Pack the running Python into an archive.

    The archive has the program, its standard library, its own shared libraries and headers. It has the
    layout of a standalone build: one directory `python` with `bin`, `lib` and `include`.
    """
    name = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = os.path.realpath(sys.base_prefix)
    _check_packable(base, name)
    place = os.path.join(context.scratch, PACKED)
    with open(place, "xb") as stream:
        packing = Packing(context, base, stream)
        packing.program(os.path.realpath(sys.executable), name)
        packing.folder(f"lib/{name}")
        packing.folder(f"include/{name}")
        packing.libraries(name)
        packing.close()
    size = os.path.getsize(place)
    if size > BUNDLE:
        raise GaveUpError("too-large", f"it is packed in {size} bytes")
    return Taken(
        {
            "file": PACKED,
            "sha256": _sha256(place, context),
            "bytes": size,
            "version": platform.python_version(),
            "build": sys.version.replace("\n", " "),
            "prefix": base,
            "left_out": packing.left_out[:LISTED],
        },
        files={PACKED: place},
    )


def _check_packable(base: str, name: str) -> None:
    """Refuse a Python of a package, or of another layout.

    Raises:
        GaveUpError: packages provide this Python, or its layout is not that of an installation of CPython.
    """
    version = platform.python_version()
    if platform.python_implementation() != "CPython" or sys.abiflags:
        raise GaveUpError("failed", "it is no ordinary CPython")
    if os.path.isdir(os.path.join(base, "conda-meta")):
        raise GaveUpError("provided", f"conda's package of Python {version}, which conda's list names")
    if base == "/usr":
        raise GaveUpError("provided", f"the system's package of Python {version}")
    if not re.fullmatch(r"(/(?!\.\.?(/|$))[A-Za-z0-9._+@-]+)+", base):
        raise GaveUpError("failed", "the path of its directory has characters that no image takes")
    if not os.path.isfile(os.path.join(base, "lib", name, "os.py")):
        raise GaveUpError("failed", f"{base} has no lib/{name}/os.py")


class Packing:
    """The archive of an interpreter while it is written.

    The same files give the same bytes.
    """

    def __init__(self, context: Context, base: str, stream: IO[bytes]) -> None:
        import gzip  # most captures do not pack an interpreter
        import tarfile

        self._context, self._base = context, base
        self._packed = gzip.GzipFile("", "wb", 6, stream, 0)
        self._tar = tarfile.TarFile(fileobj=self._packed, mode="w", format=tarfile.USTAR_FORMAT)
        self._new = tarfile.TarInfo
        self._link = tarfile.SYMTYPE
        self._total = 0
        self._names: Set[str] = set()
        self._asked: Set[str] = set()
        self.left_out: List[Dict[str, Any]] = []

    def close(self) -> None:
        """Write the end of the archive."""
        self._tar.close()
        self._packed.close()

    def program(self, place: str, name: str) -> None:
        """Add the program, its links, and the script for compilers.

        The program has the name of its version. The other names are links.
        """
        self._file(place, f"bin/{name}", needed=True)
        for other in ("python3", "python"):
            self._add(f"bin/{other}", link=name)
        if os.path.isfile(os.path.join(self._base, "bin", f"{name}-config")):
            self._file(os.path.join(self._base, "bin", f"{name}-config"), f"bin/{name}-config")

    def folder(self, path: str) -> None:
        """Add a directory below the prefix, without excluded files."""
        for above, folders, names in os.walk(os.path.join(self._base, path)):
            self._context.left()
            links = [folder for folder in folders if os.path.islink(os.path.join(above, folder))]
            folders[:] = sorted(set(folders) - _NOT_PACKED - set(links))
            inside = os.path.relpath(above, self._base)
            for name in sorted(names + [link for link in links if link not in _NOT_PACKED]):
                if not name.endswith(_NOT_RUN):
                    self._any(f"{inside}/{name}")

    def libraries(self, name: str) -> None:
        """Add the shared libraries that packed files name.

        They lie beside the standard library. The directories that Tcl needs follow, and the files for
        pkg-config.
        """
        names = set(host.listdir(os.path.join(self._base, "lib")))
        libraries = {library for library in names if library.startswith(f"lib{name}.so")}
        while libraries:
            for library in sorted(libraries):
                self._context.left()
                self._any(f"lib/{library}", needed=True)
            libraries = {library for library in names & self._asked if f"lib/{library}" not in self._names}
        tcl = any(file.startswith("lib/libtcl") for file in self._names)
        for entry in sorted(names):
            if tcl and re.fullmatch(r"(tcl|tk)\d[\d.]*", entry):
                self.folder(f"lib/{entry}")
        for kind in ("", "-embed"):
            path = f"lib/pkgconfig/{name.replace('python', 'python-')}{kind}.pc"
            if os.path.isfile(os.path.join(self._base, path)):
                self._any(path)

    def _any(self, path: str, needed: bool = False) -> None:
        place = os.path.join(self._base, path)
        if not os.path.islink(place):
            self._file(place, path, needed)
            return
        link = host.readlink(place)
        inside = os.path.normpath(os.path.join(os.path.dirname(path), link))
        if os.path.isabs(link) or not inside.startswith(("lib/", "include/")):
            self._leave(path, "special-file", needed)
            return
        self._asked.add(os.path.basename(inside))
        self._add(path, link=link)

    def _file(self, place: str, path: str, needed: bool = False) -> None:
        """Add one file, or record why it is left out.

        It is left out if it is a secret, too large, not a regular file, or cannot be read. Python does not
        start without a `needed` file: GaveUp is raised instead.
        """
        try:
            number = host.open(place, host.O_RDONLY | host.O_NOFOLLOW | host.O_NONBLOCK | host.O_CLOEXEC)
            with open(number, "rb") as stream:
                state = host.fstat(number)
                if not stat.S_ISREG(state.st_mode):
                    return self._leave(path, "special-file", needed)
                content = stream.read(INTERPRETER_FILE + 1)
        except OSError:
            return self._leave(path, "unreadable", needed)
        if len(content) > INTERPRETER_FILE:
            return self._leave(path, "too-large", needed)
        if secret_file(path, content) or _places(content, self._context, 1):
            return self._leave(path, "secret", needed)
        if content.startswith(b"\x7fELF"):
            self._asked.update(library.decode("ascii") for library in _LIBRARY.findall(content))
        self._add(path, content, bool(state.st_mode & stat.S_IXUSR))
        return None

    def _add(self, path: str, content: bytes = b"", program: bool = False, link: str = "") -> None:
        self._total += len(content)
        self._names.add(path)
        if self._total > INTERPRETER_TOTAL:
            raise GaveUpError("too-large", f"it has more than {INTERPRETER_TOTAL} bytes")
        if len(self._names) > INTERPRETER_COUNT:
            raise GaveUpError("too-many", f"it has more than {INTERPRETER_COUNT} files")
        info = self._new(f"python/{path}")
        info.mode = 0o755 if program else 0o644
        info.size = len(content)
        if link:
            info.type, info.linkname, info.mode = self._link, link, 0o777
        try:
            self._tar.addfile(info, io.BytesIO(content))
        except (ValueError, UnicodeError):  # a name that is too long, or no text
            raise GaveUpError("failed", f"the name of {_path(path)} is none for an archive") from None

    def _leave(self, path: str, reason: str, needed: bool) -> None:
        self._names.add(path)  # not read again
        if needed:
            raise GaveUpError(reason, f"{_path(path)} cannot be left out")
        self.left_out.append({"path": _path(path), "reason": reason})
