"""`store gc` keeps what locks need, all of it and nothing else."""

from __future__ import annotations

import fcntl
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from reprobuild.errors import FetchError, UsageError
from reprobuild.infra.flock import machine_name
from reprobuild.lock.file import write_lock
from reprobuild.report.store import render_gc_result, render_store_check
from reprobuild.store import directory
from reprobuild.store.check import Damaged, StoreCheck, check
from reprobuild.store.gc import Amount, GcResult, collect
from reprobuild.store.rootfs_key import root_key
from reprobuild.store.roots import record_lock
from reprobuild.store.store import Store, Used
from tests.conftest import ROOT, reprobuild
from tests.image.made import Made
from tests.store.sealing import built, contents, gc, sealed

GONE = "name the locks to keep: `reprobuild store gc LOCK...`; `--all` removes everything"


def nested(folder: Path, depth: int) -> Path:
    """Make directories in each other, with a file at each tenth; the deepest are beyond what a path can name."""
    top = folder / "d"
    top.mkdir(parents=True)
    number = os.open(top, os.O_RDONLY)
    for level in range(depth):
        if level % 10 == 0:
            os.close(os.open("f", os.O_CREAT | os.O_WRONLY, dir_fd=number))
        os.mkdir("d", dir_fd=number)
        above, number = number, os.open("d", os.O_RDONLY, dir_fd=number)
        os.close(above)
    os.close(number)
    return top


def test_folders_in_folders_without_end_are_counted_and_go(tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    deep = nested(store.root / "blobs" / "aa", 1200)
    assert collect(store, dry_run=True, empty=True).removed.files == 120
    assert collect(store, empty=True).removed.files == 120
    assert not deep.exists()
    deep = nested(store.root / "blobs" / "aa", 1200)
    assert [damaged.sha256 for damaged in check(store).damaged] == ["d"]
    assert not deep.exists()
    deep = nested(store.root / "blobs" / "aa", 3000)
    assert 150 < collect(store, empty=True).removed.files <= 300
    assert not deep.exists()


def test_what_a_kept_lock_needs_stays_and_nothing_else(made: Made, tmp_path: Path) -> None:
    store = made.store
    keeps, goes = sealed(made, "one", "two"), sealed(made, "two", "three")
    first = built(keeps, tmp_path / "keeps.lock", store, tmp_path / "a")
    alone = contents(store, "blobs", "made")
    built(goes, tmp_path / "goes.lock", store, tmp_path / "b")
    both = contents(store, "blobs", "made")
    stray = store.add(b"nobody names it")
    killed = store.root / "making" / "of one that was killed"
    killed.touch()
    (tmp_path / "goes.lock").unlink()
    (tmp_path / "b" / "reprobuild.lock").unlink()

    told = gc(store, "--dry-run")
    assert told["locks"] == sorted(map(str, (tmp_path / "a" / "reprobuild.lock", tmp_path / "keeps.lock")))
    assert told["gone"] == sorted(map(str, (tmp_path / "b" / "reprobuild.lock", tmp_path / "goes.lock")))
    assert contents(store, "blobs", "made").keys() == both.keys() | {f"blobs/{stray[:2]}/{stray}"}
    done = gc(store)
    assert done == {**told, "dry_run": False}
    assert not killed.exists()
    three = next(wheel.file.sha256 for wheel in goes.wheels if wheel.name == "three")
    left = contents(store, "blobs", "made")
    assert not store.has(stray)
    assert not store.has(three)
    # The wheel of "three" was put into the store before the first build; of that build nothing is lost.
    lost = alone.keys() - left.keys()
    assert left.keys() <= alone.keys()
    assert len(lost) == 2
    assert all(name.startswith("blobs/") for name in lost)
    assert done["removed"]["bytes"] > 0
    # Its image is a hard link of some of the files, so that those take the same room as before.
    assert done["removed"]["freed"] < done["removed"]["bytes"]

    before = contents(store, "blobs", "made")
    again = built(keeps, tmp_path / "keeps.lock", store, tmp_path / "c")
    assert (again.tree, again.config, again.manifest) == (first.tree, first.config, first.manifest)
    after = contents(store, "blobs", "made")
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 1  # that the image was made in that directory, too
    built(keeps, tmp_path / "keeps.lock", store, tmp_path / "c")
    assert contents(store, "blobs", "made") == after
    assert gc(store)["removed"]["files"] == 0
    fetched = reprobuild("fetch", tmp_path / "keeps.lock", "--store", store.root)
    assert fetched.returncode == 0, fetched.stderr


def test_a_store_without_a_lock_is_emptied_only_on_demand(made: Made, tmp_path: Path) -> None:
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="knows of no lock that is still there") as caught:
            collect(made.store, dry_run=dry_run)
        assert caught.value.hint == GONE
    assert made.store.has(made.base)
    (made.store.root / "apt").mkdir()
    (made.store.root / "apt" / "list").write_text("of another room")
    found = collect(made.store, empty=True)
    assert found.removed.files >= 1
    assert contents(made.store, "blobs", "made") == {}
    assert (made.store.root / "apt" / "list").exists()
    with pytest.raises(UsageError, match="there is no store at") as none:
        collect(Store(tmp_path / "nothing"))
    assert none.value.hint == "name another one with `--store`"


