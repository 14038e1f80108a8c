"""Directories that others write to while they are walked and removed: no link leads to a directory of the user's."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reprobuild.infra import atomic, directory_fd
from reprobuild.infra.atomic import private_directory, write_file
from reprobuild.infra.directory_fd import files_below, remove
from tests.cluster.samples import as_nobody
from tests.exchanges import MOMENTS, exchange

# Put a link in the place of a directory just before its rights are changed.
SWAPS = """
import os, sys
from pathlib import Path
from reprobuild.infra.directory_fd import remove
top, victim = map(Path, sys.argv[1:])
done = []
def swap(event, args):
    if event == "os.chmod" and not done:
        done.append(args)
        (top / "a").rename(top / "away")
        (top / "a").symlink_to(victim)
sys.addaudithook(swap)
os.seteuid(65534)
try:
    remove(top)
except OSError as err:
    print(err, file=sys.stderr)
assert done
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that all users may write to."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_a_link_that_takes_the_place_of_a_directory_leads_nowhere(place: Path) -> None:
    victim, top = place / "victim", place / "top"
    for path in (victim, top, top / "a", top / "a" / "deep"):
        path.mkdir()
        os.chown(path, 65534, 65534)
    (top / "a").chmod(0)
    subprocess.run([sys.executable, "-c", SWAPS, top, victim], check=True)
    assert victim.stat().st_mode & 0o777 == 0o755


