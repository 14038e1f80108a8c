"""What costs time, once for all tests: one realised base (of `tests/system/base.py`), as a tar and as a directory."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.lock.system import Base
from reprobuild.realise.base import realise_base
from reprobuild.realise.unpack import unpack_root
from reprobuild.store.store import Store
from tests.registry.conftest import program, pusher, registry  # noqa: F401  # fixtures of a real registry
from tests.system.samples import EPOCH

# Real lists are read where somebody has them.
collect_ignore = [] if os.environ.get("REPROBUILD_CORPUS") else ["test_system_corpus.py"]


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
    """An empty directory that belongs to the ordinary user of the tests."""
    folder = Path(tempfile.mkdtemp(prefix="reprobuild-test-"))
    os.chown(folder, 12345, 12345)
    yield folder
    shutil.rmtree(folder)
