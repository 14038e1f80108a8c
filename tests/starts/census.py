"""Every place of the code that starts a program, found by its syntax."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.conftest import ROOT

STARTERS = {"run", "stream", "feed", "interact", "Process"}  # of reprobuild.infra.proc
_OF_PYTHON = {
    "subprocess": {"run", "Popen", "call", "check_call", "check_output", "getoutput", "getstatusoutput"},
    "os": {
        "system", "popen", "posix_spawn", "posix_spawnp", "startfile",
        *(f"{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")),
    },
    "pty": {"spawn"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}  # fmt: skip
PROC = Path("reprobuild/infra/proc")
# Run in images alone, where the current directory is the image's; `launch.py` and `container.py` become their command
# in the new root, hooks are absolute paths, and `seal.py` becomes this Python again.
IN_IMAGES = ("reprobuild_runtime/", "reprobuild/realise/in_sandbox/", "reprobuild/infra/sandbox/launch.py",
             "reprobuild/infra/sandbox/container", "reprobuild/infra/sandbox/seal.py")  # fmt: skip
CAPTURE = "reprobuild_runtime/capture.py"


def files() -> list[Path]:
    """Return the files that run on the host."""
    every = [path.relative_to(ROOT) for folder in ("reprobuild", "reprobuild_runtime")
             for path in sorted((ROOT / folder).rglob("*.py"))]  # fmt: skip
    return [path for path in every if str(path) == CAPTURE or not str(path).startswith(IN_IMAGES)]


def sites(source: str) -> Iterator[str]:
    """Yield the name of the function around each start of a program."""
    tree = ast.parse(source)
    names = dict(_imported(tree))
    for around, node in _calls(tree, ""):
        called = _called(node.func, names)
        if called:
            yield around


def _calls(node: ast.AST, around: str) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inner = around
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = f"{around}.{child.name}".lstrip(".")
        if isinstance(child, ast.Call):
            yield inner, child
        yield from _calls(child, inner)


def _imported(tree: ast.AST) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield a name of a file, and the module and the name in it that it stands for; no name for a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name, (alias.name, "")
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = alias.asname or alias.name
                is_proc = (node.module, alias.name) == ("reprobuild.infra", "proc")
                yield name, (("reprobuild.infra.proc", "") if is_proc else (node.module, alias.name))


def _called(function: ast.expr, names: Mapping[str, tuple[str, str]]) -> bool:
    if isinstance(function, ast.Name) and function.id in names:
        return _starts(*names[function.id])
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        module, name = names.get(function.value.id, ("", "?"))
        return not name and _starts(module, function.attr)
    return False


def _starts(module: str, name: str) -> bool:
    if module.startswith("reprobuild.infra.proc"):
        return name in STARTERS
    return name in _OF_PYTHON.get(module, ())


def census() -> list[str]:
    """Return each place as `FILE:FUNCTION`, once."""
    found = {
        f"{path}:{site}"
        for path in files()
        if PROC not in path.parents or path.name == "own_python.py"
        for site in sites((ROOT / path).read_text())
    }
    return sorted(found)
