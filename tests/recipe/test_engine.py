"""The recipe in a real engine, without reprobuild: the same tree, and variables exactly as captured."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.compare.images.explain import compare_images
from reprobuild.engines import docker
from reprobuild.engines.model import Task
from reprobuild.image.layering.merge import Tree, merge
from reprobuild.image.oci.read import Layout, layout_tree, open_layer, read_layout
from reprobuild.image.tree_digest import tree_digest
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.infra.tar.reading import list_tar
from reprobuild.lock.model import Lock
from reprobuild.lock.system import EnvVar
from reprobuild.recipe.build_context import write_context
from reprobuild.recipe.payload import payload_files
from reprobuild.recipe.render import render_recipe
from reprobuild.store.store import Store
from tests.conftest import Built
from tests.image.images import with_layer
from tests.image.made import file

AWKWARD = {
    "EMPTY": "",
    "SPACES": "  two before, two after  ",
    "DOUBLE": 'say "no"',
    "SINGLE": "it's",
    "DOLLAR": "$5 $$ ${PATH} ${NONE:-x} $(id) `id`",
    "BACKSLASH": r"C:\new\\",
    "CONTINUED": "ends in one \\",
    "COMMENT": "# none",
    "EQUALS": "a=b",
    "SHELL": "a; b | c & d > e * ? ~ ! %s",
    "TEMPLATE": "{{ name }} {{{{ %post",
    "HEREDOC": "<<EOF",
    "UNICODE": "Größe ≠ 𝜋\u00a0\u2028\u0085.",
    "LONG": "x" * 60_000,
    "LINES": 'first "$1"\n  # second\n\n%post\nEOF\n',
    "TABS": "\ta\tb\t",
    "ESCAPE": "\x1b[1mbold\x7f",
}


def build(folder: Path, layout: Path, name: str) -> Layout:
    """Build the Dockerfile of an output directory with Docker alone, into an OCI layout."""
    output = f"type=oci,tar=false,dest={layout},name={name},compression=uncompressed,force-compression=true"
    argv: list[str | Path] = [
        "docker", "buildx", "build", "--network=none", "--provenance=false", "--file", folder / "Dockerfile",
        "--output", output, folder / "context",
    ]  # fmt: skip
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return read_layout(layout)


class Rebuilt(NamedTuple):
    """The example, built by Docker from `Dockerfile` and `context/`: the layout, and what each layer holds."""

    layout: Layout
    listings: list[list[TarEntry]]


@pytest.fixture(scope="module")
def rebuilt(built_example: Built, tmp_path_factory: pytest.TempPathFactory) -> Rebuilt:
    layout = build(
        built_example.out, tmp_path_factory.mktemp("rebuilt") / "layout", "docker.io/library/rebuilt"
    )
    listings = []
    for index in range(len(layout.layers)):
        with open_layer(layout, index) as stream:
            listings.append(list(list_tar(stream)))
    return Rebuilt(layout, listings)


def differences(one: Tree, other: Tree) -> list[tuple[TarEntry | None, TarEntry | None]]:
    pairs = [(one.get(path), other.get(path)) for path in sorted(set(one) | set(other))]
    return [(a, b) for a, b in pairs if a != b]


def test_the_dockerfile_gives_the_tree_of_the_native_builder(built_example: Built, rebuilt: Rebuilt) -> None:
    tree, config = merge(rebuilt.listings), rebuilt.layout.runtime
    if tree_digest(tree, config) != built_example.image.tree:
        native = read_layout(built_example.out / "image")
        assert config == native.runtime
        assert differences(layout_tree(native), tree) == []
        raise AssertionError("the digests differ, and no entry does")


def test_layers_hide_nothing_and_hold_no_trace_of_the_build(rebuilt: Rebuilt) -> None:
    for listing in rebuilt.listings[1:]:
        names = [entry.path for entry in listing]
        assert not [name for name in names if name.rpartition("/")[2].startswith(".wh.")]
        assert not [name for name in names if name.startswith(("mnt/", "tmp/", "run/", "root/", "etc/"))]


def test_labels_are_those_of_the_native_image(built_example: Built, rebuilt: Rebuilt) -> None:
    native = read_layout(built_example.out / "image")
    assert rebuilt.layout.config["config"]["Labels"] == native.config["config"]["Labels"]


def test_diff_says_that_only_the_packing_differs(built_example: Built, rebuilt: Rebuilt) -> None:
    """The same recipe from two builders: equal trees, other times, layers and compression."""
    found = compare_images(str(built_example.out), str(rebuilt.layout.folder), os.environ, lambda text: None)
    assert (found.level, found.files, found.culprits) == ("tree", (), ())
    assert found.one.lock == found.other.lock == f"sha256:{built_example.lock.digest}"
    kinds = {change.kind for change in found.changes}
    assert kinds >= {"layers", "times", "config", "manifest", "index"}
    assert not kinds & {"runtime", "label"}


def test_diff_finds_a_planted_file(built_example: Built, tmp_path: Path) -> None:
    """One file more, one wheel's file changed and one of a package, in an image of 40 000 paths."""
    native = read_layout(built_example.out / "image")
    site = "opt/env/lib/python3.11/site-packages"
    planted = [
        file(f"{site}/planted.py", b"x"), file(f"{site}/numpy/version.py", b"planted\n"),
        file("usr/bin/cat", b"planted", 0o755), file("etc/ld.so.cache", b"planted"),
    ]  # fmt: skip
    other = with_layer(native.folder, tmp_path / "other", planted)
    found = compare_images(str(built_example.out), str(other), os.environ, lambda text: None)
    assert {(f.kind, f.path, f.culprit) for f in found.files} == {
        ("added", f"{site}/planted.py", ("", "")),
        ("content", f"{site}/numpy/version.py", ("python", "numpy")),
        ("content", "usr/bin/cat", ("system", "coreutils")),
        ("content", "etc/ld.so.cache", ("realised", "base tree")),
    }
    assert [culprit.explains for culprit in found.culprits] == ["unknown", "no", "no", "no"]


