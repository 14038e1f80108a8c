"""The section on a check of many nodes.

It lists differing nodes, silent nodes, and the groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from reprobuild.report.html.components import (
    Section,
    bullet_list,
    chip,
    code_element,
    fact_list,
    fold,
    format_count,
    table,
)
from reprobuild.report.html.markup import Html, join, tag


class OutlierRow(Struct, frozen=True, kw_only=True):
    """A node with a remark, and the answers that it is about."""

    node: str
    said: str
    answers: tuple[str, ...] = ()


class Peers(Struct, frozen=True, kw_only=True):
    """The nodes of one platform, and their number of compared answers."""

    device: str
    title: str
    nodes: tuple[str, ...]
    compared: int
    platform: dict[str, str]


class Met(Struct, frozen=True, kw_only=True):
    """Collectives between nodes.

    They have a title with the nodes, a verdict in a word, and further remarks.
    """

    title: str
    verdict: str
    said: tuple[str, ...]


class Nodes(Struct, frozen=True, kw_only=True):
    """A check on many nodes.

    `wrong` are nodes that drift, or differ from others of their platform; `lacking` those that lack answers which
    others of their platform have; `silent` those without any; `notes` are further remarks; `collectives` are those
    between nodes, or a note that they were not run; `made` is the time of gathering, and `folder` the source directory.
    """

    verdict: Literal["same", "differ", "inconclusive"]
    asked: int
    wrong: tuple[OutlierRow, ...]
    silent: tuple[OutlierRow, ...]
    groups: tuple[Peers, ...]
    lacking: tuple[OutlierRow, ...] = ()
    notes: tuple[str, ...] = ()
    collectives: tuple[Met, ...] = ()
    made: str = ""
    folder: str = ""


def render_nodes(cluster: Nodes) -> Section:
    """Return the section on the nodes."""
    answered = cluster.asked - len(cluster.silent)
    groups = format_count(len(cluster.groups), "platform")
    lead = f"{answered:,} of {format_count(cluster.asked, 'node')} answered, of {groups}."
    return Section(id="nodes", title="Many nodes", lead=lead, parts=tuple(_render_parts(cluster)))


def _render_parts(cluster: Nodes) -> Iterator[Html]:
    yield tag("p", "Nodes of one platform must give the same bytes: ", chip(cluster.verdict), ".")
    for title, odd in (
        ("Not as the others of their platform", cluster.wrong),
        ("Without some answers of their platform", cluster.lacking),
        ("No answer", cluster.silent),
    ):
        if odd:
            rows = [(tag("b", row.node), join((row.said, *_render_answers(row)))) for row in odd]
            yield table(title, ("node", "what"), rows, shown=True)
    for met in cluster.collectives:
        yield tag("p", f"{met.title[0].upper()}{met.title[1:]}: ", chip(met.verdict), ".")
        if met.said:
            yield bullet_list(met.said)
    if cluster.notes:
        yield bullet_list(cluster.notes)
    if cluster.made:
        yield tag("p", f"Gathered {cluster.made}, from ", code_element(cluster.folder), ".", class_="muted")
    for number, group in enumerate(cluster.groups, 1):
        alone = (
            " Alone on its platform: nothing is known of it by comparison." if len(group.nodes) < 2 else ""
        )
        summary = f"{format_count(group.compared, 'answer')} compared.{alone}"
        yield fold(
            f"Group {number}, {group.device}: {group.title}", tag("p", summary), tag("p", ", ".join(group.nodes)),
            fact_list(group.platform.items()), count=len(group.nodes),
        )  # fmt: skip


def _render_answers(row: OutlierRow) -> tuple[Html, ...]:
    return (tag("small", ", ".join(row.answers)),) if row.answers else ()
