"""A real base: what is and is not in it, what is kept of it, and what cannot be installed."""

from __future__ import annotations

import os
import subprocess
import tarfile
import tempfile
import time
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError, FetchError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Root
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar, read_tar
from reprobuild.lock.system import Base
from reprobuild.realise.base import _key, _link, realise_base
from reprobuild.realise.rootfs import provide_root
from reprobuild.store.store import Store
from reprobuild.store.tar_listing import decode_listing, recall_listing
from tests.system.samples import EPOCH, add_deb, ar_bytes, member, tar_bytes

CHECKOUT = Path(__file__).resolve().parents[2]

# What a hostile maintainer script would try, and two things that it may: a diversion, and an override of rights,
# which stay in the tree.
OUTSIDE = CHECKOUT / "made-by-a-hostile-script"
PREINST = f"""#!/bin/sh
exec >&2
touch {OUTSIDE} && echo ESCAPED to the checkout
mount -t tmpfs tmpfs /mnt && echo ESCAPED by mounting
for file in $(find /proc/sys /proc/irq /proc/fs /proc/bus /proc/sysrq-trigger -type f); do
    sh -c ': >> "$0"' "$file" 2>/dev/null && echo "ESCAPED to the kernel: $file"
done
echo x > /run/reprobuild/plan/0000 && echo ESCAPED to the plan
for deb in /run/reprobuild/debs/*; do echo x > "$deb" && echo ESCAPED to the store; break; done
echo packages: $(ls /run/reprobuild/debs | wc -l)
grep -r PRIVATE-PROJECT-OF-ALICE /run/reprobuild /mnt /tmp && echo ESCAPED to another project
perl -MSocket -e 'socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in(53, inet_aton("1.1.1.1")))
    and print "ESCAPED to the network"; print "$!\n"'
n=0; while [ $n -lt 200 ]; do sleep 98764 & n=$((n + 1)); done
dpkg-divert --package aaa --add --rename --divert /usr/bin/cal.real /usr/bin/cal >/dev/null; echo "diverted: $?"
dpkg-statoverride --add root root 4755 /usr/bin/nothing
echo this is why
exit 3
"""


