"""How long inputs can be expected to stay: each class of addresses, what is first, and what the store has."""

from __future__ import annotations

import datetime
from pathlib import Path

import msgspec
import pytest

from reprobuild.lock.model import Lock
from reprobuild.lock.system import Artefact, Base, BaseImage, Deb, ImageLayer
from reprobuild.report.store import render_forecasts
from reprobuild.store.availability import Forecast, forecast, read_rules
from tests.image.made import Made

TODAY = datetime.date(2026, 11, 22)


def deb(url: str, content: bytes = b"x") -> Deb:
    file = Artefact(
        filename="a_1_amd64.deb", sha256=f"{hash((url, content)) & (2**256 - 1):064x}", size=10, url=url
    )
    return Deb(name="a", version="1", architecture="amd64", essential=False, file=file)


def base(*debs: Deb) -> Base:
    return Base(distribution="debian", release="bookworm", packages=debs)


def only(lock: Lock, made: Made) -> Forecast:
    (found,) = forecast(lock, made.store, TODAY)
    return found


@pytest.mark.parametrize(
    ("url", "name", "lost"),
    [
        ("http://m.test/debian/pool/main/a/a_1_amd64.deb", "mirror", "any day"),
        ("http://security.test/pool/a_1_amd64.deb", "mirror, security", "any day"),
        ("http://s.test/archive/debian/20240101T000000Z/pool/a.deb", "dated archive of Debian", ""),
        ("http://s.test/archive/debian-security/20240101T000000Z/pool/a.deb", "dated archive of Debian", ""),
        ("http://s.test/file/" + "a" * 40, "dated archive of Debian", ""),
        ("http://s.test/ubuntu/20260101T000000Z/pool/a.deb", "dated archive of Ubuntu", "2028-01-01"),
        ("http://s.test/ubuntu/20230301T000000Z/pool/a.deb", "dated archive of Ubuntu", "any day"),
        ("http://s.test/ubuntu/20261399T000000Z/pool/a.deb", "dated archive of Ubuntu", "any day"),
        ("http://s.test/who/ppa/ubuntu/20261120T000000Z/pool/a.deb", "dated archive of PPAs", "2026-12-04"),
        ("http://ppa.test/who/ppa/ubuntu/pool/a.deb", "PPA", "any day"),
        ("http://l.test/~who/+archive/ubuntu/ppa/+files/a.deb", "PPA", "any day"),
        ("http://l.test/ubuntu/+archive/primary/+files/a.deb", "Launchpad", "no promise"),
        ("http://l.test/1234/+files/a.deb", "Launchpad", "no promise"),
        ("http://m.test/debian/pool/main/m/modsecurity/libapache2-mod-security2_1.deb", "mirror", "any day"),
        ("file:/srv/debs/a_1_amd64.deb", "file of one machine", "no promise"),
        ("", "deb made here", "not there"),
    ],
)
def test_packages(url: str, name: str, lost: str, tmp_path: Path) -> None:
    made = Made(tmp_path)
    found = only(made.lock(base=base(deb(url))), made)
    assert (found.name, found.lost, found.at_risk, found.missing) == (name, lost, bool(lost), 1)


@pytest.mark.parametrize(
    ("version", "url", "yanked", "name", "lost"),
    [
        ("1.0", "http://i.test/packages/a.whl", "", "index", ""),
        ("1.0", "http://i.test/packages/a.whl", "broken", "withdrawn wheel", "no promise"),
        ("2.4.0+cu121", "http://t.test/whl/cu121/torch.whl", "", "torch's index", "no promise"),
        ("2.9.0.dev20261101+cpu", "http://t.test/whl/nightly/torch.whl", "", "nightly wheel", "2026-12-31"),
        ("2.9.0.dev20260101", "http://t.test/whl/nightly/torch.whl", "x", "nightly wheel", "any day"),
        ("2.20.0.dev20260101", "http://i.test/packages/tf_nightly.whl", "", "index", ""),
        ("1.0", "file:///srv/wheels/a.whl", "", "file of one machine", "no promise"),
        ("1.0", "https://g.test/o/r/releases/download/v1/a.whl", "", "release page", "no promise"),
        ("1.0", "", "", "wheel made here", "not there"),
    ],
)
def test_wheels(version: str, url: str, yanked: str, name: str, lost: str, tmp_path: Path) -> None:
    made = Made(tmp_path)
    wheel = made.wheel("a", {"a.py": b""})
    file = msgspec.structs.replace(wheel.file, url=url)
    wheel = msgspec.structs.replace(wheel, version=version, file=file, yanked=yanked)
    found = only(made.lock(wheels=(wheel,)), made)
    assert (found.name, found.lost, found.missing, found.files) == (name, lost, 0, 1)


