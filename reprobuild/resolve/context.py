"""The context of a resolution."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct, field

from reprobuild.config.services import Service, read_services
from reprobuild.ecosystems.apt.signatures import FOLDERS
from reprobuild.ecosystems.pypi.indexes import PackageIndexes
from reprobuild.infra.http.client import Net
from reprobuild.infra.progress import Progress, ignore_progress
from reprobuild.store.store import Store


class ResolveContext(Struct, frozen=True, kw_only=True):
    """The resources of a resolution: store, network, indexes, environment.

    The indexes and the environment are this machine's.

    `folder` is the base of relative paths in the decisions, `captured` the directory of the snapshot; `say` logs each
    step. `now` is in seconds since 1970; `key_folders` are directories with keys of archives; `progress` is called with
    (bytes so far, bytes in all or 0) while wheels are fetched. `doubted` are sources that the user did not name.
    `services` are the public services, with the addresses of the site and of the decisions.
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
    progress: Progress = ignore_progress
    doubted: frozenset[str] = frozenset()
    services: Mapping[str, Service] = field(default_factory=read_services)
