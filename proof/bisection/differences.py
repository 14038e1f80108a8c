"""Differences of all kinds that a pair of small locks can have, each with a Python expression that sees it."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.ecosystems.apt.apt_config import configured_index
from reprobuild.ecosystems.apt.index import SystemIndex
from reprobuild.infra.http.client import Net
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter, Wheel
from reprobuild.lock.system import Artefact, Base, EnvVar
from reprobuild.resolve.system.packages import resolve_base
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.bisecting.small import PROLOGUE as SMALL
from tests.bisecting.small import add_source, add_wheel
from tests.image.made import make_wheel
from tests.interpreters import MINOR, VERSION, make_build
from tests.verify.samples import make_lock

# The Python that runs the proof, if it is another patch release than that of the system.
_OWN = Path(sys.base_prefix)
_SHARED = _OWN / "lib" / f"libpython{MINOR}.so.1.0"
PATCH = platform.python_version() if platform.python_version().startswith(f"{MINOR}.") else VERSION
ROOTS = ("python3.11", "passwd")
_HUNK_GAP = 8  # lines between two changed ones, so that each is a hunk
_LIBM = "/lib/x86_64-linux-gnu/libm.so.6"
# What the expressions use.
PROLOGUE = f"""{SMALL}
def path(name):
    return [p for p in sys.path if p.startswith("/src/tool/")][:1] == ["/src/tool/" + name]
