"""Two snapshots, field by field: each field that differs is told, or is on a list with the reason why not."""

from __future__ import annotations

from collections.abc import Iterator
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from msgspec import UNSET, Struct

from reprobuild.compare.environments.comparison import EnvironmentComparison
from reprobuild.compare.environments.sides import compare_sides
from reprobuild.compare.environments.snapshot import build_environment
from reprobuild.snapshot import capture_document, capture_model, import_facts, model
from tests.recipe.full_lock import replaced

Owner = tuple[type[Struct], str]
Place = tuple[str | int, ...]

_TEXT = "the line as it was written, for people; its parts are fields of their own"
_PLACE = "where a line stands; the order of a list says nothing"
_TREE = "how the work tree came about; its tree, which is compared, has all files as they lay there"
_SAVED = "how the work tree was saved; its tree, which is compared, is what was saved"
_READ = "read into the snapshot, whose fields are tried"
_FOLDER = "a directory of that machine; what lies in it is compared"
_DIGEST = "the digest of the whole request is compared"
_OFFER = "what apt offers, which is another thing each day; the version is what is installed"

# Fields that may differ without a word, and why.
SILENT: dict[Owner, str] = {
    (model.Snapshot, "digest"): "the sha256 of all the others",
    (model.Snapshot, "apt_lists"): _OFFER,
    (model.Snapshot, "unfrozen"): "what the freeze lacks of capture.json, whose distributions are compared",
    (model.SourceLocation, "line"): _PLACE,
    (model.Requirement, "place"): _PLACE,
    (model.SystemPackage, "place"): _PLACE,
    (model.RpmPackage, "place"): _PLACE,
    (model.CapturedCondaPackage, "place"): _PLACE,
    (model.Variable, "place"): _PLACE,
    (model.Module, "place"): "the order of modules is in LOADEDMODULES, a variable that is compared",
    (model.Requirement, "text"): _TEXT,
    (model.Requirement, "version_from"): _PLACE,
    (model.SystemPackage, "text"): _TEXT,
    (model.SystemPackage, "suites"): _OFFER,
    (model.SystemPackage, "upgrade"): _OFFER,
    (model.RpmPackage, "text"): _TEXT,
    (model.CapturedCondaPackage, "text"): _TEXT,
    (model.CondaRequest, "name"): _DIGEST,
    (model.CondaRequest, "text"): _DIGEST,
    (model.CondaRequest, "version"): _DIGEST,
    (model.ReportedValue, "name"): "the fields of a report have the facts that are of the environment",
    (model.ReportedValue, "value"): "the fields of a report have the facts that are of the environment",
    (model.ReportedValue, "lines"): _PLACE,
    (model.MachineReport, "file"): _PLACE,
    (model.MachineReport, "facts"): "the fields of a report have the facts that are of the environment",
    (model.Variable, "secret"): "why a value counts as a secret, which the variable without a value tells",
    (model.Variable, "lines"): _PLACE,
    (model.Patch, "file"): "the name of the repository with an ending",
    (model.Patch, "files"): "repeats the content of the patch, whose digest is compared",
    (model.Patch, "strip"): "follows from the content of the patch, whose digest is compared",
    (model.ParseNote, "reason"): "follows from the text of the line",
    (model.ParseNote, "lines"): _PLACE,
    (capture_model.CaptureFacts, "python"): _FOLDER,
    (capture_model.CaptureFacts, "command"): _FOLDER,
    (capture_model.CaptureFacts, "notes"): "say in words what the parts and the repositories say, and name directories",
    (capture_model.PackedInterpreter, "file"): "it has one name in each snapshot",
    (capture_model.PackedInterpreter, "size"): "follows from the archive, whose sha256 is compared",
    (capture_model.CapturedRepository, "folder"): _FOLDER,
    (capture_model.CapturedRepository, "object_format"): "another one has other ids of trees, which are compared",
    (capture_model.CapturedRepository, "branch"): _TREE,
    (capture_model.CapturedRepository, "remotes"): _TREE,
    (capture_model.CapturedRepository, "base"): _TREE,
    (capture_model.CapturedRepository, "prerequisites"): _SAVED,
    (capture_model.CapturedRepository, "index"): _TREE,
    (capture_model.CapturedRepository, "bundle"): _SAVED,
    (capture_model.CapturedRepository, "unmerged"): _TREE,
    (capture_model.CapturedRepository, "flags"): _TREE,
    (capture_model.CapturedRepository, "settings"): _TREE,
    (capture_model.CapturedRepository, "attributes"): _TREE,
    (capture_model.CapturedRepository, "shallow"): _SAVED,
    (capture_model.CapturedRepository, "lfs"): "the pointers are in the tree, and have the sha256 of the content",
    (capture_model.Diff, "size"): _SAVED,
    (capture_model.LeftOut, "reason"): "why the content is not there; the file is named",
    (capture_document.CaptureDocument, "capture"): "the version of the format",
    (capture_document.CaptureDocument, "repositories"): _READ,
    (capture_document.CaptureDocument, "dpkg"): _READ,
    (capture_document.CaptureDocument, "command"): "the job, and not its environment",
    (capture_document.CaptureDocument, "notes"): _READ,
    (capture_document.CaptureDocument, "interpreter"): _READ,
    (capture_document.PythonFacts, "prefix"): _FOLDER,
    (capture_document.PythonFacts, "base_prefix"): _FOLDER,
    (capture_document.InstalledDistribution, "installer"): "what is installed is compared, by any installer",
    (capture_document.InstalledDistribution, "location"): _FOLDER,
    (capture_document.Cpu, "part"): "names the processor where it has no model name",
    (capture_document.Cpu, "vendor"): "names the processor where it has no model name",
    (capture_document.Cpu, "features"): "the flags of the processor where it has no others",
    (capture_document.CapturePart, "outcome"): "a part that failed is not there, which is told",
    (capture_document.Cpu, "usable"): "which processors a job has is noise; their number is compared",
    (capture_document.Cpu, "count"): "the processors that may be used count; all of them where that is not told",
    (capture_document.CapturedGpu, "driver"): "repeats the row of nvidia-smi, where there is one",
    (capture_document.CapturedGpu, "cards"): "repeats the row of nvidia-smi, where there is one",
}  # fmt: skip


