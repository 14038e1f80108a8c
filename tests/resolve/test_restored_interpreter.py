"""The packed Python of a lock, where the store lacks it: from the lock's snapshot, or from this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.cli.common import make_context
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.errors import FetchError, SnapshotError
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import Lock
from reprobuild.lock.system import Base
from reprobuild.pipeline.choose_lock import choose_lock
from reprobuild.pipeline.fetch_inputs import fetch_inputs
from reprobuild.resolve.interpreter.captured import adopt_captured_interpreter
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.fetch import fetch
from tests.capture.repositories import LEAN, PROGRAM, document
from tests.interpreters import MINOR, VERSION, site_python
from tests.verify.samples import make_lock

ARCHIVE = "interpreter.tar.gz"
WAYS = (
    "capture the job again with `reprobuild capture --include interpreter`, and lock that snapshot; or bring the file "
    "in a bundle: `reprobuild bundle OUT -o frozen.tar --include wheels,debs` where OUT was built, and `reprobuild "
    "unbundle frozen.tar -o OUT` here; or name the store of then: --store DIR"
)


@pytest.fixture(scope="module")
def pyenv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pyenv with one Python, `versions/python`."""
    folder = tmp_path_factory.mktemp("pyenv")
    (folder / "versions").mkdir()
    site_python(folder / "versions")
    return folder


