"""What the wheels' own shared libraries need of the system."""

from __future__ import annotations

import hashlib
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.untrusted.names import HOSTILE
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact, Base, BaseImage, Deb, ImagePackage
from reprobuild.resolve.system.shared_libraries import (
    choose_library_packages,
    required_libraries,
    rule_newer_libraries,
)
from reprobuild.resolve.system.sonames import glibc_of, guess_packages, newest_glibcxx, package_of
from reprobuild.resolve.system.wheel_libraries import ElfFile, open_wheels, read_libraries
from reprobuild.snapshot.model import Snapshot, SystemPackage
from reprobuild.snapshot.parsers import conda_list as conda_lists
from reprobuild.store.store import Store
from tests.system.samples import index, package, stanza
from tests.untrusted.elves import AARCH64, elf

MODULE = "pkg/_ext.cpython-311-x86_64-linux-gnu.so"


def made_wheel(store: Store, name: str, files: Mapping[str, bytes]) -> Wheel:
    with store.scratch() as folder:
        path = folder / "x.whl"
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for member, content in files.items():
                archive.writestr(member, content)
        sha256 = store.adopt(path)
    file = Artefact(filename=f"{name}-1-py3-none-any.whl", sha256=sha256, size=1)
    return Wheel(name=name, version="1", role="environment", file=file)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.mark.parametrize(
    ("soname", "first"),
    [
        ("libGL.so.1", "libgl1"), ("libX11.so.6", "libx11-6"), ("libstdc++.so.6", "libstdc++6"),
        ("libgcc_s.so.1", "libgcc-s1"), ("libz.so.1", "zlib1g"), ("libglib-2.0.so.0", "libglib2.0-0"),
        ("libgthread-2.0.so.0", "libglib2.0-0"), ("libm.so.6", "libc6"), ("libbz2.so.1.0", "libbz2-1.0"),
        ("libnspr4.so", "libnspr4"), ("libdbus-1.so.3", "libdbus-1-3"), ("libxkbcommon-x11.so.0", "libxkbcommon-x11-0"),
        ("libgssapi_krb5.so.2", "libgssapi-krb5-2"), ("libibverbs.so.1", "libibverbs1"),
        ("libpython3.11.so.1.0", "libpython3.11"), ("libpanelw.so.6", "libncursesw6"),
        ("libform.so.6", "libncurses6"),
    ],
)  # fmt: skip
def test_debians_names(soname: str, first: str) -> None:
    assert guess_packages(soname)[:2] == (first, f"{first}t64")


def test_what_the_index_has_is_taken() -> None:
    made = index(
        stanza("libasound2t64", "1"),
        stanza("libdb5.3", "1"),
        stanza("libglib2.0-0t64", "1"),
        stanza("bash", "1"),
    )
    assert package_of("libasound.so.2", made) == "libasound2t64"
    assert package_of("libdb-5.3.so", made) == "libdb5.3"
    assert package_of("libgobject-2.0.so.0", made) == "libglib2.0-0t64"
    assert package_of("libgone.so.1", made) is None
    for odd in (
        "bash",
        "/lib/libc.so.6",
        "libx.so.1\n",
        "lib;id.so.1",
        "",
        "lib" + "a" * 300 + ".so",
        "../libx.so.1",
    ):
        assert guess_packages(odd) == ()


def test_the_table_of_libstdcxx() -> None:
    assert glibc_of("2.36-9+deb12u10") == glibc_of("2.36") == glibc_of("2.36.1-1") == (2, 36)
    assert [glibc_of(version) for version in ("1:2", "", "2", "2.x", "\u00b2.1", "2.99999")] == [None] * 6
    assert newest_glibcxx("12.2.0-14+deb12u1") == (3, 4, 30)
    assert newest_glibcxx("99.1") is None
    assert newest_glibcxx("") is None


def test_a_wheel_is_read_once(store: Store) -> None:
    versions = {
        "libc.so.6": ["GLIBC_2.17", "GLIBC_2.4", "GLIBC_PRIVATE"],
        "libstdc++.so.6": ["GLIBCXX_3.4.9"],
    }
    wheel = made_wheel(
        store, "a",
        {
            MODULE: elf(["libc.so.6"], "", versions), "pkg/__init__.py": b"1\n", "pkg/damaged.so": b"\x7fELF\x02",
            "pkg/other.so": elf(["libx.so.1"], machine=AARCH64), "a.libs/libq-1.so": elf((), "libq.so.1"),
        },
    )  # fmt: skip
    expected = (
        ElfFile(path="a.libs/libq-1.so", names=("libq-1.so", "libq.so.1"), needed=()),
        ElfFile(
            path=MODULE,
            names=(MODULE.rpartition("/")[2],),
            needed=("libc.so.6",),
            glibc=(2, 17),
            glibcxx=(3, 4, 9),
        ),
    )
    assert read_libraries(wheel.file, "x86_64", store) == expected
    assert [one.is_extension for one in expected] == [False, True]
    store.blob(wheel.file.sha256).unlink()
    assert read_libraries(wheel.file, "x86_64", store) == expected
    with pytest.raises(FetchError) as caught:
        read_libraries(wheel.file, "aarch64", Store(store.root))
    assert (
        caught.value.hint
        == "run `reprobuild fetch LOCK`, with a network; or name the store that has it: --store DIR"
    )


