"""What comes over an image, decided on made packages: architectures, conflicts, provided names, hostile lists."""

from __future__ import annotations

from pathlib import Path

import msgspec

from reprobuild.lock import Artefact, Base, BaseImage, Deb, Installed
from reprobuild.realise.base import _write_plan
from reprobuild.store import Store
from tests.system.samples import add_deb, ar_bytes, member, tar_bytes

IMAGE = BaseImage(
    reference="registry.test/site/base:1", digest="sha256:" + "a" * 64, layers=(),
    config=Artefact(filename="configuration", sha256="b" * 64, size=1),
)  # fmt: skip


def kept(store: Store, name: str, architecture: str) -> Deb:
    """Put a made package into the store."""
    control = f"Package: {name}\nVersion: 1\nArchitecture: {architecture}\n".encode()
    parts = [
        ("debian-binary", b"2.0\n"),
        ("control.tar", tar_bytes([(member("./control"), control)])),
        ("data.tar", tar_bytes([])),
    ]
    deb = add_deb(store, f"{name}_{architecture}", ar_bytes(parts), essential=False)
    return msgspec.structs.replace(deb, name=name, architecture=architecture)


def test_what_is_foreign_is_told_by_the_image_where_most_packages_over_it_are_foreign(tmp_path: Path) -> None:
    store, plan = Store(tmp_path / "store"), tmp_path / "plan"
    plan.mkdir()
    below = tuple(Installed(name=f"p{n}", version="1", architecture="amd64") for n in range(9))
    base = Base(
        distribution="ubuntu", release="jammy", image=msgspec.structs.replace(IMAGE, packages=below),
        packages=tuple(kept(store, name, "i386") for name in ("libc6", "libgcc-s1", "zlib1g")),
        tools=tuple(kept(store, name, "amd64") for name in ("fakeroot", "libfakeroot")),
    )  # fmt: skip
    _write_plan(base, store, plan)
    assert (plan / "foreign").read_text() == "i386\n"
