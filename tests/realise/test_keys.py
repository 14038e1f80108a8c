"""Keys of what is remembered: what a hostile lock made of its own base is never taken for another one."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter, Sdist
from reprobuild.lock.system import Artefact, Base, Deb
from reprobuild.realise.base import _write_plan
from reprobuild.realise.bytecode import bytecode_key
from reprobuild.realise.interpreter import _key, recall_interpreter
from reprobuild.realise.wheels import wheel_key
from tests.image.made import Made
from tests.system.samples import ar_bytes, member, tar_bytes


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


def test_what_an_interpreter_makes_is_remembered_for_its_own_base_alone(made: Made) -> None:
    """A script of any package, and any tool, can change the library of the base that it is installed in."""
    replace = msgspec.structs.replace
    wheel = made.wheel("pkg", {"pkg.py": b""})
    own = standing_alone(made)
    bases = other_bases(own.base)
    python = replace(own.interpreter, executable="/usr/bin/other")
    assert bytecode_key(wheel, own.base, own.interpreter) == bytecode_key(wheel, bases[0], own.interpreter)
    others = [bytecode_key(wheel, base, own.interpreter) for base in bases]
    others += [bytecode_key(wheel, own.base, python), bytecode_key(wheel, own.base, own.interpreter, "tree")]
    assert len(set(others)) == len(others)
    for kind in ("standalone", "conda"):
        lock = replace(own, interpreter=replace(own.interpreter, kind=kind))
        made.store.remember(_key(lock), made.store.add(b"a tree"))
        held = [recall_interpreter(replace(lock, base=base), made.store) is not None for base in bases]
        assert held == [True, False, False, False, False]
        moved = replace(lock, interpreter=replace(python, kind=kind))
        assert recall_interpreter(moved, made.store) is None
    sdist = Sdist(name="p", version="1", file=Artefact(filename="p-1.tar.gz", sha256="1" * 64, size=1))
    assert len({wheel_key(sdist, [], replace(own, base=base), "") for base in bases}) == len(bases)


def test_the_order_of_a_locks_packages_decides_no_plan(made: Made, tmp_path: Path) -> None:
    """Two packages can have one name for dpkg; a foreign lock lists them in either order under the same key."""
    debs = tuple(packed_deb(made, architecture) for architecture in ("all", "amd64", "i386"))
    base = Base(distribution="debian", release="bookworm", packages=debs)
    plans = []
    for number, packages in enumerate((debs, debs[::-1])):
        plan, folder = tmp_path / f"plan-{number}", tmp_path / f"debs-{number}"
        plan.mkdir()
        folder.mkdir()
        _write_plan(msgspec.structs.replace(base, packages=packages), made.store, plan, folder)
        plans.append({path.name: path.read_text() for path in plan.iterdir()})
    assert plans[0] == plans[1]


def packed_deb(made: Made, architecture: str) -> Deb:
    """Return a package in the store."""
    control = f"Package: users\nVersion: 1\nArchitecture: {architecture}\n".encode()
    parts = [
        ("debian-binary", b"2.0\n"),
        ("control.tar", tar_bytes([(member("./control"), control)])),
        ("data.tar", tar_bytes([])),
    ]
    content = ar_bytes(parts)
    file = Artefact(filename=f"users_{architecture}.deb", sha256=made.store.add(content), size=len(content))
    return Deb(name="users", version="1", architecture=architecture, essential=False, file=file)


def standing_alone(made: Made) -> Lock:
    """Return a lock whose interpreter is an archive, and whose base has a package."""
    lock = made.unsealed_lock()
    file = Artefact(filename="python.tar.gz", sha256="2" * 64, size=1)
    python = Interpreter(
        version="3.11.9", executable="/opt/python/bin/python3.11", evidence="", kind="standalone", file=file
    )
    base = msgspec.structs.replace(lock.base, packages=(a_deb("libc6"),), image=None)
    return msgspec.structs.replace(lock, interpreter=python, base=base)


def other_bases(base: Base) -> list[Base]:
    """Return a base, and with one package more, another of that name, one more tool, and as an essential package."""
    replace = msgspec.structs.replace
    more, tools = (*base.packages, a_deb("zz-more")), (*base.tools, a_deb("tar"))
    forged = replace(base.packages[0], file=replace(base.packages[0].file, sha256="3" * 64))
    essential = replace(base.packages[0], essential=True)
    return [
        base, replace(base, packages=more), replace(base, packages=(forged,)), replace(base, tools=tools),
        replace(base, packages=(essential,)),
    ]  # fmt: skip


def a_deb(name: str) -> Deb:
    file = Artefact(filename=f"{name}.deb", sha256=hashlib.sha256(name.encode()).hexdigest(), size=1)
    return Deb(name=name, version="1", architecture="amd64", essential=False, file=file)
