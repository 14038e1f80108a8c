"""A store that a group shares, with users of this machine's kernel; the tests run as root."""

from __future__ import annotations

import errno
import grp
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprobuild.errors import FetchError, UsageError
from reprobuild.image.layers.blobs import LayerWriter, keep_layer
from reprobuild.infra.flock import machine_name
from reprobuild.infra.http.client import Net
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.system import Artefact
from reprobuild.realise.rootfs import provide_root
from reprobuild.store import sharing
from reprobuild.store.fetch import fetch
from reprobuild.store.keyring import StoreKeyring
from reprobuild.store.roots import record_lock
from reprobuild.store.sharing import join, share
from reprobuild.store.signature import sign, stored_key
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.exchanges import MOMENTS, exchange
from tests.image.made import Made, make_tar
from tests.image.made import folder as directory

ALICE, BOB, EVE = 12345, 12346, 12347


@pytest.fixture
def place() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def does(user: int, group: int, task: Callable[[], object], *more: int) -> int:
    """Do it as another user, with more groups; return 0, or the number of the OSError that came."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            os.umask(0o077)
            os.setgroups(more)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            task()
            code = 0
        except OSError as err:
            code = err.errno or 98
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def joined(store: Path, user: int) -> Store:
    """Return a store as a user has it who joined it: to be called by that user."""
    home = store.parent / f"home of {user}"
    mine = Store(store, StoreKeyring(home / "keys"))
    join(mine, lambda _: None)
    return mine


def test_members_share_and_others_are_kept_out(place: Path) -> None:
    store, group = Store(place / "store"), grp.getgrgid(os.getgid())
    store.remember("before", 1)
    share(store, group.gr_name)
    tar = store.add(make_tar([directory("closed", 0o700)]))

    def strange() -> None:
        """Before she joins, nothing of the others counts, and hers stays hers."""
        mine = Store(place / "store", StoreKeyring(place / f"home of {ALICE}" / "keys"))
        assert mine.recall("before") is None
        mine.remember("before", 2)
        assert mine.recall("before") == 2

    def writes() -> None:
        mine = joined(place / "store", ALICE)
        mine.add(b"of alice")
        mine.remember("k", {"made by": "alice"})
        with mine.scratch():
            pass
        provide_root(tar, mine)

    def reads() -> None:
        mine = joined(place / "store", BOB)
        assert mine.recall("k") == {"made by": "alice"}
        assert mine.recall("before") == 1
        assert mine.blob(mine.add(b"of alice")).read_bytes() == b"of alice"
        mine.add(b"of bob")
        mine.remember("k", {"made by": "bob"})
        provide_root(tar, mine)
        sha256 = mine.add(b"x")
        fetch([Artefact(filename="x", sha256=sha256, size=1)], mine, Net(offline=True))

    def looks() -> None:
        list((place / "store").iterdir())

    for user in (ALICE, BOB):
        (place / f"home of {user}").mkdir()
        os.chown(place / f"home of {user}", user, user)
    assert does(ALICE, group.gr_gid, strange) == 0
    assert does(ALICE, group.gr_gid, writes) == 0
    assert does(BOB, group.gr_gid, reads) == 0
    assert does(EVE, EVE, looks) == errno.EACCES
    assert Store(place / "store").recall("k") == {"made by": "bob"}
    assert (place / "store" / "key").stat().st_mode & 0o777 == 0o640


def test_files_of_an_image_inherit_no_rights_of_the_group(place: Path) -> None:
    """The group of the store is not the user's own; a namespace may have no other than that one."""
    store, group = Store(place / "store"), grp.getgrgid(os.getgid())
    store.remember("before", 1)
    share(store, group.gr_name)

    def works() -> None:
        os.umask(0o022)
        mine = joined(place / "store", ALICE)
        with mine.scratch() as scratch:
            (scratch / "file").touch()
            assert modes(scratch / "file") == (0o660, group.gr_gid)
        with mine.workspace() as folder:
            (folder / "d").mkdir()
            (folder / "d" / "file").write_bytes(b"made")
            assert modes(folder / "d") == (0o755, ALICE)
            assert modes(folder / "d" / "file") == (0o644, ALICE)
            mine.adopt(folder / "d" / "file")

    def reads() -> None:
        mine = joined(place / "store", BOB)
        assert mine.verified(hashlib.sha256(b"made").hexdigest(), "a file").read_bytes() == b"made"

    for user in (ALICE, BOB):
        (place / f"home of {user}").mkdir()
        os.chown(place / f"home of {user}", user, user)
    assert does(ALICE, ALICE, works, group.gr_gid) == 0
    assert does(BOB, BOB, reads, group.gr_gid) == 0


def modes(path: Path) -> tuple[int, int]:
    facts = path.stat()
    return facts.st_mode & 0o7777, facts.st_gid


