"""A base that begins with an image: a real system in two layers, packages over it, the same bytes for every user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.errors import BuildError, LockError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar, read_tar
from reprobuild.lock.model import Resolution
from reprobuild.lock.system import Artefact, Base, BaseImage, ImageLayer
from reprobuild.realise.base import _key, realise_base
from reprobuild.realise.unpack import unpack_root
from reprobuild.resolve.system import base_image, image_packages
from reprobuild.resolve.system.base_image import OverlayRequest, resolve_image_base
from reprobuild.resolve.system.image_packages import ImageSystem, read_system
from reprobuild.snapshot.model import Mark, SystemPackage
from reprobuild.store.store import Store
from tests.registry.pushing import LAYERS, OCI, Member, file, folder, layer, link, pack, sha256
from tests.system.samples import EPOCH, ORDINARY_USER, bring, package

CHECKOUT = Path(__file__).resolve().parents[2]
REALISE = """
import sys
from pathlib import Path
import msgspec
from reprobuild.lock.system import Base
from reprobuild.realise.base import realise_base
from reprobuild.store.store import Store
base = msgspec.json.decode(sys.stdin.buffer.read(), type=Base)
print(realise_base(base, Store(Path(sys.argv[1])), int(sys.argv[2])))
"""
# capabilities(7), vfs_cap_data of revision 2: cap_net_raw, effective and permitted, as `ping` has it.
CAPABILITY = bytes.fromhex("0100000200200000000000000000000000000000")
TOP = [
    file("usr/share/doc/.wh.base-files"),
    file("etc/.wh.issue"),
    folder("opt/vendor", uid=1000, gid=1000),
    file("opt/vendor/tool", b"#!/bin/sh\n", mode=0o4755, uid=1000, gid=1000),
    file("opt/vendor/secret", b"s", mode=0o400, uid=1000, gid=42),
    file("opt/vendor/one", b"linked", uid=7, gid=7),
    link("opt/vendor/two", "opt/vendor/one", tarfile.LNKTYPE, mode=0o644, uid=7),
    file("opt/vendor/capable", b"c", mode=0o755, capability=CAPABILITY),
    link("opt/vendor/dangling", "/nowhere"),
    folder("usr/share/doc/tar"),
    file("usr/share/doc/tar/.wh..wh..opq"),
    file("usr/share/doc/tar/new", b"new"),
    file("var/log/vendor.log", b"when"),
    folder("tmp", mode=0o1777),
    file("tmp/left", b"x"),
    file("usr/sbin/policy-rc.d", b"#!/bin/sh\nexit 101\n# the vendor's\n", mode=0o755),
]


def keep(tar: bytes, how: str, store: Store) -> ImageLayer:
    """Put a layer into the store, and return what a lock says of it."""
    blob = pack(tar, how)
    digest = store.add(blob)
    return ImageLayer(
        file=Artefact(filename=f"site/base, layer {digest[:12]}", sha256=digest, size=len(blob)),
        media_type=LAYERS[OCI, how],
        diff_id=sha256(tar)[7:],
    )


def made_image(layers: Sequence[ImageLayer]) -> BaseImage:
    return BaseImage(
        reference="registry.test/site/base:1", digest="sha256:" + "a" * 64, layers=tuple(layers),
        config=Artefact(filename="configuration", sha256="b" * 64, size=1),
    )  # fmt: skip


@pytest.fixture(scope="module")
def image(tree: str, store: Store) -> BaseImage:
    """The realised base as the lower layer, and what a vendor might put over it."""
    return made_image([keep(store.blob(tree).read_bytes(), "zstd", store), keep(layer(TOP), "gzip", store)])


@pytest.fixture(scope="module")
def system(image: BaseImage, store: Store) -> ImageSystem:
    return read_system(image, store, "amd64")


def captured(*packages: tuple[str, str, Mark]) -> tuple[SystemPackage, ...]:
    return tuple(
        package(name, version, mark, line=line) for line, (name, version, mark) in enumerate(packages, 2)
    )


def resolved(
    image: BaseImage, system: ImageSystem, index: SystemIndex, packages: tuple[SystemPackage, ...] = (),
    roots: tuple[str, ...] = ("python3.11",),
) -> tuple[Base, dict[str, Resolution]]:  # fmt: skip
    base, rulings = resolve_image_base(image, system, index, OverlayRequest(packages=packages, roots=roots))
    return base, {ruling.subject: ruling for ruling in rulings}


@pytest.fixture(scope="module")
def with_plocate(image: BaseImage, system: ImageSystem, bookworm: SystemIndex, store: Store) -> Base:
    """The image with a package that makes a group, and has a file of that group."""
    version = bookworm.versions("plocate")[0].version
    base, _ = resolved(image, system, bookworm, captured(("plocate", version, "manual")))
    bring((*base.packages, *base.tools), store)
    return base


def entries(tree: str, store: Store) -> dict[str, tuple[TarEntry, bytes]]:
    with store.blob(tree).open("rb") as stream:
        return {
            entry.path: (entry, content() if entry.type == "file" and entry.size < 1 << 20 else b"")
            for entry, content in read_tar(stream)
        }


def realise_elsewhere(base: Base, store: Store, folder: Path) -> str:
    """Realise with a copy of the packages, as the ordinary user, in another environment."""
    for deb in (*base.packages, *base.tools):
        copy = folder / "blobs" / deb.file.sha256[:2] / deb.file.sha256
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(store.blob(deb.file.sha256), copy)
    for path in [folder, *folder.rglob("*")]:
        os.chown(path, 12345, 12345)
    done = subprocess.run(
        ["sh", "-c", 'umask 077; exec "$@"', "sh", *ORDINARY_USER, sys.executable, "-c", REALISE, folder, str(EPOCH)],
        input=msgspec.json.encode(base), capture_output=True, check=False, cwd="/",
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1", "TZ": "Asia/Tokyo",
             "LC_ALL": "C", "SOURCE_DATE_EPOCH": "1", "HOME": "/nowhere"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode().strip()


def test_the_image_tells_its_system(system: ImageSystem, base: Base) -> None:
    assert (system.distribution, system.release) == ("debian", "bookworm")
    assert {name: found.version for name, found in system.packages.items()} == base.installed


def test_an_image_alone_is_its_layers_put_together(
    image: BaseImage, system: ImageSystem, bookworm: SystemIndex, store: Store, tree: str
) -> None:
    alone, _ = resolved(image, system, bookworm)
    assert alone.packages == ()
    made = realise_base(alone, store, EPOCH)
    found, below = entries(made, store), entries(tree, store)
    check_vendor(found)
    same = [path for path in below if path in found and path != "usr/share/doc/tar"]
    assert [path for path in same if found[path] != below[path]] == []
    gone = sorted(path for path in below if path not in found)
    assert "etc/issue" in gone
    assert all(
        path.startswith(("etc/issue", "usr/share/doc/base-files", "usr/share/doc/tar/")) for path in gone
    )
    assert sorted(found) == sorted(found, key=str)
    assert [path.split("/") for path in found] == sorted(path.split("/") for path in found)


def check_vendor(found: dict[str, tuple[TarEntry, bytes]]) -> None:
    """Check what the upper layer made of the tree."""

    def facts(path: str) -> tuple[str, int, int, str]:
        entry = found[path][0]
        return entry.type, entry.uid, entry.gid, oct(entry.mode)

    assert facts("opt/vendor") == ("directory", 1000, 1000, "0o755")
    assert facts("opt/vendor/tool") == ("file", 1000, 1000, "0o4755")
    assert facts("opt/vendor/secret") == ("file", 1000, 42, "0o400")
    assert facts("opt/vendor/one") == ("file", 7, 7, "0o644")
    assert found["opt/vendor/two"][0].target == "opt/vendor/one"
    assert found["opt/vendor/two"][0].type == "hardlink"
    assert found["opt/vendor/capable"][0].xattrs == (("security.capability", CAPABILITY.hex()),)
    assert found["opt/vendor/dangling"][0].target == "/nowhere"
    assert facts("etc/shadow")[1:] == (0, 42, "0o640")
    assert facts("usr/bin/passwd")[1:] == (0, 0, "0o4755")
    assert facts("usr/bin/chage")[1:] == (0, 42, "0o2755")
    assert [path for path in found if path.startswith("usr/share/doc/tar/")] == ["usr/share/doc/tar/new"]
    assert b"# the vendor's" in found["usr/sbin/policy-rc.d"][1]
    assert not {"etc/issue", "var/log/vendor.log", "tmp/left", "usr/share/doc/base-files"} & found.keys()


@pytest.mark.long
def test_packages_over_an_image_are_the_same_for_root_and_an_ordinary_user(
    with_plocate: Base, store: Store, shared_tmp: Path
) -> None:
    assert "plocate" in {deb.name for deb in with_plocate.packages}
    assert "libc6" not in {deb.name for deb in with_plocate.packages}
    tree = realise_base(with_plocate, store, EPOCH)
    found = entries(tree, store)
    check_vendor(found)
    program = found["usr/bin/plocate"][0]
    assert (oct(program.mode), program.uid) == ("0o2755", 0)
    groups = dict(line.split(b":")[:3:2] for line in found["etc/group"][1].splitlines())
    assert program.gid == int(groups[b"plocate"]) > 0
    assert with_plocate.image is not None
    for one in with_plocate.image.layers:
        copy = shared_tmp / "blobs" / one.file.sha256[:2] / one.file.sha256
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(store.blob(one.file.sha256).read_bytes())
    assert realise_elsewhere(with_plocate, store, shared_tmp) == tree


def test_dpkg_in_the_tree_knows_all(with_plocate: Base, store: Store, tmp_path: Path) -> None:
    unpack_root(store.blob(realise_base(with_plocate, store, EPOCH)), tmp_path)
    argv = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"]
    told = run_in_root(Root(folder=tmp_path), argv, epoch=EPOCH, purpose="ask dpkg").decode()
    assert told.splitlines() == [
        f"{name} {version} ii " for name, version in sorted(with_plocate.installed.items())
    ]


def test_the_key_is_what_the_tree_depends_on(with_plocate: Base, base: Base) -> None:
    assert with_plocate.image is not None
    less = msgspec.structs.replace(with_plocate.image, layers=with_plocate.image.layers[:1])
    others = [msgspec.structs.replace(with_plocate, image=image) for image in (less, None)]
    assert len({_key(one, EPOCH) for one in (with_plocate, *others, base)}) == 4


def test_captured_packages_are_ruled_by_what_the_image_has(
    image: BaseImage, system: ImageSystem, bookworm: SystemIndex
) -> None:
    have = {name: found.version for name, found in system.packages.items()}
    packages = captured(
        ("dash", have["dash"], "automatic"),
        ("bash", "4.0-1", "automatic"),
        ("tar", "99:1", "manual"),
        ("linux-image-amd64", "6.1", "manual"),
        ("plocate", bookworm.versions("plocate")[0].version, "manual"),
    )
    base, ruled = resolved(image, system, bookworm, packages)
    outcomes = {name: (ruled[name].outcome, ruled[name].kind) for name in ("dash", "bash", "tar", "plocate")}
    assert outcomes == {
        "dash": ("in base", ""), "bash": ("replaced", "base-version"), "tar": ("replaced", "base-version"),
        "plocate": ("pinned", ""),
    }  # fmt: skip
    assert "dpkg does not go back" in ruled["bash"].reason
    assert "the archive does not have the captured one" in ruled["tar"].reason
    assert ruled["linux-image-amd64"].outcome == "excluded"
    assert ruled[image.reference].reason.startswith(f"{image.reference} is {image.digest}; ")
    assert base.installed | {"dash": have["dash"]} == base.installed
    assert base.installed["bash"] == have["bash"]


def older(system: ImageSystem, **versions: str) -> ImageSystem:
    """Return the system with other versions of some packages."""
    packages = dict(system.packages)
    for name, version in versions.items():
        packages[name] = msgspec.structs.replace(packages[name], version=version)
    return msgspec.structs.replace(system, packages=packages)


def test_a_newer_captured_version_is_put_over_the_image(
    image: BaseImage, system: ImageSystem, bookworm: SystemIndex
) -> None:
    newest = bookworm.versions("dash")[0].version
    base, ruled = resolved(
        image, older(system, dash="0.5-1"), bookworm, captured(("dash", newest, "automatic"))
    )
    assert [(deb.name, deb.version) for deb in base.packages] == [("dash", newest)]
    assert (ruled["dash"].outcome, base.installed["dash"]) == ("pinned", newest)
    assert ruled["dash"].reason.endswith(f"{image.reference} has 0.5-1")


def test_what_needs_the_former_version_follows(
    image: BaseImage, system: ImageSystem, bookworm: SystemIndex
) -> None:
    """python3.11 needs python3.11-minimal in its own version, and that libpython3.11-minimal."""
    names = [name for name in system.packages if "python3.11" in name]
    newest = bookworm.versions("python3.11")[0].version
    assert len(names) >= 4
    packages = dict(older(system, **dict.fromkeys(names, "3.11.0-1")).packages)
    for name in names:
        text = msgspec.json.encode(packages[name]).replace(newest.encode(), b"3.11.0-1")
        packages[name] = msgspec.json.decode(text, type=type(packages[name]))
    base, _ = resolved(
        image, msgspec.structs.replace(system, packages=packages), bookworm,
        captured(("libpython3.11-minimal", newest, "automatic")),
    )  # fmt: skip
    assert {deb.name: deb.version for deb in base.packages} == dict.fromkeys(names, newest)


def test_what_cannot_follow_is_an_error(image: BaseImage, system: ImageSystem, bookworm: SystemIndex) -> None:
    newest = bookworm.versions("dash")[0].version
    packages = dict(older(system, dash="0.5-1").packages)
    needs = packages["dash"].needs
    packages["vendor"] = msgspec.structs.replace(
        packages["dash"], name="vendor", version="1",
        needs=(*needs, (type(system.packages["bash"].needs[0][0])("dash", "=", "0.5-1"),)),
    )  # fmt: skip
    with pytest.raises(LockError, match="needs the system package vendor, which"):
        resolved(
            image, msgspec.structs.replace(system, packages=packages), bookworm,
            captured(("dash", newest, "automatic")),
        )  # fmt: skip


def test_packages_that_never_agree_are_an_error(
    image: BaseImage, system: ImageSystem, bookworm: SystemIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_image, "_ROUNDS", 0)
    with pytest.raises(LockError, match="need each other in ever more versions") as err:
        resolved(image, system, bookworm)
    assert err.value.hint == "choose an image whose packages are closer to the captured ones with `--base`"


def test_packages_of_another_architecture_have_a_name_of_their_own(
    image: BaseImage, system: ImageSystem, bookworm: SystemIndex
) -> None:
    foreign = msgspec.structs.replace(system.packages["zlib1g"], architecture="i386")
    both = msgspec.structs.replace(system, packages={**system.packages, "zlib1g:i386": foreign})
    packages = (
        package("zlib1g", foreign.version, line=2),
        package("zlib1g", foreign.version, "manual", line=3, architecture="i386"),
        *(
            package(name, system.packages[name].version, line=line)
            for line, name in enumerate(("bash", "dash"), 4)
        ),
    )
    base, ruled = resolved(image, both, bookworm, packages)
    assert base.packages == ()
    assert {name: ruled[name].outcome for name in ("zlib1g", "zlib1g:i386")} == {
        "zlib1g": "in base", "zlib1g:i386": "in base",
    }  # fmt: skip
    assert base.installed["zlib1g:i386"] == foreign.version


def small(store: Store, *members: Member) -> BaseImage:
    return made_image([keep(layer(members), "gzip", store)])


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (file("lib/apk/db/installed"), "is Alpine Linux: nothing can be installed over it"),
        (folder("var/lib/rpm"), "is a system of rpm packages"),
        (folder("var/lib/dpkg/status.d"), "is a distroless image"),
        (file("etc/one"), "is a system without packages"),
    ],
)
def test_other_systems_are_named(member: Member, said: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(LockError, match=said) as err:
        read_system(small(store, member), store, "amd64")
    assert err.value.hint == "choose an image of Debian or Ubuntu, or made from one, that still has its dpkg"


def test_lists_of_packages_that_fill_the_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small layer can hold thousands of them, below any directory: a link may lead there."""
    monkeypatch.setattr(image_packages, "_LARGEST", 50_000)
    store = Store(tmp_path)
    members = [file(f"a{number}/os-release", bytes(1000)) for number in range(60)]
    with pytest.raises(
        BuildError, match=r"/a50/os-release of .* has 1000 bytes, and all files of its kind have 51000"
    ):
        read_system(small(store, *members), store, "amd64")


