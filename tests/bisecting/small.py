"""Two small environments with a difference of each kind, whose files the tests make."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reprobuild.api.context import open_context
from reprobuild.bisect.bisection import Judging, bisect
from reprobuild.bisect.links import make_link_finder
from reprobuild.bisect.mixture import make_mixer
from reprobuild.bisect.result import BisectionResult
from reprobuild.bisect.trial import TrialCommand
from reprobuild.infra.tar.entries import list_parents
from reprobuild.infra.tar.writing import TarWriter
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Source, Wheel
from reprobuild.lock.system import EPOCH, Artefact, Base, EnvVar
from reprobuild.pipeline.locked_side import open_source
from reprobuild.run.options import RunOptions
from reprobuild.store.store import Store
from tests.image.made import make_wheel
from tests.verify.samples import make_lock

# What a command of the tests may ask for.
PROLOGUE = """
import os, sys
def v(name):
    try:
        return __import__(name).VERSION
    except ImportError:
        return 0
e = os.environ.get
omp, alpha, beta, delta = e("OMP_NUM_THREADS"), v("alpha"), v("beta"), v("delta")
"""
# The trees of the source: three hunks of a file, an added and a changed file.
_LINES = [f"line{number} = {number}" for number in range(30)]
TREE = {"data.txt": b"one", "same.txt": b"same", "code.py": "\n".join(_LINES).encode()}
OTHER_TREE = {
    "data.txt": b"two", "same.txt": b"same", "more.bin": b"\0",
    "code.py": "\n".join([
        *_LINES[:3], "early = 1", *_LINES[3:14], "line14 = 41", *_LINES[15:29], "line29 = 92",
    ]).encode(),
}  # fmt: skip


def add_wheel(store: Store, folder: Path, name: str, version: int, *requires: str) -> Wheel:
    path = folder / f"{name}-{version}-py3-none-any.whl"
    if not path.exists():
        make_wheel(path, {f"{name}.py": f"VERSION = {version}\n".encode()})
    content = path.read_bytes()
    file = Artefact(filename=path.name, sha256=store.add(content), size=len(content))
    return Wheel(name=name, version=str(version), role="environment", file=file, requires=requires)


def add_source(store: Store, files: Mapping[str, bytes]) -> Source:
    stream = io.BytesIO()
    writer = TarWriter(stream, EPOCH)
    for directory in list_parents(files):
        writer.directory(directory)
    for name, content in sorted(files.items()):
        writer.file(name, content)
    writer.close()
    mark = hashlib.sha1(stream.getvalue(), usedforsecurity=False).hexdigest()
    file = Artefact(filename=f"tool-{mark[:12]}.tar", sha256=store.add(stream.getvalue()), size=stream.tell())
    return Source(
        name="tool", url="", commit="c" * 40, tree=mark, patch=None, path="/src/tool", editable=False, epoch=EPOCH,
        file=file, installed=False,
    )  # fmt: skip


def pair(base: Base, store: Store, folder: Path) -> tuple[Lock, Lock]:
    """Return two locks with a difference of each kind but those of the system."""

    def side(
        environment: Mapping[str, str], wheels: Mapping[str, int], tree: Mapping[str, bytes], **more: Any
    ) -> Lock:
        return make_lock(
            base=base, environment=tuple(EnvVar(name=name, value=value) for name, value in environment.items()),
            wheels=tuple(add_wheel(store, folder, name, version) for name, version in wheels.items()),
            sources=(add_source(store, tree),), **more,
        )  # fmt: skip

    common = {"SAME": "1"}
    first = side(
        {**common, "OMP_NUM_THREADS": "2", "PYTHONPATH": "/src/tool/x:/src/tool/y", "GONE": "1"},
        {"alpha": 1, "beta": 1, "delta": 1, "gamma": 1}, TREE, workdir="/src", epoch=1_700_000_000, seed=None,
    )  # fmt: skip
    second = side(
        {
            **common, "OMP_NUM_THREADS": "4", "PYTHONPATH": "/src/tool/y:/src/tool/x", "NEW": "1",
            "LD_PRELOAD": "/lib/x86_64-linux-gnu/libm.so.6",
        },
        {"alpha": 2, "beta": 2, "delta": 2, "epsilon": 1}, OTHER_TREE, workdir="/src/tool", epoch=1_700_086_400, seed=7,
        profile="strict",
    )  # fmt: skip
    return first, second


@dataclass(frozen=True)
class Bench:
    """A store, and two locks whose files are in it."""

    store: Path
    first: Lock
    second: Lock

    def bisect(
        self, script: str, judging: Judging | None = None, *, first: Lock | None = None, second: Lock | None = None,
        afresh: bool = False, jobs: int = 1, **more: Any,
    ) -> BisectionResult:  # fmt: skip
        """Bisect by a Python script."""
        command = TrialCommand(
            arguments=("python", "-c", PROLOGUE + script), options=RunOptions(engine="builtin"), **more
        )
        context = open_context(self.store, offline=True, caches=False)
        mixer = make_mixer(
            first or self.first, second or self.second, lambda source: open_source(source, context),
            make_link_finder(context),
        )  # fmt: skip
        blank = BisectionResult(first="A", second="B", command=command.arguments, oracle="")
        return bisect(mixer, command, judging or Judging(), context, blank, afresh=afresh, jobs=jobs)


def guilty_names(result: BisectionResult) -> set[str]:
    return {result.differences[number].name for number in result.guilty}
