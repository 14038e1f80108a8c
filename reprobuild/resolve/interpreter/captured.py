"""The interpreter packed in a snapshot.

`capture --include interpreter` packs it beside capture.json.

Its archive is checked member by member before it is kept: one directory `python` of plain files, directories and links
that stay in it, within limits. The system libraries that its programs and libraries need are read from it.
"""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import shlex
import tarfile
import zlib
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, cast

import msgspec

from reprobuild.errors import BuildError, LockError, SnapshotError
from reprobuild.infra.display import escape_text
from reprobuild.infra.untrusted import tars
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.elf import MAGIC, read_elf, read_search_path
from reprobuild.infra.untrusted.names import check_path
from reprobuild.infra.untrusted.regular_files import open_within
from reprobuild.infra.untrusted.relocation import find_build_prefix, relocate_program
from reprobuild.infra.untrusted.strings import Line
from reprobuild.lock.model import Resolution
from reprobuild.lock.python import PACKED_END, Interpreter, Wheel
from reprobuild.lock.system import STANDALONE, Artefact
from reprobuild.resolve.context import ResolveContext
from reprobuild.resolve.system.shared_libraries import Ask, required_libraries
from reprobuild.resolve.system.wheel_libraries import MACHINES, ElfFile, file_of
from reprobuild.snapshot.capture_model import PackedInterpreter
from reprobuild.snapshot.model import Snapshot
from reprobuild.snapshot.parsers.capture_json import DAMAGED
from reprobuild.store.store import CHUNK, Store
from reprobuild_portable import secrets

LIBRARY = "interpreter-library"  # the kind of a deviation: a module of the standard library lacks a library
# The limits of `capture`, which packs no larger files.
MOST_PACKED = 256 << 20
MOST_UNPACKED = 512 << 20
MOST_MEMBERS = 25_000  # the files of `capture`, and their directories
_LARGEST_TEXT = 4 << 20
_LARGEST_PROGRAM = 128 << 20  # as `capture` packs
_TOP = "python"
_FOLDERS = ("bin", "include", "lib")
_VERSION = 1  # of remembered facts


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of an interpreter's archive: its ELF files.

    `lost` is the own library that the program does not find, if any.
    """

    files: tuple[ElfFile, ...]
    lost: Line = ""


def adopt_captured_interpreter(
    snapshot: Snapshot, machine: str, context: ResolveContext
) -> Interpreter | None:
    """Return the snapshot's packed interpreter, or None.

    Its archive is then in the store.

    Raises:
        SnapshotError: the archive is missing, is not the captured one, or is damaged or malicious.
        LockError: the program would not find its own library in the image.
    """
    packed = snapshot.captured.interpreter if snapshot.captured else None
    if not packed:
        return None
    context.say(f"python: Python {packed.version}, which the snapshot holds")
    return adopt_interpreter(
        packed, context.captured, f"captured: {describe_interpreter(packed)}", machine, context.store
    )


def describe_interpreter(packed: PackedInterpreter) -> str:
    """Describe a packed interpreter's build and original path."""
    return f"Python {packed.build}, installed in {packed.prefix}"


def adopt_interpreter(
    packed: PackedInterpreter, folder: Path, evidence: str, machine: str, store: Store
) -> Interpreter:
    """Store an interpreter's archive, and return the interpreter.

    Args:
        packed: the facts of the archive.
        folder: the directory of the archive.
        evidence: the reason for this interpreter.
        machine: in the kernel's spelling.
        store: receives the archive.

    Raises:
        SnapshotError: the archive is missing, does not match the facts, or is damaged or malicious.
        LockError: the program would not find its own library in the image.
    """
    _store_archive(packed, folder, store)
    minor = ".".join(packed.version.split(".")[:2])
    file = Artefact(filename=f"python-{packed.version}{PACKED_END}", sha256=packed.sha256, size=packed.size)
    interpreter = Interpreter(
        version=packed.version.rstrip("+"), executable=f"{STANDALONE}/bin/python{minor}", kind="captured", file=file,
        evidence=evidence,
    )  # fmt: skip
    if lost := _archive_contents(interpreter, machine, store).lost:
        raise LockError(
            f"Python {packed.version} of the snapshot needs {escape_text(lost)} of its own, and has no room for a "
            "search path: the captured machine found it by LD_LIBRARY_PATH or by the loader's configuration",
            hint=_standalone_hint(interpreter),
        )
    return interpreter