STATUS = b"Package: a1\nStatus: install ok installed\nArchitecture: amd64\nVersion: 1\n"


@pytest.mark.parametrize(
    ("status", "release", "said"),
    [
        (STATUS, b"ID=debian\n", "VERSION_CODENAME of /etc/os-release is ''"),
        (STATUS, b'ID="../x"\nVERSION_CODENAME=made\n', "ID of /etc/os-release is '../x'"),
        (STATUS.replace(b"a1", b"../a"), b"ID=debian\nVERSION_CODENAME=made\n", "is damaged at '../a'"),
        (STATUS.replace(b"n: 1", b"n: 1 2"), b"ID=debian\nVERSION_CODENAME=made\n", "is damaged at 'a1'"),
        (STATUS.replace(b"n: 1", b"n: a:1"), b"ID=debian\nVERSION_CODENAME=made\n", "is damaged at 'a1'"),
        (STATUS + b"Depends: b (>= a:1)\n", b"ID=debian\nVERSION_CODENAME=made\n", "is damaged at 'a1'"),
        (STATUS + b"Breaks: b (<< a:1)\n", b"ID=debian\nVERSION_CODENAME=made\n", "is damaged at 'a1'"),
    ],
)
def test_what_an_image_says_of_itself_is_checked(
    status: bytes, release: bytes, said: str, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    image = small(
        store, file("usr/bin/dpkg"), file("var/lib/dpkg/status", status), file("usr/lib/os-release", release)
    )
    with pytest.raises(LockError) as err:
        read_system(image, store, "amd64")
    assert said in str(err.value)


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ([file("../evil")], "holds the unsafe path"),
        ([link("x", "a" * 5000)], "a link to the impossible"),
        (
            [link("x", "y"), link("y", "x"), file("x/passwd", b"evil")],
            "writes below /x, whose links have no end",
        ),
        ([link("x", "absent", tarfile.LNKTYPE)], "is a hard link to /absent, which is no file"),
        ([file("device")], "holds /device, a device"),
    ],
)
def test_hostile_layers_are_refused(members: list[Member], said: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    if members[0][0].name == "device":
        members[0][0].type, members[0][0].devmajor, members[0][0].devminor = tarfile.CHRTYPE, 1, 3
    base = Base(distribution="debian", release="made", packages=(), image=small(store, *members))
    with pytest.raises(BuildError) as err:
        realise_base(base, store, EPOCH)
    assert said in str(err.value)
    assert not list((store.root / "tmp").iterdir())


def test_a_device_has_a_hint_of_its_own(tmp_path: Path) -> None:
    store = Store(tmp_path)
    member = file("device")
    member[0].type, member[0].devmajor, member[0].devminor = tarfile.CHRTYPE, 1, 3
    base = Base(distribution="debian", release="made", packages=(), image=small(store, member))
    with pytest.raises(BuildError) as err:
        realise_base(base, store, EPOCH)
    assert err.value.hint == "a base cannot hold it; choose another image with `--base`"


def test_a_layer_that_is_not_what_the_image_states_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    image = small(store, file("etc/one"))
    other = msgspec.structs.replace(image.layers[0], diff_id="c" * 64)
    base = Base(
        distribution="debian", release="made", packages=(),
        image=msgspec.structs.replace(image, layers=(other,)),
    )  # fmt: skip
    with pytest.raises(BuildError, match="is not what it states") as err:
        realise_base(base, store, EPOCH)
    assert err.value.hint == "take the layer out of the store and run `reprobuild fetch LOCK` again"
    with pytest.raises(BuildError, match="is not what it states") as err:
        read_system(msgspec.structs.replace(image, layers=(other,)), store, "amd64")
    assert err.value.hint == "run the command again, or take the image from another registry"


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprobuild.infra.untrusted.names.ALLOWANCE", 1 << 20)
    store = Store(tmp_path)
    base = Base(
        distribution="debian", release="made", packages=(),
        image=small(store, file("etc/zeros", bytes(64 << 20))),
    )  # fmt: skip
    with pytest.raises(BuildError, match="unpacks to more than"):
        realise_base(base, store, EPOCH)


def test_the_listing_is_the_trees(with_plocate: Base, store: Store) -> None:
    tree = realise_base(with_plocate, store, EPOCH)
    with store.blob(tree).open("rb") as stream:
        assert len(list(list_tar(stream))) == len(entries(tree, store))


def test_without_an_archive_the_image_must_have_all(image: BaseImage, system: ImageSystem) -> None:
    nothing = SystemIndex("debian", "bookworm", ())
    packages = captured(("dash", system.packages["dash"].version, "manual"), ("plocate", "1", "manual"))
    base, ruled = resolved(image, system, nothing, packages)
    assert (base.packages, base.tools) == ((), ())
    assert (ruled["dash"].outcome, ruled["plocate"].kind) == ("in base", "unknown-package")
    with pytest.raises(LockError, match=r"needs the system package python3\.10"):
        resolved(image, system, nothing, packages, roots=("python3.10",))
