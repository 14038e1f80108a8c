"""The section on a check of many nodes."""

from __future__ import annotations

from msgspec import Struct

from reprobuild.report.html.cluster import Nodes
from reprobuild.report.html.components import Section, format_count
from reprobuild.report.html.matrix import Matrix, compare_nodes


class NodesView(Struct, frozen=True, kw_only=True):
    """The nodes, and their matrix if answers differ."""

    nodes: Nodes
    matrix: Matrix | None


def view_nodes(cluster: Nodes) -> Section:
    """Return the section on the nodes."""
    answered = cluster.asked - len(cluster.silent)
    groups = format_count(len(cluster.groups), "platform")
    lead = f"{answered:,} of {format_count(cluster.asked, 'node')} answered, of {groups}."
    view = NodesView(nodes=cluster, matrix=compare_nodes(cluster))
    return Section(id="nodes", title="Many nodes", lead=lead, view=view)