def place(file: str) -> model.SourceLocation:
    return model.SourceLocation(file, 1)


def requirement(kind: Any, name: str, **more: Any) -> model.Requirement:
    return model.Requirement(place=place("requirements.txt"), text=f"of {name}", kind=kind, name=name, **more)


def repository(name: str, digit: str, **more: Any) -> capture_model.CapturedRepository:
    tree, commit = digit * 40, "c" * 40
    return capture_model.CapturedRepository(
        name=name, folder=f"/home/ada/{name}", object_format="sha1", head=commit, branch="main", base=commit,
        remotes=(capture_model.Remote(name="origin", url="https://git.example.org/r"),), prerequisites=(commit,),
        index=tree, worktree=tree, unmerged=(("100644", commit, "1", "a"),), flags={"skip-worktree": ("a",)},
        bundle=capture_model.GitBundle(file="r.bundle", sha256="1" * 64, refs={"head": commit}, reason="done"),
        diff=capture_model.Diff(file=None, size=1, start=commit, reason="done"), settings={"core.x": "1"},
        attributes="a", shallow=(commit,), left_out=(capture_model.LeftOut(path="key", reason="secret"),),
        lfs=(capture_model.LargeFile(path="big", sha256="2" * 64, size=1),), left_out_count=2,
        **{"parent": None, "path": "", **more},
    )  # fmt: skip


