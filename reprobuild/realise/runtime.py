"""The runtime package with bytecode by the image's own interpreter.

Every interpreter of the image starts with it.

Without bytecode, and without write access beside it, the package would be compiled at each start. This would take a
third of a bare interpreter's start.
"""

from __future__ import annotations

import io

from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.tar.reading import read_tar
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.infra.untrusted.write_below import write_below
from reprobuild.lock.python import Interpreter
from reprobuild.lock.system import EPOCH, FILES, Base
from reprobuild.realise.bytecode import compile_directories, compiled_key, read_bytecode
from reprobuild.store.store import Store

PLACE = f"{FILES}/lib/reprobuild_runtime"


def recall_runtime(
    sources: str, base: Base, interpreter: Interpreter, store: Store, tree: str = ""
) -> str | None:
    """Return the sha256 of `compile_runtime`'s stored tar, or None."""
    tar = store.recall(compiled_key(sources, PLACE, base, interpreter, tree))
    return tar if isinstance(tar, str) and store.has(tar) else None


def compile_runtime(
    sources: str, base: Base, interpreter: Interpreter, root: Root, store: Store, tree: str = ""
) -> str:
    """Add bytecode to the runtime package.

    Return the sha256 of the tar, which is in the store.

    Args:
        sources: the sha256 of our own tar of the package's files.
        root: an unpacked base with the interpreter.
        tree: that of an interpreter outside the base.

    Raises:
        BuildError: the compiler failed.
    """
    with store.blob(sources).open("rb") as stream:
        files = {entry.path: content() for entry, content in read_tar(stream)}
    with store.workspace() as scratch:
        for name, content in files.items():
            write_below(scratch, f"from/runtime/{name}", content)
        compile_directories({"runtime": PLACE}, scratch, interpreter, root)
        files |= read_bytecode(scratch / "to" / "runtime")
    packed = io.BytesIO()
    writer = TarWriter(packed, EPOCH)
    for name, content in sorted(files.items()):
        writer.file(name, content)
    writer.close()
    tar = store.add(packed.getvalue())
    store.remember(compiled_key(sources, PLACE, base, interpreter, tree), tar)
    return tar
