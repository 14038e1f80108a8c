"""The path that is imported: a directory, a file, or an archive, read in the same way."""

from __future__ import annotations

import contextlib
import lzma
import re
import unicodedata
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from reprobuild.errors import BuildError, SnapshotError
from reprobuild.infra.display import display_text, escape_text
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.names import HOSTILE, check_path
from reprobuild.infra.untrusted.regular_files import open_plain, open_within, read_plain
from reprobuild.infra.untrusted.strings import Key
from reprobuild.infra.untrusted.tars import UNREADABLE as BAD_TAR
from reprobuild.infra.untrusted.tars import members, open_stream
from reprobuild.infra.untrusted.zips import UNREADABLE as BAD_ZIP
from reprobuild.infra.untrusted.zips import open_zip
from reprobuild.snapshot import text
from reprobuild.snapshot.text import LIMIT

ARCHIVE = re.compile(r".*\.(?:zip|tar|tgz|tar\.(?:gz|bz2|xz))")
DEPTH = 6  # directories below the path; a tracker's run has four
MOST_FILES = 20_000
MOST_CANDIDATES = 20  # files that are opened to find one of a format: a directory may hold many of its name
_MOST_SEARCHED = 2 * LIMIT  # bytes of JSON that are read for its fields; each MiB needs up to 40 ms
_SKIPPED = {".git", ".venv", "node_modules", "__pycache__", ".pixi", ".tox"}

# Of Unicode: controls, marks of direction, surrogates, ends of lines; emoji have joiners.
_UNSAFE, _JOINERS = ("Cc", "Cf", "Cs", "Zl", "Zp"), ("\u200c", "\u200d")
_TOO_LARGE = f"it has more than {LIMIT >> 20} MiB"

_Fields = dict[Key, msgspec.Raw]


class ImportSource:
    """The files of a path by their relative names.

    `path` is the path itself; `home` the directory that relative paths in its files are of, or None in an archive;
    `skipped` the reason for each member of an archive that is not read, by its name.
    """

    def __init__(
        self, path: Path, files: dict[str, Path], home: Path | None, skipped: Mapping[str, str] | None = None
    ) -> None:
        self.path = path
        self.home = home
        self.skipped = dict(skipped or {})
        self._files = files
        self._fields: dict[str, frozenset[str]] = {}
        self._searched = 0  # bytes of JSON
        self._yaml = [0]  # bytes; `below` shares them

    @property
    def names(self) -> tuple[str, ...]:
        """The relative names of the files, sorted."""
        return tuple(sorted(self._files))

    def find(self, *names: str) -> str | None:
        """Return the shallowest file with one of these base names, or None."""
        hits = [name for name in self._files if PurePosixPath(name).name in names]
        return min(hits, key=lambda name: (name.count("/"), name), default=None)

    def has(self, name: str) -> bool:
        """Return whether there is a file of this relative name."""
        return name in self._files

    def adopt(self, name: str) -> bool:
        """Return whether there is a file of this relative name; a single file may have neighbours.

        A directory has the files that a search skips. No step from the directory to the file may be a link, and the
        file must be below the directory.
        """
        if name not in self._files and self.home:
            try:
                stream, _ = open_within(self.home, name)
            except OSError:
                return False
            stream.close()
            self._files[name] = self.home / name
        return name in self._files

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            SnapshotError: it cannot be read, or is larger than a captured file may be.
        """
        try:
            return read_plain(self._files[name], LIMIT)
        except OSError as err:
            raise SnapshotError(
                f"`{escape_text(name)}` cannot be read: {err.strerror or err}",
                hint="check who owns it, and what it links to",
            ) from None

    def head(self, name: str, size: int) -> bytes:
        """Return the first bytes of a file; empty if it cannot be read."""
        try:
            stream, _ = open_plain(self._files[name], links=True)
        except OSError:
            return b""
        with stream:
            return stream.read(size)

    def size(self, name: str) -> int:
        """Return the number of bytes of a file; 0 if it cannot be read."""
        try:
            stream, size = open_plain(self._files[name], links=True)
        except OSError:
            return 0
        stream.close()
        return size

    def fields(self, name: str) -> frozenset[str]:
        """Return the top-level fields of a JSON file.

        They are empty if it is not a mapping in JSON, or if all files that were searched would be too large with it.
        """
        if name not in self._fields:
            size = self.size(name)
            fits = self._searched + size <= _MOST_SEARCHED
            self._searched += size * fits
            self._fields[name] = self._read_fields(name) if fits else frozenset()
        return self._fields[name]

    def _read_fields(self, name: str) -> frozenset[str]:
        try:
            content = text.decode(self.read(name), name)
            text.check_values(content, name)
            return frozenset(decode_json(content, _Fields))
        except (SnapshotError, msgspec.MsgspecError, ValueError, RecursionError):
            return frozenset()

    def count_yaml(self, size: int) -> int:
        """Count a YAML file that is about to be parsed; return the bytes of all that were counted."""
        self._yaml[0] += size
        return self._yaml[0]

    def below(self, directory: str) -> ImportSource:
        """Return the part of this source below a directory."""
        inside = {
            name[len(directory) + 1 :]: path
            for name, path in self._files.items()
            if name.startswith(f"{directory}/")
        }
        part = ImportSource(self.path, inside, self.home and self.home / directory)
        part._yaml = self._yaml
        return part


@contextlib.contextmanager
def open_source(path: Path, scratch: Path) -> Iterator[ImportSource]:
    """Yield the files of a path.

    Args:
        path: a directory, a file, or an archive.
        scratch: an empty directory for the members of an archive.

    Raises:
        SnapshotError: it is missing, unreadable, or a damaged or hostile archive.
    """
    if path.is_dir():
        yield ImportSource(path, dict(_walk(path)), path)
    elif ARCHIVE.fullmatch(path.name):
        skipped: dict[str, str] = {}
        files = dict(_unpack(path, scratch, skipped))
        yield ImportSource(path, files, None, skipped)
    else:
        yield ImportSource(path, {path.name: path}, path.parent)


def _walk(top: Path) -> Iterator[tuple[str, Path]]:
    """Yield the regular files below a directory that lead nowhere else."""
    count = 0
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        try:
            entries = sorted(directory.iterdir())
        except OSError:  # of another user: its files are not there for us
            continue
        for entry in entries:
            relative = entry.relative_to(top)
            if entry.is_symlink():
                continue
            if entry.is_dir():
                if entry.name not in _SKIPPED and len(relative.parts) < DEPTH:
                    waiting.append(entry)
            elif entry.is_file():
                if (count := count + 1) > MOST_FILES:
                    return
                yield relative.as_posix(), entry


def _unpack(path: Path, scratch: Path, skipped: dict[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the files of an archive, written under numbers: no name of it becomes a path here.

    Args:
        path: the archive.
        scratch: a directory for its files.
        skipped: it gets the reason for each other member, by name.
    """
    origin = escape_text(path.name)
    try:
        for number, (name, content) in enumerate(_archive_files(path, origin, skipped)):
            target = scratch / str(number)
            target.write_bytes(content)
            yield name, target
    except (BuildError, OSError, zlib.error, lzma.LZMAError, *BAD_TAR, *BAD_ZIP) as err:
        raise SnapshotError(
            f"`{origin}` cannot be unpacked: {display_text(str(err))}",
            hint="unpack it yourself, and name the directory",
        ) from None