def test_what_is_made_of_what_stays_stays(made: Made, tmp_path: Path) -> None:
    """Also what a run used only through what it remembered; and the directories and parts of what is kept."""
    store, lock = made.store, sealed(made, "one")
    write_lock(lock, tmp_path / "x.lock")
    inner, stray = store.add(b"inner"), store.add(b"stray")
    store.remember("aa" * 32, {"listing": [inner]})
    store.remember("bb" * 32, {"listing": stray})
    store.remember(root_key(made.base), {"state": "x"})
    for folder in (made.base, stray):
        (store.root / "roots" / folder / "closed").mkdir(parents=True)
        (store.root / "roots" / folder / "closed" / "file").write_text("x" * 10)
        (store.root / "roots" / folder / "closed").chmod(0)
    (store.root / "partial").mkdir()
    (store.root / "partial" / f"{made.base}.{machine_name()}").write_text("x")
    (store.root / "partial" / f"{stray}.{machine_name()}").write_text("x")
    again = Store(store.root)
    again.recall("aa" * 32)
    assert again.used == Used(made=("aa" * 32,))
    record_lock(lock, tmp_path / "x.lock", again, "build")
    again.release()
    found = collect(store)
    assert store.has(inner)
    assert not store.has(stray)
    assert {path.name for path in (store.root / "made").iterdir()} == {"aa" * 32, root_key(made.base)}
    assert [path.name for path in (store.root / "roots").iterdir()] == [made.base]
    assert [path.name for path in (store.root / "partial").iterdir()] == [f"{made.base}.{machine_name()}"]
    assert found.young == Amount()


HOLDS = """
import sys
from pathlib import Path
from reprobuild.store.store import Store
store = Store(Path(sys.argv[1]))
store.has("0" * 64)
print("holds", flush=True)
sys.stdin.read()
"""