def test_a_directory_that_became_a_link_after_the_look_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The very moment: the directory is listed, and a link is put there before it is opened."""
    victim, top = tmp_path / "victim", tmp_path / "top"
    (victim / "inner").mkdir(parents=True)
    victim.chmod(0o500)
    (top / "a").mkdir(parents=True)
    honest = directory_fd._open

    def swap(above: int, name: str) -> int:
        if name == "a":
            (top / "a").rmdir()
            (top / "a").symlink_to(victim)
        return honest(above, name)

    monkeypatch.setattr(directory_fd, "_open", swap)
    with pytest.raises(NotADirectoryError):
        remove(top)
    assert victim.stat().st_mode & 0o777 == 0o500
    assert (victim / "inner").is_dir()


def test_closed_deep_and_broken_trees_go_away(tmp_path: Path) -> None:
    """Some lies deeper than descriptors are held."""
    top = tmp_path / "top"
    top.mkdir()
    number = os.open(top, os.O_RDONLY)
    for _ in range(350):
        os.mkdir("x", dir_fd=number)
        os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=number))
        lower = os.open("x", os.O_RDONLY, dir_fd=number)
        os.close(number)
        number = lower
    os.close(number)
    (top / "link").symlink_to("/etc")
    os.mkfifo(top / "pipe")
    os.chown(tmp_path, 65534, 65534)
    subprocess.run(["chown", "-R", "-h", "65534:65534", top], check=True)
    (top / "closed").mkdir()
    (top / "closed" / "inner").mkdir(mode=0)
    os.chown(top / "closed" / "inner", 65534, 65534)
    os.chown(top / "closed", 65534, 65534)
    (top / "closed").chmod(0)
    reachable(tmp_path)
    with as_nobody():
        remove(top)
    assert not top.exists()
    remove(top)  # what is not there is no error


def reachable(folder: Path) -> None:
    for above in folder.parents:
        if above.stat().st_uid == os.geteuid() and above != Path(above.anchor):
            above.chmod(above.stat().st_mode | 0o011)


def test_files_are_read_of_the_directories_that_were_listed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_bytes(b"1")
    (tmp_path / "a" / "file").chmod(0)
    (tmp_path / "a").chmod(0)
    (tmp_path / "link").symlink_to("/etc/passwd")
    (tmp_path / "folder").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    assert {path: os.read(file, 9) for path, _, file in files_below(tmp_path)} == {"a/file": b"1"}


def test_directories_deeper_than_the_stack_are_an_error(deep: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(OSError, match="more than 100 directories stand in each other"):
        list(files_below(deep(tmp_path / "top")))


def test_what_another_user_left_is_left_and_no_pipe_is_waited_for(place: Path) -> None:
    """Under the names of our own unfinished files."""
    prefix = f"{atomic.PREFIX}lock.json."

    with as_nobody():
        os.mkfifo(place / f"{prefix}pipe")
        (place / f"{prefix}folder").mkdir()
        (place / f"{prefix}folder" / "content").write_text("x")

    began = time.monotonic()
    write_file(place / "lock.json", b"x")
    assert time.monotonic() - began < 3
    assert sorted(path.name for path in place.iterdir()) == [f"{prefix}folder", f"{prefix}pipe", "lock.json"]
    assert (place / f"{prefix}folder" / "content").exists()


def test_a_lock_that_another_user_holds_for_ever_is_not_waited_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "PATIENCE", 0.3)
    (place / f"{atomic.PREFIX}left").mkdir()
    place.chmod(0o755)
    holds = "import fcntl, os, sys, time; os.setuid(65534); n = os.open(sys.argv[1], os.O_RDONLY)\n"
    holds += "fcntl.flock(n, fcntl.LOCK_EX); print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", holds, place], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with private_directory(place) as own:
            assert own.is_dir()
        assert [path.name for path in place.iterdir()] == [f"{atomic.PREFIX}left"]
        process.send_signal(signal.SIGKILL)
    with private_directory(place) as own:
        assert list(place.iterdir()) == [own]


@pytest.mark.parametrize("owner", [65534, 0])
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_file_is_not_written_through_a_link_of_an_exchanged_directory(
    moment: str, owner: int, place: Path
) -> None:
    """The very moment: the temporary directory is made, or opened, and another user exchanges it."""
    victim, trap, path = place / "victim", place / "trap", place / "node.json"
    victim.write_bytes(b"precious")
    trap.mkdir()
    (trap / "new").symlink_to(victim)
    with exchange(moment, f"{atomic.PREFIX}node.json.", trap, owner):
        if moment == "mkdir":
            with pytest.raises(OSError, match=r"exists|exchanged") as caught:
                write_file(path, b"certificate")
            assert str(caught.value.filename).startswith(str(place))
        else:
            write_file(path, b"certificate")
            assert path.read_bytes() == b"certificate"
    assert victim.read_bytes() == b"precious"


def test_another_user_s_directory_is_not_written_to(place: Path) -> None:
    (place / "trap").mkdir()
    with (
        exchange("mkdir", f"{atomic.PREFIX}node.json.", place / "trap"),
        pytest.raises(PermissionError, match="another user exchanged a directory") as caught,
    ):
        write_file(place / "node.json", b"certificate")
    assert caught.value.filename == str(place)
    assert not (place / "node.json").exists()


def test_a_file_system_may_state_another_owner(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS does so for root, and a mount with an option for all owners."""
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    write_file(place / "node.json", b"certificate")
    assert [path.name for path in place.iterdir()] == ["node.json"]


def test_the_contents_of_an_exchanged_directory_are_not_removed(place: Path) -> None:
    """Another user may rename a directory of the user's, and may not remove its files."""
    mine = place / "mine"
    mine.mkdir()
    (mine / "work").write_bytes(b"precious")
    with exchange("open", f"{atomic.PREFIX}node.json.", mine, owner=0) as away:
        write_file(place / "node.json", b"certificate")
    assert [path.read_bytes() for path in place.rglob("work")] == [b"precious"]
    assert list(away[0].iterdir()) == []


def test_a_link_at_the_path_of_a_file_is_replaced(place: Path) -> None:
    (place / "victim").write_bytes(b"precious")
    (place / "node.json").symlink_to(place / "victim")
    write_file(place / "node.json", b"certificate")
    assert not (place / "node.json").is_symlink()
    assert (place / "node.json").read_bytes() == b"certificate"
    assert (place / "victim").read_bytes() == b"precious"
