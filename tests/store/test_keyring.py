"""A store that is handed over: its own key is not believed, so what it remembers changes nothing."""

from __future__ import annotations

import grp
import json
import os
import secrets
import shutil
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from reprobuild.cli import common
from reprobuild.errors import UsageError
from reprobuild.image.layers.blobs import LEVEL
from reprobuild.image.layers.layers import make_layer
from reprobuild.image.layers.plan import plan
from reprobuild.lock.file import write_lock
from reprobuild.recipe.payload import pack_runtime
from reprobuild.store.keyring import StoreKeyring, keyring
from reprobuild.store.sharing import join, key_note, share
from reprobuild.store.signature import make_key, read_key, stored_key
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.image.made import Made

EVE = 12347


@pytest.fixture
def own(tmp_path: Path) -> StoreKeyring:
    return StoreKeyring(tmp_path / "home" / "keys")


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """A store that somebody else made with this program, packed into a tar, and unpacked by the user."""
    theirs = Store(tmp_path / "theirs", StoreKeyring(tmp_path / "their-home"))
    theirs.remember("k", {"blob": "forged"})
    theirs.add(b"content")
    with tarfile.open(tmp_path / "given.tar", "w") as tar:
        tar.add(theirs.root, "given")
    subprocess.run(["tar", "-xf", tmp_path / "given.tar"], cwd=tmp_path, check=True)
    return tmp_path / "given"


def test_what_a_store_that_is_handed_over_remembers_is_not_believed(given: Path, own: StoreKeyring) -> None:
    assert stored_key(given) is not None
    mine = Store(given, own)
    assert mine.recall("k") is None
    assert mine.verified(mine.add(b"content"), "it").read_bytes() == b"content"
    mine.remember("mine", 1)
    again = Store(given, own)
    assert again.recall("mine") == 1
    assert again.recall("k") is None


def test_one_of_another_user_is_not_believed_either(given: Path, own: StoreKeyring) -> None:
    """Its key stays: what the user makes is remembered by this process alone."""
    for path in (given, *given.rglob("*")):
        os.chown(path, EVE, EVE)
    before = (given / "key").read_bytes()
    mine = Store(given, own)
    assert mine.recall("k") is None
    mine.remember("k", "mine")
    assert mine.recall("k") == "mine"
    assert Store(given, own).recall("k") is None
    assert (given / "key").read_bytes() == before
    assert "`reprobuild store join " in key_note(mine)
    exposure = (
        f"{given} belongs to user number {EVE}, who can exchange its files while a command uses them: use a store of "
        "your own where you do not trust that user as yourself"
    )
    assert key_note(mine).endswith(f"; {exposure}")
    (given / "key").unlink()
    assert key_note(Store(given, own)) == exposure


@pytest.mark.parametrize("mode", [0o600, 0o640])
def test_a_key_from_elsewhere_gives_way_in_a_private_store(given: Path, own: StoreKeyring, mode: int) -> None:
    (given / "key").chmod(mode)
    before = stored_key(given)
    made = make_key(given, own)
    assert (made is None) == (mode == 0o640)
    assert (stored_key(given) == before) == (mode == 0o640)
    assert read_key(given, own) == made
    assert make_key(given, own) == made


