"""The environment variables that Python code reads, by syntax tree.

A read is `E.get(N)`, `E[N]`, `E.pop(N)`, `getenv(N)` or `N in E`, with E called `env`, `environ` or `GIVEN`. N is a
text, a constant of any file, runs over a literal collection of those, or is a parameter of a function that is called
with one.  Reads by programs and libraries cannot be seen this way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

MAPPINGS = ("env", "environ", "GIVEN")
NAME = re.compile(r"[A-Z_][A-Z0-9_]*")
COLLECTIONS = ("frozenset", "set", "tuple", "sorted")

Texts = Mapping[str, tuple[str, ...]]


def scan(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Return each variable that is read, with its files.

    Both are sorted.
    """
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in files}
    shared: Texts = {}
    for _ in range(2):  # some are made of another file's
        shared = {name: words for tree in trees.values() for name, words in constants(tree, shared).items()}
    found: dict[str, set[Path]] = {}
    for path, tree in trees.items():
        for name in reads(tree, {**shared, **constants(tree, shared)}):
            found.setdefault(name, set()).add(path)
    return {name: sorted(found[name]) for name in sorted(found)}


def reads(tree: ast.Module, constants: Texts) -> set[str]:
    """Return the names that a module reads.

    `constants` are the texts that its names stand for.
    """
    asking = _asking(tree)
    return {name for name in _reads(tree, constants, asking) if NAME.fullmatch(name)}


def _reads(scope: ast.AST, known: Texts, asking: Mapping[str, int]) -> Iterator[str]:
    """Yield the reads of one function or of the module.

    A loop's variable means something in its function alone.
    """
    inner: list[ast.AST] = []
    nodes = list(_own_nodes(scope, inner))
    for _ in range(2):  # a loop over the values of an outer loop
        known = {**known, **_loops(nodes, known)}
    for node in nodes:
        for key in _keys(node, asking):
            yield from _texts(key, known)
    for one in inner:
        yield from _reads(one, known, asking)


def _own_nodes(scope: ast.AST, inner: list[ast.AST]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner.append(child)
        else:
            yield child
            yield from _own_nodes(child, inner)


def _keys(node: ast.AST, asking: Mapping[str, int]) -> Iterator[ast.expr]:
    """Yield the name of the variable that the node reads."""
    if isinstance(node, ast.Call) and node.args:
        function = node.func
        called = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        read = (
            isinstance(function, ast.Attribute) and called in ("get", "pop") and _is_mapping(function.value)
        )
        if read or called == "getenv":
            yield node.args[0]
        elif called in asking:
            yield from node.args[asking[called] : asking[called] + 1]
    elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_mapping(node.value):
        yield node.slice
    elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
        yield from [node.left] if _is_mapping(node.comparators[0]) else []


def _is_mapping(node: ast.expr) -> bool:
    last = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return last in MAPPINGS


def _asking(tree: ast.Module) -> dict[str, int]:
    """Return the functions that read a variable named by a parameter.

    The value is that parameter's place.
    """
    found = {}
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            places = {argument.arg: place for place, argument in enumerate(function.args.args)}
            keys = {_named(key) for node in ast.walk(function) for key in _keys(node, {})}
            for name in keys & set(places):
                found[function.name] = places[name]
    return found


def _named(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def constants(tree: ast.Module, shared: Texts) -> dict[str, tuple[str, ...]]:
    """Return a module's names for texts and collections of texts."""
    found: dict[str, tuple[str, ...]] = {}
    for node in tree.body:
        pairs: list[tuple[ast.expr, ast.expr | None]] = []
        if isinstance(node, ast.AnnAssign):
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
            for target, value in list(pairs):
                if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                    pairs += zip(target.elts, value.elts, strict=False)
        for target, value in pairs:
            if (
                isinstance(target, ast.Name)
                and value is not None
                and (words := _texts(value, {**shared, **found}))
            ):
                found[target.id] = words
    return found


def _loops(nodes: Iterable[ast.AST], known: Texts) -> dict[str, tuple[str, ...]]:
    """Return the texts of variables of loops over collections."""
    found: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        if isinstance(node, (ast.For, ast.comprehension)) and (words := _texts(node.iter, known)):
            for target in ast.walk(node.target):
                if isinstance(target, ast.Name):
                    found[target.id] = (*found.get(target.id, ()), *words)
    return found


def _texts(node: ast.expr, known: Texts) -> tuple[str, ...]:
    """Return the possible texts of an expression.

    Its syntax alone is read.
    """
    if isinstance(node, ast.Constant):
        return (node.value,) if isinstance(node.value, str) else ()
    if isinstance(node, ast.Name):
        return known.get(node.id, ())
    if isinstance(node, ast.Attribute):
        return known.get(node.attr, ())
    parts: list[ast.expr] = []
    if isinstance(node, (ast.Tuple, ast.List, ast.Set)):
        parts = node.elts
    elif isinstance(node, ast.Dict):
        parts = [key for key in node.keys if key]
    elif isinstance(node, ast.Starred):
        parts = [node.value]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in COLLECTIONS:
        parts = node.args[:1]
    return tuple(word for one in parts for word in _texts(one, known))