@pytest.fixture(scope="module")
def awkward(built_example: Built) -> Lock:
    """The example's base alone, with variables that syntaxes stumble over."""
    lock = built_example.lock
    return msgspec.structs.replace(
        lock, wheels=(), sources=(), workdir="/a b/$HOME/\"c'",
        environment=tuple(EnvVar(name=name, value=value) for name, value in AWKWARD.items()),
        realised=msgspec.structs.replace(lock.realised, wheels=(), bytecode=()),
    )  # fmt: skip


@pytest.mark.parametrize("builder", ["native", "docker"])
def test_variables_are_exactly_as_captured(
    builder: str, awkward: Lock, built_example: Built, tmp_path: Path
) -> None:
    reference = f"awkward:{builder}"
    store = Store(built_example.store)
    if builder == "native":
        files = payload_files(awkward, store)
        build_image(awkward, store, tmp_path, files=files, reference=reference)
        layout = read_layout(tmp_path / "image")
    else:
        texts = render_recipe(awkward)
        (tmp_path / "Dockerfile").write_text(texts["Dockerfile"])
        write_context(awkward, store, tmp_path, texts)
        layout = build(tmp_path, tmp_path / "image", f"docker.io/library/{reference}")
    docker.load(layout.folder, reference, layout.digests, os.environ)
    task = Task(arguments=("env", "-0"), environment={"REPROBUILD_SEED": "7"})
    done = docker.run(reference, task, os.environ)
    assert done.code == 0, done.stderr.decode()
    found = dict(item.split("=", 1) for item in done.stdout.decode().split("\0") if item)
    assert {name: found.get(name) for name in AWKWARD} == AWKWARD
    others = {name for name in found if not name.startswith("REPROBUILD_")} - set(AWKWARD)
    assert others == {"PATH", "LANG", "HOSTNAME", "HOME", "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG"}
    where = docker.run(reference, Task(arguments=("pwd",)), os.environ)
    assert where.stdout.decode() == f"{awkward.workdir}\n"
