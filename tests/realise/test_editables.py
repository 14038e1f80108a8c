"""Editable installs of every back end: built, installed, and imported from their source as the image has it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from reprobuild.errors import BuildError
from reprobuild.infra.sandbox.command import run_in_root
from reprobuild.infra.sandbox.model import Bind, Root
from reprobuild.lock.model import Lock
from reprobuild.lock.system import PREFIX
from reprobuild.realise.prefix import make_prefix
from reprobuild.realise.realise import realise
from reprobuild.realise.rootfs import provide_root
from reprobuild.realise.unpack import unpack_root
from tests.realise.projects import EXTENSION, PYTHON, Bench, rebuilt

INIT = b"def where():\n    return __file__\n"
ANSWER = INIT + b"from made._c import answer\n"


def project(requires: str, backend: str = "", rest: str = "", table: bool = True) -> bytes:
    """Return a pyproject.toml."""
    text = f"[build-system]\nrequires = [{requires}]\n"
    text += f"build-backend = '{backend}'\n" if backend else ""
    text += "[project]\nname = 'made'\nversion = '1.5'\ndescription = 'd'\n" if table else ""
    return (text + rest).encode()


MESON = b"""\
project('made', 'c', version: '1.5')
py = import('python').find_installation(pure: false)
py.install_sources('made/__init__.py', subdir: 'made')
py.extension_module('_c', 'c/_c.c', subdir: 'made', install: true)
"""
CMAKE = b"""\
cmake_minimum_required(VERSION 3.15)
project(made C)
find_package(Python COMPONENTS Interpreter Development.Module REQUIRED)
python_add_library(_c MODULE c/_c.c WITH_SOABI)
install(TARGETS _c DESTINATION made)
"""
CARGO = b"""\
[package]
name = "made"
version = "1.5.0"
edition = "2021"
[lib]
name = "made"
crate-type = ["cdylib"]
"""
RUST = b'#[no_mangle]\npub extern "C" fn answer() -> i32 { 42 }\n'
FROM_RUST = INIT + b"from made.made import lib\ndef answer():\n    return lib.answer()\n"
SETUP_CFG = b"[metadata]\nname = made\nversion = 1.5\n[options]\npackages = made\n"
EXTENSIONS = (
    b"from setuptools import Extension, setup\nsetup(%sext_modules=[Extension('made._c', ['c/_c.c'])])\n"
)
OLD = project("'setuptools<64', 'wheel'", table=False)

# By name: the files of a project whose package is `made`.
PROJECTS: dict[str, Mapping[str, bytes]] = {
    "setuptools": {"pyproject.toml": project("'setuptools'", "setuptools.build_meta"), "made/__init__.py": INIT},
    "setuptools, src": {"pyproject.toml": project("'setuptools'"), "src/made/__init__.py": INIT},
    "setup.py": {"setup.py": EXTENSIONS.replace(b"%s", b"name='made', version='1.5', packages=['made'], ")
                 .replace(b"ext_modules=[Extension('made._c', ['c/_c.c'])]", b""), "made/__init__.py": INIT},
    "setup.cfg": {"setup.py": b"from setuptools import setup\nsetup()\n", "setup.cfg": SETUP_CFG,
                  "made/__init__.py": INIT},
    "old setuptools": {"pyproject.toml": OLD, "setup.cfg": SETUP_CFG, "made/__init__.py": INIT},
    "setuptools, compiled": {"pyproject.toml": project("'setuptools'"), "made/__init__.py": ANSWER,
                             "setup.py": EXTENSIONS % b"packages=['made'], ", "c/_c.c": EXTENSION},
    "setuptools, src, compiled": {
        "pyproject.toml": project("'setuptools'"), "src/made/__init__.py": ANSWER, "c/_c.c": EXTENSION,
        "setup.py": EXTENSIONS % b"packages=['made'], package_dir={'': 'src'}, ",
    },
    "old setuptools, compiled": {"pyproject.toml": OLD, "setup.cfg": SETUP_CFG, "setup.py": EXTENSIONS % b"",
                                 "made/__init__.py": ANSWER, "c/_c.c": EXTENSION},
    "old setuptools, compiled, in a package named like a directory of builds": {
        "pyproject.toml": OLD, "setup.cfg": SETUP_CFG.rstrip() + b", made.target\n", "made/target/__init__.py": b"",
        "setup.py": EXTENSIONS.replace(b"made._c", b"made.target._c") % b"", "c/_c.c": EXTENSION,
        "made/__init__.py": ANSWER.replace(b"made._c", b"made.target._c"),
    },
    "hatchling": {"pyproject.toml": project("'hatchling'", "hatchling.build"), "src/made/__init__.py": INIT},
    "flit": {"pyproject.toml": project("'flit_core'", "flit_core.buildapi"), "made/__init__.py": INIT},
    "poetry": {"pyproject.toml": project("'poetry-core'", "poetry.core.masonry.api"), "made/__init__.py": INIT},
    "pdm": {"pyproject.toml": project("'pdm-backend'", "pdm.backend"), "src/made/__init__.py": INIT},
    "pdm, editables": {
        "pyproject.toml": project("'pdm-backend'", "pdm.backend", "[tool.pdm.build]\neditable-backend = 'editables'\n"),
        "src/made/__init__.py": INIT,
    },
    "meson": {"pyproject.toml": project("'meson-python'", "mesonpy"), "meson.build": MESON,
              "made/__init__.py": ANSWER, "c/_c.c": EXTENSION},
    "scikit-build-core": {
        "pyproject.toml": project("'scikit-build-core'", "scikit_build_core.build"), "CMakeLists.txt": CMAKE,
        "src/made/__init__.py": ANSWER, "c/_c.c": EXTENSION,
    },
    "maturin": {
        "pyproject.toml": project("'maturin', 'cffi'", "maturin",
                                  "[tool.maturin]\nbindings = 'cffi'\npython-source = 'python'\n"),
        "Cargo.toml": CARGO, "src/lib.rs": RUST, "python/made/__init__.py": FROM_RUST,
    },
}  # fmt: skip

PROGRAM = """
import importlib, json, sys
found = {}
for name in sys.argv[1:]:
    module = importlib.import_module(name)
    found[name] = [module.where(), module.answer() if hasattr(module, "answer") else 0]
