"""What resolving may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.ecosystems.apt.signatures import FOLDERS
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.store.store import Store


class ResolveContext(Struct, frozen=True, kw_only=True):
    """What resolving may touch: the store, the network, this machine's indexes and environment.

    `folder` is where relative paths in the decisions start, `captured` the folder of the snapshot; `say` is told
    each step. `now` is in seconds since 1970; `key_folders` are where keys of archives lie; `progress` is told
    (bytes so far, bytes in all or 0) while wheels are fetched. `doubted` are sources that the user did not name.
    """

    store: Store
    net: Net
    indexes: PackageIndexes
    env: Mapping[str, str]
    folder: Path
    say: Callable[[str], None]
    now: int
    captured: Path = Path()
    key_folders: tuple[Path, ...] = FOLDERS
    progress: Callable[[int, int], None] = lambda *_: None
    doubted: frozenset[str] = frozenset()
