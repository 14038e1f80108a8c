"""The choice of the base, on made indexes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reprobuild.ecosystems.apt.index import PackagesFile, SystemIndex
from reprobuild.ecosystems.apt.relations import parse_relations
from reprobuild.errors import LockError
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Base
from reprobuild.resolve.system.alternatives import strip_revision
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.snapshot.model import SystemPackage
from tests.system.samples import index, package, stanza

TOOLS = (stanza("fakeroot", "1", "libfakeroot, libc6"), stanza("libfakeroot", "1"))
SYSTEM = (*TOOLS, stanza("libc6", "2-1"), stanza("dpkg", "1", "libc6", "Essential: yes"))


def resolve(
    packages: Iterable[SystemPackage], *stanzas: str, roots: Iterable[str] = (), drop: Iterable[str] = ()
) -> tuple[dict[str, str], dict[str, Resolution]]:
    base, rulings = resolve_base(
        tuple(packages), index=index(*SYSTEM, *stanzas), roots=roots, drop=tuple(drop)
    )
    assert len(rulings) == len({r.subject for r in rulings})
    return chosen(base), {r.subject: r for r in rulings}


def chosen(base: Base) -> dict[str, str]:
    return {deb.name: deb.version for deb in base.packages}


def outcome(ruling: Resolution) -> tuple[str, str]:
    return ruling.outcome, ruling.kind


def test_the_base_is_what_is_essential_asked_for_and_needed() -> None:
    captured = [package("libc6", "2-1"), package("dpkg", "1"), package("tool", "1", "manual")]
    found, rulings = resolve(captured, stanza("tool", "1", "libtool"), stanza("libtool", "3"))
    assert found == {"dpkg": "1", "libc6": "2-1", "tool": "1", "libtool": "3"}
    assert outcome(rulings["tool"]) == ("pinned", "")
    assert outcome(rulings["libtool"]) == ("in base", "added")
    assert "needed by tool" in rulings["libtool"].reason
    assert rulings["libtool"].line == 0


def test_essential_packages_and_what_they_need_are_marked() -> None:
    base, _ = resolve_base((), index=index(*SYSTEM, stanza("py", "3", "libc6")), roots=["py"])
    assert {d.name: d.essential for d in base.packages} == {"dpkg": True, "libc6": True, "py": False}
    assert [d.name for d in base.packages] == sorted(d.name for d in base.packages)


def test_tools_are_beside_the_base_without_what_it_has() -> None:
    base, _ = resolve_base((), index=index(*SYSTEM), roots=[])
    assert [d.name for d in base.tools] == ["fakeroot", "libfakeroot"]
    assert "fakeroot" not in chosen(base)


def test_credentials_of_a_source_are_not_in_an_address() -> None:
    base, _ = resolve_base((), index=index(*SYSTEM), roots=[])
    assert {d.file.url.split("/")[2] for d in base.packages} == {"mirror.test"}
    assert base.packages[0].file.url == "http://mirror.test/d/pool/dpkg_1_amd64.deb"


def test_a_withdrawn_version_is_replaced_by_the_nearest_later_revision() -> None:
    found, rulings = resolve(
        [package("tool", "1.5-2", "manual")],
        stanza("tool", "1.5-1"), stanza("tool", "1.5-9"), stanza("tool", "1.5-3"), stanza("tool", "2.0-1"),
    )  # fmt: skip
    assert found["tool"] == "1.5-3"
    assert outcome(rulings["tool"]) == ("replaced", "withdrawn")
    assert "1.5-2" in rulings["tool"].reason
    assert "1.5-3" in rulings["tool"].reason


def test_another_upstream_version_is_not_a_replacement() -> None:
    found, rulings = resolve([package("tool", "1.5-2", "manual")], stanza("tool", "1.6-1"))
    assert found["tool"] == "1.6-1"
    assert outcome(rulings["tool"]) == ("unresolved", "unknown-version")
    assert "1.5-2" in rulings["tool"].reason


def test_an_earlier_revision_is_not_a_replacement() -> None:
    _, rulings = resolve([package("tool", "1.5-2", "manual")], stanza("tool", "1.5-1"))
    assert outcome(rulings["tool"]) == ("unresolved", "unknown-version")


def test_a_wanted_package_without_any_version_is_unresolved() -> None:
    found, rulings = resolve([package("tool", "1", "manual"), package("mine", "1", "local", line=3)])
    assert not {"tool", "mine"} & set(found)
    assert outcome(rulings["tool"]) == ("unresolved", "unknown-package")
    assert outcome(rulings["mine"]) == ("unresolved", "local-build")
    assert "installed by hand" in rulings["mine"].reason


def test_what_nothing_needs_is_excluded_whatever_its_version() -> None:
    _, rulings = resolve([package("a", "9"), package("b", "9", "auto-removable")], stanza("a", "1"))
    assert outcome(rulings["a"]) == outcome(rulings["b"]) == ("excluded", "not-needed")
    assert rulings["a"].reason == "not needed by what was asked for"


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("linux-image-6.1.0-18-amd64", "kernel", "the kernel is the host's"),
        ("libnvidia-compute-535", "driver", "the GPU driver is the host's"),
        ("slurmd", "host-scheduler", "the scheduler is the cluster's"),
        ("systemd-timesyncd", "init", "an image has no init system"),
    ],
)
def test_the_hosts_packages_are_excluded_with_the_reason(name: str, kind: str, reason: str) -> None:
    found, rulings = resolve([package(name, "1", "manual")], stanza(name, "1"))
    assert name not in found
    assert (outcome(rulings[name]), rulings[name].reason) == (("excluded", kind), reason)


CUDA = (
    stanza("cuda", "12.4", "cuda-12-4"),
    stanza("cuda-12-4", "12.4", "cuda-runtime-12-4 (>= 12), cuda-toolkit-12-4"),
    stanza("cuda-runtime-12-4", "12.4", "cuda-drivers (>= 550), cuda-libraries-12-4"),
    stanza("cuda-drivers", "550", "nvidia-driver-550 | nvidia-driver-555"),
    stanza("nvidia-driver-550", "550", "nvidia-dkms-550"), stanza("nvidia-dkms-550", "550"),
    stanza("cuda-toolkit-12-4", "12.4", "cuda-nvcc-12-4"), stanza("cuda-libraries-12-4", "12.4"),
    stanza("cuda-nvcc-12-4", "12.4"),
)  # fmt: skip


def test_a_meta_package_that_needs_the_driver_is_taken_without_it() -> None:
    names = [text.split()[1] for text in CUDA]
    versions = [text.split()[3] for text in CUDA]
    captured = [
        package(name, version, "manual" if name == "cuda" else "automatic", line=line)
        for line, (name, version) in enumerate(zip(names, versions, strict=True), 2)
    ]
    found, rulings = resolve(captured, *CUDA)
    assert set(found) == {"dpkg", "libc6", "cuda-toolkit-12-4", "cuda-libraries-12-4", "cuda-nvcc-12-4"}
    assert outcome(rulings["cuda"]) == ("excluded", "driver")
    assert rulings["cuda"].reason.startswith("it needs a driver, which is the host's")
    assert outcome(rulings["nvidia-driver-550"]) == outcome(rulings["cuda-drivers"]) == ("excluded", "driver")
    assert outcome(rulings["cuda-runtime-12-4"]) == ("excluded", "not-needed")
    assert outcome(rulings["cuda-toolkit-12-4"]) == ("pinned", "")


def test_a_program_that_needs_the_driver_is_taken_with_it() -> None:
    program = stanza("monitor", "1", "cuda-drivers").replace("Size: 1\n", "Size: 20000\n")
    found, _ = resolve([package("monitor", "1", "manual")], program, *CUDA)
    assert {"monitor", "cuda-drivers", "nvidia-driver-550"} <= set(found)


def test_meta_packages_without_a_driver_stay_and_circles_end() -> None:
    stanzas = [stanza("aa", "1", "bb"), stanza("bb", "1", "aa, cc"), stanza("cc", "1")]
    found, rulings = resolve([package("aa", "1", "manual")], *stanzas)
    assert {"aa", "bb", "cc"} <= set(found)
    assert outcome(rulings["aa"]) == ("pinned", "")


def test_dropped_and_residual_packages_are_excluded() -> None:
    captured = [package("tool", "1", "manual"), package("old", "1", "residual")]
    found, rulings = resolve(captured, *(stanza(n, "1") for n in ("tool", "old")), drop=["tool"])
    assert not {"tool", "old"} & set(found)
    assert (outcome(rulings["tool"]), rulings["tool"].reason) == (
        ("excluded", "decision"),
        "dropped by decision",
    )
    assert outcome(rulings["old"]) == ("excluded", "residual")
    assert "only its configuration was left" in rulings["old"].reason


def test_the_captured_alternative_wins_over_the_first() -> None:
    stanzas = [stanza("aa", "1", "xx | yy | zz"), stanza("xx", "1"), stanza("yy", "1"), stanza("zz", "1")]
    found, _ = resolve([package("aa", "1", "manual"), package("zz", "1")], *stanzas)
    assert {"xx", "yy", "zz"} & set(found) == {"zz"}
    found, _ = resolve([package("aa", "1", "manual")], *stanzas)
    assert {"xx", "yy", "zz"} & set(found) == {"xx"}


def test_the_captured_provider_wins_and_without_one_the_priority() -> None:
    stanzas = [
        stanza("aa", "1", "awk"),
        stanza("gawk", "1", "", "Provides: awk", "Priority: optional"),
        stanza("mawk", "1", "", "Provides: awk", "Priority: required"),
    ]
    found, _ = resolve([package("aa", "1", "manual"), package("gawk", "1")], *stanzas)
    assert {"gawk", "mawk"} & set(found) == {"gawk"}
    found, _ = resolve([package("aa", "1", "manual")], *stanzas)
    assert {"gawk", "mawk"} & set(found) == {"mawk"}


def test_an_unversioned_provides_does_not_meet_a_version() -> None:
    stanzas = [stanza("aa", "1", "vv (>= 2)"), stanza("pp", "1", "", "Provides: vv")]
    with pytest.raises(LockError, match=r"aa 1 needs vv \(>= 2\), which debian/made does not have") as err:
        resolve([package("aa", "1", "manual")], *stanzas)
    assert err.value.hint == "give apt a source that has it, or leave aa out with `--drop aa`"
    found, _ = resolve(
        [package("aa", "1", "manual")], stanzas[0], stanza("pp", "1", "", "Provides: vv (= 2)")
    )
    assert "pp" in found


def test_what_follows_a_replacement_is_replaced_too() -> None:
    captured = [package("dev", "1-1", "manual", line=2), package("lib", "1-1", line=3)]
    found, rulings = resolve(
        captured, stanza("dev", "1-2", "lib (= 1-2)"), stanza("lib", "1-1"), stanza("lib", "1-2")
    )
    assert (found["dev"], found["lib"]) == ("1-2", "1-2")
    assert outcome(rulings["lib"]) == ("replaced", "withdrawn")
    assert "does not fit the versions" in rulings["lib"].reason


def test_a_merged_usr_needs_no_usrmerge() -> None:
    found, _ = resolve([], stanza("ii", "1", "usrmerge | usr-is-merged", "Essential: yes"),
                       stanza("usrmerge", "1"), stanza("usr-is-merged", "1"))  # fmt: skip
    assert {"usrmerge", "usr-is-merged"} & set(found) == {"usr-is-merged"}


def test_backports_are_only_taken_where_captured() -> None:
    made = index(*SYSTEM, stanza("tool", "1-1"), unasked=[stanza("tool", "2-1~bpo1")])
    base, _ = resolve_base((), index=made, roots=["tool"])
    assert chosen(base)["tool"] == "1-1"
    base, _ = resolve_base((package("tool", "2-1~bpo1", "manual"),), index=made, roots=[])
    assert chosen(base)["tool"] == "2-1~bpo1"


def test_a_root_that_the_release_does_not_have_is_an_error() -> None:
    with pytest.raises(LockError, match=r"the environment needs the system package python3\.9") as err:
        resolve([], roots=["python3.9"])
    assert err.value.hint == "choose another base or Python, or give apt a source that has it"


def test_no_package_list_is_one_deviation() -> None:
    found, rulings = resolve([], stanza("py", "3"), roots=["py"])
    assert found == {"dpkg": "1", "libc6": "2-1", "py": "3"}
    assert set(rulings) == {"apt-packages.txt"}
    assert outcome(rulings["apt-packages.txt"]) == ("replaced", "no-apt-list")


def test_every_captured_package_has_exactly_one_ruling() -> None:
    captured = [package(f"p{n}", "1", line=n) for n in range(2, 30)]
    _, rulings = resolve_base(tuple(captured), index=index(*SYSTEM, stanza("p3", "1")), roots=["p3"])
    assert sorted(r.line for r in rulings if r.line) == list(range(2, 30))


@pytest.mark.parametrize(
    "field",
    ["Filename: ../../etc/passwd", "Filename: /etc/passwd", "Filename: a b", "SHA256: 12", "Size: x"],
)
def test_a_damaged_or_hostile_index_is_refused(field: str) -> None:
    key = field.partition(":")[0]
    lines = [line for line in stanza("evil", "1").splitlines() if not line.startswith(f"{key}:")]
    with pytest.raises(
        LockError, match=rf"index of http://mirror\.test/d/ is damaged: {key} of 'evil'"
    ) as err:
        resolve([], "\n".join([*lines, field]) + "\n", roots=["evil"])
    assert err.value.hint == ("check that apt source of this machine, or remove it from apt's configuration")


def test_a_name_with_a_shell_in_it_is_only_an_unknown_package() -> None:
    _, rulings = resolve([package("x;reboot", "1", "manual")])
    assert outcome(rulings["x;reboot"]) == ("unresolved", "unknown-package")
    hostile = SystemIndex(
        "debian", "made", [PackagesFile(uri="u:", content=b"Package: x;reboot\nVersion: 1\n")]
    )
    with pytest.raises(LockError, match="damaged: Package"):
        hostile.versions("x;reboot")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1:2.36-9+deb12u4", "1:2.36"),
        ("1.2-3-4", "1.2-3"),
        ("12.4+deb12u11", "12.4"),
        ("1.65.2", "1.65.2"),
        ("0.5+nmu1", "0.5"),
        ("7+b2", "7"),
    ],
)
def test_the_upstream_part_of_a_version(version: str, expected: str) -> None:
    assert strip_revision(version) == expected


def test_relations_read_alternatives_qualifiers_and_versions() -> None:
    found = parse_relations("a:any (>= 1~), b | c (<< 2)")
    assert [[str(r) for r in group] for group in found] == [["a:any (>= 1~)"], ["b", "c (<< 2)"]]
    assert parse_relations("") == ()