def sleepers() -> list[Path]:
    """Return the processes that the hostile script left behind."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"98764\0" in path.read_bytes():
                found.append(path)
        except OSError:
            continue
    return found


@pytest.fixture(scope="module")
def entries(store_blob: Path) -> dict[str, tuple[TarEntry, bytes]]:
    with store_blob.open("rb") as stream:
        return {
            entry.path: (entry, content() if entry.type == "file" and entry.size < 1 << 20 else b"")
            for entry, content in read_tar(stream)
        }


def test_a_known_tree_is_not_made_again(base: Base, store: Store, tree: str) -> None:
    started = time.monotonic()
    assert realise_base(base, store, EPOCH) == tree
    assert time.monotonic() - started < 2


def test_entries_are_in_the_order_of_a_sorted_walk_with_one_time(
    entries: dict[str, tuple[TarEntry, bytes]], store_blob: Path
) -> None:
    paths = [path.split("/") for path in entries]
    assert paths == sorted(paths)
    listed = subprocess.run(
        ["tar", "--utc", "--full-time", "-tvf", store_blob], capture_output=True, check=True
    )
    assert {line.split()[3:5] == [b"2023-11-14", b"22:13:20"] for line in listed.stdout.splitlines()} == {
        True
    }


def test_owners_and_modes_are_the_packages_own(entries: dict[str, tuple[TarEntry, bytes]]) -> None:
    def facts(path: str) -> tuple[int, int, str]:
        entry = entries[path][0]
        return entry.uid, entry.gid, oct(entry.mode)

    assert facts("etc/shadow") == (0, 42, "0o640")
    assert facts("var/mail") == (0, 8, "0o2775")
    assert facts("usr/bin/passwd") == (0, 0, "0o4755")
    assert facts("usr/bin/chage") == (0, 42, "0o2755")
    assert facts("usr/lib64") == facts("etc") == (0, 0, "0o755")
    assert facts("root") == (0, 0, "0o700")


def test_mount_points_are_empty_and_nothing_of_the_build_is_left(
    entries: dict[str, tuple[TarEntry, bytes]],
) -> None:
    modes = {top: entries[top][0].mode for top in ("dev", "proc", "run", "sys", "tmp")}
    assert modes == {"dev": 0o755, "proc": 0o555, "run": 0o755, "sys": 0o555, "tmp": 0o1777}
    tops = {path.partition("/")[0] for path in entries if "/" in path}
    assert not tops & set(modes)
    for gone in (
        "etc/resolv.conf", "etc/hostname", "etc/hosts", "usr/sbin/policy-rc.d", "var/cache/ldconfig/aux-cache",
        "var/log/dpkg.log", "var/log/alternatives.log", "reprobuild",
    ):  # fmt: skip
        assert gone not in entries
    assert entries.get("etc/machine-id", (None, b""))[1] == b""
    assert not [path for path, (entry, _) in entries.items() if entry.type in ("char", "block", "fifo")]


def test_passwords_changed_at_the_epoch(entries: dict[str, tuple[TarEntry, bytes]]) -> None:
    days = {line.split(b":")[2] for line in entries["etc/shadow"][1].splitlines()}
    assert days == {str(EPOCH // 86400).encode()}


def test_dpkg_in_the_tree_answers(root: Path, base: Base) -> None:
    argv = ["dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Abbrev}\n"]
    told = run_in_root(Root(folder=root), argv, epoch=EPOCH, purpose="ask dpkg").decode()
    assert told.splitlines() == [f"{deb.name} {deb.version} ii " for deb in base.packages]
    assert run_in_root(Root(folder=root), ["dpkg", "--audit"], epoch=EPOCH, purpose="ask dpkg") == b""


def test_python_is_compiled_and_its_bytecode_does_not_depend_on_times(
    root: Path, entries: dict[str, tuple[TarEntry, bytes]]
) -> None:
    compiled = [
        content for path, (_, content) in entries.items() if path.endswith(".cpython-311.pyc") and content
    ]
    assert len(compiled) > 300
    assert {content[4:8] for content in compiled} == {b"\3\0\0\0"}  # PEP 552: checked hash
    script = "import sys, ssl, sqlite3, zoneinfo; sys.dont_write_bytecode = True; print(sys.version_info[:2])"
    told = run_in_root(
        Root(folder=root), ["python3.11", "-c", script], epoch=EPOCH, purpose="run Python"
    ).decode()
    assert told == "(3, 11)\n"


def test_the_key_is_what_the_tree_depends_on(base: Base, store: Store, tree: str) -> None:
    made = [store.recall(path.name) for path in (store.root / "made").iterdir()]
    assert {"tree": tree} in made
    less = msgspec.structs.replace(base, packages=base.packages[1:])
    keys = {_key(base, EPOCH), _key(base, EPOCH + 1), _key(less, EPOCH)}
    assert len(keys) == 3
    backwards = msgspec.structs.replace(base, packages=base.packages[::-1])
    assert _key(backwards, EPOCH) == _key(base, EPOCH)


def test_a_missing_package_is_named(base: Base, tmp_path: Path) -> None:
    with pytest.raises(FetchError, match=r"\.deb is not in the store"):
        realise_base(base, Store(tmp_path), EPOCH)


def test_a_hostile_package_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    data = tar_bytes([(member("./../../etc/evil"), b"x")], "xz")
    deb = add_deb(
        store,
        "evil",
        ar_bytes([("debian-binary", b"2.0\n"), ("control.tar", tar_bytes([])), ("data.tar.xz", data)]),
    )
    with pytest.raises(BuildError, match=r"evil\.deb holds a path that leaves its directory"):
        realise_base(Base(distribution="debian", release="made", packages=(deb,)), store, EPOCH)
    assert not list((store.root / "tmp").iterdir())


@pytest.mark.parametrize(
    ("name", "target"), [("var/lib/dpkg/status", "file"), ("var/lib/dpkg/info", "new"), ("var", "folder")]
)
def test_no_link_of_an_essential_package_is_written_through(name: str, target: str, tmp_path: Path) -> None:
    """Before the first command runs, dpkg's own files are made by this machine."""
    store, victim = Store(tmp_path / "store"), tmp_path / "victim"
    (victim / "folder").mkdir(parents=True)
    (victim / "file").write_bytes(b"mine")
    (victim / "file").chmod(0o600)
    before = {path: path.stat().st_mode for path in victim.rglob("*")}
    control = tar_bytes([(member("./control"), b"Package: evil\nVersion: 1\nArchitecture: amd64\n")])
    link = member(f"./{name}", tarfile.SYMTYPE, str(victim / target))
    parts = [("debian-binary", b"2.0\n"), ("control.tar", control), ("data.tar", tar_bytes([(link, b"")]))]
    deb = add_deb(store, "evil", ar_bytes(parts))
    with pytest.raises(BuildError, match=r"is a link|leads through .* a link"):
        realise_base(Base(distribution="debian", release="made", packages=(deb,)), store, EPOCH)
    assert {path: path.stat().st_mode for path in victim.rglob("*")} == before


