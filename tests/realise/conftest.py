"""A base with Python, and one with compilers over it, realised once."""

from __future__ import annotations

import os

import pytest

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.lock.system import Base
from reprobuild.resolve.builds.compiling import PACKAGES
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.realise.projects import Bench
from tests.system.samples import bring


@pytest.fixture(scope="session")
def devel(bookworm: SystemIndex, store: Store) -> Base:
    """The base with compilers, every file in the store."""
    roots = ["python3.11", "passwd", "python3.11-dev", "rustc", "cargo", *PACKAGES]
    found, _ = resolve_base((), index=bookworm, roots=roots)
    bring((*found.packages, *found.tools), store)
    return found


@pytest.fixture(scope="session")
def bench(base: Base, devel: Base, store: Store) -> Bench:
    """Where projects are locked and built as the program does it."""
    return Bench(base, devel, store, os.environ)
