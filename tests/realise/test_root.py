"""Folders of base trees that a store keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.realise.rootfs import provide_root
from reprobuild.store.store import Store
from tests.image.made import folder, make_tar


def test_a_link_in_the_place_of_a_lock_makes_no_file_elsewhere(tmp_path: Path) -> None:
    """A store that is handed over may have one."""
    store = Store(tmp_path / "store")
    tree = store.add(make_tar([folder("etc")]))
    (store.root / "roots").mkdir()
    (store.root / "roots" / f"{tree}.lock").symlink_to(tmp_path / "made")
    with pytest.raises(OSError, match=f"roots/{tree}.lock"):
        provide_root(tree, store)
    assert not (tmp_path / "made").exists()
    (store.root / "roots" / f"{tree}.lock").unlink()
    assert (provide_root(tree, store) / "etc").is_dir()
