"""Files and directories that appear whole, and what is told when there is no room for them."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.cli.main import _explain
from reprobuild.errors import EngineError, UsageError
from reprobuild.infra import atomic
from reprobuild.infra.atomic import add_path_to_errors, atomic_directory, private_directory, write_file
from reprobuild.infra.flock import machine_name
from reprobuild.infra.proc.errors import ProcessFailedError
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.output import directory
from reprobuild.output.directory import read_image
from reprobuild.realise.base import _remedy
from reprobuild.store.store import Store
from tests.conftest import unreadable
from tests.image.made import Made

HOLDS = """
import sys, time
from pathlib import Path
from reprobuild.infra.atomic import private_directory
with private_directory(Path(sys.argv[1])) as folder:
    (folder / "closed").mkdir(mode=0o000)
    (folder / "open").mkdir()
    print(folder.name, flush=True)
    time.sleep(60)
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_file_appears_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_file(path, b"one")
    write_file(path, b"two")
    assert (path.read_bytes(), names(tmp_path)) == (b"two", ["file"])
    assert path.stat().st_mode & 0o777 == 0o666 & ~whole_umask()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space") as caught:
        write_file(path, b"three")
    assert str(tmp_path) in str(caught.value.filename)
    assert (path.read_bytes(), names(tmp_path)) == (b"two", ["file"])


def whole_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_folder_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with atomic_directory(target) as part:
        (part / "a").write_text("1")
        assert not target.exists()

    def fail() -> None:
        with atomic_directory(target) as part:
            (part / "a").write_text("2")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (target / "a").read_text() == "1"
    with atomic_directory(target) as part:
        (part / "b").write_text("3")
    assert (names(target), names(target.parent)) == (["b"], ["target"])


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, tmp_path], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        held = process.stdout.readline().strip()
        (tmp_path / "not-ours").mkdir()
        with private_directory(tmp_path) as own:
            assert names(tmp_path) == sorted([held, own.name, "not-ours"])
        process.send_signal(signal.SIGKILL)
    with private_directory(tmp_path) as own:
        assert names(tmp_path) == sorted([own.name, "not-ours"])


