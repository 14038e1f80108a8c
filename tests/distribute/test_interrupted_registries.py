"""push and pull are killed at random moments, and disks are full: nothing is corrupt, and the next run completes."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from reprobuild.errors import DistributionError
from reprobuild.image.model import Image
from reprobuild.image.oci.read import layout_digest, read_layout
from reprobuild.output.directory import read_image
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT
from tests.distribute.counted import Counted
from tests.distribute.folders import make_results, noise
from tests.distribute.test_registries import brought, sent
from tests.registry.conftest import HTPASSWD, docker_login

sys.path.insert(0, str(ROOT / "dev"))
from private_registry import Registry, prepare  # a script of dev/, which is no package

KILLS = 30  # of each of the two
SMALL = {"etc/one": noise(60_000, 1), "etc/two": noise(40_000, 2)}
CLI = [sys.executable, "-m", "reprobuild.cli"]


class World:
    """A real registry behind a counter, an output directory, and the environment of the user."""

    def __init__(
        self, counted: Counted, registry: Registry, folder: Path, contents: Mapping[str, bytes] | None = None
    ) -> None:
        self.counted, self.registry, self.folder = counted, registry, folder
        self.out = folder / "out"
        self.lock, self.image = make_results(self.out, contents)
        self.login = docker_login(folder / "docker", counted.host)
        self.random = random.Random(20261122)

    def name(self, number: int | str) -> str:
        return f"{self.counted.host}/team/k{number}:1"

    def killed(self, total: int, *arguments: str | Path) -> int:
        """Run the program, and kill it when a random part of what it moves went through, or a little later."""
        env = {**os.environ, **self.login, "PYTHONPATH": str(ROOT)}
        after = self.random.randrange(total)
        late = self.random.choice([0.0, 0.0, self.random.random() / 20])
        start = self.counted.up + self.counted.down
        process = subprocess.Popen(
            [*CLI, *map(str, arguments)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

        def kill() -> None:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGKILL)

        def passed(count: int) -> None:
            if count - start >= after:
                threading.Timer(late, kill).start() if late else kill()

        self.counted.passed = passed
        code = process.wait(timeout=120)
        self.counted.passed = lambda _: None
        return code

    def moved(self, act: object) -> int:
        before = self.counted.up + self.counted.down
        assert callable(act)
        act()
        return self.counted.up + self.counted.down - before

    def check_registry(self) -> None:
        """Every blob that the registry keeps is what its name says."""
        for path in (self.registry.storage / "docker/registry/v2/blobs/sha256").glob("*/*/data"):
            assert hash_file(path) == path.parent.name

    def check_whole(self, out: Path) -> None:
        lock, image = read_image(out)
        assert (lock.digest, image.manifest, image.tree) == (
            self.lock.digest, self.image.manifest, self.image.tree,
        )  # fmt: skip
        assert layout_digest(read_layout(out / "image")) == self.image.tree
        [certificate] = out.glob("verdict-*.json")
        assert certificate.read_bytes() == (self.out / "verdict.json").read_bytes()


@pytest.fixture(scope="module")
def program() -> Path:
    return prepare(ROOT / "build" / "engines" / "registry")


@pytest.fixture
def world(program: Path, tmp_path: Path) -> Iterator[World]:
    with Registry(program, tmp_path / "registry", HTPASSWD) as registry, Counted(registry.host) as counted:
        yield World(counted, registry, tmp_path)


@pytest.fixture
def small(program: Path, tmp_path: Path) -> Iterator[World]:
    with Registry(program, tmp_path / "registry", HTPASSWD) as registry, Counted(registry.host) as counted:
        yield World(counted, registry, tmp_path, SMALL)


@pytest.mark.long
def test_a_push_that_is_killed_leaves_nothing_corrupt(small: World) -> None:
    world = small
    total = world.moved(lambda: sent(world.out, world.counted, world.name("all"), env=world.login))
    codes = []
    for number in range(KILLS):
        codes.append(world.killed(total, "push", world.out, world.name(number)))
        world.check_registry()
        sent(world.out, world.counted, world.name(number), env=world.login)
        world.check_registry()
    for number in (0, KILLS - 1):
        back = world.folder / f"back{number}"
        got = brought(world.counted, back, world.name(number), env=world.login)
        assert [one["why"] for one in got["referrers"]] == [""] * 4
        world.check_whole(back)
    assert codes.count(-signal.SIGKILL) >= KILLS * 2 // 3, codes  # some were done before


@pytest.mark.long
def test_a_pull_that_is_killed_leaves_nothing_corrupt(small: World) -> None:
    world = small
    sent(world.out, world.counted, world.name("all"), env=world.login)
    total = world.moved(
        lambda: brought(world.counted, world.folder / "first", world.name("all"), env=world.login)
    )
    codes = []
    for number in range(KILLS):
        back = world.folder / f"back{number}"
        store = world.folder / f"back{number}-store"
        codes.append(world.killed(total, "pull", world.name("all"), "-o", back, "--store", store))
        assert all(hash_file(path) == path.name for path in (store / "blobs").glob("*/*"))
        if (back / "image.json").exists():
            world.check_whole(back)
        brought(world.counted, back, world.name("all"), env=world.login)
        world.check_whole(back)
        assert not [path for path in back.iterdir() if path.name.startswith(".reprobuild-")]
    assert codes.count(-signal.SIGKILL) >= KILLS * 2 // 3, codes


@contextlib.contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def grow(place: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=32m", str(place)], check=True)


def test_a_full_disk_of_the_one_who_pulls(world: World) -> None:
    sent(world.out, world.counted, world.name("all"), env=world.login)
    with small_disk(world.folder / "small", "400k") as place:
        with pytest.raises(DistributionError, match=f"are free for the store {place}") as err:
            brought(world.counted, place / "back", world.name("all"), env=world.login)
        assert err.value.hint.startswith("remove unneeded files (`reprobuild store gc`)")
        assert not (place / "back" / "image.json").exists()
        assert all(hash_file(path) == path.name for path in (place / "back-store/blobs").glob("*/*"))
        grow(place)
        brought(world.counted, place / "back", world.name("all"), env=world.login)
        world.check_whole(place / "back")


def test_a_full_disk_of_the_registry(program: Path, tmp_path: Path) -> None:
    with (
        small_disk(tmp_path / "small", "400k") as place,
        Registry(program, place / "r", HTPASSWD) as registry,
    ):
        image = make_results(tmp_path / "out")[1]
        env = docker_login(tmp_path / "docker", registry.host)
        with pytest.raises(DistributionError, match="answered HTTP 5"):
            sent(tmp_path / "out", registry, env=env)
        grow(place)
        sent(tmp_path / "out", registry, env=env)
        got = brought(registry, tmp_path / "back", env=env)
        back: Image = read_image(tmp_path / "back")[1]
        assert (back.manifest, back.tree, len(got["referrers"])) == (image.manifest, image.tree, 4)