def full_snapshot() -> model.Snapshot:
    """Return a snapshot that has a value in each field."""
    hashes = ("1" * 64, "2" * 64)
    fact = model.ReportedValue(place=place("collect-env.txt"), name="OS", value="x")
    return model.Snapshot(
        digest="d",
        requirements=(
            requirement("index", "hashed", version="1.0", hashes=hashes, marker='python_version >= "3"'),
            requirement(
                "archive", "packed", version="1", url="https://h.example/a.zip", sha256="3" * 64, subdirectory="a"
            ),
            requirement(
                "archive", "bare", version="1", url="https://h.example/a.whl",
                digests=(f"md5:{'1' * 32}", f"sha512:{'2' * 128}"), extras=("fast",),
            ),
            requirement("archive", "local", version="1", path="/a/local-1.whl"),
            requirement("vcs", "cloned", url="git+https://h.example/r", commit="c" * 40, subdirectory="a"),
            requirement("vcs", "moving", url="git+https://h.example/r"),
            requirement("directory", "folder", path="/a/folder"),
            requirement("conda", "built", version="1", version_from=place("conda-list.txt")),
        ),
        unlisted=(requirement("index", "setuptools", version="1"),),
        unfrozen=("torch",),
        packages=(
            model.SystemPackage(
                place=place("apt-packages.txt"), text="bash", name="bash", version="1", architecture="amd64",
                mark="manual", suites=("stable",), upgrade="2",
            ),
        ),
        rpms=(
            model.RpmPackage(
                place=place("rpm-packages.txt"), text="zsh", name="zsh", version="1", architecture="x86_64"
            ),
        ),
        variables=(
            model.Variable(place=place("env.txt"), name="A", value="1", suspect="it was cut"),
            model.Variable(place=place("env.txt"), name="B_TOKEN", value=None, secret="its name"),
        ),
        modules=(model.Module(place=place("modules.txt"), name="gcc", version="1"),),
        patches=(
            model.Patch(
                file="cloned.diff", name="cloned", content=b"a",
                files=(model.PatchedFile(line=1, old_path="a", new_path="a"),),
            ),
        ),
        remarks=(model.ParseNote(place=place("env.txt"), text="odd", reason="nobody knows", understood=False),),
        absent=("x.txt",),
        captured=capture_model.CaptureFacts(
            interpreter=capture_model.PackedInterpreter(
                file="interpreter.tar.gz", sha256="4" * 64, size=1, version="3.11.7", build="3.11.7 (main)",
                prefix="/sw/python", left_out=(capture_model.LeftOut(path="lib/x.py", reason="secret"),),
            ),
            repositories=(
                repository("job", "1"),
                repository("inner", "2", parent="outer", path="a/b"),
                repository("outer", "3"),
                repository("mylib", "4", distributions=("mylib",)),
            ),
            python=capture_model.CapturedPython(prefix="/opt/env"),
            command=capture_model.Command(folder="/home/ada"),
            notes=("a note",),
        ),
        conda=(
            model.CapturedCondaPackage(
                place=place("conda-list.txt"), text="mkl", name="mkl", version="1", build="h_1", channel="forge",
                url="https://c.example/forge/linux-64/mkl-1-h_1.conda", md5="a" * 32,
            ),
            model.CapturedCondaPackage(
                place=place("conda-list.txt"), text="tbb", name="tbb", version="1", build="h_1",
                url="https://c.example/tbb-1-h_1.tar.bz2", sha256="a" * 64,
            ),
            model.CapturedCondaPackage(
                place=place("conda-list.txt"), text="blas", name="blas", version="1", build="h_1", among=("own",)
            ),
            model.CapturedCondaPackage(
                place=place("conda-list.txt"), text="blis", name="blis", version="1", build="h_1", channel="own"
            ),
        ),
        conda_requests=(
            model.CondaRequest(
                place=place("environment.yml"), text="numpy=1.26", name="numpy", version="1.26", channels=("forge",),
                digest="a" * 64,
            ),
        ),
        conda_beside=(model.CondaRequest(place=place("conda.yml"), text="mkl", name="mkl", digest="b" * 64),),
        reports=(
            model.MachineReport(
                file="collect-env.txt", kind="collect_env", facts=(fact,), python="3.11.2", torch="2.3", cuda="12",
                cudnn="9", gpus=("H100",), driver="550", os="Ubuntu", libc="2.35", free_threaded=False,
                machine="x86_64",
            ),
        ),
        apt_lists=(model.AptList(file="x", date=1, fetched=1, origin="a", suite="b", codename="c"),),
    )  # fmt: skip


def full_capture(snapshot: model.Snapshot) -> capture_document.CaptureDocument:
    """Return what `capture.json` says of a machine, with a value in each field."""
    assert snapshot.captured
    return capture_document.CaptureDocument(
        parts={"gpu": capture_document.CapturePart("done")},
        capture=1, repositories=snapshot.captured.repositories[:1],
        python=capture_document.PythonFacts(
            version="3.11.2", implementation="CPython", libc="glibc 2.36", abiflags="t", platform="linux-x86_64",
            build=("main", "May 1 2026"), compiler="GCC 12", prefix="/venv", base_prefix="/usr",
        ),
        distributions=capture_document.InstalledDistributions(
            found=(capture_document.InstalledDistribution("pip", "1", "pip", "/venv/lib"),)
        ),
        dpkg=capture_document.DpkgFacts((capture_document.ReleaseFile("x", "1", "1", "a", "b", "c"),)),
        command=capture_document.CommandFacts(("python",), "/job", (capture_document.ProcessFacts(("sh",)),)),
        notes=("a note",), interpreter=snapshot.captured.interpreter,
        gpu=capture_document.CapturedGpu(
            driver="x", headers={"/a/nccl.h": "2"}, cards=({"Model": "H100"},), libraries=("/a/libcuda.so",),
            torch={"cuda": "12"}, nvidia_smi=("H100, 1",), nvidia_smi_fields=("name", "driver_version"),
        ),
        machine=capture_document.MachineFacts(
            host="node1", uname=("Linux", "node1", "6.1", "#1", "x86_64"), memory_bytes=1,
            cpu=capture_document.Cpu(
                count=1, usable=(0,), vendor="a", model_name="b", family="1", model="2", stepping="3", microcode="4",
                flags="avx", part="c", features="d",
            ),
            limits={"nofile": (1, 2)}, cgroup={"group": "/a"}, huge_pages="1", release={"ID": "debian"},
            container=("docker",),
        ),
    )  # fmt: skip


