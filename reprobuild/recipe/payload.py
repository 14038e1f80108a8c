"""Our own files in an image: the runtime package, what it must know, and the hook that starts it."""

from __future__ import annotations

import glob
import io
import json
from collections.abc import Iterator
from importlib.resources import files
from typing import TYPE_CHECKING

from reprobuild.errors import BuildError
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted import tars
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Source
from reprobuild.lock.system import EPOCH, FILES, PREFIX
from reprobuild.store.store import Store

if TYPE_CHECKING:
    from importlib.abc import Traversable

# PEP 3147 folders appear when a program imports from the source tree.
GENERATED = ("__pycache__",)
# The module of the runtime package that is the package `reprobuild` of an image.
FACADE = "facade.py"


def pack_runtime(store: Store) -> str:
    """Put this reprobuild's runtime package into the store as a tar, and return its sha256."""
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    for name, content in sorted(_runtime_files(files("reprobuild_runtime"))):
        writer.file(name, content)
    writer.close()
    return store.add(stream.getvalue())


def _runtime_files(folder: Traversable, above: str = "") -> Iterator[tuple[str, bytes]]:
    """Give (path, content) of the programs and the data of a folder and those below it."""
    for item in folder.iterdir():
        if item.is_dir() and item.name not in GENERATED:
            yield from _runtime_files(item, f"{above}{item.name}/")
        elif item.name.endswith((".py", ".json")):
            yield above + item.name, item.read_bytes()


def read_runtime(lock: Lock, store: Store) -> dict[str, bytes]:
    """Return {path: content} of the runtime package that the lock was sealed with."""
    assert lock.realised is not None
    with store.verified(lock.realised.runtime, "the runtime package").open("rb") as stream:
        try:
            return {entry.path: content() for entry, content in read_tar(stream)}
        except tars.UNREADABLE as err:
            raise BuildError(
                f"the runtime package of the lock is none: {err}",
                hint="seal the lock again: build from the unsealed one",
            ) from None


def payload(lock: Lock, store: Store) -> dict[str, bytes]:
    """Return {path without leading slash: content} of our own files for a sealed lock's image."""
    minor = ".".join(lock.interpreter.version.split(".")[:2])
    site = f"{PREFIX}/lib/python{minor}/site-packages"
    package = f"{FILES}/lib/reprobuild_runtime"
    runtime = read_runtime(lock, store)
    found = {f"{package}/{name}": content for name, content in runtime.items()}
    if FACADE in runtime:  # locks that an earlier version sealed have no such module
        found[f"{FILES}/lib/reprobuild/__init__.py"] = runtime[FACADE]
    found |= dict(origin(source, lock) for source in lock.sources if source.watched)
    found[f"{site}/reprobuild.pth"] = f"{FILES}/lib\nimport reprobuild_runtime.startup\n".encode()
    # from Python 3.15 on instead of the line `import` above (https://peps.python.org/pep-0829/)
    found[f"{site}/reprobuild.start"] = b"reprobuild_runtime.startup:start\n"
    return {path.lstrip("/"): content for path, content in found.items()}


def origin(source: Source, lock: Lock) -> tuple[str, bytes]:
    """Return path and content of the file that says where a source that runs from its place comes from.

    What its build put beside its files is none of its tree's.
    """
    built = lock.parts(source)
    added = [f"/{glob.escape(path)}" for path in built.files] if built else []
    facts = {
        "name": source.name,
        "url": source.url,
        "commit": source.commit,
        "tree": source.tree,
        "path": source.path,
        "subdirectory": source.subdirectory,
        "generated": [*GENERATED, *added],
    }
    return f"{FILES}/sources/{source.path.strip('/').replace('/', '-')}.json", _json(facts)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
