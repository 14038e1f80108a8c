"""Which package of conda brought a file of an image, and which package two locks differ in."""

from __future__ import annotations

import json

from reprobuild.compare.images.attribute import TREE, candidate_inputs, read_origins
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.diff import compare_locks
from reprobuild.lock.model import Lock
from reprobuild.lock.python import CondaPackage
from reprobuild.lock.system import Artefact
from tests.verify.samples import make_lock


def file(path: str) -> TarEntry:
    return TarEntry(path=path, type="file", mode=0o644, sha256=path, size=1)


def test_conda_records_tell_the_package_of_a_file() -> None:
    record, shared, info = (
        "opt/env/conda-meta/lib-zed-1.2-0.json", "opt/env/lib/z.so",
        "opt/env/lib/python3.11/site-packages/z-1.dist-info/RECORD",
    )  # fmt: skip
    tree = {path: file(path) for path in (record, shared, info, "opt/env/conda-meta/broken-1-0.json")}
    said = {
        record: json.dumps({"files": ["lib/z.so", info.removeprefix("opt/env/")]}).encode(),
        info: b"z.py,,\n",
    }
    origins = read_origins(tree, lambda entry: said.get(entry.path, b"{"), None)
    for path in (record, shared, info):
        assert candidate_inputs(path, origins) == [("conda", "lib-zed"), TREE]
    assert candidate_inputs("opt/env/conda-meta/broken-1-0.json", origins) == [("conda", "broken"), TREE]


def test_locks_that_differ_in_a_package_of_conda() -> None:
    def with_build(build: str) -> Lock:
        package = CondaPackage(
            name="zed", version="1", build=build, subdir="linux-64", channel="main",
            file=Artefact(filename=f"zed-1-{build}.conda", sha256="0" * 64, size=1),
        )  # fmt: skip
        return make_lock(conda=(package,))

    (change,) = compare_locks(with_build("0"), with_build("1"))
    assert (change.kind, change.name) == ("conda", "zed")
    assert (change.one, change.other) == (f"1 0 sha256:{'0' * 64}", f"1 1 sha256:{'0' * 64}")
