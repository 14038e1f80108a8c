"""What comes over an image, decided on made packages: architectures, conflicts, provided names, hostile lists."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.errors import LockError
from reprobuild.lock.system import Artefact, Base, BaseImage, Deb, ImagePackage
from reprobuild.realise.base import _write_plan
from reprobuild.resolve.system.base import find_missing_packages, resolve_with_search
from reprobuild.resolve.system.base_image import OverlayRequest, resolve_image_base
from reprobuild.resolve.system.image_packages import ImageSystem, _read_packages
from reprobuild.resolve.system.version_search import Search
from reprobuild.snapshot.model import SystemPackage
from reprobuild.store.store import Store
from tests.system.samples import Shelved, add_deb, ar_bytes, index, member, package, stanza, tar_bytes

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
    debs = tmp_path / "debs"
    debs.mkdir()
    below = tuple(ImagePackage(name=f"p{n}", version="1", architecture="amd64") for n in range(9))
    base = Base(
        distribution="ubuntu", release="jammy", image=msgspec.structs.replace(IMAGE, packages=below),
        packages=tuple(kept(store, name, "i386") for name in ("libc6", "libgcc-s1", "zlib1g")),
        tools=tuple(kept(store, name, "amd64") for name in ("fakeroot", "libfakeroot")),
    )  # fmt: skip
    _write_plan(base, store, plan, debs)
    assert (plan / "foreign").read_text() == "i386\n"


def installed(name: str, version: str, *fields: str, architecture: str = "amd64") -> str:
    """Return a paragraph of the image's list of packages."""
    head = f"Package: {name}", "Status: install ok installed", f"Version: {version}"
    return "\n".join((*head, f"Architecture: {architecture}", *fields)) + "\n"


def over(image: list[str], archive: list[str], *captured: SystemPackage) -> dict[str, str]:
    """Return the version of each package that is put over an image."""
    system = ImageSystem(
        distribution="debian",
        release="made",
        packages=_read_packages(IMAGE, "\n".join(image).encode(), "amd64"),
    )
    index = SystemIndex(
        "debian", "made", [PackagesFile(uri="http://mirror.test/", content="\n".join(archive).encode())]
    )
    base, _ = resolve_image_base(IMAGE, system, index, OverlayRequest(packages=captured, roots=()))
    return {deb.name if deb.architecture == "amd64" else f"{deb.name}:{deb.architecture}": deb.version
            for deb in base.packages}  # fmt: skip


EXIM = installed("exim4", "1", "Provides: mta", "Conflicts: mta")
OLD = installed("oldlib", "1", "Breaks: tool (<< 5)")
TOOL = package("tool", "2", "manual")


@pytest.mark.parametrize(
    ("image", "archive", "said"),
    [
        (EXIM, stanza("tool", "2", "", "Provides: mta"), "exim4 says that it conflicts with mta"),
        (EXIM, stanza("tool", "2", "", "Conflicts: mta"), "tool says that it conflicts with mta"),
        (OLD, stanza("tool", "2"), r"oldlib says that it conflicts with tool \(<< 5\)"),
        (
            installed("aa", "1"),
            stanza("tool", "2", "", "Conflicts: aa"),
            "tool says that it conflicts with aa",
        ),
    ],
)
def test_what_the_image_excludes_or_is_excluded_from_it_is_named(image: str, archive: str, said: str) -> None:
    with pytest.raises(LockError, match=f"cannot be installed together: {said}") as err:
        over([image], [archive], TOOL)
    assert "tool 2" in str(err.value)
    assert err.value.hint == (
        "leave tool out: `--drop tool`; or choose another image with `--base`, since nothing of an image is removed"
    )


def test_it_is_named_alike_where_the_images_package_was_captured() -> None:
    with pytest.raises(LockError, match="cannot be installed together: oldlib says") as err:
        over([OLD], [stanza("tool", "2")], TOOL, package("oldlib", "1", "manual", line=3))
    assert err.value.hint.startswith("leave tool out: `--drop tool`; or choose another image")


