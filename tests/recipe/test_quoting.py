"""Each value that a template puts out passes a filter for its place."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest
from jinja2 import nodes

from reprobuild.recipe.online.render import NAMES
from reprobuild.recipe.render import TEMPLATES, template_folder

ONLINE = ("online/steps", *(f"online/{name}" for name in NAMES))
# What the program itself fixes; no document has a say in it.
CONSTANTS = {"files", "prefix", "end", "name"}
# Content of here-documents, which `embed` makes base64 if it is not plain text.
EMBEDDED = {"file.text", "plan.runtime.text"}
# What a value stands in, after one of these; see `render._environment`.
FILTERS = {
    "sh", "definition", "dockerfile", "workdir", "json", "line", "comment", "digest", "plain", "variable", "project",
    "version", "number",
}  # fmt: skip


def outputs(source: str) -> Iterator[nodes.Expr]:
    """Yield each expression whose value a template puts out, both sides of a condition for themselves."""
    for output in jinja2.Environment(autoescape=False).parse(source).find_all(nodes.Output):
        for node in output.nodes:
            if not isinstance(node, nodes.TemplateData):
                yield from sides(node)


def sides(node: nodes.Expr) -> Iterator[nodes.Expr]:
    if isinstance(node, nodes.CondExpr):
        yield from sides(node.expr1)
        if node.expr2 is not None:
            yield from sides(node.expr2)
    else:
        yield node


def unfiltered(source: str) -> list[str]:
    return [text(node) for node in outputs(source) if not is_safe(node)]


def is_safe(node: nodes.Expr) -> bool:
    return (
        isinstance(node, nodes.Const)
        or (isinstance(node, nodes.Filter) and (node.name in FILTERS or is_filtered_list(node)))
        or isinstance(node, nodes.Call)  # of a macro, whose own outputs are looked at
        or text(node) in EMBEDDED
        or (isinstance(node, nodes.Name) and node.name in CONSTANTS)
    )


def is_filtered_list(node: nodes.Filter) -> bool:
    """Return whether each item of a joined list passes a filter."""
    inner = node.node
    return (
        node.name == "join"
        and isinstance(inner, nodes.Filter)
        and inner.name == "map"
        and isinstance(inner.args[0], nodes.Const)
        and inner.args[0].value in FILTERS
    )


def text(node: nodes.Expr) -> str:
    if isinstance(node, nodes.Filter):
        assert node.node is not None
        return f"{text(node.node)} | {node.name}"
    return f"{text(node.node)}.{node.attr}" if isinstance(node, nodes.Getattr) else getattr(node, "name", "?")


@pytest.mark.parametrize("name", [*TEMPLATES, *ONLINE])
def test_each_value_has_a_filter(name: str) -> None:
    source = Path(template_folder(), f"{name}.j2").read_text()
    assert list(outputs(source))
    assert unfiltered(source) == []


def test_every_template_is_looked_at() -> None:
    found = {path.relative_to(template_folder()).as_posix() for path in template_folder().rglob("*.j2")}
    assert found == {f"{name}.j2" for name in (*TEMPLATES, *ONLINE)}


@pytest.mark.parametrize(
    ("source", "named"),
    [
        ("# {{ source.commit }}", ["source.commit"]),
        ('{{ special | join(", ") }}', ["special | join"]),
        ('{{ "a" if b else c }}', ["c"]),
        ("{% for x in y %}{{ x }}{% endfor %}", ["x"]),
        ("{{ x | sh | upper }}", ["x | sh | upper"]),
        ('{{ x | map("upper") | join }}', ["x | map | join"]),
        ('{{ x | map("sh") | join(" ") }}{{ file.text }}{{ macro(x) }}', []),
        ('{{ x | sh }}{{ "," if y }}{{ files }}', []),
    ],
)
def test_a_value_without_a_filter_is_seen(source: str, named: list[str]) -> None:
    assert unfiltered(source) == named