def test_many_processes_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from reprobuild.infra.atomic import private_directory\n"
        "for n in range(60):\n"
        "    with private_directory(Path(sys.argv[1])) as own:\n"
        "        (own / 'x').write_text('x'); assert (own / 'x').read_text() == 'x'\n"
    ).replace("\\\n", "\n")
    argv = [sys.executable, "-c", program, str(tmp_path)]
    running = [subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    for process in running:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert names(tmp_path) == []


def test_without_locks_nothing_is_taken_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{atomic.PREFIX}other").mkdir()
    monkeypatch.setattr(atomic, "try_lock", lambda number, kind: False)
    with private_directory(tmp_path):
        pass
    assert names(tmp_path) == [f"{atomic.PREFIX}other"]


def test_the_store_s_unfinished_work_goes_away(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (tmp_path / "tmp" / f"{machine_name()}.left").mkdir(parents=True)
    (tmp_path / "tmp" / f"{machine_name()}.file").write_text("x")
    (tmp_path / "tmp" / "another-machine.left").mkdir()
    with store.scratch() as folder:
        assert names(tmp_path / "tmp") == sorted(["another-machine.left", folder.name])
    (tmp_path / "tmp" / "another-machine.left").rmdir()
    began = time.monotonic()
    for number in range(100):
        store.remember(f"{number}", number)
    assert time.monotonic() - began < 10
    assert names(tmp_path / "tmp") == []


def test_an_error_without_a_name_is_given_one(tmp_path: Path) -> None:
    for given, expected in ((None, str(tmp_path)), ("/x", "/x")):
        with pytest.raises(OSError, match="full") as caught, add_path_to_errors(tmp_path):
            raise OSError(28, "full", given) if given else OSError(28, "full")
        assert caught.value.filename == expected
    with (
        Path("/dev/full").open("wb", buffering=0) as stream,
        pytest.raises(OSError, match="dev/x"),
        add_path_to_errors(Path("/dev/x")),
    ):
        stream.write(b"x")


@pytest.mark.parametrize(
    "said",
    [
        "dpkg: error: write: No space left on device\n",
        "tar: tree.tar: Wrote only 8192 of 10240 bytes\ntar: exiting\n",
    ],
)
def test_a_full_disk_under_dpkg(said: str, tmp_path: Path) -> None:
    err = ProcessFailedError("could not install the base", code=1, stderr=said)
    assert isinstance(err, EngineError)
    assert _remedy(err, Store(tmp_path)) == (
        f"the disk of {tmp_path} is full: make room there, or name another directory with `--store`"
    )


@pytest.mark.parametrize(
    ("number", "said", "hint"),
    [
        (errno.ENOSPC, "No space left on device", "make room there, or name other directories (--store, --output)"),
        (errno.EDQUOT, "Disk quota exceeded", "make room there, or name other directories (--store, --output)"),
        (errno.EROFS, "Read-only file system", "it is mounted read-only: name other directories (--store, --output)"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", ["/x/store", None])
def test_what_the_user_is_told(
    number: int, said: str, hint: str, name: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the system names no file: standard output may be a full disk, too."""
    assert _explain(OSError(number, said, name) if name else OSError(number, said), ["show"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {name + ': ' if name else ''}{said}\n")
    assert f"\nhint: {hint}" in told


def test_results_that_do_not_belong_together_are_none(tmp_path: Path) -> None:
    """What an interrupted build leaves: a new lock beside the former image, or the other way round."""
    out, made = tmp_path / "out", Made(tmp_path / "made")
    out.mkdir()
    lock = made.lock()
    hint = f"finish it: `reprobuild build {out / directory.LOCK} -o {out}`"

    def build(lock: Lock, reference: str) -> bytes:
        write_lock(lock, out / directory.LOCK)
        image = build_image(lock, made.store, out, files={}, reference=reference)
        (out / directory.IMAGE).write_bytes(msgspec.json.encode(image))
        return (out / directory.IMAGE).read_bytes()

    first = build(lock, "demo:1")
    assert read_image(out)[1].reference == "demo:1"
    write_lock(made.lock(seed=1), out / directory.LOCK)
    with pytest.raises(UsageError, match="do not belong together: a build into it was interrupted") as caught:
        read_image(out)
    assert caught.value.hint == hint
    for other, reference in ((made.lock(epoch=1), "demo:1"), (lock, "demo:2")):
        build(other, reference)
        assert read_image(out)[1].reference == reference
        write_lock(lock, out / directory.LOCK)
        (out / directory.IMAGE).write_bytes(first)
        with pytest.raises(UsageError, match="do not belong together") as caught:
            read_image(out)
        assert caught.value.hint == hint


def refused(out: Path, said: str) -> str | None:
    """Return the hint with which an output directory is refused."""
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        read_image(out)
    return caught.value.hint


def test_why_there_are_no_results(tmp_path: Path) -> None:
    out, build = tmp_path / "out", "build one with `reprobuild from-snapshot DIR -o OUT`"
    assert refused(out, f"there is no directory {out}") == build
    out.mkdir()
    assert refused(out, f"{out} holds no image") == build
    (out / directory.IMAGE).mkdir()
    assert refused(out, "image.json cannot be read: Is a directory") == build
    (out / directory.IMAGE).rmdir()
    (tmp_path / "bundle.tar").touch()
    hint = refused(tmp_path / "bundle.tar", "bundle.tar is a file, and no output directory")
    assert hint == "name the directory that -o named; `reprobuild unbundle FILE` makes one of a bundle"
    (out / directory.IMAGE).write_bytes(b"{}")
    assert refused(out, "image.json is damaged, or of another version of reprobuild: Object missing") == build
    with unreadable(out / directory.IMAGE):
        assert refused(out, "image.json cannot be read: Permission denied") == "check its permissions"
    write_lock(Made(tmp_path / "made").lock(), out / directory.LOCK)
    for content, said in (
        (b"", "truncated"),
        (b"\xff", "malformed"),
        (b"[" * 100_000, ""),
        (b'{"layout": 1}', ""),
    ):
        (out / directory.IMAGE).write_bytes(content)
        with pytest.raises(UsageError, match=f"of another version of reprobuild: .*{said}") as caught:
            read_image(out)
        assert caught.value.hint == f"make it again: `reprobuild build {out / directory.LOCK} -o {out}`"
    hint = refused(out / directory.LOCK, "reprobuild.lock is a file, and no output directory")
    assert hint == f"name the directory that it is in: {out}"
    (out / directory.IMAGE).unlink()
    hint = refused(out, f"{out} has a lock and no image")
    assert hint == f"build it: `reprobuild build {out / directory.LOCK} -o {out}`"
    (out / "image").mkdir()
    (out / directory.IMAGE).write_bytes(b"{}")
    assert (
        refused(out / "image", "image is a part of an output directory")
        == f"name the output directory: {out}"
    )
    taken = tmp_path / "snapshot"
    taken.mkdir()
    (taken / "capture.json").write_bytes(b"{}")
    hint = refused(taken, f"{taken} is a snapshot, and no output directory")
    assert hint == f"build its image: `reprobuild from-snapshot {taken} -o OUT`, and name OUT"


def test_a_store_that_has_everything_is_not_written_to(tmp_path: Path) -> None:
    """It may be a shared, read-only one."""
    made = Made(tmp_path / "made")
    first = build_image(made.lock(), made.store, tmp_path / "a", files={}, reference="x")
    made.store.add(b"there")
    before = {path: path.lstat().st_mtime_ns for path in made.store.root.rglob("*")}
    again = Store(made.store.root)
    assert again.add(b"there") == made.store.add(b"there")
    assert build_image(made.lock(), again, tmp_path / "b", files={}, reference="x") == first
    assert {path: path.lstat().st_mtime_ns for path in made.store.root.rglob("*")} == before
