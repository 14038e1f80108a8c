"""`from-snapshot` into an output directory with a lock: it is followed where it was made here, and only there."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.cli.common import make_context
from reprobuild.config.overrides import Decisions
from reprobuild.context import RunContext
from reprobuild.errors import ReproError
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock, encode
from reprobuild.output.directory import LOCK
from reprobuild.pipeline.choose_lock import choose_lock
from reprobuild.pipeline.stated_decisions import refuse_other_decisions
from reprobuild.snapshot.read import read_snapshot
from reprobuild.store.roots import is_lock_of_here, remember_lock
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.image.made import Made
from tests.store.sealing import built, gc, sealed

DECISIONS = Decisions(base="debian/bookworm", accept=("no-apt-list",))


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    folder = tmp_path / "job" / "snapshot"
    folder.mkdir(parents=True)
    (folder / "requirements.txt").write_text("six==1.16.0\n")
    (folder / "python.txt").write_text("Python 3.11.2\n")
    (folder / "env.txt").write_text("HOME=/root\n")
    return folder


@pytest.fixture
def own(captured: Path, tmp_path: Path) -> Path:
    """An output directory with a lock that `lock` made here."""
    out = tmp_path / "out"
    out.mkdir()
    done = reprobuild(
        "lock", captured, "-o", out / LOCK, "--store", tmp_path / "store", "--base", "debian/bookworm",
        "--accept", "no-apt-list",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return out


def chosen(
    captured: Path, out: Path, store: Path, *, offline: bool = False, given: Path | None = None
) -> tuple[Lock, list[str]]:
    """Return the lock that a run follows, and what it says; each run has a process of its own, and so a store."""
    lines: list[str] = []
    made = make_context(store, offline=offline, folder=out.parent)
    session = RunContext(
        store=made.store, net=made.net, env=made.env, folder=made.folder, now=made.now, say=lines.append,
        progress=lambda *_, **__: None,
    )  # fmt: skip
    return choose_lock(read_snapshot(captured), captured, out, DECISIONS, session, given), lines


def strange(path: Path) -> Lock:
    """Write a lock of the same snapshot and decisions with another content, as somebody else may."""
    lock = read_lock(path)
    (wheel,) = lock.wheels
    other = msgspec.structs.replace(wheel.file, sha256="6" * 64, url="https://evil.example/six.whl")
    lock = msgspec.structs.replace(lock, wheels=(msgspec.structs.replace(wheel, file=other),))
    write_lock(lock, path)
    return lock


def test_a_lock_that_was_made_here_is_followed(captured: Path, own: Path, tmp_path: Path) -> None:
    before = read_lock(own / LOCK)
    gc(Store(tmp_path / "store"))
    lock, said = chosen(captured, own, tmp_path / "store", offline=True)
    assert (lock, said) == (before, [f"lock: {before.digest[:12]}, made here before"])


def test_a_lock_of_others_is_not_followed(captured: Path, own: Path, tmp_path: Path) -> None:
    honest, evil = read_lock(own / LOCK), strange(own / LOCK)
    aside = own / f"reprobuild-{evil.digest[:12]}.lock"
    lock, said = chosen(captured, own, tmp_path / "store")
    assert lock.wheels == honest.wheels
    assert said[0] == (
        f"lock: {own / LOCK} is not known to be made here, so a new one is made, and it is kept as {aside}; to follow "
        f"it: --lock {aside}"
    )
    assert aside.read_bytes() == encode(evil)
    assert read_lock(own / LOCK) == lock
    again, said = chosen(captured, own, tmp_path / "store", offline=True)
    assert (again, said) == (lock, [f"lock: {lock.digest[:12]}, made here before"])
    followed, said = chosen(captured, own, tmp_path / "store", offline=True, given=aside)
    assert (followed, said) == (evil, [f"lock: {evil.digest[:12]}, of {aside}"])


def test_a_lock_of_others_stays_where_no_other_can_be_made(captured: Path, own: Path, tmp_path: Path) -> None:
    evil = strange(own / LOCK)
    with pytest.raises(ReproError):
        chosen(captured, own, tmp_path / "elsewhere", offline=True)
    assert (own / LOCK).read_bytes() == encode(evil)
    assert list(own.glob("*.lock")) == [own / LOCK]


def test_another_store_does_not_know_the_lock(captured: Path, own: Path, tmp_path: Path) -> None:
    """Neither does one that is handed over with the directory: its key is not believed."""
    store = Store(tmp_path / "store")
    assert is_lock_of_here(read_lock(own / LOCK), store)
    assert not is_lock_of_here(read_lock(own / LOCK), Store(tmp_path / "other"))
    (store.root / "key").write_bytes(b"k" * 32)
    assert not is_lock_of_here(read_lock(own / LOCK), Store(store.root))


@pytest.mark.parametrize("here", [True, False])
def test_the_sealed_lock_of_a_lock_is_known_as_it_was(here: bool, tmp_path: Path) -> None:
    made = Made(tmp_path / "made")
    lock = sealed(made, "alpha")
    if here:
        remember_lock(lock, made.store)
    built(lock, tmp_path / "given.lock", made.store, tmp_path / "out")
    assert is_lock_of_here(read_lock(tmp_path / "out" / LOCK), made.store) == here


def test_a_given_lock_and_another_decision_are_refused_together(
    captured: Path, own: Path, tmp_path: Path
) -> None:
    """The hint makes a lock that has the decision, and the given one is followed without it."""
    given, store, out = own / LOCK, tmp_path / "store", tmp_path / "next"
    base = ("--base", "debian/bookworm", "--accept", "no-apt-list")
    refused = reprobuild(
        "from-snapshot", captured, "-o", out, "--lock", given, "--store", store, "--no-verify", *base, "--seed", "7"
    )  # fmt: skip
    assert refused.returncode == 4
    assert f"{given} does not have the decisions that you state:" in refused.stderr
    assert "seed = 7 (the lock: nothing)" in refused.stderr
    hint = f"make a new lock with them: `reprobuild lock {captured} -o {given}` and the same options"
    assert hint in refused.stderr
    made = reprobuild("lock", captured, "-o", given, "--store", store, *base, "--seed", "7")
    assert made.returncode == 0, made.stderr
    decided = msgspec.structs.replace(DECISIONS, seed=7)
    for stated in (decided, Decisions()):
        refuse_other_decisions(read_lock(given), stated, given, captured, lambda text: None)


def test_a_given_lock_of_an_install_from_a_directory_is_followed_without_its_store(
    captured: Path, tmp_path: Path
) -> None:
    """`--source` named its repository, and names it again."""
    project = tmp_path / "job" / "lib"
    project.mkdir()
    (project / "setup.py").write_text("from setuptools import setup\nsetup(name='lib', version='1.0')\n")
    git = ("git", "-C", str(project), "-c", "user.name=Ada", "-c", "user.email=ada@example.org")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "one")):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    (captured / "requirements.txt").write_text(f"six==1.16.0\nlib @ file://{project}\n")
    given, source = tmp_path / "given.lock", f"{project}@{head}"
    done = reprobuild(
        "lock", captured, "-o", given, "--store", tmp_path / "store", "--base", "debian/bookworm", "--accept",
        "no-apt-list", "--source", f"lib={source}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    decisions = msgspec.structs.replace(DECISIONS, sources={"lib": source})
    made = make_context(tmp_path / "other store", folder=tmp_path)
    lock = choose_lock(read_snapshot(captured), captured, tmp_path / "out", decisions, made, given)
    assert [(item.name, item.commit) for item in lock.sources] == [("lib", head)]
    assert made.store.has(lock.sources[0].file.sha256)
