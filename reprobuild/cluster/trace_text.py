"""The comparison of recorded nodes, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reprobuild.cluster.answer_table import abbreviate_names
from reprobuild.cluster.silence import MissingNode
from reprobuild.cluster.text import SHOWN_NODES, SILENT
from reprobuild.cluster.trace_groups import NodeDivergence, TracedCluster, TraceGroup
from reprobuild.cluster.traced_node import HINT

_SILENT = {**SILENT, "unreadable": "left no records"}


def render_traces(cluster: TracedCluster) -> str:
    """Return the lines for a terminal: nodes that differ first, then the groups."""
    lines = [
        *(line for group in cluster.groups for line in _list_odd(group)),
        *(f"{node.node}: {_SILENT[node.kind]}: {node.why}" for node in cluster.silent),
        *_advise(cluster.silent),
        *(f"{name}: recorded, and was not asked; it is not counted" for name in cluster.strangers),
        *cluster.notes,
    ]
    for number, group in enumerate(cluster.groups, 1):
        lines += ["", *_list_group(number, group)]
        if number > 1:
            lines.append(f"  {_describe_across(cluster.across[number - 2])}")
    recorded = len(cluster.asked) - len(cluster.silent)
    lines += [
        "",
        f"cluster: {cluster.verdict}; {recorded} of {len(cluster.asked)} nodes recorded the command",
    ]
    return "\n".join(lines[1:] if lines[0] == "" else lines)


def _advise(silent: Sequence[MissingNode]) -> Iterator[str]:
    """Yield what a user does about records that cannot be compared."""
    if damaged := [node.node for node in silent if node.kind == "unreadable"]:
        yield f"  on {abbreviate_names(damaged, SHOWN_NODES)}: {HINT}"


def _list_odd(group: TraceGroup) -> Iterator[str]:
    for difference in group.odd:
        nodes, peers = (abbreviate_names(names, SHOWN_NODES) for names in (difference.nodes, group.same))
        yield f"{nodes}: other than {peers}, {_describe(difference)}"
    if group.others:
        yield f"{abbreviate_names(group.others, SHOWN_NODES)}: each other than all of these"
    if group.odd and group.has_majority:
        yield "  is it the node, or the command? `reprobuild trace OUT -- CMD` on one node compares runs there"
    elif group.odd:
        yield (
            "  no majority, so which is right is not known; does the command drift? "
            "`reprobuild trace OUT -- CMD` on one node compares runs there"
        )


def _list_group(number: int, group: TraceGroup) -> Iterator[str]:
    yield f"group {number}: {group.platform}"
    steps = f"{group.steps} step{'s' * (group.steps != 1)}"
    same = (
        "with the same records" if len(group.nodes) > 1 else "alone on its platform, so it was not compared"
    )
    if group.odd or group.others:
        same = f"{len(group.same)} with the same records"
    count = f"{len(group.nodes)} node{'s' * (len(group.nodes) != 1)}"
    yield f"  {count}, {same}, {steps}: {abbreviate_names(group.nodes, SHOWN_NODES)}"


def _describe_across(difference: NodeDivergence | None) -> str:
    if difference is None:
        return "the same records as group 1"
    return f"other than group 1 {_describe(difference)}; platforms may differ"


def _describe(difference: NodeDivergence) -> str:
    if difference.why:
        return f"and cannot be compared: {difference.why}"
    place = f" at {difference.place}" if difference.place else ""
    return f"from step {difference.step} on: {difference.record}{place}, in the process {difference.process}"
