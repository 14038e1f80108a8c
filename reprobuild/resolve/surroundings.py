"""What resolving may touch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.apt.configured import configured_index
from reprobuild.apt.index import SystemIndex
from reprobuild.net import Net
from reprobuild.resolve.indexes import Indexes
from reprobuild.store import Store


class Surroundings(Struct, frozen=True, kw_only=True):
    """What resolving may touch: the store, the network, this machine's indexes and environment.

    `folder` is where relative paths in the decisions start, `captured` the folder of the snapshot; `say` is told
    each step.
    """

    store: Store
    net: Net
    indexes: Indexes
    env: Mapping[str, str]
    folder: Path
    say: Callable[[str], None]
    captured: Path = Path()


def system_index(distribution: str, codename: str, architecture: str, around: Surroundings) -> SystemIndex:
    """Return the packages of a release, from the sources of this machine's apt.

    Raises:
        LockError, FetchError: see `apt.configured.configured_index`.
    """
    around.say(f"system: the packages of {distribution} {codename}, from this machine's apt sources")
    lists = around.store.root / "apt"
    lists.mkdir(parents=True, exist_ok=True)
    return configured_index(distribution, codename, env=around.env, folder=lists, architecture=architecture)
