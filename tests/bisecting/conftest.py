"""The small environments, made once."""

from __future__ import annotations

import pytest

from reprobuild.lock.system import Base
from reprobuild.store.store import Store
from tests.bisecting.small import Bench, pair


@pytest.fixture(scope="session")
def bench(base: Base, store: Store, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    first, second = pair(base, store, tmp_path_factory.mktemp("wheels"))
    bench = Bench(store=store.root, first=first, second=second)
    bench.bisect("sys.exit(alpha)")  # the base is realised, and all layers are made
    return bench
