"""Base images of some kilobytes that would take gigabytes of memory, or minutes, are refused at a bound."""

from __future__ import annotations

import pathlib

import pytest

from reprobuild.errors import BuildError
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.system import BaseImage
from reprobuild.resolve.system.image_packages import ImageSystem, read_system
from reprobuild.store.store import Store
from tests.registry.pushing import file, layer
from tests.system.test_image_base import keep, made_image

STATUS = b"Package: a1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n"
RELEASE = b"ID=debian\nVERSION_CODENAME=made\n"


def make_image(store: Store, status: bytes, behind: bytes = b"") -> BaseImage:
    """Return an image with a list of packages, and bytes behind the end of its tar."""
    members = [file("usr/bin/dpkg"), file("var/lib/dpkg/status", status), file("etc/os-release", RELEASE)]
    return made_image([keep(layer(members) + behind, "zstd", store)])


def read(folder: pathlib.Path, status: bytes) -> ImageSystem:
    store = Store(folder)
    return read_system(make_image(store, status), store, "amd64")


@pytest.mark.parametrize("blocks", [0, 20])
def test_bytes_behind_the_tar_have_a_bound(
    blocks: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They compress to a thirty-thousandth: 656 kB were 20 GB, all read before the hash was compared."""
    monkeypatch.setattr("reprobuild.infra.untrusted.names.ALLOWANCE", 1 << 20)
    store = Store(tmp_path)
    image = make_image(store, STATUS, bytes(blocks << 20))
    if not blocks:
        assert set(read_system(image, store, "amd64").packages) == {"a1"}
        return
    with pytest.raises(BuildError, match=r"unpacks to more than \d+ bytes") as err:
        read_system(image, store, "amd64")
    assert err.value.hint == HOSTILE