def build(made: Made, folder: Path, user: Path, lock: str = "lock") -> str:
    """Build a lock on a store as a user, and return the digest of the image."""
    done = reprobuild(
        "build", made.store.root.parent / lock, "-o", folder, "--store", made.store.root, "--offline",
        env={**os.environ, "XDG_DATA_HOME": str(user)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return str(json.loads((folder / "image.json").read_bytes())["manifest"])


def test_a_build_with_it_makes_the_same_bytes(tmp_path: Path) -> None:
    """The forged result: the layer of the wheels is that of another wheel."""
    user, eve = tmp_path / "user", tmp_path / "eve"
    made = Made(tmp_path / "made")
    keys, layers = [], []
    for name in ("one", "two"):
        made.wheels.clear()
        made.wheel(name, {f"{name}/__init__.py": b"ONE = 1\n"})
        lock = made.lock()
        sealed = msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
        lock = msgspec.structs.replace(lock, realised=sealed)
        write_lock(lock, made.store.root.parent / name)
        (recipe,) = (recipe for recipe in plan(lock, made.store) if recipe.title == "1 wheels")
        keys.append(recipe.key(LEVEL))
        layers.append(make_layer(recipe, made.store))
    shutil.rmtree(made.store.root / "made")
    (made.store.root / "key").unlink()
    honest = build(made, tmp_path / "honest", user, "one")
    shutil.rmtree(made.store.root / "made")
    (made.store.root / "key").unlink()
    theirs = Store(made.store.root, keyring({"XDG_DATA_HOME": str(eve)}))
    theirs.remember(keys[0], msgspec.to_builtins(layers[1]))
    assert build(made, tmp_path / "forged", eve, "one") != honest, (
        "whoever believes the key gets another image"
    )
    assert build(made, tmp_path / "out", user, "one") == honest
    theirs = Store(made.store.root, keyring({"XDG_DATA_HOME": str(eve)}))
    theirs.remember(keys[0], msgspec.to_builtins(layers[1]))
    for path in (made.store.root, made.store.root / "key"):
        os.chown(path, EVE, EVE)
    assert build(made, tmp_path / "of another", tmp_path / "third", "one") == honest


def test_keys_that_others_could_record_do_not_count(own: StoreKeyring, tmp_path: Path) -> None:
    key = secrets.token_bytes(32)
    assert not own.has(key)
    assert own.usable
    assert own.add(key)
    assert own.folder is not None
    (path,) = own.folder.iterdir()
    assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(own.folder.stat().st_mode)) == (0o600, 0o700)
    for changed, honest in ((path, 0o600), (own.folder, 0o700)):
        for mode in (honest | 0o020, honest | 0o002):
            changed.chmod(mode)
            assert not own.has(key)
        changed.chmod(honest)
        os.chown(changed, EVE, EVE)
        assert not own.has(key)
        os.chown(changed, os.geteuid(), os.getegid())
        assert own.has(key)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert not own.has(key)
    assert not own.has(secrets.token_bytes(32))


def test_the_folder_is_where_the_environment_says() -> None:
    home = Path("/home/u/.local/share/reprobuild/keys")
    assert keyring({"HOME": "/home/u"}).folder == home
    assert keyring({"HOME": "/home/u", "XDG_DATA_HOME": "data"}).folder == home
    assert keyring({"HOME": "/home/u", "XDG_DATA_HOME": "/d"}).folder == Path("/d/reprobuild/keys")
    assert keyring({}).folder is None
    assert keyring().folder == Path(os.environ["XDG_DATA_HOME"]) / "reprobuild" / "keys"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Ask a store for results as a command does, and return what it said of the key."""

    def ask(store: Path, **env: str) -> str:
        for name in ("HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        session = common.make_context(store)
        assert capsys.readouterr().err == "", "a command that asks for no results says nothing"
        for _ in range(2):
            session.store.recall("k")
        return capsys.readouterr().err.rstrip("\n")

    return ask


def test_without_a_folder_for_keys_the_program_works_and_says_so(
    given: Path, told: Callable[..., str], tmp_path: Path
) -> None:
    mine = Store(given, StoreKeyring(None))
    before = sorted((path, path.stat().st_mtime_ns) for path in given.rglob("*"))
    assert mine.recall("k") is None
    mine.remember("k", 1)
    assert mine.recall("k") == 1
    assert sorted((path, path.stat().st_mtime_ns) for path in given.rglob("*")) == before
    (tmp_path / "file").touch()
    without = "an environment without XDG_DATA_HOME and HOME"
    mend = "let XDG_DATA_HOME name a directory that you alone can write to"
    assert (
        told(given) == f"what {given} remembers does not count: {without} cannot keep keys of stores; {mend}"
    )
    assert f"{tmp_path}/file/reprobuild/keys cannot keep keys" in told(
        given, XDG_DATA_HOME=f"{tmp_path}/file"
    )
    with pytest.raises(UsageError) as caught:
        join(mine, lambda _: None)
    assert str(caught.value) == f"the key of {given} cannot be kept: {without} cannot keep keys of stores"
    assert caught.value.hint == mend
    join(Store(given, keyring({"XDG_DATA_HOME": f"{tmp_path}/data"})), lambda _: None)
    assert told(given, XDG_DATA_HOME=f"{tmp_path}/data") == ""


def test_a_key_from_elsewhere_is_told_once(given: Path, told: Callable[..., str], tmp_path: Path) -> None:
    env = {"XDG_DATA_HOME": str(tmp_path / "data")}
    line = f"{given} has a key from elsewhere: what it remembers is made again, under a key of your own"
    assert told(given, **env) == line
    Store(given, keyring(env)).remember("k", 1)
    assert told(given, **env) == ""


def test_a_shared_store_is_joined(given: Path, told: Callable[..., str], tmp_path: Path) -> None:
    (given / "key").chmod(0o640)
    env = {"XDG_DATA_HOME": str(tmp_path / "data")}
    line = (
        f"{given} has a key that you did not join: what it remembers does not count; to trust each of its writers as "
        f"yourself: `reprobuild store join {given}`"
    )
    assert told(given, **env) == line
    assert Store(given, keyring(env)).recall("k") is None
    done = reprobuild("store", "join", given, env={**os.environ, **env})
    assert done.returncode == 0, done.stderr
    assert done.stderr.endswith(f"] {given} belongs to root\n")
    assert done.stdout == f"{given} of root is joined: each of its writers is trusted as you are\n"
    assert told(given, **env) == ""
    assert Store(given, keyring(env)).recall("k") == {"blob": "forged"}, "the user chose to trust its writers"
    for path in (given, given / "key"):
        os.chown(path, EVE, EVE)
    done = reprobuild("store", "join", given, "--json", env={**os.environ, **env})
    assert json.loads(done.stdout) == {"version": 1, "store": str(given), "owner": f"user number {EVE}"}


def test_what_cannot_be_joined(own: StoreKeyring, tmp_path: Path) -> None:
    store = Store(tmp_path / "store", own)
    hint = "name a store, such as the one that `reprobuild store share --group NAME --store DIR` shares"
    for problem in (f"there is no directory {tmp_path}/store", "store has no key that this user can read"):
        with pytest.raises(UsageError, match=problem) as caught:
            join(store, lambda _: None)
        assert caught.value.hint == hint
        store.make()
    share(store, grp.getgrgid(os.getgid()).gr_name)
    join(store, lambda _: None)
