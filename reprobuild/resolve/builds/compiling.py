"""Detection of compiled projects, and the packages that they need."""

from __future__ import annotations

import re

from msgspec import Struct

from reprobuild.resolve.builds.extensions import compiles_cuda_on_request
from reprobuild.resolve.builds.projects import Project, collect_suffixes

# The compilers of C and C++, and the tools that setuptools, make and CMake look for.
PACKAGES = ("gcc", "g++", "libc6-dev", "make", "pkg-config")
# A language by the suffixes of its sources, and the system packages that it needs beyond `PACKAGES`.
_LANGUAGES = {
    "C": ({".c", ".pyx", ".pxd"}, ()),
    "C++": ({".cc", ".cpp", ".cxx", ".hpp"}, ()),
    "Fortran": ({".f", ".f90", ".f95", ".for"}, ("gfortran",)),
    "Rust": ({".rs"}, ("cargo", "rustc")),
    "CUDA": ({".cu", ".cuh"}, ()),
}
# Back ends that compile every project, by the first part of their name.
_COMPILERS = {
    "maturin": "Rust",
    "mesonpy": "C",
    "scikit_build_core": "C++",
    "skbuild": "C++",
}
# In setup.py, setup.cfg or pyproject.toml: setuptools compiles.
_MARKS = re.compile(
    rb"ext[_-]modules|cffi[_-]modules|rust[_-]extensions|setuptools-rust|cythonize|mypycify|"
    rb"\b(CMake|CUDA|Cpp|Pybind11)?Extension\("
)
# In the same files: torch compiles, or nvcc is started, by CMake or by the project itself.
_TORCH = re.compile(rb"cpp_extension|CUDAExtension")
_NVCC = re.compile(rb"(?i)nvcc|CUDA_HOME|CUDA_PATH|CUDACXX|cmake|skbuild|cupy_builder")


class CompiledLanguages(Struct, frozen=True):
    """The languages that a project compiles, packages, and evidence."""

    languages: frozenset[str]
    packages: tuple[str, ...]
    evidence: str


def find_compiled_languages(project: Project) -> CompiledLanguages | None:
    """Return the compiled parts of a project; None for pure Python.

    A project with sources of such a language may need no compiler (tests, samples): a back end that compiles no sources
    by itself, and no mention of extensions, decide that.
    """
    source_languages = {
        name for name, (endings, _) in _LANGUAGES.items() if endings & collect_suffixes(project)
    }
    if not _compiles_cuda(project):
        source_languages.discard("CUDA")
    evidence = _find_evidence(project, source_languages)
    if evidence is None:
        return None
    by_backend = _COMPILERS.get(project.backend.partition(".")[0])
    languages = frozenset(source_languages | ({by_backend} if by_backend else set())) or frozenset({"C"})
    more = [package for name in sorted(languages) for package in _LANGUAGES[name][1]]
    return CompiledLanguages(languages, (*PACKAGES, *more), evidence)


def _compiles_cuda(project: Project) -> bool:
    """Return whether a build compiles CUDA sources by default.

    setuptools alone does not know nvcc.
    """
    texts = project.texts.values()
    if compiles_cuda_on_request(project.name):
        return False
    if any(_TORCH.search(text) for text in texts):
        return True
    if project.cuda_option:
        return False
    return project.backend.partition(".")[0] != "setuptools" or any(_NVCC.search(text) for text in texts)


def _find_evidence(project: Project, languages: set[str]) -> str | None:
    """Return the evidence that a project compiles, or None."""
    backend = project.backend.partition(".")[0]
    if backend in _COMPILERS:
        return f"its back end is {backend}"
    if backend == "setuptools":
        files = [name for name, text in sorted(project.texts.items()) if _MARKS.search(text)]
        if files:
            return f"{files[0]} names extensions"
        return (
            f"it has setup.py and sources in {', '.join(sorted(languages))}"
            if languages and "setup.py" in project.texts
            else None
        )
    if backend in ("flit_core", "flit"):
        return None
    hooks = {
        "hatchling": ("tool", "hatch", "build", "hooks"), "poetry": ("tool", "poetry", "build"),
        "pdm": ("tool", "pdm", "build"),
    }.get(backend)  # fmt: skip
    if hooks is not None and not (project.table(*hooks) or _has_build_script(project)):
        return None
    return (
        f"{backend} may compile, and there are sources in {', '.join(sorted(languages))}"
        if languages
        else None
    )


def _has_build_script(project: Project) -> bool:
    """Return whether a build script is known by another setting.

    poetry may have it by its name alone, or hatchling hooks for wheels alone.
    """
    poetry = project.table("tool", "poetry").get("build")
    return isinstance(poetry, str) or bool(
        project.table("tool", "hatch", "build", "targets", "wheel", "hooks")
    )
