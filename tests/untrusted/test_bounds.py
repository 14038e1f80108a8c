"""No file is read whole without a bound, but for those of the list below, each with its reason."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent.parent / "reprobuild"
# Reads of a file in /proc or /etc, which the kernel or the administrator of this machine writes.
_HOST = "the host's own"
# Reads of an archive's member, whose size was compared with a bound before.
_MEMBER = "the size of the member was checked"
ALLOWED = {
    "infra/flock.py": (1, _HOST),
    "infra/sandbox/host_programs.py": (1, _HOST),
    "infra/proc/session.py": (1, _HOST),
    "ecosystems/apt/deb.py": (1, _MEMBER),
    "infra/tar/reading.py": (1, "infra.untrusted.tars bounds what an archive may unpack to"),
    "cli/common.py": (1, _HOST),
    "ecosystems/conda/package.py": (1, _MEMBER),
    "ecosystems/conda/rattler_worker.py": (1, "what the parent process, which is ours, writes"),
    "ecosystems/conda/unpacked_package.py": (1, _MEMBER),
    "doctor/disks.py": (1, _HOST),
    "engines/builtin_job.py": (2, _HOST),
    "engines/gpu.py": (1, _HOST),
    "engines/output_files.py": (1, "results of the user's own command, which are returned in memory"),
    "engines/limits.py": (1, _HOST),
    "image/choices/platform.py": (1, _HOST),
    "engines/podman_options.py": (1, _HOST),
    "compare/images/explain.py": (2, "the extraction is bounded"),
    "compare/images/diffoscope.py": (2, "the extraction is bounded"),
    "image/layers/wheel.py": (1, "a text that the installer made in memory"),
    "recipe/payload.py": (1, "our own package"),
    "recipe/online/python.py": (1, "our own program"),
    "doctor/preflight/preflight.py": (1, _HOST),
    "infra/proc/stream.py": (2, "the output of a program that was started for it; it has a time limit"),
    "realise/normalise.py": (1, _MEMBER),
    "realise/uninstall.py": (1, _MEMBER),
    "ecosystems/git/repository.py": (1, "a file of a scratch repository that git wrote"),
    "snapshot/importers/source.py": (1, _MEMBER),
    "resolve/system/image_packages.py": (1, _MEMBER),
    "distribute/own_wheels.py": (5, "the files of this installation"),
}  # fmt: skip


def unbounded(source: str) -> int:
    """Count the calls that read a file whole; those of files of a package (`importlib.resources`) are left out."""
    return sum(_is_unbounded(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def _is_unbounded(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return False
    names = {node.id for node in ast.walk(function.value) if isinstance(node, ast.Name)}
    if "files" in names or (
        function.attr == "read_text" and call.args
    ):  # of a resource; `zips.read_text` has a bound
        return (
            function.attr == "read_text" and bool(call.args) and "zips" not in names and "files" not in names
        )
    if function.attr == "read":
        return not call.args or (isinstance(call.args[0], ast.UnaryOp) and not call.keywords)
    if function.attr == "load":
        return bool(names & {"json", "yaml", "pickle", "tomllib"}) and "Loader" not in {
            word.arg for word in call.keywords
        }
    return function.attr in ("read_bytes", "read_text", "readlines", "readall")


# Modules that name a file of an output directory, with the reads that may follow a link in it, each with its reason.
_DIRECTORY = {"LOCK", "IMAGE", "VERDICT", "REPORT", "CLUSTER_RESULT", "CONTEXT"}
LINKED = {
    "builders/apptainer.py": (1, "a layer that was packed into a private directory"),
    "compare/images/explain.py": (2, "contents that were extracted into a private directory"),
    "distribute/unbundle.py": (1, "a file of the bundle, whose bytes were compared"),
    "pipeline/locked_side.py": (1, "a file of the store, whose bytes were compared"),
}  # fmt: skip


def linked(source: str) -> int:
    """Count the reads and copies that follow a link in a module that names a file of an output directory."""
    tree = ast.parse(source)
    names = {
        alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    } | {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sum(_follows(call) for call in calls) if names & _DIRECTORY else 0


def _follows(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return isinstance(function, ast.Name) and function.id == "open"
    words = [word.value for word in call.args if isinstance(word, ast.Constant)]
    if function.attr == "open":
        return not call.args or words[:1] == ["rb"]
    copies = function.attr in ("copy", "copy2", "copyfile", "copytree")
    module = isinstance(function.value, ast.Name) and function.value.id == "shutil"
    resource = "files" in {node.id for node in ast.walk(function.value) if isinstance(node, ast.Name)}
    return (function.attr == "read_bytes" and not resource) or (copies and module)


def test_no_file_of_an_output_directory_is_read_through_a_link() -> None:
    """A read without a bound was excused as a copy of the user's own file: a link in the directory named any other."""
    found = {
        path.relative_to(PACKAGE).as_posix(): count
        for path in sorted(PACKAGE.rglob("*.py"))
        if "standalone" not in path.parts and (count := linked(path.read_text()))
    }
    assert found == {name: count for name, (count, _) in LINKED.items()}


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("from reprobuild.output.directory import VERDICT\n(out / VERDICT).read_bytes()", 1),
        ("from reprobuild.output.directory import LOCK\n(out / LOCK).open()", 1),
        ("from reprobuild.output.directory import LOCK\npath.open('rb')", 1),
        ("CLUSTER_RESULT = 'cluster.json'\nopen(out / CLUSTER_RESULT)", 1),
        ("from reprobuild.output.directory import LOCK\nimport shutil\nshutil.copyfile(path, part)", 1),
        ("from reprobuild.output.directory import LOCK\npart.open('xb')", 0),
        ("from reprobuild.output.directory import LOCK\nopen_plain(path, links=False)", 0),
        ("from reprobuild.output.directory import LOCK\nfiles('a').joinpath('b').read_bytes()", 0),
        ("path.read_bytes()", 0),
    ],
)
def test_reads_through_links_are_counted(source: str, count: int) -> None:
    assert linked(source) == count


def test_every_read_has_a_bound_or_a_reason() -> None:
    found = Counter[str]()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith(
            ("distribute/standalone/", "realise/in_sandbox/")
        ):  # programs of their own; see test_hostile
            found[name] += unbounded(path.read_text())
    assert {name: count for name, count in found.items() if count} == {
        name: count for name, (count, _) in ALLOWED.items()
    }
    assert all(reason for _, reason in ALLOWED.values())


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("path.read_bytes()", 1),
        ("Path(x).read_text()", 1),
        ("path.read_text('utf-8', 'replace')", 1),
        ("stream.read()", 1),
        ("stream.read(-1)", 1),
        ("stream.readlines()", 1),
        ("json.load(stream)", 1),
        ("yaml.load(stream)", 1),
        ("stream.read(5)", 0),
        ("zips.read_text(archive, info, name)", 0),
        ("files('a').joinpath('b').read_bytes()", 0),
        ("yaml.load(text, Loader=loader)", 0),
        ("read_plain(path, 5)", 0),
    ],
)
def test_reads_are_counted(source: str, count: int) -> None:
    assert unbounded(source) == count
