"""`install.py`, which makes the environment without reprobuild: the same tree as the native builder's."""

from __future__ import annotations

import ast
import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reprobuild.builders.native import build_image
from reprobuild.image.layers.wheel import INSTALLER, SCRIPT
from reprobuild.image.oci.read import layout_tree, read_layout
from reprobuild.infra.tar.entries import TarEntry
from reprobuild.lock.model import Lock
from reprobuild.lock.system import EnvVar
from reprobuild.recipe import payload
from reprobuild.recipe.build_context import install_facts, write_context
from reprobuild.recipe.layer_order import LARGE
from reprobuild.recipe.render import render_recipe
from reprobuild_portable.hashing import hash_file
from tests.conftest import ROOT
from tests.image.made import BASE, SITE, Made, file, make_tar

PROGRAM = ROOT / "reprobuild_runtime" / "install.py"


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path / "made")


def sealed(made: Made, **more: Any) -> Lock:
    lock = made.lock(**more)
    runtime = payload.pack_runtime(made.store)
    return msgspec.structs.replace(lock, realised=msgspec.structs.replace(lock.realised, runtime=runtime))


def install(made: Made, lock: Lock, root: Path) -> subprocess.CompletedProcess[str]:
    """Write the context and run its installer, as the Dockerfile does but for the root directory."""
    out = made.root / "out"
    out.mkdir(exist_ok=True)
    folder = write_context(lock, made.store, out, render_recipe(lock))
    return run_installer(folder, root)


def run_installer(folder: Path, root: Path) -> subprocess.CompletedProcess[str]:
    (own,) = folder.glob("lock-*")
    argv: list[str | Path] = [
        sys.executable,
        "-I",
        "-S",
        "-B",
        own / "install.py",
        own / "install.json",
        root,
    ]
    return subprocess.run(argv, capture_output=True, text=True, check=False, umask=0o077)


Seen = dict[str, tuple[str, int, str, str]]


def seen(root: Path) -> Seen:
    """Return {path: (type, mode, target, sha256)} of what is below a directory."""
    found: Seen = {}
    for path in root.rglob("*"):
        mode = path.lstat().st_mode
        name = path.relative_to(root).as_posix()
        if stat.S_ISLNK(mode):
            found[name] = ("symlink", 0o777, str(path.readlink()), "")
        elif stat.S_ISDIR(mode):
            found[name] = ("directory", stat.S_IMODE(mode), "", "")
        else:
            found[name] = ("file", stat.S_IMODE(mode), "", hash_file(path))
    return found


def native(made: Made, lock: Lock) -> Seen:
    """Return the same of the prefix in the native builder's image."""
    build_image(lock, made.store, made.root, files={}, reference="x")
    tree = layout_tree(read_layout(made.root / "image"))

    def line(entry: TarEntry) -> tuple[str, int, str, str]:
        return entry.type, entry.mode, entry.target, entry.sha256

    ours = {path: line(entry) for path, entry in tree.items() if f"{path}/".startswith("opt/")}
    return {path: line for path, line in ours.items() if not path.startswith("opt/reprobuild")}


def awkward(made: Made) -> Lock:
    """Wheels with everything that installers do differently."""
    made.wheel(
        "Big.Tool", {
            "big/__init__.py": b"",
            "big/tool.sh": b"#!/bin/sh\n",
            "big/__pycache__/old.cpython-311.pyc": b"old",
            "big/module.pyc": b"a module without a source",
            "big/beside.py": b"pass\n",
            "big/beside.pyc": b"old",
            "big/a,b.txt": b"a comma",
            "big/nested.dist-info/RECORD": b"not ours",
            "Big.Tool-1.0.data/scripts/run": b"#!python -u\nprint(1)\n",
            "Big.Tool-1.0.data/scripts/binary": b"\x7fELF",
            "Big.Tool-1.0.data/data/share/man/man1/big.1": b"man",
            "Big.Tool-1.0.data/headers/big.h": b"int x;",
            "Big.Tool-1.0.data/platlib/_big.so": b"ELF",
            "Big.Tool-1.0.dist-info/REQUESTED": b"",
            "Big.Tool-1.0.dist-info/INSTALLER": b"uv",
            "Big.Tool-1.0.dist-info/licenses/LICENSE": b"free",
        },
        scripts="[console_scripts]\nBig = big.cli : main.run [extra]\n[gui_scripts]\nw=big:w\n[other]\nz=z:z\n",
        executable=["big/tool.sh", "Big.Tool-1.0.data/platlib/_big.so"],
    )  # fmt: skip
    made.wheel("one", {"shared/__init__.py": b"same", "one.py": b"1\n"}, executable=["shared/__init__.py"])
    # The order by size comes before the order by name, and decides the mode of the shared file.
    made.wheel("two", {"shared/__init__.py": b"same", "two.bin": os.urandom(LARGE + 1)})
    made.wheel("project", {"project.pth": b"/src/project\n"}, built=True)
    made.source("project", [file("project.py", b"pass\n")], subdirectory="python")
    one = next(wheel for wheel in made.wheels if wheel.name == "one")
    made.compiled(one.file.sha256, {f"{SITE}/__pycache__/one.cpython-311.pyc": b"code"})
    return sealed(made)


def test_the_tree_is_the_native_builders(made: Made, tmp_path: Path) -> None:
    lock = awkward(made)
    root = tmp_path / "root"
    done = install(made, lock, root)
    assert done.returncode == 0, done.stderr
    found = seen(root)
    assert found == native(made, lock)
    assert found[f"{SITE}/shared/__init__.py"][1] == 0o644
    assert (root / SITE / "project-1.0.dist-info/direct_url.json").read_text() == (
        '{"dir_info": {"editable": true}, "url": "file:///src/project/python"}'
    )


