"""A second lock, built natively: a plugin, as several directories use it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.image.model import Image
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import unseal
from reprobuild.output.directory import read_image
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.store import Store
from tests.conftest import Built, reprobuild
from tests.system.samples import bring

# Their maintainer scripts make users (sshd, messagebus), alternatives (awk, pager), caches (fonts, the linker's)
# and certificates.
ROOTS = ("python3.11", "passwd", "ca-certificates", "dbus", "fontconfig", "less", "openssh-server")
WHEELS = {"click", "einops", "idna", "markupsafe", "pygments"}


@dataclass(frozen=True)
class Small:
    """A second lock, built natively: its output directory, its store, and the image."""

    out: Path
    store: Path
    image: Image


@pytest.fixture(scope="session")
def small(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Small:
    """A system with services, and a few wheels of the example."""
    store = Store(built_example.store)
    index = configured_index("debian", "bookworm", env=os.environ, folder=store.root / "apt")
    base, _ = resolve_base((), index=index, roots=list(ROOTS))
    bring((*base.packages, *base.tools), store)
    lock = msgspec.structs.replace(
        unseal(built_example.lock), base=base, sources=(), workload=None, workdir="/work here",
        wheels=tuple(wheel for wheel in built_example.lock.wheels if wheel.name in WHEELS),
    )  # fmt: skip
    folder = tmp_path_factory.mktemp("small")
    write_lock(lock, folder / "lock")
    done = reprobuild("build", folder / "lock", "-o", folder / "out", "--store", store.root)
    assert done.returncode == 0, done.stderr
    return Small(out=folder / "out", store=store.root, image=read_image(folder / "out")[1])
