"""What sandboxes need: the base as a folder, unpacked once, kept in the store, never written to; our scripts."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path

from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.flock import alone
from reprobuild.realise.unpack import unpack_root
from reprobuild.store.rootfs_key import root_key
from reprobuild.store.store import Store, touch


def kept_root(base: str, store: Store) -> Path:
    """Return the folder of a base tree, for sandboxes with `layered=True`.

    Args:
        base: the sha256 of the tree in the store.
        store: keeps the folder in `roots/`. Whatever changed in it since, be it only a time, is a reason to
            unpack it anew.

    Raises:
        FetchError: the tree is not in the store, or damaged.
    """
    # A tree has modes of its own, and closed directories: each user of a shared store has one.
    folder = store.root / "roots" / (f"{base}.{os.geteuid()}" if store.shared else base)
    key = root_key(folder.name)
    with alone(folder.with_suffix(".lock"), CancelToken()):
        if not folder.is_dir() or store.recall(key) != {"state": _state(folder)}:
            with store.scratch() as scratch:
                fresh, old = scratch / "fresh", scratch / "old"
                fresh.mkdir()
                unpack_root(store.verified(base, "the base tree"), fresh)
                if folder.exists():
                    folder.rename(old)
                fresh.rename(folder)
            store.remember(key, {"state": _state(folder)})
        touch(folder)
    return folder


def place_script(name: str, folder: Path) -> Path:
    """Copy a script of ours into a folder of the store, and return its path.

    The sandbox mounts it with the rights of the user alone, which may not reach where reprobuild is installed.
    """
    script = folder / name
    script.write_bytes((files("reprobuild.realise") / "in_sandbox" / name).read_bytes())
    return script


def _state(folder: Path) -> str:
    """Return a hash of what stat says of every path but for times of access: a write cannot hide from ctime."""
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *names, "."]):
            found = os.lstat(f"{parent}/{name}")
            facts: tuple[int, ...] = (found.st_mode, found.st_ino, found.st_size)
            if (parent, name) != (
                str(folder),
                ".",
            ):  # its times tell when it was used; its content is told by names
                facts += (found.st_mtime_ns, found.st_ctime_ns)
            digest.update(f"{name}\0{facts}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
