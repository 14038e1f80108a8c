"""Modules are compiled in one order whatever the file system says: what marshal writes depends on it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprobuild.realise.in_sandbox.compile_modules import compile_tree


def test_the_order_is_not_that_of_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("b/x.py", "a/z.py", "a/y.py", "m.py", "c.py"):
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_text("x = 1\n")
    walk, place = os.walk, importlib.util.cache_from_source
    orders = []
    for backwards in (False, True):
        compiled: list[str] = []

        def shuffled(top: str, backwards: bool = backwards) -> Iterator[tuple[str, list[str], list[str]]]:
            for folder, folders, names in walk(top):
                folders.sort(reverse=backwards)
                yield folder, folders, sorted(names, reverse=backwards)

        def noted(path: str, compiled: list[str] = compiled, **more: str) -> str:
            compiled.append(path)
            return place(path, **more)

        monkeypatch.setattr(os, "walk", shuffled)
        monkeypatch.setattr(importlib.util, "cache_from_source", noted)
        compile_tree(str(tmp_path / "from"), str(tmp_path / "to"), "/opt")
        orders.append([os.path.relpath(path, tmp_path / "to") for path in compiled])
    assert orders[0] == orders[1] == ["c.py", "m.py", "a/y.py", "a/z.py", "b/x.py"]
