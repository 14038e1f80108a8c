"""Bytecode of every wheel, compiled by the image's interpreter.

Each wheel has one tar. Source trees get none: bytecode that is not checked against its source would hide an edit of an
editable.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath

from reprobuild.errors import BuildError
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root, check_output_file
from reprobuild.infra.tar.entries import TarEntry, list_parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import zips
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.lock.model import Bytecode
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.lock.system import EPOCH, PREFIX, Base
from reprobuild.realise.base import ingredients
from reprobuild.realise.rootfs import place_script
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file

RECIPE = 3  # to be raised if other bytes come out of the same wheel
_UNSTARTED = (126, 127)  # the codes of a program that cannot be run, or has missing libraries
_LACKING = "the base lacks what this Python needs: take another base with `--base`, or another Python with `--python`"
_ODD = "the interpreter in the image is hostile, or broken; get its package from where it was published"


def bytecode_key(wheel: Wheel, base: Base, interpreter: Interpreter, tree: str = "") -> str:
    """Return the key of a wheel's bytecode.

    It depends on the wheel, the interpreter, and the base that it runs in.
    """
    return compiled_key(wheel.file.sha256, PREFIX, base, interpreter, tree)


def compiled_key(source: str, place: str, base: Base, interpreter: Interpreter, tree: str = "") -> str:
    """Return the key of compiled files.

    It depends on the sha256 of the source, its place in the image, and the interpreter.

    `tree` is that of an interpreter outside the base. The interpreter runs in the whole base.
    """
    parts = ["bytecode", RECIPE, source, place, interpreter_facts(interpreter, tree), ingredients(base)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def interpreter_facts(interpreter: Interpreter, tree: str) -> list[str]:
    """Return what a program that an interpreter runs depends on, for a key."""
    return [interpreter.version, interpreter.executable, interpreter.home, tree]


def compile_wheels(
    wheels: Iterable[Wheel], base: Base, interpreter: Interpreter, root: Root, store: Store
) -> tuple[Bytecode, ...]:
    """Compile each wheel's modules for their place in the image.

    Args:
        wheels: files in the store.
        root: an unpacked base with the interpreter.

    Returns:
        For each wheel the tar of its bytecode; empty tars for wheels without modules.
    """
    site = f"{PREFIX}/lib/python{'.'.join(interpreter.version.split('.')[:2])}/site-packages"
    todo = list(wheels)
    with store.workspace() as scratch:
        for wheel in todo:
            _unpack_modules(wheel, store, scratch / "from" / wheel.file.sha256)
        by_size = sorted(todo, key=lambda wheel: -wheel.file.size)
        compile_directories({wheel.file.sha256: site for wheel in by_size}, scratch, interpreter, root)
        return tuple(_pack_bytecode(wheel, scratch, site, store) for wheel in todo)


def compile_directories(
    places: Mapping[str, str], scratch: Path, interpreter: Interpreter, root: Root
) -> None:
    """Compile directories from `from/NAME` to `to/NAME` in the sandbox.

    Both are below `scratch`.

    Args:
        places: the path of each directory in the image, by its NAME.
        scratch: a directory of this run.
        interpreter: the one that compiles.
        root: an unpacked base with the interpreter.

    Raises:
        BuildError: the compiler failed.
    """
    script = place_script("compile_modules.py", scratch)
    for name in places:
        (scratch / "to" / name).mkdir(parents=True)
    jobs = [
        {"from": f"/mnt/from/{name}", "to": f"/mnt/to/{name}", "place": place}
        for name, place in places.items()
    ]
    binds = [
        Bind(source=scratch / "from", target="/mnt/from"),
        Bind(source=scratch / "to", target="/mnt/to", writable=True),
        Bind(source=script, target="/mnt/compile_modules.py"),
    ]
    try:
        run_in_root(
            root, [interpreter.executable, "-I", "-S", "/mnt/compile_modules.py"], epoch=EPOCH, binds=binds,
            stdin=json.dumps(jobs).encode(), purpose="compile the modules of the environment",
        )  # fmt: skip
    except ProcessFailedError as err:
        hint = _LACKING if err.code in _UNSTARTED else "is the disk full?"
        raise BuildError(str(err), hint=hint) from None


def read_bytecode(folder: Path) -> dict[str, bytes]:
    """Return {path: content} of the bytecode in a directory.

    The paths are below the directory, which was written in the sandbox.

    Links in it are not followed.

    Raises:
        BuildError: it holds other entries than directories and files.
    """
    if folder.is_symlink():
        raise BuildError("the compiler left a link in the place of a directory", hint=_ODD)
    paths = sorted(
        (Path(above) / name).relative_to(folder).as_posix()
        for above, _, names in os.walk(folder)  # which follows no links
        for name in names
        if name.endswith(".pyc")
    )
    return {
        name: read_plain(check_output_file(folder / name, "the compiler"), zips.LONGEST_TEXT)
        for name in paths
    }


def _unpack_modules(wheel: Wheel, store: Store, target: Path) -> None:
    """Unpack a wheel's importable Python files.

    They are the `.py` files of the root and of the two library directories of `.data`.
    """
    target.mkdir(parents=True)
    origin = f"the wheel {wheel.file.filename}"
    path = store.verified(wheel.file.sha256, wheel.file.filename)
    with zips.open_zip(path, origin) as (archive, members):
        for name, info in members.items():
            place = _installed_path(name)
            if place is None or not name.endswith(".py"):
                continue
            try:
                write_below(target, place, zips.read_text(archive, info, origin), replace=True)
            except IsADirectoryError:
                raise BuildError(
                    f"{origin} holds {place} as a file and as a directory", hint=HOSTILE
                ) from None
            except zips.UNREADABLE as err:
                raise BuildError(f"{origin}: {name} cannot be read: {err}", hint=HOSTILE) from None


def _installed_path(name: str) -> str | None:
    parts = PurePosixPath(name).parts
    if parts and parts[0].endswith(".data"):
        return "/".join(parts[2:]) if len(parts) > 2 and parts[1] in ("purelib", "platlib") else None
    return name


def _pack_bytecode(wheel: Wheel, scratch: Path, site: str, store: Store) -> Bytecode:
    """Pack the compiled files at their paths in the image.

    The layer adds the parent directories.
    """
    root = site.lstrip("/")
    tar = scratch / f"{wheel.file.sha256}.tar"
    files = read_bytecode(scratch / "to" / wheel.file.sha256)
    with tar.open("wb") as stream:
        writer = TarWriter(stream, EPOCH)
        for directory in _cache_directories(list(files), root):
            writer.directory(directory)
        for name, content in files.items():
            writer.add(TarEntry(path=f"{root}/{name}", type="file", mode=0o644, size=len(content)), content)
        writer.close()
    digest = hash_file(tar)
    store.adopt(tar, digest)
    return Bytecode(artefact=wheel.file.sha256, tar=digest)


def _cache_directories(names: Sequence[str], root: str) -> list[str]:
    return [f"{root}/{path}" for path in list_parents(names) if path.endswith("__pycache__")]