def test_a_newer_version_of_the_images_package_ends_a_conflict_with_the_old_one() -> None:
    tool = stanza("tool", "2", "", "Breaks: helper (<< 2)")
    assert over([installed("helper", "1")], [tool, stanza("helper", "2")], TOOL) == {
        "helper": "2",
        "tool": "2",
    }
    later = [stanza("tool", "2"), stanza("oldlib", "2")]
    assert over([OLD], later, TOOL) == {"oldlib": "2", "tool": "2"}


def test_what_stands_together_in_an_image_is_no_conflict() -> None:
    image = [EXIM, installed("sendmail", "1", "Provides: mta", "Conflicts: mta")]
    assert over(image, [stanza("tool", "2")], TOOL) == {"tool": "2"}
    captured = (package("exim4", "1", "manual", line=3), package("sendmail", "1", "manual", line=4))
    assert over(image, [stanza("tool", "2")], TOOL, *captured) == {"tool": "2"}


def perl(version: str, api: str) -> list[str]:
    return [stanza("perl", version, "", f"Provides: perlapi-{api}, perl-api (= {api})")]


@pytest.mark.parametrize("needs", ["perlapi-5.36", "perl-api (= 5.36)", "perl-api (<< 5.38), perlapi-5.36"])
def test_what_needs_a_name_that_is_not_provided_any_more_follows(needs: str) -> None:
    image = [
        installed("perl", "1", "Provides: perlapi-5.36, perl-api (= 5.36)"),
        installed("module", "1", f"Depends: {needs}"),
    ]
    captured = package("perl", "2", "manual")
    assert over(image, perl("2", "5.36"), captured) == {"perl": "2"}
    with pytest.raises(LockError, match="needs the system package module, which"):
        over(image, perl("2", "5.38"), captured)
    module = stanza("module", "2", "perlapi-5.38")
    assert over(image, [*perl("2", "5.38"), module], captured) == {"module": "2", "perl": "2"}


def test_one_package_of_two_architectures_has_one_version_over_an_image() -> None:
    same = "Multi-Arch: same"
    image = [installed("zlib1g", "1", same), *(installed(f"p{n}", "1") for n in range(3))]
    foreign = package("zlib1g", "2", "manual", architecture="i386")
    archive = [stanza("zlib1g", "2", "", same, architecture="i386")]
    with pytest.raises(LockError, match="zlib1g 1 and zlib1g:i386 2 must have one version") as err:
        over(image, archive, foreign, *(package(f"p{n}", "1", line=n + 3) for n in range(3)))
    assert err.value.hint == "give apt a source that has one, or choose another image with `--base`"
    both = [*archive, stanza("zlib1g", "2", "", same)]
    found = over(image, both, foreign, *(package(f"p{n}", "1", line=n + 3) for n in range(3)))
    assert found == {"zlib1g": "2", "zlib1g:i386": "2"}


def test_places_of_single_versions_are_asked_over_an_image_before_a_contradiction_ends_it() -> None:
    packages = (package("tool", "2", "manual", line=2), package("helper", "2", line=3))
    system = ImageSystem(
        distribution="debian",
        release="made",
        packages=_read_packages(IMAGE, installed("aa", "1").encode(), "amd64"),
    )
    made = index(stanza("tool", "2", "helper (= 2)"))
    search = Search(packages, made, None, [Shelved(stanza("helper", "2"))], now=0)
    base, _, _ = resolve_with_search(
        lambda known: resolve_image_base(IMAGE, system, known, OverlayRequest(packages=packages, roots=())),
        lambda rulings: find_missing_packages(packages, rulings), packages, made, search,
    )  # fmt: skip
    assert {deb.name: deb.version for deb in base.packages} == {"tool": "2", "helper": "2"}
