"""Every place of the program that reads a document, found in its code: by which type, or why by none."""

from __future__ import annotations

import ast
import builtins
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

PACKAGE = Path(__file__).parent.parent.parent / "reprobuild"
# Programs for other places: the standard library alone, with checks of their own.
APART = {"in_sandbox", "standalone"}
# Functions that take the type as an argument, by file: its place among the arguments.
GENERIC = {
    "ecosystems/oci_registry/manifest.py": {"_decode_document": 1},
    "ecosystems/apt/launchpad.py": {"_ask": 1, "_read": 1},
    "ecosystems/conda/package.py": {"decode_document": 2},
}
DECODERS = {
    "decode_json", "decode_toml", "decode_value", "json_decoder",
    "msgspec.json.decode", "msgspec.json.Decoder", "msgspec.convert", "msgspec.yaml.decode", "msgspec.toml.decode",
    "json.loads", "json.load", "yaml.safe_load", "yaml.load", "yaml.compose",
}  # fmt: skip


class Place(NamedTuple):
    """A call that reads a document: its file, the function that it is in, and its type where it has one."""

    file: str
    function: str
    call: str
    type: Any
    written: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.function}:{self.call}"


def places() -> list[Place]:
    """Return every call in the program that turns bytes or text into a value."""
    files = sorted(path for path in PACKAGE.rglob("*.py") if not APART & set(path.relative_to(PACKAGE).parts))
    return [place for path in files for place in _of_file(path)]


def _of_file(path: Path) -> Iterator[Place]:
    file = path.relative_to(PACKAGE).as_posix()
    tree = ast.parse(path.read_text())
    generic = {name for names in GENERIC.values() for name in names}
    for function, node in _calls(tree):
        called = ast.unparse(node.func)
        name = called.rpartition(".")[2]
        wanted: ast.expr | None = None
        if called in DECODERS:
            first = node.args[:1] if called in {"msgspec.json.Decoder", "json_decoder"} else node.args[1:2]
            wanted = next((word.value for word in node.keywords if word.arg == "type"), *first or [None])
        elif name in generic and (used := _generic(file, name)) is not None and len(node.args) > used:
            wanted, called = node.args[used], name
        else:
            continue
        written = ast.unparse(wanted) if wanted is not None else ""
        yield Place(file, function, called, _value(file, written), written)


def _generic(file: str, name: str) -> int | None:
    """Return which argument of a function is the type, None where a function of another file is meant."""
    for home, names in GENERIC.items():
        if name in names and home.rpartition("/")[0] == file.rpartition("/")[0]:
            return names[name]
    return None


def _calls(tree: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Call]]:
    for node in ast.iter_child_nodes(tree):
        inner = (
            node.name if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else function
        )
        if isinstance(node, ast.Call):
            yield inner, node
        yield from _calls(node, inner)


def _value(file: str, written: str) -> Any:
    """Return the type that an expression means in a module; None where it is a variable of a function."""
    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    module = importlib.import_module(f"reprobuild.{name}")
    try:
        return eval(written, {**vars(builtins), **vars(module)}) if written else None
    except NameError:
        return None
