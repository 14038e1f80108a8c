"""Our own files in an image.

They are the runtime package, its data, and the hook that starts it.
"""

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
from reprobuild.lock.model import SealedLock
from reprobuild.lock.python import Source
from reprobuild.lock.system import EPOCH, FILES, PREFIX
from reprobuild.store.store import Store

if TYPE_CHECKING:
    from importlib.abc import Traversable

# Directories of PEP 3147, which appear if a program imports from the source tree.
GENERATED = ("__pycache__",)
# The module of the runtime package that is the package `reprobuild` of an image.
FACADE = "facade.py"


def pack_runtime(store: Store) -> str:
    """Store this reprobuild's runtime package as a tar.

    Return its sha256.
    """
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    for name, content in sorted(_runtime_files(files("reprobuild_runtime"))):
        writer.file(name, content)
    writer.close()
    return store.add(stream.getvalue())


def _runtime_files(folder: Traversable, above: str = "") -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of programs and data, recursively."""
    for item in folder.iterdir():
        if item.is_dir() and item.name not in GENERATED:
            yield from _runtime_files(item, f"{above}{item.name}/")
        elif item.name.endswith((".py", ".json")):
            yield above + item.name, item.read_bytes()


def read_runtime(lock: SealedLock, store: Store) -> dict[str, bytes]:
    """Return {path: content} of a sealed lock's runtime package."""
    with store.verified(lock.realised.runtime, "the runtime package").open("rb") as stream:
        try:
            return {entry.path: content() for entry, content in read_tar(stream)}
        except tars.UNREADABLE as err:
            raise BuildError(
                f"the runtime package of the lock is none: {err}",
                hint="seal the lock again: build from the unsealed one",
            ) from None


def payload_files(lock: SealedLock, store: Store) -> dict[str, bytes]:
    """Return {path: content} of our own files in an image.

    The paths have no leading slash.
    """
    minor = ".".join(lock.interpreter.version.split(".")[:2])
    site = f"{PREFIX}/lib/python{minor}/site-packages"
    package = f"{FILES}/lib/reprobuild_runtime"
    runtime = read_runtime(lock, store)
    contents = {f"{package}/{name}": content for name, content in runtime.items()}
    if FACADE in runtime:  # locks that an earlier version sealed have no such module
        contents[f"{FILES}/lib/reprobuild/__init__.py"] = runtime[FACADE]
    contents |= dict(origin_file(source, lock) for source in lock.sources if source.watched)
    contents[f"{site}/reprobuild.pth"] = f"{FILES}/lib\nimport reprobuild_runtime.startup\n".encode()
    # used from Python 3.15 on, instead of the line `import` above (https://peps.python.org/pep-0829/)
    contents[f"{site}/reprobuild.start"] = b"reprobuild_runtime.startup:start\n"
    return {path.lstrip("/"): content for path, content in contents.items()}


def origin_file(source: Source, lock: SealedLock) -> tuple[str, bytes]:
    """Return path and content of a source's origin file.

    It is for a source that runs from its path in the image.

    Files that its build added are not part of its tree.
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
    return f"{FILES}/sources/{source.path.strip('/').replace('/', '-')}.json", _encode_json(facts)


def _encode_json(value: object) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"
