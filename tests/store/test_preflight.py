"""What is told before anything is fetched: each check with what it refuses, warns of, and lets pass."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from reprobuild.doctor.preflight.preflight import TargetMachine, inspect_machine, preflight
from reprobuild.errors import EngineError, LockError, UsageError
from reprobuild.infra.flock import machine_name
from reprobuild.lock.file import write_lock
from reprobuild.lock.model import BuildRecord, Lock
from reprobuild.lock.python import Wheel
from reprobuild.lock.system import Artefact, Base, Deb
from reprobuild.realise.base import _key
from reprobuild.realise.bytecode import bytecode_key, compiled_key
from reprobuild.realise.realise import is_realised
from reprobuild.realise.runtime import PLACE
from reprobuild.realise.wheels import BuiltWheel as Known
from reprobuild.realise.wheels import wheel_key
from reprobuild.recipe.payload import pack_runtime
from reprobuild.store.store import Store
from tests.conftest import reprobuild
from tests.image.made import Made

HERE = TargetMachine(name="x86_64", flags=frozenset({"avx", "avx2", "sse4_2"}))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


def sealed(made: Made, **more: object) -> Lock:
    lock = made.lock(**more)
    return msgspec.structs.replace(
        lock, realised=msgspec.structs.replace(lock.realised, runtime=pack_runtime(made.store))
    )


def wheel(filename: str, *, size: int = 1, role: str = "environment") -> Wheel:
    name, version = filename.split("-")[:2]
    file = Artefact(filename=filename, sha256="7" * 64, size=size, url="http://x.test/" + filename)
    return msgspec.convert(
        {"name": name, "version": version, "role": role, "file": msgspec.to_builtins(file)}, Wheel
    )


def libc(version: str) -> Base:
    file = Artefact(filename="libc6.deb", sha256="8" * 64, size=1, url="http://x.test/libc6.deb")
    deb = Deb(name="libc6", version=version, architecture="amd64", essential=True, file=file)
    return Base(distribution="debian", release="bookworm", packages=(deb,))


def test_nothing_to_say(made: Made, tmp_path: Path) -> None:
    made.wheel("one", {"one.py": b""})
    assert preflight(sealed(made), made.store, tmp_path / "not" / "there", HERE) == []
    assert inspect_machine(os.environ).flags
    assert inspect_machine(os.environ).name


@pytest.mark.parametrize(
    ("platform", "machine", "fits"),
    [
        ("linux/amd64", "x86_64", True), ("linux/arm64", "aarch64", True), ("linux/arm64", "x86_64", False),
        ("linux/amd64", "aarch64", False), ("linux/riscv64", "riscv64", True),
        ("linux/arm64/v8", "aarch64", True),
    ],
)  # fmt: skip
def test_architectures(platform: str, machine: str, fits: bool, made: Made, tmp_path: Path) -> None:
    """What was realised elsewhere can be built here; what was not cannot."""
    named = TargetMachine(name=machine, flags=frozenset())
    found = preflight(sealed(made, platform=platform), made.store, tmp_path, named)
    told = f"the lock is of {platform}, and this machine is {machine}: the image can be built, and not be run here"
    assert found == ([] if fits else [told])
    unsealed = made.unsealed_lock(platform=platform)
    if fits:
        assert preflight(unsealed, made.store, tmp_path, named) == []
        return
    with pytest.raises(UsageError, match=f"and this machine is {machine}") as caught:
        preflight(unsealed, made.store, tmp_path, named)
    assert caught.value.hint == "build it on such a machine: programs of the image must be run for it"


@pytest.mark.parametrize(
    ("filename", "version", "needs"),
    [
        ("a-1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", "2.36-9+deb12u10", None),
        ("a-1-cp311-cp311-manylinux_2_28_x86_64.whl", "2.36-9", None),
        ("a-1-cp311-cp311-manylinux_2_39_x86_64.whl", "2.36-9", "2.39"),
        ("a-1-cp311-cp311-manylinux_2_39_x86_64.manylinux_2_28_x86_64.whl", "2.36-9", None),
        ("a-1-cp311-cp311-manylinux2014_x86_64.whl", "2.13-1", "2.17"),
        ("a-1-cp311-cp311-manylinux1_x86_64.whl", "2.13-1", None),
        ("a-1-cp311-cp311-linux_x86_64.whl", "2.13-1", None),
        ("a-1-py3-none-any.whl", "2.13-1", None),
        ("a-no-wheel", "2.13-1", None),
        ("a-1-cp311-cp311-manylinux_2_39_x86_64.whl", "odd", None),
    ],
)
def test_glibc(filename: str, version: str, needs: str | None, made: Made, tmp_path: Path) -> None:
    lock = sealed(made, base=libc(version), wheels=(wheel(filename),))
    if needs is None:
        assert preflight(lock, made.store, tmp_path, HERE) == []
        return
    with pytest.raises(
        LockError, match=rf"{filename} needs glibc {needs}, and the base has 2\.\d+"
    ) as caught:
        preflight(lock, made.store, tmp_path, HERE)
    assert caught.value.hint == "choose a newer base with `--base`, and make the lock again"


@pytest.mark.parametrize(
    ("filename", "role", "flags", "lacking"),
    [
        ("tensorflow-2.16.1-cp311-cp311-linux_x86_64.whl", "environment", {"sse2"}, "avx"),
        ("tensorflow-1.5-cp311-cp311-linux_x86_64.whl", "environment", {"sse2"}, None),
        ("tensorflow-2.16.1-cp311-cp311-linux_x86_64.whl", "environment", {"avx"}, None),
        ("tensorflow-2.16.1-cp311-cp311-linux_x86_64.whl", "build", {"sse2"}, None),
        ("Tensorflow_CPU-odd-cp311-cp311-linux_x86_64.whl", "environment", {"sse2"}, "avx"),
        ("polars-1.0-cp38-abi3-linux_x86_64.whl", "environment", {"avx"}, "avx2"),
        ("jaxlib-0.4.30-cp311-cp311-linux_x86_64.whl", "environment", set(), None),
        ("numpy-2.0-cp311-cp311-linux_x86_64.whl", "environment", {"sse2"}, None),
    ],
)
def test_processors(
    filename: str, role: str, flags: set[str], lacking: str | None, made: Made, tmp_path: Path
) -> None:
    lock = sealed(made, wheels=(wheel(filename, role=role),))
    found = preflight(lock, made.store, tmp_path, TargetMachine(name="x86_64", flags=frozenset(flags)))
    if lacking is None:
        assert found == []
    else:
        (told,) = found
        assert f"needs a processor with {lacking}, which this one lacks: it will not run here (" in told


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_disks(small_disk: Path, tmp_path: Path) -> None:
    store = Store(small_disk / "not" / "there")
    large = Made(tmp_path / "made").unsealed_lock(wheels=(wheel("a-1-py3-none-any.whl", size=9_000_000),))
    with pytest.raises(UsageError, match=r"there has room for 8 MB, and 9 MB are to be fetched") as caught:
        preflight(large, store, tmp_path / "out", HERE)
    assert caught.value.hint == "make room there, or name another directory (`--store`, `--output`)"
    some = msgspec.structs.replace(large, wheels=(wheel("a-1-py3-none-any.whl", size=6_000_000),))
    assert preflight(some, store, tmp_path / "out", HERE) == [
        f"{store.root} has room for 8 MB, and about 17 MB will be needed"
    ]
    large = msgspec.structs.replace(large, wheels=(wheel("a-1-py3-none-any.whl", size=7_000_000),))
    part = store.root / "partial" / f"{large.wheels[0].file.sha256}.{machine_name()}"
    part.parent.mkdir(parents=True)
    part.write_bytes(b"x" * 4_000_000)  # an earlier run filled the disk, and this one goes on
    assert len(preflight(large, store, tmp_path / "out", HERE)) == 1
    part.rename(part.with_name("other"))
    with pytest.raises(UsageError, match=r"room for 4 MB, and 7 MB are to be fetched"):
        preflight(large, store, tmp_path / "out", HERE)
    part.with_name("other").unlink()
    elsewhere = Store(tmp_path / "store")
    assert preflight(some, elsewhere, small_disk / "out", HERE) == [
        f"{small_disk / 'out'} has room for 8 MB, and about 17 MB will be needed"
    ]
    assert preflight(some, elsewhere, tmp_path / "out", HERE) == []


def test_a_machine_without_namespaces_is_told_before_anything_is_fetched(made: Made, tmp_path: Path) -> None:
    """Unless nothing must be run any more."""
    confined = (sys.executable, "-m", "tests.store.other_machine", "confined")
    found = sealed(made)
    write_lock(found, tmp_path / "sealed.lock")
    write_lock(made.unsealed_lock(wheels=(wheel("a-1-py3-none-any.whl"),)), tmp_path / "unsealed.lock")
    made.store.release()
    rest = ("-o", tmp_path / "out", "--store", made.store.root)
    done = reprobuild("build", tmp_path / "sealed.lock", *rest, prefix=confined)
    assert done.returncode == 0, done.stderr
    done = reprobuild("build", tmp_path / "unsealed.lock", *rest, prefix=confined)
    assert done.returncode == EngineError.exit_code
    assert "error: this machine does not let the user make namespaces: " in done.stderr
    assert "hint: user namespaces must be allowed" in done.stderr
    assert "x.test" not in done.stderr  # the address of the wheel


def test_what_is_remembered_must_not_be_run(made: Made) -> None:
    one = made.wheel("one", {"one.py": b""})
    lock = made.unsealed_lock()
    assert not is_realised(lock, made.store)
    made.store.remember(_key(lock.base, lock.epoch), {"tree": made.base})
    assert not is_realised(lock, made.store)
    runtime = pack_runtime(made.store)
    made.store.remember(compiled_key(runtime, PLACE, lock.base, lock.interpreter), runtime)
    assert not is_realised(lock, made.store)
    made.store.remember(bytecode_key(one, lock.base, lock.interpreter), made.store.add(b"bytecode"))
    assert is_realised(lock, made.store)
    source = made.source("two", [])
    with_source = made.unsealed_lock()
    assert not is_realised(with_source, made.store)
    built = made.wheel("two", {"two.py": b""}, built=True)
    known = Known(wheel=built, built=BuildRecord(name="two", wheel=built.file.sha256))
    made.store.remember(wheel_key(source, [], lock, ""), msgspec.to_builtins(known))
    assert not is_realised(with_source, made.store)
    made.store.remember(bytecode_key(built, lock.base, lock.interpreter), made.store.add(b"more"))
    assert is_realised(with_source, made.store)
    made.store.blob(built.file.sha256).unlink()
    assert not is_realised(with_source, made.store)
