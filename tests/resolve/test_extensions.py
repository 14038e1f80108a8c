"""Projects that are compiled against the environment, and against CUDA."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprobuild.config.overrides import BuildDecision
from reprobuild.errors import LockError
from reprobuild.lock.python import Sdist
from reprobuild.lock.system import Artefact, Base, Deb
from reprobuild.resolve.acceptance import accept_deviations
from reprobuild.resolve.builds.build_base import check_glibc
from reprobuild.resolve.builds.compiling import PACKAGES, find_compiled_languages
from reprobuild.resolve.builds.extensions import Toolkit, add_known_settings, rule_nvcc
from reprobuild.resolve.builds.projects import Project, read_project
from reprobuild.store.store import Store
from tests.resolve.test_build_requires import artefact, make_sdist


def project(paths: tuple[str, ...] = (), **texts: str) -> Project:
    named = {name.replace("_", ".", 1): text.encode() for name, text in texts.items()}
    return Project(name="made", editable=False, paths=(*paths, *named), texts=named)


def backend(name: str, rest: str = "") -> str:
    return f"[build-system]\nbuild-backend = '{name}'\n{rest}"


@pytest.mark.parametrize(
    ("given", "languages"),
    [
        (project(setup_py="setup()"), None),
        (project(("a.c",), setup_cfg="[metadata]"), None),
        (project(("a.c",), setup_py="setup()"), {"C"}),
        (project(("a.pyx", "b.cpp"), setup_py="setup(ext_modules=cythonize('a.pyx'))"), {"C", "C++"}),
        (project(("csrc/k.cu", "csrc/k.cpp"), setup_py="CUDAExtension(...)"), {"C++", "CUDA"}),
        (project(("src/lib.rs",), pyproject_toml=backend("maturin")), {"Rust"}),
        (project(("k.f90",), pyproject_toml=backend("mesonpy")), {"C", "Fortran"}),
        (project(("a.c",), pyproject_toml=backend("flit_core.buildapi")), None),
        (project(("a.c",), pyproject_toml=backend("hatchling.build")), None),
        (project(("a.c",), pyproject_toml=backend("hatchling.build", "[tool.hatch.build.hooks.custom]\npath='b'\n")),
         {"C"}),
        (project(("a.c",), pyproject_toml=backend("poetry.core.masonry.api", "[tool.poetry]\nbuild='b.py'\n")), {"C"}),
        (project(("a.c",), pyproject_toml=backend("their_own")), {"C"}),
        (project(pyproject_toml=backend("their_own")), None),
    ],
)  # fmt: skip
def test_what_compiles(given: Project, languages: set[str] | None) -> None:
    found = find_compiled_languages(given)
    assert (found and set(found.languages)) == languages
    if found:
        assert set(PACKAGES) <= set(found.packages)
        assert ("cargo" in found.packages) == ("Rust" in found.languages)
        assert ("gfortran" in found.packages) == ("Fortran" in found.languages)


def test_known_projects_are_built_with_the_environment() -> None:
    known = add_known_settings("flash-attn", BuildDecision(requires=("more",)))
    assert known.environment
    assert known.requires == ("ninja", "packaging", "psutil", "more")
    assert add_known_settings("flash-attn", BuildDecision(environment=False)) == BuildDecision(
        environment=False
    )
    assert add_known_settings("numpy", BuildDecision()) == BuildDecision()


@pytest.mark.parametrize(
    ("choice", "toolkit"),
    [
        (BuildDecision(), Toolkit()),
        (BuildDecision(), Toolkit(version="12.4", image=True)),
        (BuildDecision(), Toolkit(version="12.4", packages=frozenset({"cuda-nvcc-12-4"}))),
        (BuildDecision(packages=("nvidia-cuda-toolkit",)), Toolkit(version="12.4")),
    ],
)
def test_cuda_can_be_compiled_or_is_left_out(choice: BuildDecision, toolkit: Toolkit) -> None:
    assert rule_nvcc("made", "made-1.0.tar.gz", choice, toolkit) is None


def test_cuda_that_nothing_compiles() -> None:
    choice = BuildDecision(packages=("libfoo-dev",))
    ruling = rule_nvcc("made", "made-1.0.tar.gz", choice, Toolkit(version="12.4"))
    assert ruling
    assert (ruling.file, ruling.subject, ruling.outcome, ruling.kind) == (
        "made-1.0.tar.gz", "made", "replaced", "no-nvcc",
    )  # fmt: skip
    assert ruling.reason == (
        "made has CUDA sources, the environment has CUDA 12.4, and nothing here brings nvcc: its build leaves them out "
        "or fails; name an image of CUDA 12.4 to compile in, with the base's glibc or an older one, as "
        "`--build-image nvidia/cuda:12.4.0-devel-ubuntu22.04`; or a package that brings nvcc: build: "
        "{made: {packages: [...]}}; or put a wheel of it into pip's find-links"
    )
    with pytest.raises(LockError, match=r"1 captured line cannot be repeated exactly") as caught:
        accept_deviations([ruling], [])
    assert caught.value.hint == "to go on without exactly these: --accept no-nvcc"
    assert all(one.accepted for word in ("no-nvcc", "made") for one in accept_deviations([ruling], [word]))


CUDA = ("src/kernel.cu", "src/kernel.cpp")


@pytest.mark.parametrize(
    ("given", "demanded"),
    [
        (project(CUDA, setup_py="from torch.utils.cpp_extension import CUDAExtension"), True),
        (project(CUDA, setup_py="subprocess.run([cuda + '/bin/nvcc'])  # ext_modules"), True),
        (project(CUDA, pyproject_toml=backend("scikit_build_core.build")), True),
        (project(CUDA, pyproject_toml=backend("their_own")), True),
        # Data beside extensions in C, as numba has it: setuptools compiles no CUDA.
        (project(CUDA, setup_py="Extension('a', ['a.c']); package_data={'a': ['*.cu']}"), False),
    ],
)
def test_whether_cuda_is_compiled_unasked(given: Project, demanded: bool) -> None:
    found = find_compiled_languages(given)
    assert found
    assert ("CUDA" in found.languages) == demanded


OFF = 'option(USE_CUDA "Enable CUDA" OFF)\nif(USE_CUDA)\n  enable_language(CUDA)\nendif()\n'


@pytest.mark.parametrize(
    ("cmake", "setup", "demanded"),
    [
        ({"CMakeLists.txt": OFF}, "", False),
        (
            {"CMakeLists.txt": "project(x)", "cpp/CMakeLists.txt": f"project(y LANGUAGES CXX)\n{OFF}"},
            "",
            False,
        ),
        ({"CMakeLists.txt": OFF.replace("OFF", "ON")}, "", True),
        ({"CMakeLists.txt": "project(x)"}, "", True),
        ({"CMakeLists.txt": "project(x)", "cpp/probe/CMakeLists.txt": OFF}, "", True),
        ({"CMakeLists.txt": "project(x LANGUAGES CXX CUDA)", "third/CMakeLists.txt": OFF}, "", True),
        # torch compiles by setup.py, whatever CMake would do.
        ({"CMakeLists.txt": OFF}, "from torch.utils.cpp_extension import CUDAExtension", True),
    ],
)
def test_an_option_of_cmake_that_is_off_asks_for_no_nvcc(
    tmp_path: Path, cmake: dict[str, str], setup: str, demanded: bool
) -> None:
    files = {
        **cmake, "src/kernel.cu": "", "src/kernel.cpp": "", "setup.py": setup,
        "pyproject.toml": backend("scikit_build_core.build"),
    }  # fmt: skip
    path = make_sdist(
        tmp_path / "made-1.0.tar.gz",
        {name: text.encode() for name, text in files.items() if text or "." in name},
    )
    store = Store(tmp_path / "store")
    locked = artefact(path)
    store.adopt(path, locked.sha256)
    found = find_compiled_languages(read_project(Sdist(name="made", version="1.0", file=locked), store))
    assert found
    assert ("CUDA" in found.languages) == demanded


def test_a_project_that_is_known_to_compile_cuda_on_request() -> None:
    texts = {"setup.py": b"from torch.utils import cpp_extension"}
    given = Project(name="deepspeed", editable=False, paths=("setup.py", *CUDA), texts=texts)
    found = find_compiled_languages(given)
    assert found is None or "CUDA" not in found.languages


def base(libc: str) -> Base:
    file = Artefact(filename="libc6.deb", sha256="8" * 64, size=1)
    deb = Deb(name="libc6", version=libc, architecture="amd64", essential=True, file=file)
    return Base(distribution="debian", release="made", packages=(deb,))


def test_what_is_compiled_must_run_on_the_base() -> None:
    check_glibc(base("2.35-0ubuntu3"), base("2.36-9"))
    check_glibc(base("2.36-9"), base("2.36-9+deb12u9"))
    with pytest.raises(
        LockError, match=r"the image to compile in has glibc 2\.39, and the base 2\.36"
    ) as caught:
        check_glibc(base("2.39-1"), base("2.36-9"))
    assert caught.value.hint == (
        "name an image of the same release as the base, or of an older one, with `--build-image`"
    )
