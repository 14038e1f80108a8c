"""Files for sandboxes: an unpacked base, and our scripts.

The base is unpacked once, kept in the store, and never written to.
"""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path

from reprobuild.infra.cancel import CancelToken
from reprobuild.infra.flock import hold_file_lock
from reprobuild.realise.unpack import unpack_root
from reprobuild.store.rootfs_key import root_key
from reprobuild.store.store import Store, touch


def provide_root(base: str, store: Store) -> Path:
    """Return a base tree's directory, for sandboxes with `layered=True`.

    Args:
        base: the sha256 of the tree in the store.
        store: keeps the directory in `roots/`. If any part of it changed, even a time, it is unpacked again.

    Raises:
        FetchError: the tree is not in the store, or damaged.
    """
    # A tree has its own modes, and closed directories: each user of a shared store has a separate one.
    folder = store.root / "roots" / (f"{base}.{os.geteuid()}" if store.shared else base)
    key = root_key(folder.name)
    with hold_file_lock(folder.with_suffix(".lock"), CancelToken()):
        if not folder.is_dir() or store.recall(key) != {"state": _state(folder)}:
            with store.workspace() as scratch:
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
    """Copy one of our scripts into a store directory.

    Return its path.

    The sandbox mounts it with only the user's rights, which may not include the installation directory of reprobuild.
    """
    script = folder / name
    script.write_bytes((files("reprobuild.realise") / "in_sandbox" / name).read_bytes())
    return script


def _state(folder: Path) -> str:
    """Return a hash of each path's `stat` without access times.

    Every write changes ctime.
    """
    digest = hashlib.sha256()
    for parent, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted([*folders, *names, "."]):
            status = os.lstat(f"{parent}/{name}")
            facts: tuple[int, ...] = (status.st_mode, status.st_ino, status.st_size)
            if (parent, name) != (
                str(folder),
                ".",
            ):  # its times show its last use; its content is covered by names
                facts += (status.st_mtime_ns, status.st_ctime_ns)
            digest.update(f"{name}\0{facts}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()