def _archive_files(path: Path, origin: str, skipped: dict[str, str]) -> Iterator[tuple[str, bytes]]:
    if not path.is_file():  # a pipe has no end
        raise BuildError(f"{origin} is no plain file", hint=HOSTILE)
    if path.suffix == ".zip":
        with open_zip(path, origin) as (archive, infos):
            _check_count(len(infos), origin)
            for name, packed in infos.items():
                _check_printable(name, origin)
                if packed.file_size <= LIMIT:
                    yield name, archive.read(packed)
                else:
                    skipped[name] = _TOO_LARGE
        return
    known: set[str] = set()
    with path.open("rb") as stream, open_stream(stream, "r|*") as tar:
        for number, info in enumerate(members(tar, origin, packed=path.stat().st_size), 1):
            _check_count(number, origin)
            if info.isdir():
                continue
            name = info.name.removeprefix("./")
            _check_printable(name, origin)
            check_path(name, origin)
            if name in known:
                raise BuildError(f"{origin} holds {name} twice", hint=HOSTILE)
            known.add(name)
            content = tar.extractfile(info) if info.isfile() and info.size <= LIMIT else None
            if content is not None:
                yield name, content.read()
            else:
                skipped[name] = _TOO_LARGE if info.isfile() else "a link, or no file: an import follows none"


def _check_count(count: int, origin: str) -> None:
    if count > MOST_FILES:
        raise BuildError(f"{origin} holds more than {MOST_FILES} members", hint=HOSTILE)


def _check_printable(name: str, origin: str) -> None:
    """Refuse a name with control characters, marks of direction, bytes that are not UTF-8, or backslashes."""
    unsafe = any(unicodedata.category(sign) in _UNSAFE and sign not in _JOINERS for sign in name)
    if unsafe or "\\" in name:
        raise BuildError(f"{origin} holds the unsafe path {escape_text(name[:200])}", hint=HOSTILE)