print(json.dumps(found))
"""
# What some of them need when they run: a freeze has it, and so has the image.
AT_RUN_TIME = ("cffi", "pycparser", "editables")


def named(files: Mapping[str, bytes], name: str) -> dict[str, bytes]:
    """Return a project with another name in place of `made`."""
    return {
        path.replace("made", name): content.replace(b"made", name.encode()) for path, content in files.items()
    }


NAMES = {f"made{number}": title for number, title in enumerate(PROJECTS)}


@pytest.fixture(scope="module")
def sealed(bench: Bench) -> Lock:
    """Every project, and two more of one repository, built as editables."""
    sources = [bench.source(name, named(PROJECTS[title], name)) for name, title in NAMES.items()]
    both = {
        f"one/{path}": content for path, content in named(PROJECTS["setuptools, compiled"], "one").items()
    }
    other = project("'setuptools<70'", rest="[tool.setuptools]\npy-modules = ['other']\n").replace(
        b"made", b"other"
    )
    both |= {"two/pyproject.toml": other, "two/other.py": INIT}
    sources += [
        bench.source("one", both, subdirectory="one"),
        bench.source("other", both, subdirectory="two"),
    ]
    return bench.sealed(*sources)


@pytest.fixture(scope="module")
def imported(
    sealed: Lock, bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, tuple[str, int]]:
    """Where each module comes from, imported in the base without compilers, with the sources as an image has them."""
    folder = tmp_path_factory.mktemp("imported")
    prefix, tree = folder / "prefix", folder / "src"
    prefix.mkdir()
    tree.mkdir()
    more = [wheel for wheel in sealed.wheels if wheel.name in AT_RUN_TIME]
    make_prefix(prefix, PREFIX, [*sealed.realised.wheels, *more], PYTHON, bench.store)
    for source in sealed.sources:
        place, built = tree / source.name, sealed.parts(source)
        place.mkdir()
        unpack_root(bench.store.blob(source.file.sha256), place)
        if built:
            unpack_root(bench.store.blob(built.parts), place)
    root = Root(folder=provide_root(sealed.realised.base, bench.store), layered=True)
    binds = [Bind(source=prefix, target=PREFIX), Bind(source=tree, target="/src")]
    argv = [f"{PREFIX}/bin/python", "-I", "-B", "-c", PROGRAM, *NAMES, "one", "other"]
    found: dict[str, tuple[str, int]] = json.loads(
        run_in_root(root, argv, epoch=0, purpose="import what was built", binds=binds)
    )
    return found


@pytest.mark.parametrize(("name", "title"), NAMES.items(), ids=PROJECTS)
def test_an_editable_leads_to_its_source(
    sealed: Lock, imported: Mapping[str, tuple[str, int]], name: str, title: str
) -> None:
    files = named(PROJECTS[title], name)
    package = next(path for path in files if path.endswith(f"{name}/__init__.py"))
    compiled = any(path.endswith((".c", ".rs")) for path in files)
    source = next(source for source in sealed.sources if source.name == name)
    assert list(imported[name]) == [f"/src/{name}/{package}", 42 if compiled else 0]
    assert source.building.compiles == compiled


def test_several_projects_of_one_repository(sealed: Lock, imported: Mapping[str, tuple[str, int]]) -> None:
    """Each lies in a directory of its own, and needs another version of its back end."""
    assert list(imported["one"]) == ["/src/one/one/one/__init__.py", 42]
    assert list(imported["other"]) == ["/src/other/two/other.py", 0]
    one, other = (source for source in sealed.sources if source.name in ("one", "other"))
    assert not set(one.building.requires) & set(other.building.requires)


@pytest.mark.parametrize("title", ["setuptools, compiled", "scikit-build-core", "meson", "maturin"])
def test_what_is_compiled_is_the_same_twice(sealed: Lock, bench: Bench, title: str) -> None:
    """The back ends compile in directories whose names are drawn at random, which must not be in what comes out."""
    name = next(name for name, other in NAMES.items() if other == title)
    first = next(one for one in sealed.realised.builds if one.name == name)
    second = rebuilt(bench, sealed, name)
    assert (second.built.wheel, second.built.parts) == (first.wheel, first.parts)


def test_compiled_parts_that_come_out_otherwise_than_a_sealed_lock_says(sealed: Lock, bench: Bench) -> None:
    builds = tuple(replace(one, parts="1" * 64) if one.parts else one for one in sealed.realised.builds)
    wrong = replace(sealed, realised=replace(sealed.realised, builds=builds))
    with pytest.raises(
        BuildError, match="adds to its source came out otherwise than the lock says"
    ) as caught:
        realise(wrong, bench.store)
    assert caught.value.hint == "make a new lock"