def take(pyenv: Path, folder: Path, *options: str) -> Path:
    """Capture that Python's environment into a directory."""
    python = pyenv / "versions" / "python" / "bin" / f"python{MINOR}"
    argv = [python, PROGRAM, "-o", folder, *options]
    subprocess.run(argv, env=LEAN, cwd=folder.parent, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def packed(pyenv: Path) -> Path:
    """A snapshot with that Python."""
    return take(pyenv, pyenv / "packed", "--include", "interpreter")


@pytest.fixture
def snapshot(packed: Path, tmp_path: Path) -> Path:
    """A copy of that snapshot."""
    subprocess.run(["cp", "-a", packed, tmp_path / "snapshot"], check=True)
    return tmp_path / "snapshot"


@pytest.fixture
def bare(pyenv: Path, tmp_path: Path) -> Path:
    """A snapshot without that Python."""
    return take(pyenv, tmp_path / "bare")


@pytest.fixture(autouse=True)
def no_pyenv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the Pythons of this machine."""
    for name in ("PYENV_ROOT", "VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def runner(tmp_path: Path, name: str = "runner") -> RunContext:
    """Return the run of a machine with an empty store and without a network."""
    return make_context(tmp_path / name, offline=True, folder=tmp_path)


def lock_of(snapshot: Path, packed: Path, tmp_path: Path) -> Path:
    """Write a lock of a snapshot with the packed Python; another store has its archive."""
    here = make_context(tmp_path / "first", offline=True, folder=tmp_path)
    python = adopt_captured_interpreter(read_snapshot(packed), "x86_64", here.resolve_context(packed))
    assert python is not None
    lock = make_lock(
        snapshot=read_snapshot(snapshot).digest, interpreter=python, wheels=(), sources=(), rulings=(),
        base=Base(distribution="debian", release="bookworm", packages=()),
    )  # fmt: skip
    write_lock(lock, tmp_path / "given.lock")
    return tmp_path / "given.lock"


def bring(snapshot: Path, given: Path, context: RunContext) -> Lock:
    """Do what `from-snapshot SNAPSHOT --lock LOCK` does before it builds."""
    lock = choose_lock(read_snapshot(snapshot), snapshot, given.parent / "out", Decisions(), context, given)
    fetch_inputs(lock, context)
    return lock


def test_the_snapshot_gives_it(snapshot: Path, tmp_path: Path) -> None:
    context = runner(tmp_path)
    lock = bring(snapshot, lock_of(snapshot, snapshot, tmp_path), context)
    assert lock.interpreter.file is not None
    assert context.store.blob(lock.interpreter.file.sha256).read_bytes() == (snapshot / ARCHIVE).read_bytes()


def test_this_machine_gives_it(
    bare: Path, packed: Path, pyenv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock was made where that Python was packed; the runner has it at the same place."""
    given = lock_of(bare, packed, tmp_path)
    monkeypatch.setenv("PYENV_ROOT", str(pyenv))
    context = runner(tmp_path)
    lock = bring(bare, given, context)
    assert lock.interpreter.file is not None
    assert context.store.has(lock.interpreter.file.sha256, lock.interpreter.file.size)


@pytest.mark.parametrize("change", ["other bytes", "link", "absent"])
def test_another_file_in_its_place_is_not_taken(change: str, snapshot: Path, tmp_path: Path) -> None:
    given, context, file = lock_of(snapshot, snapshot, tmp_path), runner(tmp_path), snapshot / ARCHIVE
    file.rename(tmp_path / "elsewhere")
    if change == "link":
        file.symlink_to(tmp_path / "elsewhere")
    if change == "other bytes":
        file.write_bytes(bytes((tmp_path / "elsewhere").stat().st_size))
    with pytest.raises(SnapshotError, match=rf"^{ARCHIVE}: "):
        bring(snapshot, given, context)
    assert not any(path.is_file() for path in (context.store.root / "blobs").rglob("*"))


def test_an_archive_with_another_hash_is_not_taken(snapshot: Path, tmp_path: Path) -> None:
    """The lock names another Python than the snapshot has; neither comes into the store."""
    given, context = lock_of(snapshot, snapshot, tmp_path), runner(tmp_path)
    lock = msgspec.json.decode(given.read_bytes())
    lock["interpreter"]["file"]["sha256"] = "5" * 64
    given.write_bytes(msgspec.json.encode(lock))
    with pytest.raises(FetchError) as caught:
        bring(snapshot, given, context)
    assert f"python-{VERSION}-captured.tar.gz (sha256 {'5' * 64}" in str(caught.value)
    assert caught.value.hint == WAYS
    assert not context.store.has(document(snapshot)["interpreter"]["sha256"])


def test_without_it_the_hint_names_what_works(bare: Path, packed: Path, tmp_path: Path, pyenv: Path) -> None:
    """Each way of the hint is followed: a new capture, the files of a bundle, and the store of then."""
    given, context = lock_of(bare, packed, tmp_path), runner(tmp_path)
    with pytest.raises(FetchError) as caught:
        bring(bare, given, context)
    file = bring(bare, given, runner(tmp_path, "first")).interpreter.file  # the store of then
    assert file is not None
    assert str(caught.value) == (
        f"python-{VERSION}-captured.tar.gz (sha256 {file.sha256}, {file.size} bytes) was packed when the lock was "
        f"made; the store {tmp_path / 'runner'} does not have it, the snapshot has no {ARCHIVE} of that hash, and this "
        f"machine has no Python of that build; {pyenv}/versions/python is not looked at: no directory of PATH leads to "
        "it, and no manager keeps it"
    )
    assert caught.value.hint == WAYS
    context.store.add((packed / ARCHIVE).read_bytes())  # as unbundle does
    bring(bare, given, context)
    again = take(pyenv, tmp_path / "again", "--include", "interpreter")
    bring(again, lock_of(again, again, tmp_path), runner(tmp_path, "third"))


def test_fetch_names_the_command_that_looks_there(snapshot: Path, tmp_path: Path) -> None:
    """A command without the snapshot leads to the one that has it."""
    given, context = lock_of(snapshot, snapshot, tmp_path), runner(tmp_path)
    file = bring(snapshot, given, runner(tmp_path, "other")).interpreter.file
    assert file is not None
    with pytest.raises(FetchError) as caught:
        fetch([file], context.store, context.net)
    assert caught.value.hint == (
        "run `reprobuild from-snapshot SNAPSHOT --lock LOCK -o OUT`: it takes the file from the snapshot, or packs "
        f"the same Python of this machine; without both, {WAYS}"
    )
