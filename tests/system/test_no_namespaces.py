"""A host that forbids user namespaces: what is in the store is built from, and nothing is run; else a clear error."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.image.model import Image
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Base
from reprobuild.output.directory import read_image
from reprobuild.realise.realise import realise
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.system.samples import EPOCH, names_in
from tests.verify.samples import make_lock

# In a user namespace of its own, in which no more may be made: what `user.max_user_namespaces` 0 is to a machine.
FORBIDDEN = (
    "unshare", "--user", "--map-root-user", "--", "sh", "-c",
    'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh",
)  # fmt: skip


@pytest.fixture(scope="module")
def sealed(base: Base, tree: str, store: Store) -> Lock:
    """A sealed lock of the base alone."""
    lock = make_lock(base=base, wheels=(), sources=(), rulings=(), epoch=EPOCH)
    found = realise(lock, store)
    assert found.realised.base == tree
    return found


def built(lock: Lock, folder: Path, store: Path, *prefix: str) -> tuple[int, str, Image | None]:
    folder.mkdir()
    write_lock(lock, folder / "reprobuild.lock")
    argv = ("build", folder / "reprobuild.lock", "-o", folder / "out", "--store", store, "--offline")
    done = reprobuild(*argv, prefix=prefix)
    return done.returncode, done.stderr, None if done.returncode else read_image(folder / "out")[1]


def test_what_was_realised_is_built_without_namespaces(sealed: Lock, store: Store, tmp_path: Path) -> None:
    code, said, free = built(sealed, tmp_path / "free", store.root)
    assert code == 0, said
    code, said, forbidden = built(sealed, tmp_path / "forbidden", store.root, *FORBIDDEN)
    assert code == 0, said
    assert free is not None
    assert forbidden is not None
    assert (forbidden.tree, forbidden.manifest) == (free.tree, free.manifest)


def test_what_must_be_run_is_an_error_before_anything_is_unpacked(
    sealed: Lock, store: Store, tmp_path: Path
) -> None:
    lacking = Store(tmp_path / "store")
    for deb in (*sealed.base.packages, *sealed.base.tools):
        place = lacking.blob(deb.file.sha256)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.hardlink_to(store.blob(deb.file.sha256))
    before = names_in(lacking.root / "blobs")
    code, said, _ = built(sealed, tmp_path / "forbidden", lacking.root, *FORBIDDEN)
    assert code == 6
    assert "this machine does not let the user make namespaces" in said
    assert "user.max_user_namespaces" in said
    assert "installing" not in said
    assert names_in(lacking.root / "blobs") == before
    assert not [name for below in ("tmp", "made") for name in names_in(lacking.root / below)]