def test_a_package_of_another_name_is_refused(tmp_path: Path) -> None:
    store = Store(tmp_path)
    control = tar_bytes([(member("./control"), b"Package: other\nVersion: 1\nArchitecture: amd64\n")])
    parts = [("debian-binary", b"2.0\n"), ("control.tar", control), ("data.tar", tar_bytes([]))]
    deb = add_deb(store, "tool", ar_bytes(parts))
    with pytest.raises(
        BuildError, match=r"tool\.deb holds the package other for amd64, locked as tool for amd64"
    ) as err:
        realise_base(Base(distribution="debian", release="made", packages=(deb,)), store, EPOCH)
    assert "reprobuild lock DIR" in err.value.hint


def test_a_failing_maintainer_script_is_told_with_its_words(base: Base, store: Store) -> None:
    control = tar_bytes(
        [
            (member("./control"), b"Package: aaa\nVersion: 1\nArchitecture: amd64\nMaintainer: M <m@x.test>\n"
             b"Description: fails\n"),
            (member("./preinst", mode=0o755), PREINST.encode()),
        ]
    )  # fmt: skip
    parts = [("debian-binary", b"2.0\n"), ("control.tar", control), ("data.tar", tar_bytes([]))]
    broken = add_deb(store, "aaa", ar_bytes(parts))
    essential = tuple(deb for deb in base.packages if deb.essential)
    worse = msgspec.structs.replace(base, packages=(*essential, broken))
    other = store.add(b"PRIVATE-PROJECT-OF-ALICE")  # a source of another lock
    with pytest.raises(BuildError, match=r"(?s)could not install the base.*this is why.*aaa") as err:
        realise_base(worse, store, EPOCH)
    assert store.has(other)
    said = str(err.value)
    assert f"packages: {len(essential) + 1}" in said
    assert "ESCAPED" not in said
    assert said.count("Network is unreachable") == 1
    assert "diverted: 0" in said
    assert not OUTSIDE.exists()
    assert not list((store.root / "tmp").iterdir())
    deadline = time.monotonic() + 10
    while sleepers() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not sleepers()
    assert err.value.hint == (
        "the last lines name the package; `--drop NAME` leaves one out that nothing else needs"
    )


def test_a_package_is_copied_where_it_can_have_no_second_name(tmp_path: Path) -> None:
    path = tmp_path / "one.deb"
    path.write_bytes(b"content")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        assert Path(other).stat().st_dev != tmp_path.stat().st_dev
        _link(path, Path(other) / "one.deb")
        assert (Path(other) / "one.deb").read_bytes() == b"content"
    for _ in range(2):  # two packages of one lock may have one file
        _link(path, tmp_path / "two.deb")
    assert (tmp_path / "two.deb").samefile(path)


def test_without_fakeroot_there_is_no_base(base: Base, store: Store) -> None:
    essential = tuple(deb for deb in base.packages if deb.essential)
    bare = msgspec.structs.replace(base, packages=essential, tools=())
    with pytest.raises(BuildError, match="fakeroot"):
        realise_base(bare, store, EPOCH)


def test_a_root_is_kept_until_anything_about_it_changes(store: Store, tree: str) -> None:
    folder = provide_root(tree, store)
    made = folder.stat().st_ino
    assert provide_root(tree, store).stat().st_ino == made
    passwd = folder / "etc/passwd"
    times, content = passwd.stat(), passwd.read_text()
    passwd.write_text(content.replace("root:x:0", "evil:x:0"))
    os.utime(passwd, ns=(times.st_atime_ns, times.st_mtime_ns))  # as if nothing had happened
    again = provide_root(tree, store)
    assert again == folder
    assert again.stat().st_ino != made
    assert passwd.read_text() == content


def test_sealing_lists_the_base(store: Store, tree: str) -> None:
    listing = recall_listing(tree, store)
    assert listing is not None
    with store.verified(tree, "the tree").open("rb") as stream:
        assert list(decode_listing(store.verified(listing, "it").read_bytes())) == list(list_tar(stream))