def interpreter_elf_files(
    interpreter: Interpreter, machine: str, store: Store
) -> tuple[tuple[Wheel, tuple[ElfFile, ...]], ...]:
    """Return a captured interpreter's ELF files in the form of a wheel.

    They are judged like those of a wheel.
    """
    if interpreter.kind != "captured" or interpreter.file is None:
        return ()
    contents = _archive_contents(interpreter, machine, store)
    wheel = Wheel(name="python", version=interpreter.version, role="environment", file=interpreter.file)
    return ((wheel, contents.files),)


def required_system_libraries(wheels: tuple[tuple[Wheel, tuple[ElfFile, ...]], ...]) -> tuple[Ask, ...]:
    """Return the system libraries that a captured interpreter needs.

    Each of its files may be loaded by an import.
    """
    return tuple(msgspec.structs.replace(ask, imported=True) for ask in required_libraries(wheels))


def resolve_missing_libraries(
    interpreter: Interpreter, left_out: tuple[Resolution, ...], needed: tuple[Ask, ...]
) -> tuple[Resolution, ...]:
    """Return the missing libraries as deviations.

    Modules of the standard library that need them cannot be imported.

    Raises:
        LockError: the program itself needs one of them.
    """
    program = {
        escape_text(ask.soname)
        for ask in needed
        if ask.path.startswith(("python/bin/", "python/lib/libpython"))
    }
    for ruling in left_out:
        if ruling.subject in program:
            raise LockError(
                f"the captured Python does not start without {ruling.subject}: {ruling.reason}",
                hint=_standalone_hint(interpreter),
            )
    return tuple(
        msgspec.structs.replace(
            ruling,
            outcome="unresolved",
            kind=LIBRARY,
            reason=f"{ruling.reason}: that module cannot be imported",
        )
        for ruling in left_out
    )


def _standalone_hint(interpreter: Interpreter) -> str:
    return f"take a standalone build of the same version: --python {shlex.quote(interpreter.version)}"


def _store_archive(packed: PackedInterpreter, folder: Path, store: Store) -> None:
    """Copy the archive into the store after checking it.

    It must be the one of capture.json.
    """
    if store.has(packed.sha256):
        return
    with store.scratch() as scratch:
        part, digest, size = scratch / "interpreter", hashlib.sha256(), 0
        try:
            stream, _ = open_within(folder, packed.file)
        except OSError as err:
            raise _damage_error(packed.file, f"it cannot be read: {err.strerror}") from None
        with stream, part.open("xb") as target:
            while (piece := stream.read(CHUNK)) and size <= packed.size:
                digest.update(piece)
                size += len(piece)
                target.write(piece)
        if size > MOST_PACKED:
            raise _damage_error(packed.file, f"it has more than {MOST_PACKED} bytes")
        if (digest.hexdigest(), size) != (packed.sha256, packed.size):
            raise _damage_error(packed.file, "it is not the file that capture.json names")
        store.adopt(part, packed.sha256)


def _damage_error(file: str, why: str) -> SnapshotError:
    return SnapshotError(f"{file}: {why}", hint=DAMAGED)


def _archive_contents(interpreter: Interpreter, machine: str, store: Store) -> Held:
    """Return the remembered contents of the archive."""
    assert interpreter.file is not None
    origin, sha256 = interpreter.file.filename, interpreter.file.sha256
    parts = f"interpreter {_VERSION} {machine} {interpreter.executable} {sha256}"
    key = hashlib.sha256(parts.encode()).hexdigest()
    try:
        return decode_value(store.recall(key), Held)
    except msgspec.ValidationError:  # not there yet, or damaged
        pass
    archive = store.verified(sha256, origin)
    try:
        with gzip.open(archive) as stream, tars.open_stream(cast("IO[bytes]", stream)) as tar:
            contents = _read_archive(tar, interpreter, machine, archive.stat().st_size)
    except (*tars.UNREADABLE, gzip.BadGzipFile, zlib.error, BuildError) as err:
        raise _damage_error(origin, escape_text(str(err))) from None
    store.remember(key, msgspec.to_builtins(contents))
    return contents


