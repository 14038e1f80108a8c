"""Every hint is shown by a test: the constant parts of each `hint=` stand in some test's strings."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "reprobuild"
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "in_sandbox" not in path.parts)
# Short parts (a comma between two names) say nothing.
SHORTEST = 4


def hints(source: str) -> Iterator[tuple[int, str]]:
    """Yield (line, constant part) of every `hint=` in a module; a name stands for the module's own constant."""
    tree = ast.parse(source)
    names = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        for keyword in node.keywords if isinstance(node, ast.Call) else ():
            if keyword.arg == "hint":
                yield from ((keyword.value.lineno, part) for part in _parts(keyword.value, names))


def _parts(value: ast.AST, names: dict[str, ast.expr]) -> Iterator[str]:
    for node in ast.walk(value):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and len(node.value.strip()) >= SHORTEST
        ):
            yield node.value.strip()
        elif isinstance(node, ast.Name) and node.id in names:
            yield from _parts(names[node.id], {})


@cache
def said_by_tests() -> str:
    """Return every string of every test, in one text; pieces of one expression are joined as Python joins them."""
    found = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def unshown(source: str) -> list[str]:
    said = said_by_tests()
    return [f"{line}: {part}" for line, part in hints(source) if part not in said]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_every_hint_is_shown(path: Path) -> None:
    assert unshown(path.read_text()) == []


def test_hints_are_found_and_a_new_one_is_seen() -> None:
    assert sum(len(list(hints(path.read_text()))) for path in FILES) > 100
    never = "-".join(["nobody", "says", "this"])
    source = (
        f'H = "{never} 1"\nE("x", hint=H)\nE("x", hint=f"{{n}} {never} 2" + ("{never} 3" if n else ", "))\n'
    )
    assert sorted(unshown(source)) == [f"2: {never} 1", f"3: {never} 2", f"3: {never} 3"]