def test_what_somebody_without_the_key_wrote_is_not_believed(place: Path) -> None:
    """The directory is open to all by mistake."""
    store = Store(place / "store")
    store.remember("k", "honest")
    for folder in (store.root, store.root / "made", store.root / "tmp"):
        folder.chmod(0o777)

    def forges() -> None:
        (store.root / "key").rename(store.root / "away")
        key = b"k" * 32
        (store.root / "key").write_bytes(key)
        (store.root / "key").chmod(0o600)
        (store.root / "made" / "k").unlink()
        (store.root / "made" / "k").write_bytes(sign(key, "k", b'"forged"'))

    assert does(EVE, EVE, forges) == 0
    assert (store.root / "made" / "k").read_bytes().endswith(b'"forged"')
    assert Store(place / "store").recall("k") is None


def test_a_store_from_elsewhere_gets_a_key_of_its_own_when_it_is_shared(place: Path) -> None:
    """Its group would believe what a stranger signed."""
    Store(place / "store", StoreKeyring(place / "stranger")).remember("k", "forged")
    (place / "store" / "key").chmod(0o640)
    before = stored_key(place / "store")
    share(Store(place / "store"), grp.getgrgid(os.getgid()).gr_name)
    assert stored_key(place / "store") not in (None, before)
    assert Store(place / "store").recall("k") is None