def test_every_time_is_the_epoch_and_nothing_is_left_behind(made: Made, tmp_path: Path) -> None:
    lock = awkward(made)
    root = tmp_path / "root"
    assert install(made, lock, root).returncode == 0
    prefix = root / "opt/env"
    assert {path.lstat().st_mtime for path in [prefix, *prefix.rglob("*")]} == {lock.epoch}
    assert [path.name for path in root.iterdir()] == ["opt"]
    assert not list((made.root / "out/context").rglob("__pycache__"))


def test_a_wheel_with_other_bytes_is_refused(made: Made, tmp_path: Path) -> None:
    made.wheel("one", {"one.py": b"1\n"})
    assert install(made, sealed(made), tmp_path / "first").returncode == 0
    folder = made.root / "out/context"
    (path,) = folder.glob("wheels/one-*")
    content = path.read_bytes()
    path.unlink()  # it is a link to the store's
    path.write_bytes(content + b"\0")
    done = run_installer(folder, tmp_path / "second")
    assert done.returncode == 1
    assert "one-1.0-py3-none-any.whl is not the file of the lock" in done.stderr


def test_two_wheels_that_differ_at_one_path(made: Made, tmp_path: Path) -> None:
    made.wheel("one", {"same.py": b"1\n"})
    made.wheel("two", {"same.py": b"2\n"})
    done = install(made, sealed(made), tmp_path)
    assert done.returncode == 1
    assert f"/{SITE}/same.py is there already, with different content" in done.stderr


def test_a_wheel_that_leads_out_of_the_prefix(made: Made, tmp_path: Path) -> None:
    made.wheel("one", {"../../../../../../etc/profile": b"evil"})
    done = install(made, sealed(made), tmp_path / "root")
    assert done.returncode == 1
    assert "is outside /opt/env" in done.stderr
    assert not (tmp_path / "root/etc").exists()


def test_an_environment_that_sees_the_bases_distributions_is_the_native_builders(
    made: Made, tmp_path: Path
) -> None:
    made.wheel("one", {"one.py": b"1\n"})
    lock = sealed(made)
    lock = msgspec.structs.replace(lock, interpreter=msgspec.structs.replace(lock.interpreter, shared=True))
    root = tmp_path / "root"
    done = install(made, lock, root)
    assert done.returncode == 0, done.stderr
    found, settings = seen(root), (root / "opt/env/pyvenv.cfg").read_text()
    assert "include-system-site-packages = true\n" in settings
    assert found["opt/env/pyvenv.cfg"] == native(made, lock)["opt/env/pyvenv.cfg"]


def test_both_builders_write_the_same_texts() -> None:
    """The two programs share no code, since one of them runs without the other."""
    tree = ast.parse(PROGRAM.read_text())
    values = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    assert (values["INSTALLER"], values["SCRIPT"]) == (INSTALLER, SCRIPT)


def test_it_is_old_python_and_standard_library() -> None:
    tree = ast.parse(PROGRAM.read_text(), feature_version=(3, 8))
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(str(node.module).split(".")[0])
    assert names <= sys.stdlib_module_names


def test_the_order_of_wheels_is_the_order_of_layers(made: Made) -> None:
    lock = awkward(made)
    wheels = (wheel.file.sha256 for wheel in (*lock.wheels, *lock.realised.wheels))
    facts = install_facts(lock, {sha256: made.store.blob(sha256).stat().st_size for sha256 in wheels})
    names = [Path(item["wheel"]["path"]).name.split("-")[0] for item in facts["wheels"]]
    assert names == ["two", "Big.Tool", "one", "project"]


def test_variables_with_line_breaks_are_in_the_payload(made: Made, tmp_path: Path) -> None:
    lock = sealed(made, environment=(EnvVar(name="NOTE", value="one\ntwo"),))
    assert install(made, lock, tmp_path / "root").returncode == 0
    folder = tmp_path / "payload"
    folder.mkdir()
    (payload_tar,) = made.root.glob("out/context/lock-*/payload.tar")
    subprocess.run(["tar", "-xf", payload_tar, "-C", folder], check=True)
    assert json.loads((folder / "opt/reprobuild/environ.json").read_text()) == {"NOTE": "one\ntwo"}


def contents(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hash_file(path) for path in folder.rglob("*") if path.is_file()
    }


def test_no_two_contexts_hold_one_path_with_different_content(made: Made) -> None:
    """BuildKit would take the former one's file: paths, sizes and times are equal, for the epoch is."""
    found = []
    for value in ("1", "2"):
        made.built.clear()
        made.sources.clear()
        made.wheel("project", {"project.pth": value.encode()}, built=True)
        made.source("project", [file("project.py", value.encode())])
        made.base = made.store.add(make_tar([*BASE, file("etc/value", value.encode())]))
        wheel = made.built[0]
        made.compiled(wheel.file.sha256, {f"{SITE}/__pycache__/p.cpython-311.pyc": value.encode()})
        lock = sealed(made, environment=(EnvVar(name="N", value=value),))
        out = made.root / value
        out.mkdir()
        found.append(contents(write_context(lock, made.store, out, render_recipe(lock))))
    one, other = found
    assert len(one) == len(other) == 8
    assert [path for path in one if path in other and one[path] != other[path]] == []
