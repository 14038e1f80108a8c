"""The lines of statements that take several lines: a call, a dictionary, the head of a loop."""

import ast
import linecache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Tuple

_MOST = 20_000  # lines of a file
_HEADS = ("test", "iter", "items", "subject")  # of statements with a body
_spans: "Dict[str, Dict[int, Tuple[int, int]]]" = {}


def find_spans(path: str) -> "Dict[int, Tuple[int, int]]":
    """Return {line: (first, last line of its statement)} for the lines of longer statements of a file.

    A file that cannot be read or parsed has none.
    """
    if path not in _spans:
        _spans[path] = _read_spans(linecache.getlines(path))
    return _spans[path]


def _read_spans(lines: "List[str]") -> "Dict[int, Tuple[int, int]]":
    if len(lines) > _MOST:
        return {}
    try:
        tree = ast.parse("".join(lines))
        return {
            line: (first, last)
            for node in ast.walk(tree)
            if isinstance(node, ast.stmt)
            for first, last in [_find_span(node)]
            if first < last
            for line in range(first, last + 1)
        }
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}


def _find_span(node: ast.stmt) -> "Tuple[int, int]":
    if not hasattr(node, "body"):
        return node.lineno, node.end_lineno or node.lineno
    last = node.lineno
    for name in _HEADS:
        value = getattr(node, name, None)
        for part in value if isinstance(value, list) else [value]:
            for inner in ast.walk(part) if isinstance(part, ast.AST) else ():
                last = max(last, getattr(inner, "end_lineno", None) or last)
    return node.lineno, last