Leaf = tuple[Place, tuple[Owner, ...], Any]


def leaves(value: Any, steps: Place = (), owners: tuple[Owner, ...] = ()) -> Iterator[Leaf]:
    """Yield (steps, the fields that hold it, value) of each value without parts."""
    if isinstance(value, Struct):
        for name in value.__struct_fields__:
            yield from leaves(getattr(value, name), (*steps, name), (*owners, (type(value), name)))
    elif isinstance(value, (tuple, dict)):
        for key in range(len(value)) if isinstance(value, tuple) else value:
            yield from leaves(value[key], (*steps, key), owners)
    elif value is not None and value is not UNSET:
        yield steps, owners, value


def another(value: Any) -> Any:
    """Return a value of its type that says something else."""
    words = {"index": "archive", "manual": "residual", "collect_env": "nvidia-smi", "x.txt": "modules.txt"}
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, bytes):
        return value + b"x"
    if value.startswith("python_version"):
        return 'python_version < "3"'
    if len(value) in (32, 40, 64) and len(set(value)) == 1:
        return "f" * len(value)
    return words.get(value, f"{value}1" if value[-1:].isdigit() else f"{value}x")


def told(found: EnvironmentComparison) -> tuple[Any, ...]:
    """Return all that a person reads of a comparison."""
    return found.differ, found.only_in_one, found.only_in_other, found.not_compared


def compared(one: tuple[Any, Any], other: tuple[Any, Any]) -> EnvironmentComparison:
    return compare_sides(build_environment(*one, "one"), build_environment(*other, "other"))


SNAPSHOT = full_snapshot()
CAPTURE = full_capture(SNAPSHOT)
LEAVES = [*leaves((SNAPSHOT, CAPTURE)), *leaves((SNAPSHOT, None))]


def named(leaf: Leaf) -> str:
    return ".".join(map(str, leaf[0]))


def is_told(leaf: Leaf, capture: capture_document.CaptureDocument | None) -> bool:
    """Say whether a change of one value is told in both orders."""
    whole = (SNAPSHOT, capture)
    changed = replaced(whole, leaf[0], another(leaf[2]))
    same = told(compared(whole, whole))
    return told(compared(whole, changed)) != same and told(compared(changed, whole)) != same


def by_field() -> dict[tuple[Owner, ...], list[Leaf]]:
    found: dict[tuple[Owner, ...], list[Leaf]] = {}
    for leaf in leaves((SNAPSHOT, CAPTURE)):
        found.setdefault(leaf[1], []).append(leaf)
    return found


@pytest.mark.parametrize("values", by_field().values(), ids=lambda values: named(values[0]))
def test_each_field_is_told_or_on_the_list(values: list[Leaf]) -> None:
    """One value of a field may be told where another one is not: the address of a file whose hash is known."""
    seen = []
    for leaf in values:
        # What only a report tells is seen where no capture tells it better.
        captures = (CAPTURE, None) if leaf[0][0] == 0 else (CAPTURE,)
        seen.append(any(is_told(leaf, capture) for capture in captures))
    silent = any(owner in SILENT for owner in values[0][1])
    assert any(seen) != silent


def structs(kind: Any) -> Iterator[type[Struct]]:
    """Yield the types that a type is made of."""
    if get_origin(kind) in (Union, UnionType, tuple, dict) or get_args(kind):
        for part in get_args(kind):
            yield from structs(part)
    elif isinstance(kind, type) and issubclass(kind, Struct):
        yield kind
        for part in get_type_hints(kind).values():
            yield from structs(part)


def test_every_field_of_every_type_is_tried() -> None:
    kinds = {*structs(model.Snapshot), *structs(capture_document.CaptureDocument)}
    fields = {(kind, field.name) for kind in kinds for field in msgspec.structs.fields(kind)}
    tried = {owner for leaf in LEAVES for owner in leaf[1]}
    below = {owner for owner in fields if owner[0] in (model.PatchedFile, model.AptList)}
    # The origins of an import are those of lines, which are compared themselves.
    below |= {owner for owner in fields if owner[0].__module__ == import_facts.__name__}
    below.add((model.Snapshot, "imported"))
    assert len(fields) > 120
    assert fields - tried - below == {(capture_model.Diff, "file")}  # None where there were no changes


def test_the_list_says_why_and_has_no_more_than_is_used() -> None:
    assert all(len(reason) > 20 for reason in SILENT.values())
    assert {*SILENT} <= {owner for leaf in LEAVES for owner in leaf[1]}


def test_a_snapshot_and_itself_have_no_difference() -> None:
    assert compared((SNAPSHOT, CAPTURE), (SNAPSHOT, CAPTURE)).differences == []
    assert compared((SNAPSHOT, None), (SNAPSHOT, None)).differences == []
