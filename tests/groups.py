"""The groups of tests that one process runs: a scheduler for pytest-xdist.

`--dist loadgroup` has no effect with pytest 9.2: it sets an attribute of the tests that is no longer read.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

_FILE = "REPROBUILD_TEST_GROUPS"  # the path of {test: group}, which the processes write after collection
# Tests with one of these fixtures are a group: they share what is made once and takes minutes.
_SHARED = {"test_store": "the example's store", "bookworm": "Debian's packages"}
# These count the images and the build cache of the one engine in use.
_ENGINES, _IN_USE = "tests/engines/", "the engine in use"


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Gives whole groups to processes, in the order of the tests."""

    @cached_property
    def _groups(self) -> Mapping[str, str]:
        groups: Mapping[str, str] = json.loads(Path(os.environ[_FILE]).read_bytes())
        return groups

    def _split_scope(self, nodeid: str) -> str:
        return self._groups[nodeid]


def prepare_groups(config: pytest.Config) -> None:
    """Name the file of the groups, in the process that starts the others."""
    if not hasattr(config, "workerinput") and config.getoption("numprocesses", None):
        folder = tempfile.TemporaryDirectory(prefix="reprobuild-groups-")
        config.add_cleanup(folder.cleanup)
        os.environ[_FILE] = str(Path(folder.name) / "groups.json")


def sort_by_group(items: list[pytest.Item]) -> None:
    """Put the tests with shared fixtures first, as they take longest, and tell the scheduler all groups."""
    groups = {item: _group_of(item) for item in items}
    order = [*_SHARED.values()]
    items.sort(key=lambda item: order.index(groups[item]) if groups[item] in order else len(order))
    if path := os.environ.get(_FILE):
        part = Path(f"{path}.{os.getpid()}")
        part.write_text(json.dumps({item.nodeid: group for item, group in groups.items()}), encoding="utf-8")
        part.replace(path)


def _group_of(item: pytest.Item) -> str:
    fixtures = item.fixturenames if isinstance(item, pytest.Function) else ()
    shared = (group for fixture, group in _SHARED.items() if fixture in fixtures)
    alone = _IN_USE if item.nodeid.startswith(_ENGINES) else item.nodeid.partition("::")[0]
    return next(shared, alone)