def _read_archive(tar: tarfile.TarFile, interpreter: Interpreter, machine: str, packed: int) -> Held:
    """Return the contents of an archive; each member is checked.

    Raises:
        SnapshotError: `capture` would not pack one of the members, or one holds a secret.
    """
    origin = interpreter.file.filename if interpreter.file else ""
    program = f"{_TOP}/bin/{posixpath.basename(interpreter.executable)}"
    kinds: dict[str, bool] = {}
    files: list[ElfFile] = []
    config, content, path, total = "", b"", None, 0
    for info in tars.members(tar, origin, packed=packed):
        total += info.size
        _check_member(info, kinds, origin)
        if total > MOST_UNPACKED or len(kinds) > MOST_MEMBERS:
            raise _damage_error(origin, f"it has more than {MOST_MEMBERS} members or {MOST_UNPACKED} bytes")
        stream = tar.extractfile(info) if info.isreg() else None
        if stream is None:
            continue
        with TemporaryFile() as whole:
            while piece := stream.read(CHUNK):
                whole.write(piece)
            whole.seek(0)
            if whole.read(len(MAGIC)) == MAGIC:
                elf = read_elf(whole)
                if elf and elf.machine == MACHINES[machine]:
                    files.append(file_of(info.name, elf))
                if info.name == program:
                    path = read_search_path(whole)
                    whole.seek(0)
                    content = whole.read(_LARGEST_PROGRAM)
            elif info.size <= _LARGEST_TEXT:
                whole.seek(0)
                text = whole.read(_LARGEST_TEXT)
                _check_secret(info.name, text, origin)
                if posixpath.basename(info.name).startswith("_sysconfigdata_"):
                    config = config or find_build_prefix(text.decode("utf-8", "replace"))
    minor = posixpath.basename(interpreter.executable)
    for needed in (program, f"{_TOP}/lib/{minor}/os.py"):
        if not kinds.get(needed):
            raise _damage_error(origin, f"it holds no {needed}")
    library_names = {name for file in files for name in file.names}
    libraries = [
        name for file in files if file.path == program for name in file.needed if name in library_names
    ]
    lost = libraries if libraries and relocate_program(content, path, config, STANDALONE) is None else []
    return Held(files=tuple(files), lost=lost[0] if lost else "")


def _check_member(info: tarfile.TarInfo, kinds: dict[str, bool], origin: str) -> None:
    """Refuse a member that does not belong to an interpreter.

    `kinds` states of each path whether it is a plain file.
    """
    name = info.name
    check_path(name, origin)
    top, _, below = name.partition("/")
    if top != _TOP or (below and below.partition("/")[0] not in _FOLDERS):
        raise _damage_error(
            origin, f"it holds {escape_text(name)[:200]!r}, which is no part of an interpreter"
        )
    if not (info.isreg() or info.isdir() or info.issym()):
        raise _damage_error(
            origin,
            f"it holds {escape_text(name)[:200]!r}, which is neither file, directory nor symbolic link",
        )
    if info.mode & 0o7000:
        raise _damage_error(origin, f"{escape_text(name)[:200]!r} would run with the rights of another user")
    if name in kinds:
        raise _damage_error(origin, f"it holds {escape_text(name)[:200]!r} twice")
    if info.issym():
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), info.linkname))
        if info.linkname.startswith("/") or not inside.startswith(f"{_TOP}/"):
            raise _damage_error(origin, f"the link {escape_text(name)[:200]!r} leads out of it")
    kinds[name] = info.isreg()


def _check_secret(name: str, text: bytes, origin: str) -> None:
    if secrets.secret_file(name, text):
        raise _damage_error(origin, f"{escape_text(name)} is a secret by its name")
    if findings := secrets.find(text, most=1):
        line, rule = findings[0]
        raise _damage_error(origin, f"line {line} of {escape_text(name)} looks like a secret ({rule})")
