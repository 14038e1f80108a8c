"""What is shipped into images keeps to the standard library and to the syntax of Python 3.8."""

import ast
import sys
from pathlib import Path

import pytest
from conftest import RUNTIME

RENAMED = {
    "_sha2",
    "_sha512",
    "_interpreters",
    "_xxsubinterpreters",
}  # parts of some releases' standard library
SUBJECTS = {"torch", "numpy", "tensorflow"}
FILES = sorted(RUNTIME.rglob("*.py"))


def imports(tree: ast.AST, inside: bool = False) -> list[tuple[str, bool]]:
    """Return (module, whether only a function imports it), import_module("...") included."""
    found: list[tuple[str, bool]] = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, inside) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append(("." * node.level + (node.module or ""), inside))
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("import_module", "__import__"):
                found.append((str(node.args[0].value), inside))
        found += imports(node, inside or isinstance(node, (ast.FunctionDef, ast.Lambda)))
    return found


def faults(text: str) -> list[str]:
    allowed = set(sys.stdlib_module_names) | {"reprobuild_runtime"} | RENAMED
    return [
        name
        for name, lazy in imports(ast.parse(text, feature_version=(3, 8)))
        if name.split(".")[0] not in (allowed | SUBJECTS if lazy else allowed)
    ]


def test_there_are_files() -> None:
    assert {"__init__.py", "startup.py", "entrypoint.py", "freeze.py", "run.py"} <= {p.name for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RUNTIME)))
def test_standard_library_and_python_3_8(path: Path) -> None:
    assert faults(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    ["import torch", "from . import x", "def f():\n import requests", "def f():\n import_module('yaml')"],
)
def test_the_check_can_fail(text: str) -> None:
    assert faults(text) != []


def test_newer_syntax_is_refused() -> None:
    with pytest.raises(SyntaxError):
        faults("match x:\n case 1: pass")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(RUNTIME)))
def test_no_newer_library(path: Path) -> None:
    """Names of the standard library that Python 3.8 does not have, and that are easily used by mistake."""
    newer = {
        "removeprefix",
        "removesuffix",
        "is_relative_to",
        "to_thread",
        "batched",
        "pairwise",
        "packages_distributions",
    }
    used = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not used & newer


def test_the_package_imports_nothing(tmp_path: Path) -> None:
    from conftest import run

    code = (
        f"import sys; sys.path.insert(0, {str(RUNTIME.parent)!r}); before = set(sys.modules)\n"
        "import reprobuild_runtime; print(sorted(set(sys.modules) - before))"
    )
    assert run(sys.executable, "-I", "-S", "-c", code).out.strip() == "['reprobuild_runtime']"