def test_nothing_is_removed_while_another_process_is_at_work(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "one")
    write_lock(lock, tmp_path / "x.lock")
    stray = made.store.add(b"stray")
    made.store.release()
    argv = [sys.executable, "-c", HOLDS, str(made.store.root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdout.readline()
        with pytest.raises(FetchError, match="another process uses the store") as caught:
            collect(made.store, [tmp_path / "x.lock"])
        assert caught.value.hint == "run it again when that has ended"
        assert collect(made.store, [tmp_path / "x.lock"], dry_run=True).removed.files > 0
        assert made.store.has(stray)
        process.stdin.close()
    with pytest.raises(FetchError, match="another process uses the store"):  # the refused one still does
        collect(Store(made.store.root), [tmp_path / "x.lock"])
    collect(made.store, [tmp_path / "x.lock"])
    assert not made.store.has(stray)


def test_a_lock_of_another_user_costs_a_bounded_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who can read the store can lock it."""
    monkeypatch.setattr(directory, "_PATIENCE", 0.3)
    Store(tmp_path).add(b"x")
    with (tmp_path / "in-use").open("rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(FetchError, match=r"has had the store .* alone for 0\.3 seconds") as caught:
            Store(tmp_path).add(b"y")
    assert caught.value.hint == (
        "wait until its `reprobuild store gc` has ended; `fuser -v` on its file `in-use` names it"
    )
    assert Store(tmp_path).add(b"y")


WITHOUT = (sys.executable, "-m", "tests.store.other_machine", "refused")


def test_without_locks_only_what_is_old_is_removed(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, "one")
    write_lock(lock, tmp_path / "x.lock")
    young, old = made.store.add(b"young"), made.store.add(b"old")
    done = gc(made.store, tmp_path / "x.lock", prefix=WITHOUT)
    assert (done["removed"]["files"], done["young"]["files"]) == (0, 2)
    # A change time cannot be set: the clock of the process is, as far as it looks at files.
    later_clock = "import time; t = time.time; time.time = lambda: t() + 4 * 86400"
    program = f"{later_clock}; from reprobuild.cli.main import main; main()"
    argv = [*WITHOUT, sys.executable, "-c", program, "store", "gc", "--store", str(made.store.root)]
    later = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "2 files (8 B) removed" in later.stdout
    assert not made.store.has(young)
    assert not made.store.has(old)
    used = made.store.add(b"used"), made.store.add(b"not")
    os.utime(made.store.blob(used[0]), (1, 1))
    before = made.store.blob(used[0]).stat().st_ctime_ns
    subprocess.run(
        [*WITHOUT, sys.executable, "-c", ASKS, str(made.store.root), used[0]], cwd=ROOT, check=True
    )
    assert made.store.blob(used[0]).stat().st_ctime_ns > before


ASKS = (
    "import sys; from pathlib import Path; from reprobuild.store.store import Store\n"
    "Store(Path(sys.argv[1])).has(sys.argv[2])"
)


@pytest.mark.parametrize("place", ["tmp/aaaaaaaaaaaa.x", f"partial/{'b' * 64}.aaaaaaaaaaaa"])
def test_another_machine_at_work_is_respected(place: str, made: Made, tmp_path: Path) -> None:
    write_lock(sealed(made, "one"), tmp_path / "x.lock")
    stray = made.store.add(b"stray")
    (made.store.root / place).parent.mkdir(exist_ok=True)
    (made.store.root / place).touch()
    found = collect(made.store, [tmp_path / "x.lock"])
    assert made.store.has(stray)
    assert found.young.files == 2
    assert (
        "left though no lock needs them: this file system has no locks between processes"
        in render_gc_result(found)
    )


def test_what_people_read() -> None:
    found = GcResult(
        dry_run=False, locks=("/a\x1b[2J/x.lock",), gone=("/b",), kept=Amount(files=2, bytes=1500),
        removed=Amount(files=1, bytes=2_500_000_000, freed=999), young=Amount(),
    )  # fmt: skip
    assert render_gc_result(found).splitlines() == [
        "kept for /a\\x1b[2J/x.lock", "no lock is at /b any more", "2 files (2 kB) kept",
        "1 files (2.5 GB) removed, which freed 999 B",
    ]  # fmt: skip
    damaged = (
        Damaged(sha256="ab", size=1_000_000, names=("x of /y",)),
        Damaged(sha256="cd", size=1, names=(), aside="/z"),
    )
    assert render_store_check(StoreCheck(files=3, bytes=5, damaged=damaged)).splitlines() == [
        "damaged: ab, 1 MB: x of /y; removed",
        "damaged: cd, 1 B: nothing that a known lock names; set aside as /z",
        "the next `reprobuild fetch` or `build` brings again what stands at an address",
        "1 of 3 files (5 B) are whole",
    ]


def test_a_dry_run_ends_with_the_command_that_removes(made: Made, tmp_path: Path) -> None:
    lock, stray = tmp_path / "my job.lock", made.store.add(b"stray")
    write_lock(sealed(made, "one"), lock)
    made.store.release()
    argv = ("store", "gc", lock, "--store", made.store.root)
    done = reprobuild(*argv, "--dry-run")
    command = shlex.join(["reprobuild", *map(str, argv)])
    assert done.stdout.splitlines()[-1] == f"no file was removed (--dry-run): `{command}` removes them"
    assert made.store.has(stray)
    made.store.release()
    done = reprobuild(*shlex.split(command)[1:])
    assert "--dry-run" not in done.stdout
    assert not made.store.has(stray)
    made.store.release()
    assert reprobuild(*argv, "--dry-run").stdout.splitlines()[-1] == "no file was removed (--dry-run)"


def test_what_is_used_is_touched_once_an_hour_also_where_locks_seem_to_work(made: Made) -> None:
    sha256 = made.store.add(b"used")
    blob, now = made.store.blob(sha256), time.time()
    for age, touched in ((1800, False), (7200, True)):
        os.utime(blob, (now - age, now - age))
        Store(made.store.root).has(sha256)
        assert (blob.stat().st_mtime > now - 1000) is touched