def test_a_store_whose_key_cannot_be_kept_is_not_shared(place: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    with pytest.raises(UsageError, match="cannot keep keys of stores") as caught:
        share(Store(place / "store", StoreKeyring(None)), group)
    assert caught.value.hint == "let XDG_DATA_HOME name a directory that you alone can write to"
    share(Store(place / "store", StoreKeyring(place / "data")), group)


def test_what_cannot_be_shared(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(place / "store")
    with pytest.raises(UsageError, match="there is no group 'no such'") as caught:
        share(store, "no such")
    assert caught.value.hint == "`id -Gn` shows those of yours"
    proc = os.open("/proc/self", os.O_RDONLY)
    monkeypatch.setattr(os, "fchmod", lambda *_: None)
    monkeypatch.setattr(os, "fchown", lambda *_: None)
    with pytest.raises(UsageError, match="the file system of /proc/self has no ACLs of POSIX") as caught:
        sharing._open(proc, Path("/proc/self"), os.getgid())
    os.close(proc)
    assert caught.value.hint == "put the store on a file system that has them, as ext4, xfs and Lustre do"


def refusal(user: int, group: int, task: Callable[[], object], report: Path) -> list[str]:
    """Return the message and the hint of the UsageError that another user gets."""
    report.touch()
    report.chmod(0o666)

    def note() -> None:
        try:
            task()
        except UsageError as err:
            report.write_text(f"{err}\n{err.hint}")

    assert does(user, group, note) == 0
    return report.read_text().splitlines()


def test_the_owner_alone_can_share_a_store(place: Path) -> None:
    store, group = Store(place / "store"), grp.getgrgid(os.getgid()).gr_name
    share(store, group)
    assert refusal(BOB, os.getgid(), lambda: share(store, group), place / "report") == [
        f"{store.root} belongs to root, who alone can share it",
        f"to use what its group shares: `reprobuild store join {store.root}`",
    ]
    (place / f"home of {BOB}").mkdir()
    os.chown(place / f"home of {BOB}", BOB, BOB)
    assert does(BOB, os.getgid(), lambda: joined(store.root, BOB)) == 0


def test_a_store_is_joined_by_its_group_alone(place: Path) -> None:
    store, group = Store(place / "store"), grp.getgrgid(os.getgid()).gr_name
    share(store, group)
    assert refusal(EVE, EVE, lambda: join(store, lambda _: None), place / "report") == [
        f"{store.root} is open to the members of the group {group} alone, and this process is not in it",
        f"`id -Gn` shows your groups: ask root or an administrator to add you to {group}, and log in again",
    ]


def test_what_a_member_put_there_is_not_shared(place: Path) -> None:
    """No right changes of what a link leads to, and of what other users own."""
    store, group = Store(place / "store"), grp.getgrgid(os.getgid()).gr_name
    share(store, group)
    share(store, group)
    victim = place / "victim"
    victim.mkdir(mode=0o700)
    (victim / "file").touch(mode=0o600)
    before = [(path.stat().st_mode, os.listxattr(path)) for path in (victim, victim / "file")]
    partial = store.root / "partial"
    hint = "remove what others put into the store, and run the command again"

    def refused(said: str) -> None:
        with pytest.raises(UsageError, match=said) as caught:
            share(store, group)
        assert caught.value.hint == hint
        assert [(path.stat().st_mode, os.listxattr(path)) for path in (victim, victim / "file")] == before

    partial.rmdir()
    partial.symlink_to(victim)
    refused("partial is a link: it is not shared")
    partial.unlink()
    partial.touch()
    refused("partial is a link or a file, and no directory of the store: it is not shared")
    partial.unlink()
    partial.mkdir()
    os.chown(partial, EVE, EVE)
    refused(f"partial belongs to another user, number {EVE}: it is not shared")
    os.chown(partial, os.geteuid(), os.getegid())
    (partial / "x").symlink_to(victim / "file")
    refused("partial/x is a link: it is not shared")
    (partial / "x").unlink()
    (partial / "x").hardlink_to(victim / "file")
    refused("partial/x is a file that has another name, too: it is not shared")
    (partial / "x").unlink()
    os.mkfifo(partial / "pipe")
    (store.root / "blobs" / "ab").symlink_to(victim)
    refused("blobs/ab is a link: it is not shared")
    (store.root / "blobs" / "ab").unlink()
    share(store, group)


def test_a_link_that_takes_a_place_meanwhile_is_not_followed(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very moment: the directory is listed, and a link is put there before it is opened."""
    store, group = Store(place / "store"), grp.getgrgid(os.getgid()).gr_name
    share(store, group)
    victim = place / "victim"
    victim.mkdir(mode=0o700)
    honest = os.mkdir

    def swap(path: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        if path == "partial":
            (store.root / "partial").rmdir()
            (store.root / "partial").symlink_to(victim)
        honest(path, mode, dir_fd=dir_fd)

    monkeypatch.setattr(os, "mkdir", swap)
    with pytest.raises(UsageError, match="partial is a link or a file"):
        share(store, group)
    assert victim.stat().st_mode & 0o7777 == 0o700


def write_layer(sink: LayerWriter) -> list[TarEntry]:
    sink.write(b"x")
    return []


WRITES: dict[str, tuple[str, Callable[[Store, Path], object]]] = {
    "add": ("blob", lambda store, _: store.add(b"of alice")),
    "keep_signed": ("k", lambda store, _: store.remember("k", 1)),
    "record_lock": ("kept", lambda store, above: record_lock(Made(above / "made").lock(), above / "lock", store)),
    "keep_layer": ("layer", lambda store, _: keep_layer(write_layer, "x", store, 1)),
}  # fmt: skip


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("name", WRITES)
def test_no_file_is_written_through_a_link_of_another_member(name: str, moment: str, place: Path) -> None:
    """The very moment: the directory for unfinished work is made, or opened, and a member exchanges it."""
    store = Store(place / "store")
    share(store, grp.getgrgid(os.getgid()).gr_name)
    part, task = WRITES[name]
    victim, trap = place / "victim", store.root / "tmp" / "trap"
    victim.write_bytes(b"precious")
    victim.chmod(0o600)
    trap.mkdir()
    (trap / part).symlink_to(victim)
    with exchange(moment, f"{machine_name()}.", trap):
        if moment == "open" or name == "record_lock":  # which passes over a store that cannot be written to
            task(store, place)
        else:
            with pytest.raises(PermissionError, match="another user exchanged a directory"):
                task(store, place)
    assert (victim.read_bytes(), victim.stat().st_mode & 0o777) == (b"precious", 0o600)
    if moment == "open":
        assert [path for path in (place / "store").rglob("*") if path.is_symlink()] == [
            next(store.root.glob(f"tmp/*/{part}"))
        ]


@pytest.mark.parametrize("name", ["blobs", "made", "kept"])
def test_no_file_is_moved_through_a_link_of_another_member(name: str, place: Path) -> None:
    """The link is put there after the store was looked at."""
    store, victim = Store(place / "store"), place / "victim"
    share(store, grp.getgrgid(os.getgid()).gr_name)
    store.add(b"first")
    victim.mkdir()
    folder = store.root / name
    folder = folder / hashlib.sha256(b"of alice").hexdigest()[:2] if name == "blobs" else folder
    if folder.exists():
        folder.rename(place / "away")
    folder.symlink_to(victim)
    task = {"blobs": "add", "made": "keep_signed", "kept": "record_lock"}[name]
    with pytest.raises(FetchError, match=f"{folder.name} in the store is a link or a file") as caught:
        WRITES[task][1](store, place)
    assert caught.value.hint == (
        "remove it, or choose another directory with `--store`; the whole store may stand behind a link"
    )
    assert list(victim.iterdir()) == []


def test_members_cannot_exchange_the_unfinished_work_of_another(place: Path) -> None:
    """Most programs write there by path."""
    store, group = Store(place / "store"), grp.getgrgid(os.getgid())
    share(store, group.gr_name)

    def exchanges(path: Path) -> Callable[[], object]:
        return lambda: path.rename(path.with_name("away"))

    with store.scratch() as folder:
        assert does(BOB, group.gr_gid, exchanges(folder)) == errno.EPERM
        assert does(BOB, group.gr_gid, exchanges(store.root / "tmp")) == errno.EPERM
    assert does(BOB, group.gr_gid, lambda: (store.root / "tmp" / "x").mkdir()) == 0


def test_the_document_names_store_and_group(place: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    done = reprobuild("store", "share", "--group", group, "--store", place / "store", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"version": 1, "store": str(place / "store"), "group": group}
