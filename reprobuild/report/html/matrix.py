"""A matrix of differences: machines or certificates by the answers in which they differ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.report.html.cluster import Nodes
from reprobuild.verify.verdict import Against, Deviation

LARGEST = 30  # rows, and columns
SHORT = 6  # characters of a digest in a cell
Sameness = Literal["same", "differs", "no answer"]


class MatrixCell(Struct, frozen=True, kw_only=True):
    """One cell: whether it is as the others of its column, and a short text."""

    sameness: Sameness
    text: str = ""


class MatrixRow(Struct, frozen=True, kw_only=True):
    """One machine or certificate."""

    name: str
    cells: Sequence[MatrixCell]


class Matrix(Struct, frozen=True, kw_only=True):
    """The rows and columns, and the number of rows and columns without room."""

    title: str
    columns: Sequence[str]
    rows: Sequence[MatrixRow]
    more_columns: int
    more_rows: int


def compare_nodes(cluster: Nodes) -> Matrix | None:
    """Return the nodes and the answers in which they differ, or None."""
    differing = _group_answers((row.node, row.answers) for row in cluster.wrong)
    lacking = _group_answers((row.node, row.answers) for row in cluster.lacking)
    columns = sorted({answer for answers in (*differing.values(), *lacking.values()) for answer in answers})
    if not columns:
        return None
    names = sorted({*differing, *lacking})
    shown = columns[:LARGEST]
    rows = [
        MatrixRow(name=name, cells=[_node_cell(name, answer, differing, lacking) for answer in shown])
        for name in names[:LARGEST]
    ]
    others = {node for group in cluster.groups for node in group.nodes} - set(names)
    if others:
        same = [MatrixCell(sameness="same")] * len(shown)
        rows.append(MatrixRow(name=f"all {len(others):,} others", cells=same))
    return Matrix(
        title="Nodes by the answers in which they differ", columns=shown, rows=rows,
        more_columns=len(columns) - len(shown), more_rows=max(0, len(names) - LARGEST),
    )  # fmt: skip


def _group_answers(rows: Iterable[tuple[str, Sequence[str]]]) -> dict[str, set[str]]:
    answers_by_node: dict[str, set[str]] = {}
    for node, answers in rows:
        if answers:
            answers_by_node.setdefault(node, set()).update(answers)
    return answers_by_node


def _node_cell(
    node: str, answer: str, differing: dict[str, set[str]], lacking: dict[str, set[str]]
) -> MatrixCell:
    if answer in differing.get(node, ()):
        return MatrixCell(sameness="differs")
    return MatrixCell(sameness="no answer" if answer in lacking.get(node, ()) else "same")


def compare_certificates(comparison: Against, now: str) -> Matrix | None:
    """Return both certificates and the probes in which they differ, or None.

    Args:
        comparison: with the earlier certificate.
        now: the time of this check.
    """
    items: list[Deviation] = [*comparison.failed, *comparison.other]
    if not items:
        return None
    shown = items[:LARGEST]
    rows = [
        MatrixRow(name=comparison.made, cells=[_digest_cell(item.then, "same") for item in shown]),
        MatrixRow(name=now, cells=[_digest_cell(item.now, "differs") for item in shown]),
    ]
    return Matrix(
        title="Certificates by the probes in which they differ", rows=rows, more_rows=0,
        columns=[f"{item.scope} {item.name}" for item in shown], more_columns=len(items) - len(shown),
    )  # fmt: skip


def _digest_cell(value: str | None, sameness: Sameness) -> MatrixCell:
    if value is None:
        return MatrixCell(sameness="no answer")
    return MatrixCell(sameness=sameness, text=value.removeprefix("sha256:")[:SHORT])
