"""The tree of an interpreter that is not part of the base.

It is unpacked, and compiled once by that interpreter itself.

The result is one tar, put over the base unchanged by every builder. Shipped bytecode is left out: it holds times of
files, and every file of an image has the same one.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.infra.tar.entries import TarEntry, list_parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.names import HOSTILE, check_path, check_target
from reprobuild.infra.untrusted.regular_files import is_unlinked
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter
from reprobuild.realise.base import ingredients
from reprobuild.realise.bytecode import compile_directories, read_bytecode
from reprobuild.realise.conda import conda_key, link_conda
from reprobuild.realise.rootfs import provide_root
from reprobuild.realise.standalone import unpack_standalone
from reprobuild.realise.unpack import make_directory
from reprobuild.store.store import Store
from reprobuild_portable.hashing import hash_file

RECIPE = 2  # to be raised if other bytes come out of the same inputs
_ORIGIN = "the tree of the interpreter"


def recall_interpreter(lock: Lock, store: Store) -> str | None:
    """Return the sha256 of the stored tree of a lock's interpreter.

    It is "" if the lock needs no tree, and None if the tree is not made yet.
    """
    if not lock.interpreter.home:
        return ""
    known = store.recall(_key(lock))
    return known if isinstance(known, str) and store.has(known) else None


def realise_interpreter(
    lock: Lock, root: Callable[[], Root], store: Store, say: Callable[[str], None] = lambda _: None
) -> str:
    """Realise the tree of a lock's interpreter; return its sha256.

    The tree is a tar in the store. The result is "" for the base's own Python.

    Args:
        lock: its interpreter's files are in the store.
        root: returns the unpacked base, in which the interpreter runs.
        say: logs the start.

    Raises:
        FetchError: a file is not in the store, or damaged.
        BuildError: an archive is malicious, or does not hold the interpreter; or it is free-threaded, which can be
            locked but not built.
    """
    if (
        lock.interpreter.free_threaded
    ):  # its directories are lib/python3.13t, which this program was never run with
        raise BuildError(
            f"Python {lock.interpreter.version} of the lock is free-threaded, and no image is made with such a one yet",
            hint="the lock names every file, and can be compared with others; capture the job on an ordinary Python to "
            "make an image of it",
        )
    known = recall_interpreter(lock, store)
    if known is not None:
        return known
    say(f"unpacking Python {lock.interpreter.version}, and compiling its modules")
    with store.workspace() as scratch:
        tree = scratch / "tree"
        make_directory(tree / lock.interpreter.home[1:])
        if lock.interpreter.kind == "conda":
            link_conda(lock, tree, root, store)
        else:
            unpack_standalone(lock.interpreter, store, tree)
        tar = finish_tree(tree, lock.interpreter, lock.epoch, root(), store)
    store.remember(_key(lock), tar)
    return tar


def _key(lock: Lock) -> str:
    """Return one hash of all inputs of the tree."""
    python = lock.interpreter
    source = python.file and python.file.sha256
    parts: list[Any] = [RECIPE, lock.epoch, python.kind, python.version, python.executable, source]
    parts.append(ingredients(lock.base))
    parts += conda_key(lock) if python.kind == "conda" else []
    return hashlib.sha256(b"interpreter\0" + json.dumps(parts).encode()).hexdigest()


def with_interpreter(root: Root, interpreter: Interpreter, tree: str, store: Store) -> Root:
    """Return a base with the interpreter of a finished tree.

    It is the base itself if the interpreter is the base's own.
    """
    if not tree:
        return root
    place = provide_root(tree, store) / interpreter.home[1:]
    return msgspec.structs.replace(root, binds=(*root.binds, Bind(source=place, target=interpreter.home)))


def finish_tree(tree: Path, interpreter: Interpreter, epoch: int, root: Root, store: Store) -> str:
    """Compile an interpreter's modules and pack it.

    Return the sha256 of the tar, which is in the store.

    Owners are root, times the epoch, modes 0755 or 0644; hard links become files.

    Args:
        tree: a directory with the interpreter at its path in the image; its contents are untrusted.
        interpreter: `home` is that path.
        epoch: the time of every entry.
        root: an unpacked base for running the interpreter.

    Raises:
        BuildError: it cannot compile, or a name in the tree is not valid in images.
    """
    home = interpreter.home[1:]
    library = f"{home}/lib/python{interpreter.minor}"
    with store.workspace() as scratch:
        code = _compile_library(tree, library, interpreter, root, scratch)
        tar = scratch / "tree.tar"
        with tar.open("wb") as stream:
            writer = TarWriter(stream, epoch)
            entries = {entry.path: entry for entry in _list_entries(tree, home, library)}
            for folder in {*list_parents([*entries, *code])} - entries.keys():
                entries[folder] = TarEntry(path=folder, type="directory", mode=0o755)
            for path, content in code.items():
                entries[path] = TarEntry(path=path, type="file", mode=0o644, size=len(content))
            for path in sorted(entries):
                _write(writer, entries[path], tree, code.get(path))
            writer.close()
        return store.adopt(tar, hash_file(tar))


def _write(writer: TarWriter, entry: TarEntry, tree: Path, code: bytes | None) -> None:
    if entry.type != "file" or code is not None:
        writer.add(entry, code)
        return
    with (tree / entry.path).open("rb") as content:
        writer.add(entry, content)


def _list_entries(tree: Path, home: str, library: str) -> Iterator[TarEntry]:
    """Yield the entries of the tree without bytecode of modules."""
    for folder, folders, names in os.walk(tree / home):
        above = Path(folder).relative_to(tree).as_posix()
        if f"{above}/".startswith(f"{library}/") and "__pycache__" in folders:
            folders.remove("__pycache__")
        for name in (*folders, *names):
            path = f"{above}/{name}"
            check_path(path, _ORIGIN)
            yield _entry(tree / path, path)


def _entry(place: Path, path: str) -> TarEntry:
    facts = place.lstat()
    if stat.S_ISDIR(facts.st_mode):
        return TarEntry(path=path, type="directory", mode=0o755)
    if stat.S_ISLNK(facts.st_mode):
        target = str(place.readlink())
        check_target(target, path, _ORIGIN)
        return TarEntry(path=path, type="symlink", mode=0o777, target=target)
    mode = 0o755 if facts.st_mode & stat.S_IXUSR else 0o644
    return TarEntry(path=path, type="file", mode=mode, size=facts.st_size)


def _compile_library(
    tree: Path, library: str, interpreter: Interpreter, root: Root, scratch: Path
) -> dict[str, bytes]:
    """Return {path in the image: bytecode} of the library's modules.

    The output of marshal depends on what its process compiled before, so each package has a process of its own.
    """
    if not is_unlinked(tree, library):  # the walk would read files outside the tree
        raise BuildError(f"{_ORIGIN} holds a link on the way to /{library}", hint=HOSTILE)
    parts: dict[str, str] = {}
    for folder, folders, names in os.walk(tree / library):
        folders[:] = sorted(set(folders) - {"__pycache__"})
        above = Path(folder).relative_to(tree / library)
        steps = above.parts
        package = "/".join(steps[: 2 if steps[:1] == ("site-packages",) else 1])
        for name in names:
            if name.endswith(".py") and stat.S_ISREG((Path(folder) / name).lstat().st_mode):
                part = parts.setdefault(package, str(len(parts)))
                target = scratch / "from" / part / above / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.hardlink_to(Path(folder) / name)
    if not parts:
        raise BuildError(
            f"{_ORIGIN} holds no modules in /{library}",
            hint="take another build of Python: `--python X.Y.Z`",
        )
    running = msgspec.structs.replace(
        root, binds=(*root.binds, Bind(source=tree / interpreter.home[1:], target=interpreter.home))
    )
    compile_directories(dict.fromkeys(parts.values(), f"/{library}"), scratch, interpreter, running)
    contents: dict[str, bytes] = {}
    for part in parts.values():
        code = read_bytecode(scratch / "to" / part)
        contents |= {f"{library}/{name}": content for name, content in code.items()}
    return contents
