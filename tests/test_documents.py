"""The document of each command has the fields of docs/json.md, and a version first."""

from __future__ import annotations

import grp
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from reprobuild.api.commands import lock as lock_command
from reprobuild.bisect.result import BisectionResult
from reprobuild.cli.documents import VERSION
from reprobuild.cluster.aggregate import ClusterResult
from reprobuild.cluster.trace_groups import TracedCluster
from reprobuild.cluster.traced_node import TracedNode
from reprobuild.distribute.pull import PullResult
from reprobuild.distribute.push import PushResult
from reprobuild.lock.file import read_lock, write_lock
from reprobuild.lock.model import Lock, unseal
from reprobuild.output.directory import LOCK
from reprobuild.trace.command import TraceResult
from reprobuild.verify.verdict import Verdict
from reprobuild_portable.capture.model import REPORT_VERSION
from reprobuild_portable.hashing import hash_file
from tests.cluster.test_trace_groups import record
from tests.conftest import EXAMPLE
from tests.distribute.conftest import Results as Results
from tests.distribute.conftest import results as results
from tests.documents import PAGE, check_document, read_page
from tests.test_cli import Said as Said
from tests.test_cli import said as said
from tests.test_json_errors import commands

SNAPSHOT = EXAMPLE / "snapshot"
CLUSTER = ["cluster run", "cluster gather", "cluster gather-pods"]

# Of each command, the rest of a command line that gives a document here.
QUICK: dict[str, Callable[[Results, Path], Sequence[str | Path]]] = {
    "build": lambda made, new: [made.out / LOCK, "-o", new, "--store", made.store.root],
    "bundle": lambda made, new: [made.out, "-o", new, "--store", made.store.root],
    "capture": lambda made, new: ["-o", new],
    "capture --print-recipe": lambda made, new: [],
    "cluster gather-traces": lambda made, new: [record_nodes(new)],
    "compare": lambda made, new: [SNAPSHOT, made.out],
    "completion": lambda made, new: ["bash"],
    "diff": lambda made, new: [made.out, made.out],
    "fetch": lambda made, new: [made.out / LOCK, "--store", made.store.root],
    "import": lambda made, new: [write_requirements(new), "-o", new / "snapshot"],
    "rebuild": lambda made, new: [made.out, "-o", new, "--offline", "--store", made.store.root],
    "render": lambda made, new: [made.out / LOCK, "-o", new],
    "render --online": lambda made, new: [made.out / LOCK, "-o", new, "--store", made.store.root],
    "show": lambda made, new: [SNAPSHOT],
    "store check": lambda made, new: ["--store", made.store.root],
    "store gc": lambda made, new: ["--all", "--dry-run", "--store", made.store.root],
    "store join": lambda made, new: [made.store.root],
    "store share": lambda made, new: ["--group", grp.getgrgid(os.getgid()).gr_name, "--store", new],
}

# Documents that need a registry, an engine or several machines are those of a type.
TYPES: dict[str, tuple[type, tuple[str, ...]]] = {
    "bisect": (BisectionResult, ()),
    "cluster trace": (TracedCluster, ("verdict",)),
    "cluster trace-worker": (TracedNode, ()),
    "cluster worker": (Verdict, ()),
    "pull": (PullResult, ()),
    "push": (PushResult, ()),
    "trace": (TraceResult, ()),
    **dict.fromkeys(CLUSTER, (ClusterResult, ("verdict",))),
}

# Documents that tests below make, or other tests: `tests.conftest.reprobuild` compares each document with the page.
ELSEWHERE = {
    "cluster job",
    "doctor",
    "from-snapshot",
    "lock",
    "restore",
    "unbundle",
    "unbundle --check",
    "verify",
}


def record_nodes(folder: Path) -> Path:
    """Write the records of two nodes."""
    folder.mkdir()
    for node in ("n1", "n2"):
        record(folder, node, "a b")
    return folder


def write_requirements(folder: Path) -> Path:
    """Write a file that `import` reads."""
    folder.mkdir()
    (folder / "requirements.txt").write_text("numpy==1.26.4\n")
    return folder / "requirements.txt"


def test_the_page_has_every_command() -> None:
    names = {name.partition(" --")[0] for name in read_page()}
    assert names == set(commands())
    assert QUICK.keys() | TYPES.keys() | ELSEWHERE == read_page().keys()
    assert f"The version is {VERSION}." in PAGE.read_text(encoding="utf-8")
    assert REPORT_VERSION == 1


@pytest.mark.parametrize("name", sorted(QUICK))
def test_a_document_has_the_fields_of_the_page(
    name: str, results: Results, said: Said, tmp_path: Path
) -> None:
    words = [*name.split(), *map(str, QUICK[name](results, tmp_path / "new")), "--json"]
    said(*words)
    assert said.out, said.err
    assert "error" not in json.loads(said.out), said.err
    check_document(words, said.out)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_the_fields_of_a_type_are_those_of_the_page(name: str) -> None:
    kind, more = TYPES[name]
    fields = {field.encode_name for field in msgspec.structs.fields(kind)} - {"version"}
    assert sorted(read_page()[name]) == sorted(fields | set(more))


def test_an_error_has_a_version_first(said: Said) -> None:
    assert said("show", "absent", "--json") == 3
    assert next(iter(json.loads(said.out).items())) == ("version", VERSION)
    assert sorted(json.loads(said.out)) == ["error", "version"]


def test_a_bundle_unpacked_and_checked(results: Results, said: Said, tmp_path: Path) -> None:
    results.bundle(tmp_path / "b.tar")
    for more in (["--check"], ["-o", tmp_path / "out", "--store", tmp_path / "store"]):
        words = ["unbundle", str(tmp_path / "b.tar"), *map(str, more), "--json"]
        assert said(*words) == 0, said.err
        check_document(words, said.out)


def test_lock_and_build_name_the_same_unsealed_lock(
    results: Results, said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the index is absent here: the lock is that of the small image."""

    def make_lock(directory: Path, target: Path, *_: object, **__: object) -> Lock:
        write_lock(unsealed, target)
        return unsealed

    sealed = read_lock(results.out / LOCK)
    unsealed = unseal(sealed)
    monkeypatch.setattr(lock_command, "lock", make_lock)
    words = [
        "lock",
        str(SNAPSHOT),
        "-o",
        str(tmp_path / "x.lock"),
        "--store",
        str(results.store.root),
        "--json",
    ]
    words += ["--decisions", str(EXAMPLE / "reprobuild.yaml")]
    assert said(*words) == 0, said.err
    check_document(words, said.out)
    locked = json.loads(said.out)
    assert locked["lock"] == f"sha256:{hash_file(tmp_path / 'x.lock')}"
    words = ["build", results.out / LOCK, "-o", tmp_path / "out", "--store", results.store.root, "--json"]
    assert said(*words) == 0, said.err
    built = json.loads(said.out)
    assert built["unsealed"] == locked["lock"]
    assert built["lock"] == f"sha256:{sealed.digest}" != locked["lock"]
