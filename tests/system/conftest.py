"""What costs time, once for all tests: this machine's package lists, a store, one realised base."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.apt.configured import configured_index
from reprobuild.apt.index import SystemIndex
from reprobuild.lock import Base
from reprobuild.realise.base import realise_base
from reprobuild.realise.unpack import unpack_root
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store import Store
from tests.registry.conftest import program, pusher, registry  # noqa: F401  # fixtures of a real registry
from tests.system.samples import EPOCH, bring

# Real lists are read where somebody has them.
collect_ignore = [] if os.environ.get("REPROBUILD_CORPUS") else ["test_system_corpus.py"]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store: the one that REPROBUILD_TEST_STORE names, which later runs find filled, or a new one."""
    named = os.environ.get("REPROBUILD_TEST_STORE")
    return Store(Path(named) if named else tmp_path_factory.mktemp("store"))


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


@pytest.fixture(scope="session")
def tree(base: Base, store: Store) -> str:
    """The sha256 of the realised base."""
    return realise_base(base, store, EPOCH)


@pytest.fixture(scope="session")
def root(tree: str, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The realised base, unpacked."""
    folder = tmp_path_factory.mktemp("root")
    unpack_root(store.blob(tree), folder)
    return folder


@pytest.fixture(scope="session")
def store_blob(tree: str, store: Store) -> Path:
    """The file of the realised base."""
    return store.blob(tree)


@pytest.fixture
def shared_tmp() -> Iterator[Path]:
    """An empty folder that belongs to the ordinary user of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="reprobuild-test-"))
    os.chown(folder, 12345, 12345)
    yield folder
    shutil.rmtree(folder)
