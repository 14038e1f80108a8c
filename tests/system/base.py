"""This machine's package lists, a store and a small base with its files: a plugin, as several directories use them.

A fixture that is imported into a second conftest.py would be made a second time.
"""

from __future__ import annotations

import os

import pytest

from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.lock.system import Base
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.conftest import kept_store
from tests.system.samples import bring


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store: the one that REPROBUILD_TEST_STORE names, which later runs find filled, or a new one."""
    return Store(kept_store() or tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="session")
def bookworm(store: Store) -> SystemIndex:
    """Debian 12 as this machine's apt sees it now."""
    return configured_index("debian", "bookworm", env=os.environ, folder=store.root / "apt")


@pytest.fixture(scope="session")
def base(bookworm: SystemIndex, store: Store) -> Base:
    """The essential packages with Python, every file in the store."""
    found, _ = resolve_base((), index=bookworm, roots=["python3.11", "passwd"])
    bring((*found.packages, *found.tools), store)
    return found