code = open("/src/tool/code.py").read()
"""


class Planted(Struct, frozen=True, kw_only=True):
    """A difference of a pair.

    Attributes:
        kind: as in `bisect`, or finer.
        name: as `bisect` reports it.
        test: an expression that is true on side B, and false on side A.
        wheels, variables: of A and B, by name; None where a side lacks it.
        line: of `code.py`, which differs.
        package: of Debian, which only B has.
        fields: of the lock, in A and B.
        standalone: whether B has a build of Python that is no package: another patch release if there is one.
        build: a project of one version, of which A and B have other wheels.
    """

    kind: str
    name: str
    test: str
    wheels: Mapping[str, tuple[int | None, int | None]] = {}
    variables: Mapping[str, tuple[str | None, str | None]] = {}
    line: int | None = None
    package: str = ""
    fields: Mapping[str, tuple[Any, Any]] = {}
    standalone: bool = False
    build: str = ""


def special() -> list[Planted]:
    """Return the differences that a pair can have once."""
    return [
        _variable("OMP_NUM_THREADS", "2", "4"),
        _variable("MKL_CBWR", "AVX2", "COMPATIBLE"),
        _variable("LD_PRELOAD", None, _LIBM, kind="preload"),
        Planted(
            kind="order", name="PYTHONPATH", test="path('y')",
            variables={"PYTHONPATH": ("/src/tool/x:/src/tool/y", "/src/tool/y:/src/tool/x")},
        ),
        Planted(kind="seed", name="seed", test="e('REPROBUILD_SEED') == '7'", fields={"seed": (None, 7)}),
        Planted(
            kind="profile", name="profile", test="'strict' in e('REPROBUILD_PROFILE', '')",
            fields={"profile": ("torch", "strict")},
        ),
        Planted(
            kind="workdir", name="workdir", test="os.getcwd() == '/src/tool'", fields={"workdir": ("/src", "/src/tool")}
        ),
        Planted(kind="system", name="less", test="os.path.exists('/usr/bin/less')", package="less"),
        Planted(
            kind="interpreter", name="python", standalone=True,
            test=f"'/opt/python' in os.path.realpath(sys.executable) and sys.version.startswith('{PATCH} ')",
        ),
        Planted(kind="build", name="blas", test="__import__('blas').VENDOR == 'second'", build="blas"),
    ]  # fmt: skip


def ordinary(kind: str, number: int) -> Planted:
    """Return a difference that a pair can have many times.

    Args:
        kind: `version`, `added`, `removed`, `variable` or `hunk`.
        number: of it in the pair.
    """
    if kind == "hunk":
        line = 3 + _HUNK_GAP * number
        return Planted(
            kind=kind, name=f"tool/code.py:{line + 1}", test=f"'line{line} = -1' in code", line=line
        )
    if kind == "variable":
        return _variable(f"V{number:03}", "1", "2")
    name = f"{kind[0]}{number:03}"
    versions, test = {
        "version": ((1, 2), "== 2"), "added": ((None, 1), "== 1"), "removed": ((1, None), "== 0"),
    }[kind]  # fmt: skip
    return Planted(kind=kind, name=name, test=f"v('{name}') {test}", wheels={name: versions})


def _variable(name: str, first: str | None, second: str | None, kind: str = "variable") -> Planted:
    return Planted(kind=kind, name=name, test=f"e('{name}') == '{second}'", variables={name: (first, second)})


class World:
    """The files of the pairs, in a store; each is made once."""

    def __init__(self, store: Store, folder: Path) -> None:
        """Keep the wheels and the builds of Python in `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.store, self._folder = store, folder
        self._bases: dict[frozenset[str], Base] = {}

    def pair(self, differences: Sequence[Planted], seed: int = 0) -> tuple[Lock, Lock]:
        """Return the locks of A and B."""
        first, second = (self._side(differences, side) for side in (0, 1))
        return first, msgspec.structs.replace(second, snapshot=f"{seed:064x}")

    def base(self, packages: frozenset[str]) -> Base:
        """Return the small base with these packages; its files are in the store."""
        if packages not in self._bases:
            base, _ = resolve_base((), index=self._index, roots=[*ROOTS, *sorted(packages)])
            fetch([deb.file for deb in (*base.packages, *base.tools)], self.store, Net())
            self._bases[packages] = base
        return self._bases[packages]

    @functools.cached_property
    def _index(self) -> SystemIndex:
        return configured_index("debian", "bookworm", env=os.environ, folder=self.store.root / "apt")

    @functools.cached_property
    def _standalone(self) -> Interpreter:
        path = self._folder / "python.tar.gz"
        if not path.exists():
            self._make_build(path)
        content = path.read_bytes()
        file = Artefact(filename=path.name, sha256=self.store.add(content), size=len(content))
        return Interpreter(
            version=PATCH,
            executable=f"/opt/python/bin/python{MINOR}",
            evidence="made",
            kind="standalone",
            file=file,
        )

    def _make_build(self, path: Path) -> None:
        """Write a build of Python `PATCH`; its program looks for its library beside itself."""
        if PATCH == VERSION:
            make_build(path)
            return
        program, place = path.with_name("program"), os.fsencode(_OWN / "lib")
        content = (_OWN / "bin" / f"python{MINOR}").read_bytes()
        program.write_bytes(
            content.replace(place + b"\0", b"$ORIGIN/../lib".ljust(len(place), b"\0") + b"\0")
        )
        program.chmod(0o755)
        more = {f"python/lib/{_SHARED.name}": _SHARED.read_bytes()} if _SHARED.exists() else {}
        make_build(path, more=more, program=program, library=_OWN / "lib" / f"python{MINOR}")

    def _add_wheel(self, name: str, version: int) -> Wheel:
        return add_wheel(self.store, self._folder, name, version)

    def _add_build(self, name: str, side: int) -> Wheel:
        """Return a wheel of version 1 that differs from that of the other side by its build."""
        path = self._folder / f"{name}-1-{side + 1}-py3-none-any.whl"
        if not path.exists():
            make_wheel(path, {f"{name}.py": f"VENDOR = {('first', 'second')[side]!r}\n".encode()})
        content = path.read_bytes()
        file = Artefact(filename=path.name, sha256=self.store.add(content), size=len(content))
        return Wheel(name=name, version="1", role="environment", file=file)

    def _side(self, differences: Sequence[Planted], side: int) -> Lock:
        variables = {name: pair[side] for item in differences for name, pair in item.variables.items()}
        versions = {name: pair[side] for item in differences for name, pair in item.wheels.items()}
        fields = {name: pair[side] for item in differences for name, pair in item.fields.items()}
        packages = frozenset(item.package for item in differences if item.package) if side else frozenset()
        changed = {item.line for item in differences if item.line is not None} if side else set()
        lines = [f"line{number} = {-1 if number in changed else number}" for number in range(200)]
        if side and any(item.standalone for item in differences):
            fields["interpreter"] = self._standalone
        fields = {"workdir": "/src", "seed": None, **fields}
        return make_lock(
            base=self.base(packages),
            environment=tuple(EnvVar(name=name, value=value) for name, value in sorted(variables.items()) if value),
            wheels=(
                *(self._add_wheel(name, version) for name, version in sorted(versions.items()) if version),
                *(self._add_build(item.build, side) for item in differences if item.build),
            ),
            sources=(add_source(self.store, {"code.py": "\n".join(lines).encode()}),), **fields,
        )  # fmt: skip
