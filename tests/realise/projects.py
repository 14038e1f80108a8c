"""Small projects of every back end, and a bench that locks and builds them through the program's own code."""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Mapping, Sequence

from reprobuild.config.overrides import BuildDecision
from reprobuild.ecosystems.pypi.files import FileLists
from reprobuild.ecosystems.pypi.indexes import read_indexes
from reprobuild.ecosystems.pypi.target import WheelTarget
from reprobuild.infra.http.client import Net
from reprobuild.infra.sandbox.model import Root
from reprobuild.lock.file import VERSION
from reprobuild.lock.model import Lock
from reprobuild.lock.python import Interpreter, Sdist, Source, Wheel
from reprobuild.lock.recorded import RecordedDecisions
from reprobuild.lock.system import EPOCH, Artefact, Base
from reprobuild.realise.base import realise_base
from reprobuild.realise.realise import realise
from reprobuild.realise.rootfs import provide_root
from reprobuild.realise.wheels import BuiltWheel, build_wheel
from reprobuild.resolve.builds.build_requires import BuildWheelSource, lock_build_wheels
from reprobuild.store.fetch import fetch
from reprobuild.store.store import Store
from tests.image.made import file, make_tar

PYTHON = Interpreter(version="3.11.2", executable="/usr/bin/python3.11", evidence="made")
TARGET = WheelTarget(python="3.11.2", glibc=(2, 36), machine="x86_64")


class Bench:
    """A base, one to compile in, a store, and the machine's indexes."""

    def __init__(self, base: Base, devel: Base, store: Store, env: Mapping[str, str]) -> None:
        self.base, self.devel, self.store = base, devel, store
        indexes = read_indexes(env)
        self.net = Net(credentials=indexes.credentials)
        self.files = FileLists(indexes, self.net)

    def source(
        self, name: str, files: Mapping[str, bytes], *, subdirectory: str = "", editable: bool = True
    ) -> Source:
        """Put a source tree into the store."""
        tar = make_tar([file(path, content) for path, content in sorted(files.items())])
        kept = Artefact(filename=f"{name}.tar", sha256=self.store.add(tar), size=len(tar))
        return Source(
            name=name, url="", commit="c" * 40, tree="7" * 40, patch=None, path=f"/src/{name}", editable=editable,
            epoch=1_700_000_000, file=kept, subdirectory=subdirectory,
        )  # fmt: skip

    def sdist(self, name: str, version: str, files: Mapping[str, bytes]) -> Sdist:
        """Put an archive of sources into the store."""
        content = make_sdist(f"{name}-{version}", files)
        kept = Artefact(
            filename=f"{name}-{version}.tar.gz", sha256=self.store.add(content), size=len(content)
        )
        return Sdist(name=name, version=version, file=kept)

    def lock(
        self,
        sources: Sequence[Source] = (),
        sdists: Sequence[Sdist] = (),
        decided: Mapping[str, BuildDecision] | None = None,
        captured: Sequence[Wheel] = (),
    ) -> Lock:
        """Lock what projects need to be built."""

        def bring(artefact: Artefact) -> None:
            fetch([artefact], self.store, self.net)

        shelf = BuildWheelSource(self.files, TARGET, self.store, bring, captured)
        found = lock_build_wheels(sources, sdists, decided or {}, shelf)
        return Lock(
            version=VERSION, snapshot="5" * 64, platform="linux/amd64", epoch=EPOCH, seed=None, profile="torch",
            interpreter=PYTHON, base=self.base, build_base=self.devel, wheels=(*captured, *found.wheels),
            sources=found.sources, sdists=found.sdists,
            environment=(), workdir="/src", workload=None, decisions=RecordedDecisions(), rulings=(),
        )  # fmt: skip

    def sealed(self, *sources: Source) -> Lock:
        """Lock and realise sources."""
        return realise(self.lock(sources), self.store)


def rebuilt(bench: Bench, lock: Lock, name: str) -> BuiltWheel:
    """Build a project of a lock, whatever the store remembers."""
    one = next(one for one in (*lock.sdists, *lock.sources) if one.name == name)
    tree = realise_base((lock.build_base if one.building.compiles else None) or lock.base, bench.store, EPOCH)
    root = Root(folder=provide_root(tree, bench.store), layered=True)
    needs = [wheel for wheel in lock.wheels if wheel.file.sha256 in one.building.requires]
    return build_wheel(one, needs, lock, root, bench.store)


def make_sdist(top: str, files: Mapping[str, bytes]) -> bytes:
    """Return a .tar.gz with one directory at its top."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return gzip.compress(stream.getvalue(), mtime=0)


EXTENSION = b"""\
#include <Python.h>
#include <assert.h>
static PyObject *answer(PyObject *self, PyObject *args) {
    assert(args != self);
    return PyLong_FromLong(42);
}
static PyMethodDef methods[] = {{"answer", answer, METH_NOARGS, __FILE__ " " __DATE__ " " __TIME__}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_c", 0, -1, methods};
PyMODINIT_FUNC PyInit__c(void) { return PyModule_Create(&module); }
"""
