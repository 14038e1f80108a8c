"""Packages of a foreign architecture, and packages that cannot stand together: on made indexes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reprobuild.ecosystems.apt.architectures import serves
from reprobuild.ecosystems.apt.index import PackagesFile
from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Base
from reprobuild.resolve.system.packages import foreign_architectures, resolve_base
from reprobuild.snapshot.model import SystemPackage
from tests.system.samples import index, package, stanza

SAME, FOREIGN, ALLOWED = "Multi-Arch: same", "Multi-Arch: foreign", "Multi-Arch: allowed"
SYSTEM = (
    stanza("fakeroot", "1", "libfakeroot"),
    stanza("libfakeroot", "1"),
    stanza("libc6", "2-1", "", SAME),
    stanza("dpkg", "1", "libc6", "Essential: yes", FOREIGN),
    stanza("python3", "3", "", ALLOWED),
)
LIBC = stanza("libc6", "2-1", "", SAME, architecture="i386")
NATIVE = [package("libc6", "2-1"), package("dpkg", "1"), package("python3", "3")]


def i386(name: str, version: str, needs: str = "", *more: str) -> str:
    return stanza(name, version, needs, *more, architecture="i386")


def resolve(
    captured: Iterable[SystemPackage], *stanzas: str, drop: Iterable[str] = ()
) -> tuple[dict[str, str], dict[str, Resolution]]:
    base, rulings = resolve_base(
        (*NATIVE, *captured), index=index(*SYSTEM, LIBC, *stanzas), roots=[], drop=tuple(drop)
    )
    assert len(rulings) == len({r.subject for r in rulings})
    return chosen(base), {r.subject: r for r in rulings}


def chosen(base: Base) -> dict[str, str]:
    return {f"{deb.name}:{deb.architecture}": deb.version for deb in base.packages}


def of_i386(name: str, version: str, mark: str = "manual") -> SystemPackage:
    return package(name, version, mark, architecture="i386")  # type: ignore[arg-type]  # one of the marks


@pytest.mark.parametrize(
    ("qualifier", "wanting", "offered", "multi_arch", "right"),
    [
        ("", "amd64", "amd64", "", True),
        ("", "i386", "i386", "", True),
        ("", "i386", "amd64", "", False),
        ("", "i386", "amd64", "same", False),
        ("", "i386", "amd64", "allowed", False),
        ("", "i386", "amd64", "foreign", True),
        ("", "amd64", "i386", "foreign", True),
        ("", "i386", "all", "", False),
        ("", "i386", "all", "foreign", True),
        ("", "all", "amd64", "", True),
        ("", "all", "i386", "", False),
        ("any", "i386", "amd64", "allowed", True),
        ("any", "amd64", "amd64", "allowed", True),
        ("any", "i386", "amd64", "foreign", False),
        ("any", "amd64", "amd64", "", False),
        ("i386", "amd64", "i386", "same", True),
        ("i386", "amd64", "amd64", "same", False),
    ],
)
def test_the_rules_of_multi_arch(
    qualifier: str, wanting: str, offered: str, multi_arch: str, right: bool
) -> None:
    assert serves(qualifier, wanting, offered, multi_arch, "amd64") is right


def test_a_foreign_package_that_was_asked_for_is_pinned_with_what_it_needs() -> None:
    found, rulings = resolve(
        [of_i386("wine32", "9"), of_i386("libz", "1", "automatic"), of_i386("libc6", "2-1", "automatic")],
        i386("wine32", "9", "libz, libc6, tool, python3:any"),
        i386("libz", "1", "", SAME), stanza("libz", "1", "", SAME),
        stanza("tool", "4", "", FOREIGN), i386("tool", "4", "", FOREIGN),
    )  # fmt: skip
    assert found == {
        "dpkg:amd64": "1", "libc6:amd64": "2-1", "libc6:i386": "2-1", "libz:i386": "1", "python3:amd64": "3",
        "tool:amd64": "4", "wine32:i386": "9",
    }  # fmt: skip
    assert {name: rulings[name].outcome for name in ("wine32:i386", "libz:i386", "libc6:i386")} == {
        "wine32:i386": "pinned", "libz:i386": "pinned", "libc6:i386": "pinned",
    }  # fmt: skip
    assert "needed by wine32:i386" in rulings["libz:i386"].reason
    assert rulings["tool"].kind == "added"


def test_only_native_packages_are_essential() -> None:
    base, _ = resolve_base(
        (*NATIVE, of_i386("dpkg", "1", "automatic"), of_i386("libc6", "2-1")),
        index=index(*SYSTEM, LIBC, i386("dpkg", "1", "libc6", "Essential: yes", FOREIGN)), roots=[],
    )  # fmt: skip
    assert {f"{d.name}:{d.architecture}": d.essential for d in base.packages} == {
        "dpkg:amd64": True, "libc6:amd64": True, "libc6:i386": False,
    }  # fmt: skip


def test_a_foreign_package_that_nothing_needs_is_left_out_with_its_reason() -> None:
    _, rulings = resolve([of_i386("libz", "1", "automatic")], i386("libz", "1"))
    assert (rulings["libz:i386"].outcome, rulings["libz:i386"].kind) == ("excluded", "other-architecture")
    assert rulings["libz:i386"].reason == "a package for i386, not needed by what was asked for"


def test_a_foreign_package_that_no_source_has_is_unresolved() -> None:
    _, rulings = resolve([of_i386("mine", "1")])
    assert (rulings["mine:i386"].outcome, rulings["mine:i386"].kind) == ("unresolved", "unknown-package")
    assert "mine:i386 1 was asked for" in rulings["mine:i386"].reason


def test_foreign_packages_can_be_dropped_alone() -> None:
    captured = [of_i386("libz", "1"), package("libz", "1", "manual")]
    stanzas = (i386("libz", "1", "", SAME), stanza("libz", "1", "", SAME))
    found, _ = resolve(captured, *stanzas, drop=["libz:i386"])
    assert "libz:amd64" in found
    assert "libz:i386" not in found
    found, _ = resolve(captured, *stanzas, drop=["libz"])
    assert not {"libz:amd64", "libz:i386"} & set(found)


def test_what_is_for_all_architectures_is_native() -> None:
    found, _ = resolve(
        [package("data", "1", "manual", architecture="all")], stanza("data", "1", architecture="all")
    )
    assert found["data:all"] == "1"
    with pytest.raises(LockError, match=r"app:i386 1 needs data, which debian/made does not have") as err:
        resolve([of_i386("app", "1")], i386("app", "1", "data"), stanza("data", "1", architecture="all"))
    assert err.value.hint == "give apt a source that has it, or leave app:i386 out with `--drop app:i386`"


def test_the_hosts_packages_are_the_hosts_on_every_architecture() -> None:
    _, rulings = resolve([of_i386("libnvidia-compute-535", "1")], i386("libnvidia-compute-535", "1"))
    assert rulings["libnvidia-compute-535:i386"].kind == "driver"


def test_co_installed_packages_get_one_version() -> None:
    # One of the two was withdrawn: both take the next.
    found, rulings = resolve(
        [package("libz", "1-1", "manual"), of_i386("libz", "1-1")],
        stanza("libz", "1-1", "", SAME), stanza("libz", "1-2", "", SAME), i386("libz", "1-2", "", SAME),
    )  # fmt: skip
    assert (found["libz:amd64"], found["libz:i386"]) == ("1-2", "1-2")
    assert (rulings["libz"].outcome, rulings["libz"].kind) == ("replaced", "withdrawn")
    assert "does not fit libz:i386, which must have the same version" in rulings["libz"].reason
    # The captured ones differ, which no dpkg allows: the list was mixed from two machines.
    found, rulings = resolve(
        [package("libz", "1-1", "manual"), of_i386("libz", "1-2")],
        *(make("libz", version, "", SAME) for make in (stanza, i386) for version in ("1-1", "1-2")),
    )
    assert (found["libz:amd64"], found["libz:i386"]) == ("1-2", "1-2")
    assert (rulings["libz"].outcome, rulings["libz:i386"].outcome) == ("replaced", "pinned")


def test_co_installed_packages_without_a_common_version_are_named() -> None:
    with pytest.raises(LockError, match=r"libz 1-1 and libz:i386 1-2 must have one version") as err:
        resolve(
            [package("libz", "1-1", "manual"), of_i386("libz", "1-2")],
            stanza("libz", "1-1", "", SAME), i386("libz", "1-2", "", SAME),
        )  # fmt: skip
    assert err.value.hint == (
        "leave one of them out: `--drop libz` or `--drop libz:i386`; or give apt a source that has the captured "
        "versions, which stood together"
    )


def test_one_package_of_two_architectures_must_be_made_for_that() -> None:
    with pytest.raises(LockError, match=r"tool 1 and tool:i386 1 cannot be .*not `Multi-Arch: same`") as err:
        resolve(
            [package("tool", "1", "manual"), of_i386("tool", "1")], stanza("tool", "1"), i386("tool", "1")
        )
    assert "--drop tool` or `--drop tool:i386`" in err.value.hint


def test_for_another_machine_foreign_packages_stay_behind() -> None:
    captured = (package("tool", "1", "manual", architecture="arm64"), package("x", "1", architecture="arm64"))
    base, rulings = resolve_base(captured, index=index(*SYSTEM, stanza("tool", "1")), roots=[])
    assert "tool:amd64" not in chosen(base)
    assert {r.kind for r in rulings if r.line} == {"other-architecture"}
    assert rulings[0].reason == "a package for arm64; the image is for amd64"
    assert foreign_architectures(captured, "amd64") == ()
    assert foreign_architectures(captured, "arm64") == ()


def test_only_architectures_that_are_needed_are_asked_for() -> None:
    captured = (*NATIVE, of_i386("libz", "1", "automatic"))
    assert foreign_architectures(captured, "amd64") == ()
    assert foreign_architectures((*captured, of_i386("libnvidia-gl-535", "1")), "amd64") == ()
    assert foreign_architectures((*captured, of_i386("wine32", "1")), "amd64") == ("i386",)
    assert foreign_architectures((*captured, of_i386("wine32", "1")), "amd64", ["wine*"]) == ()


def test_an_index_with_more_files_leaves_the_former_alone() -> None:
    first = index(*SYSTEM)
    text = (
        LIBC + "\n" + stanza("libc6", "2-2", "", SAME) + "\n" + i386("app", "1", "", "Provides: vv")
    ).encode()
    more = first.with_files([PackagesFile(uri="http://more.test/", content=text)])
    assert [c.version for c in more.versions("libc6")] == ["2-2", "2-1"]
    assert [c.file.url for c in more.versions("libc6:i386")] == ["http://more.test/pool/libc6_2-1_i386.deb"]
    assert (more.foreign, more.providers("vv"), more.essential) == (("i386",), ("app:i386",), ("dpkg",))
    assert [c.version for c in first.versions("libc6")] == ["2-1"]
    assert (first.versions("libc6:i386"), first.foreign, first.providers("vv")) == ((), (), ())
