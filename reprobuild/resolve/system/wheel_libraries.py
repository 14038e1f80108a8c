"""Shared libraries in a wheel: provided and needed names.

They are read once for each wheel, and remembered.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryFile

import msgspec
from msgspec import Struct

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.decode import decode_value
from reprobuild.infra.untrusted.elf import MAGIC, Elf, read_elf
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.strings import Line, TreePath
from reprobuild.infra.untrusted.zips import UNREADABLE, open_zip
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact
from reprobuild.store.store import CHUNK, Store

WORKERS = 4  # unpacking leaves Python's lock alone; each needs space for the largest file of its wheel
VERSION = 2  # of remembered results
MOST_NAMES = 200_000  # of all files of a wheel together; vtk, the largest known, has 10 000
MACHINES = {"x86_64": "EM_X86_64", "aarch64": "EM_AARCH64"}
# Extension modules: the file name has the interpreter, or the stable ABI.
_EXTENSION = re.compile(r"\.(cpython-3\d+[^/]*|abi3|cpython-3\d+)\.so$")
_VERSION = re.compile(r"(GLIBC|GLIBCXX)_(\d{1,3}(?:\.\d{1,4}){1,3})")


class ElfFile(Struct, frozen=True, kw_only=True):
    """One ELF file of a wheel for the image's machine.

    Others can request it by `names`.
    """

    path: TreePath
    names: tuple[Line, ...]
    needed: tuple[Line, ...]
    glibc: tuple[int, ...] = ()
    glibcxx: tuple[int, ...] = ()

    @property
    def is_extension(self) -> bool:
        """Whether it is an extension module, by its name."""
        return _EXTENSION.search(self.path) is not None


def open_wheels(
    wheels: Sequence[Wheel], machine: str, store: Store
) -> list[tuple[Wheel, tuple[ElfFile, ...]]]:
    """Return each wheel with its ELF files.

    See `read_libraries` for arguments and errors.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(
            zip(
                wheels,
                pool.map(lambda wheel: read_libraries(wheel.file, machine, store), wheels),
                strict=True,
            )
        )


def read_libraries(file: Artefact, machine: str, store: Store) -> tuple[ElfFile, ...]:
    """Return a wheel's ELF files for a machine, by path.

    The wheel is in the store.

    Damaged files, files of another machine and static ones are left out: a loader would not load them, or they need no
    libraries.

    Args:
        file: the wheel.
        machine: in the spelling of wheels, `x86_64`.
        store: has the wheel, and remembers the answer.

    Raises:
        FetchError: the wheel is not in the store.
        BuildError: the wheel is malicious or damaged.
    """
    key = hashlib.sha256(f"libraries {VERSION} {machine} {file.sha256}".encode()).hexdigest()
    try:
        return decode_value(store.recall(key), tuple[ElfFile, ...])
    except msgspec.ValidationError:  # not there yet, or damaged
        elf_files = _read_wheel(store.verified(file.sha256, file.filename), file.filename, machine, store)
        store.remember(key, msgspec.to_builtins(elf_files))
        return elf_files


def _read_wheel(path: Path, origin: str, machine: str, store: Store) -> tuple[ElfFile, ...]:
    elf_files: list[ElfFile] = []
    names = 0
    with open_zip(path, origin) as (archive, members), store.scratch() as folder:
        for name in sorted(members):
            try:
                elf = _read_member(archive, members[name], folder)
            except UNREADABLE as err:
                raise BuildError(f"{origin} is damaged at {name}: {err}", hint=HOSTILE) from None
            if elf and elf.machine == MACHINES[machine]:
                elf_files.append(file_of(name, elf))
                names += len(elf.needed) + len(elf.versions)
            if names > MOST_NAMES:
                raise BuildError(f"{origin} asks for more than {MOST_NAMES} libraries", hint=HOSTILE)
    return tuple(elf_files)


def _read_member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, folder: Path) -> Elf | None:
    """Read one member.

    Its content goes through a file, because the dynamic segment may be at its end.
    """
    with archive.open(info) as stream:
        head = stream.read(len(MAGIC))
        if head != MAGIC:
            return None
        with TemporaryFile(dir=folder) as whole:
            whole.write(head)
            while piece := stream.read(CHUNK):
                whole.write(piece)
            return read_elf(whole)


def file_of(name: str, elf: Elf) -> ElfFile:
    """Return the provided and needed names of an ELF file."""
    versions: dict[str, tuple[int, ...]] = {}
    for match in filter(None, map(_VERSION.fullmatch, elf.versions)):
        numbers = tuple(int(part) for part in match[2].split("."))
        versions[match[1]] = max(versions.get(match[1], ()), numbers)
    return ElfFile(
        path=name,
        names=tuple(dict.fromkeys(alias for alias in (name.rpartition("/")[2], elf.soname) if alias)),
        needed=elf.needed,
        glibc=versions.get("GLIBC", ()),
        glibcxx=versions.get("GLIBCXX", ()),
    )
