"""Sealed locks, and what the verbs make of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reprobuild.image.model import Image
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.output.directory import read_image
from reprobuild.recipe.payload import pack_runtime
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.image.made import Made


def sealed(made: Made, *names: str) -> Lock:
    """Return a sealed lock with a wheel of each name, whose files are in the store."""
    made.wheels, made.bytecode = [], []
    for name in names:
        wheel = made.wheel(name, {f"{name}.py": f"# {name}\n".encode() * 50})
        made.compiled(wheel.file.sha256, {f"opt/env/lib/python3.11/site-packages/{name}.pyc": name.encode()})
    lock = made.lock()
    realised = type(lock.realised)(
        base=made.base, runtime=pack_runtime(made.store), wheels=(), bytecode=lock.realised.bytecode
    )
    return made.lock(realised=realised)


def built(lock: Lock, path: Path, store: Store, out: Path) -> Image:
    """Build by the command line, without network, and return the image."""
    write_lock(lock, path)
    done = reprobuild("build", path, "-o", out, "--store", store.root, "--offline")
    assert done.returncode == 0, done.stderr
    return read_image(out)[1]


def contents(store: Store, *folders: str) -> dict[str, int]:
    """Return {path in the store: when it was written}."""
    found = [path for folder in folders for path in (store.root / folder).rglob("*") if path.is_file()]
    return {str(path.relative_to(store.root)): path.stat().st_mtime_ns for path in found}


def gc(store: Store, *arguments: str | Path, prefix: tuple[str, ...] = ()) -> dict[str, Any]:
    """Run it by the command line, and return what it says."""
    store.release()
    done = reprobuild("store", "gc", *arguments, "--store", store.root, "--json", prefix=prefix)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document
