"""Locks that do not come out as they say, wheels that harm, and programs that fail in the sandbox."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from reprobuild.errors import BuildError
from reprobuild.lock import Interpreter, Lock, Realised
from reprobuild.payload import pack_runtime
from reprobuild.realise import realise
from reprobuild.realise.base import _key
from reprobuild.realise.bytecode import compile_wheels
from reprobuild.realise.wheels import build_wheel
from reprobuild.sandbox import Root
from tests.image.made import EPOCH, Made, file


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root that holds no more than `true`, `false` and what the sandbox needs to start them."""
    root = tmp_path / "root"
    programs = [Path(f"/usr/bin/{name}") for name in ("env", "true", "false")]
    needed = subprocess.run(["ldd", *map(str, programs)], check=True, capture_output=True, text=True).stdout
    for path in {*programs, *(Path(name) for name in re.findall(r"(/\S+) \(0x", needed))}:
        place = root / path.relative_to("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    return root


def python(program: str) -> Interpreter:
    """Return an interpreter that does not do its work."""
    return Interpreter(version="3.11.2", executable=program, evidence="made")


def remembered(made: Made, **realised: str) -> Lock:
    """Return a sealed lock whose base is in the store, so that nothing has to be run for it."""
    lock = made.lock(realised=None)
    made.store.remember(_key(lock.base, EPOCH), {"tree": made.base})
    sealed = Realised(
        **{"base": made.base, "runtime": pack_runtime(made.store), **realised}, wheels=(), bytecode=()
    )
    return msgspec.structs.replace(lock, realised=sealed)


def test_what_the_store_has_is_taken_as_it_is(made: Made) -> None:
    lock = remembered(made)
    assert realise(msgspec.structs.replace(lock, realised=None), made.store) == lock


def test_the_runtime_package_of_another_version(made: Made) -> None:
    with pytest.raises(BuildError, match="sealed by another version of reprobuild") as caught:
        realise(remembered(made, runtime="1" * 64), made.store)
    assert caught.value.hint == "use that version, or make a new lock"


def test_a_base_that_comes_out_otherwise(made: Made) -> None:
    words = f"the base came out as {made.base[:12]}, and the lock says 111111111111"
    with pytest.raises(BuildError, match=words) as caught:
        realise(remembered(made, base="1" * 64), made.store)
    assert caught.value.hint == (
        "another kernel or another reprobuild made it; take the first one's store, or make a new lock"
    )


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "pkg/../../evil.py"])
def test_a_wheel_that_leads_out(made: Made, root: Path, name: str) -> None:
    wheel = made.wheel("pkg", {name: b""})
    with pytest.raises(BuildError, match="leads out of its wheel") as caught:
        compile_wheels([wheel], made.lock().base, python("/usr/bin/true"), Root(folder=root), made.store)
    assert caught.value.hint == "the wheel is hostile or damaged; do not use it"


def test_a_compiler_that_fails(made: Made, root: Path) -> None:
    wheel = made.wheel("pkg", {"pkg.py": b""})
    with pytest.raises(BuildError, match="could not compile the modules of the environment") as caught:
        compile_wheels([wheel], made.lock().base, python("/usr/bin/false"), Root(folder=root), made.store)
    assert caught.value.hint == "is the disk full?"


def test_a_backend_that_fails(made: Made, root: Path) -> None:
    source = made.source("proj", [file("a.py", b"")])
    with pytest.raises(BuildError, match="could not build proj") as caught:
        build_wheel(source, [], python("/usr/bin/false"), Root(folder=root), made.store, EPOCH)
    assert caught.value.hint == ("build proj by hand with its backend; there is no network while it is built")


def test_a_backend_that_leaves_no_wheel(made: Made, root: Path) -> None:
    source = made.source("proj", [file("a.py", b"")])
    with pytest.raises(BuildError, match="the backend of proj left no wheel") as caught:
        build_wheel(source, [], python("/usr/bin/true"), Root(folder=root), made.store, EPOCH)
    assert caught.value.hint == "build it by hand with `python -m build --wheel`"