def test_a_memory_that_is_damaged_is_read_again(store: Store) -> None:
    wheel = made_wheel(store, "a", {MODULE: elf(["libx.so.1"])})
    (found,) = read_libraries(wheel.file, "x86_64", store)
    (kept,) = [path for path in (store.root / "made").iterdir() if b"libx.so.1" in path.read_bytes()]
    kept.write_text('[{"path": 3}]')
    assert read_libraries(wheel.file, "x86_64", store) == (found,)


def test_a_hostile_wheel(store: Store, tmp_path: Path) -> None:
    good = tmp_path / "good.whl"
    with zipfile.ZipFile(good, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.so", elf(["libx.so.1"]) + bytes(range(256)) * 40)
    data = bytearray(good.read_bytes())
    data[60:80] = b"\xff" * 20  # inside of the packed content
    for content in (b"no zip", bytes(data)):
        sha256 = store.add(content)
        with pytest.raises(BuildError) as caught:
            read_libraries(Artefact(filename="x.whl", sha256=sha256, size=1), "x86_64", store)
        assert caught.value.hint == HOSTILE
    assert hashlib.sha256(bytes(data)).hexdigest() == sha256


def test_a_wheel_that_asks_for_too_much(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = made_wheel(store, "a", {f"{number}.so": elf(["liba.so", "libb.so"]) for number in range(3)})
    monkeypatch.setattr("reprobuild.resolve.system.wheel_libraries.MOST_NAMES", 5)
    with pytest.raises(BuildError, match="asks for more than 5 libraries") as caught:
        read_libraries(wheel.file, "x86_64", store)
    assert caught.value.hint == HOSTILE


def test_files_that_all_need_each_other_take_no_time(store: Store) -> None:
    opened = found(
        store, a={f"{number}.so": elf(["libx.so", "libz.so.9"], "libx.so") for number in range(3000)}
    )
    began = time.process_time()
    (ask,) = required_libraries(opened)
    assert time.process_time() - began < 2
    assert (ask.soname, ask.imported) == ("libz.so.9", True)


def test_names_of_files_cannot_mislead(store: Store) -> None:
    opened = found(store, a={"x\u202ey.so": elf(["libgone.so.1"], "", {"libc.so.6": ["GLIBC_2.99"]})})
    base = Base(distribution="d", release="r", packages=(deb("libc6", "2.36-9"),))
    _, rulings = choose_library_packages(required_libraries(opened), Snapshot(digest=""), INDEX, base, ())
    assert all(ruling.reason.isprintable() for ruling in (*rulings, *rule_newer_libraries(opened, base)))


def found(store: Store, **wheels: Mapping[str, bytes]) -> list[tuple[Wheel, tuple[ElfFile, ...]]]:
    made = [made_wheel(store, name, files) for name, files in wheels.items()]
    return open_wheels(made, "x86_64", store)


def test_what_no_wheel_brings_is_asked_for(store: Store) -> None:
    opened = found(
        store,
        cv={
            MODULE: elf(["libqt-1.so.5", "libshared.so.2"]), "cv.libs/libqt-1.so.5": elf(["libGL.so.1"]),
            "cv/plugins/libxcb.so": elf(["libxcb.so.1", "libGL.so.1"]),
        },
        other={"lib/libshared.so": elf(["libX11.so.6"], "libshared.so.2"), "lib/plug.so": elf(["libY.so.1"])},
        ctypes={"lib/libsnd.so": elf(["libasound.so.2"])},
    )  # fmt: skip
    assert [(ask.wheel.name, ask.soname, ask.path, ask.imported) for ask in required_libraries(opened)] == [
        ("ctypes", "libasound.so.2", "lib/libsnd.so", True),
        ("cv", "libGL.so.1", "cv.libs/libqt-1.so.5", True),
        ("cv", "libxcb.so.1", "cv/plugins/libxcb.so", False),
        ("other", "libX11.so.6", "lib/libshared.so", True),
        ("other", "libY.so.1", "lib/plug.so", False),
    ]


INDEX = index(*(stanza(name, "1") for name in ("libc6", "libgl1", "libtbb12", "libmpich12", "libgtk-3-0")))
NEEDED = [
    "libm.so.6",
    "libGL.so.1",
    "libtbb.so.12",
    "libcuda.so.1",
    "libmpi.so.12",
    "libmine.so.3",
    "evil\x1b[31m",
]


def deb(name: str, version: str) -> Deb:
    file = Artefact(filename=f"{name}.deb", sha256="0" * 64, size=1)
    return Deb(name=name, version=version, architecture="amd64", essential=False, file=file)


BASE = Base(distribution="debian", release="made", packages=(deb("libc6", "2.36-9"),))
ALWAYS = {
    "libcuda.so.1": "host-library", "libmine.so.3": "missing-library", "evil\\x1b[31m": "missing-library",
    "libgtk-3.so.0": "plugin-library",
}  # fmt: skip


@pytest.mark.parametrize(
    ("packages", "conda", "drop", "roots", "missing"),
    [
        ((), "", (), {"libgl1", "libtbb12"}, {"libmpi.so.12"}),
        ((package("libgl1", "1"), package("libmpich12", "1")), "", (), {"libgl1", "libmpich12"}, {"libtbb.so.12"}),
        ((package("bash", "1"), package("libgl1", "1", architecture="i386")), "", (), set(),
         {"libGL.so.1", "libtbb.so.12", "libmpi.so.12"}),
        ((package("libgl1", "1", "residual"),), "", (), {"libgl1", "libtbb12"}, {"libmpi.so.12"}),
        ((package("bash", "1"),), "python 3.11.2 h1_0", (), {"libgl1", "libtbb12"}, {"libmpi.so.12"}),
        ((), "", ("libgl*",), {"libtbb12"}, {"libGL.so.1", "libmpi.so.12"}),
    ],
)  # fmt: skip
def test_which_package_comes(
    packages: tuple[SystemPackage, ...],
    conda: str,
    drop: tuple[str, ...],
    roots: set[str],
    missing: set[str],
    store: Store,
) -> None:
    opened = found(store, cv={MODULE: elf(NEEDED), "plug.so": elf(["libgtk-3.so.0"])})
    listed = conda_lists.parse(conda.encode(), "conda-list.txt")[0] if conda else ()
    snapshot = Snapshot(digest="", packages=packages, conda=listed)
    found_roots, rulings = choose_library_packages(required_libraries(opened), snapshot, INDEX, BASE, drop)
    assert set(found_roots) == roots
    assert {r.subject: r.kind for r in rulings} == {**ALWAYS, **dict.fromkeys(missing, "missing-library")}
    assert {(r.outcome, r.file) for r in rulings} == {("excluded", "cv-1-py3-none-any.whl")}
    assert all(r.reason.isprintable() for r in rulings)
    if "libgl1" in roots:
        assert found_roots["libgl1"] == "the shared libraries of cv (libGL.so.1)"


def test_what_a_newer_library_is_needed_for(store: Store) -> None:
    def wheel(**versions: list[str]) -> Mapping[str, bytes]:
        return {
            MODULE: elf(["libc.so.6"], "", {"libc.so.6": [*versions.get("c", []), *versions.get("cxx", [])]})
        }

    opened = found(
        store, old=wheel(c=["GLIBC_2.36"], cxx=["GLIBCXX_3.4.30"]), new=wheel(c=["GLIBC_2.2.5", "GLIBC_2.38"]),
        cxx=wheel(cxx=["GLIBCXX_3.4.31"]), none={"a.py": b""},
    )  # fmt: skip
    base = Base(
        distribution="d", release="r", packages=(deb("libc6", "2.36-9"), deb("libstdc++6", "12.2.0-14"))
    )
    rulings = list(rule_newer_libraries(opened, base))
    assert [(r.subject, r.outcome, r.kind) for r in rulings] == [
        ("new", "unresolved", "newer-library"), ("cxx", "unresolved", "newer-library"),
    ]  # fmt: skip
    assert rulings[0].reason == f"{MODULE} needs GLIBC_2.38, and the base has GLIBC_2.36"
    assert rulings[1].reason == f"{MODULE} needs GLIBCXX_3.4.31, and the base has GLIBCXX_3.4.30"
    assert list(rule_newer_libraries(opened, Base(distribution="d", release="r", packages=()))) == []


def test_what_an_image_below_has_is_there(store: Store) -> None:
    opened = found(store, cv={MODULE: elf(["libGL.so.1", "libasound.so.2"])})
    below = tuple(
        ImagePackage(name=name, version="1", architecture="amd64")
        for name in ("libc6", "libgl1", "libasound2t64")
    )
    config = Artefact(filename="config", sha256="0" * 64, size=1)
    image = BaseImage(
        reference="r.test/x:1", digest="sha256:" + "0" * 64, config=config, layers=(), packages=below
    )
    base = Base(distribution="debian", release="made", packages=(), image=image)
    assert choose_library_packages(required_libraries(opened), Snapshot(digest=""), index(), base, ()) == (
        {},
        (),
    )