@pytest.mark.parametrize(
    ("url", "patch", "name", "lost"),
    [
        ("https://g.test/r.git", None, "git", "no promise"),
        ("https://g.test/r.git", "0" * 64, "captured source", "not there"),
        ("", None, "captured source", "not there"),
    ],
)
def test_sources(url: str, patch: str | None, name: str, lost: str, tmp_path: Path) -> None:
    made = Made(tmp_path)
    source = msgspec.structs.replace(made.source("s", []), url=url, patch=patch)
    found = only(made.lock(sources=(source,)), made)
    assert (found.name, found.lost) == (name, lost)


@pytest.mark.parametrize(
    ("reference", "name"),
    [
        ("nvidia/cuda:12.1.0-runtime", "vendor's image"),
        ("reg.test/nvidia/cuda@sha256:00", "vendor's image"),
        ("reg.test/site/base:1", "image of a registry"),
    ],
)
def test_images(reference: str, name: str, tmp_path: Path) -> None:
    made = Made(tmp_path)
    config = Artefact(filename="config", sha256=made.store.add(b"{}"), size=2)
    packed = Artefact(filename="layer", sha256="9" * 64, size=50)
    layer = ImageLayer(file=packed, media_type="application/x", diff_id="8" * 64)
    image = BaseImage(reference=reference, digest="sha256:" + "0" * 64, config=config, layers=(layer,))
    below = Base(distribution="debian", release="bookworm", packages=(), image=image)
    found = only(made.lock(base=below), made)
    assert (found.name, found.lost, found.files, found.bytes, found.missing) == (name, "no promise", 2, 52, 1)


def test_what_goes_first_comes_first_and_a_class_is_as_old_as_its_oldest(tmp_path: Path) -> None:
    made = Made(tmp_path)
    wheel = made.wheel("here", {"a.py": b"1"})
    debs = [
        deb("http://s.test/archive/debian/20240101T000000Z/a.deb"),
        deb("http://s.test/ubuntu/20261001T000000Z/pool/a.deb"),
        deb("http://s.test/ubuntu/20260101T000000Z/pool/b.deb"),
        deb("http://m.test/debian/pool/a.deb"),
        deb("http://m.test/debian/pool/a.deb"),
    ]
    found = forecast(made.lock(base=base(*debs)), made.store, TODAY)
    assert [(one.name, one.files, one.bytes, one.missing, one.lost) for one in found] == [
        ("wheel made here", 1, wheel.file.size, 0, "not there"),
        ("mirror", 1, 10, 1, "any day"),
        ("dated archive of Ubuntu", 2, 20, 2, "2028-01-01"),
        ("dated archive of Debian", 1, 10, 1, ""),
    ]
    assert render_forecasts(found, Path("/store")).splitlines() == [
        f"wheel made here: 1 files ({wheel.file.size} B), at no address; all in /store",
        "mirror: 1 files (10 B), may be gone any day; 1 NOT in /store",
        "dated archive of Ubuntu: 2 files (20 B), may be gone from 2028-01-01 on; 2 NOT in /store",
    ]


def test_every_kind_has_a_last_rule_and_every_rule_a_source() -> None:
    rules = read_rules()
    for of in ("deb", "wheel", "source", "image"):
        assert [rule.pattern for rule in rules if rule.of == of][-1] == ""
    assert all(rule.why and rule.source for rule in rules)
