"""Base images of some kilobytes that would take gigabytes of memory, or minutes, are refused at a bound."""

from __future__ import annotations

import io
import pathlib

import pytest

from reprobuild.errors import BuildError, LockError
from reprobuild.infra.untrusted.budget import Allowance
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.system import BaseImage
from reprobuild.realise.from_image import _list_layer, flatten
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
    with pytest.raises(BuildError, match=r"of an image of \d+ bytes that unpacks to more than \d+") as err:
        read_system(image, store, "amd64")
    assert err.value.hint == HOSTILE


@pytest.mark.parametrize("count", [1, 3])
def test_the_layers_of_an_image_have_one_bound(
    count: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer of 8 kB was listed 511 times: 127 GiB were read to lock, and written to build."""
    monkeypatch.setattr("reprobuild.infra.untrusted.names.ALLOWANCE", 1 << 20)
    store, scratch = Store(tmp_path / "store"), tmp_path / "scratch"
    scratch.mkdir()
    (top,) = make_image(store, STATUS).layers
    image = made_image([top, *[keep(layer([file("a")]) + bytes(800 << 10), "zstd", store)] * count])
    if count == 1:
        assert set(read_system(image, store, "amd64").packages) == {"a1"}
        assert "a" in flatten(image, store, scratch, tmp_path / "tree.tar", 0, ())
        return
    with pytest.raises(BuildError, match="unpacks to more than"):
        read_system(image, store, "amd64")
    with pytest.raises(BuildError, match="unpacks to more than"):
        flatten(image, store, scratch, tmp_path / "tree.tar", 0, ())


def test_bytes_behind_the_tar_are_not_kept(tmp_path: pathlib.Path) -> None:
    content = b"x" * 700
    tar = layer([file("a", content)])
    spool = io.BytesIO(tar + bytes(1 << 20))
    (entry,) = _list_layer(keep(tar, "zstd", Store(tmp_path)), 0, spool, Allowance())
    assert spool.getvalue() == tar[: entry.offset + len(content)]


@pytest.mark.parametrize(
    ("status", "bound", "said"),
    [
        (STATUS + b"Depends: a" + b", a" * 9 + b"\n", "_MOST_RELATIONS", "more than 9 relations"),
        (STATUS + b"Breaks: a" + b" | a" * 9 + b"\n", "_MOST_RELATIONS", "more than 9 relations"),
        (b"".join(STATUS + b"Depends: a\n\n" for _ in range(10)), "_MOST_RELATIONS", "more than 9 relations"),
        (STATUS + b"\na:\n" * 9, "_MOST_STANZAS", "more than 9 stanzas"),
        (STATUS + b"Foo:\n" + b" a\n" * 100, "_LARGEST_STANZA", "a stanza of more than 99 bytes"),
    ],
)
def test_the_list_of_packages_has_bounds(
    status: bytes, bound: str, said: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A field of 16 MB, which compresses to 16 kB, took 2.7 GB and a minute."""
    assert set(read(tmp_path, status).packages) == {"a1"}
    monkeypatch.setattr(
        f"reprobuild.resolve.system.status_file.{bound}", 99 if bound == "_LARGEST_STANZA" else 9
    )
    with pytest.raises(
        BuildError, match=f"the list of packages of registry.test/site/base:1 has {said}"
    ) as err:
        read(tmp_path, status)
    assert err.value.hint == HOSTILE


def test_a_list_of_packages_has_some_megabytes(tmp_path: pathlib.Path) -> None:
    with pytest.raises(BuildError, match=r"/var/lib/dpkg/status of .* has 18874\d+ bytes"):
        read(tmp_path, STATUS + b"Foo:\n" + b" a\n" * (6 << 20))


def test_a_long_version_is_not_parsed(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """python-debian takes 165 times the bytes of it."""
    parsed: list[str] = []
    monkeypatch.setattr("reprobuild.resolve.system.image_packages.Version", parsed.append)
    with pytest.raises(LockError, match="is damaged at 'a1'"):
        read(tmp_path, STATUS + b"Depends: a (= " + b"1" * 1000 + b")\n")
    assert parsed == ["1"]
