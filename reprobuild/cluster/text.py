"""The result of a check on many nodes, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reprobuild.cluster.aggregate import ClusterResult, list_deviating_nodes
from reprobuild.cluster.answer_table import abbreviate_names, escape_text
from reprobuild.cluster.collectives_judge import CollectiveResult, attribute_drift
from reprobuild.cluster.group import Group
from reprobuild.cluster.silence import MissingNode
from reprobuild.verify.determinism.summary import unprobed_gpus_note

SHOWN_NODES, SHOWN_ANSWERS = 8, 6
_GPU = re.compile(r"cuda\.gpus\.\d+\.name")
_FACTS = ("cpu_model", "cpu_capability", "threads", "cuda.gpus.0.name", "cuda.driver")
SILENT = {
    "absent": "never began", "hangs": "hangs", "died": "died", "lost": "lost", "refused": "gave no answer",
    "unreadable": "left no verdict file", "drifts": "drifts", "old": "left an old verdict file",
}  # fmt: skip
MET = {
    "identical": "identical", "drift": "drift", "unfinished": "did not finish", "inconclusive": "inconclusive",
    "not-run": "not run",
}  # fmt: skip


def render_cluster(cluster: ClusterResult) -> str:
    """Return the text for people: deviating nodes first, then groups."""
    lines = [
        *_deviation_lines(cluster),
        *_silence_lines(cluster.silent),
        *_missing_lines(cluster),
        *_question_lines(cluster),
        *_group_lines(cluster),
        *_collectives_lines(cluster),
        "",
    ]
    answered = len(cluster.asked) - len(cluster.silent)
    lines.append(f"cluster: {cluster.verdict}; {answered} of {len(cluster.asked)} nodes answered")
    return "\n".join(lines)


def _deviation_lines(cluster: ClusterResult) -> Iterator[str]:
    for node, group, answers in list_deviating_nodes(cluster):
        peers = len(group.nodes) - 1
        same = {outlier.answer for outlier in group.odd if outlier.node == node and outlier.kind == "drift"}
        verb = "drifts, and differs" if same and len(same) < len(answers) else "drifts" if same else "differs"
        yield (
            f"{node}: {verb} from {peers} of its platform, on {group.device}, in {len(answers)} answers: "
            "drift, or hardware that computes wrongly"
        )
        yield f"  {abbreviate_names(answers, SHOWN_ANSWERS)}"
    for group in cluster.groups:
        for split in group.parted[:SHOWN_ANSWERS]:
            sides = "; ".join(
                f"{abbreviate_names(nodes, SHOWN_NODES)}: {value}"
                for value, nodes in list(split.sides.items())[:SHOWN_NODES]
            )
            yield f"{group.device} {split.answer}: they differ, and which is right is not known: {sides}"
        if len(group.parted) > SHOWN_ANSWERS:
            yield f"  and {len(group.parted) - SHOWN_ANSWERS} more answers on {group.device} without a majority"


def _silence_lines(silent: Sequence[MissingNode]) -> Iterator[str]:
    for missing_node in silent:
        yield f"{missing_node.node}: {SILENT[missing_node.kind]}: {missing_node.why}"


def _missing_lines(cluster: ClusterResult) -> Iterator[str]:
    for group in cluster.groups:
        for nodes, answers in list_lacking_nodes(group):
            node_text, answer_text = (
                abbreviate_names(nodes, SHOWN_NODES),
                abbreviate_names(answers, SHOWN_ANSWERS),
            )
            yield f"{node_text}: no answer on {group.device}, where others have one: {answer_text}"


def list_lacking_nodes(group: Group) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield sets of nodes, and the answers that they lack.

    Others of their group have these answers.
    """
    names: dict[str, list[str]] = {}
    for outlier in group.odd:
        if outlier.kind == "missing":
            names.setdefault(outlier.node, []).append(outlier.answer)
    answers_by_nodes: dict[tuple[str, ...], list[str]] = {}
    for node, answers in names.items():
        answers_by_nodes.setdefault((node,), answers)
    for name, nodes in group.lacked.items():
        answers_by_nodes.setdefault(nodes, []).append(name)
    yield from answers_by_nodes.items()


def _question_lines(cluster: ClusterResult) -> Iterator[str]:
    for question in cluster.open:
        yield f"{abbreviate_names(question.nodes, SHOWN_NODES)}: {question.why}"
    for name in cluster.strangers:
        yield f"{name}: answered, and was not asked; it is not counted"
    yield from cluster.notes


def _group_lines(cluster: ClusterResult) -> Iterator[str]:
    for number, group in enumerate(cluster.groups, 1):
        yield ""
        yield f"group {number}, {group.device}: {platform_title(group)}"
        yield (
            f"  {len(group.nodes)} nodes, {group.compared} answers compared: "
            f"{abbreviate_names(group.nodes, SHOWN_NODES)}"
        )
        if group.loose:
            yield (
                "  not compared, for they drift with the image's profile: "
                f"{abbreviate_names(list(group.loose), SHOWN_ANSWERS)}"
            )
        if more := unprobed_note(group):
            yield f"  {more}"
        if len(group.nodes) < 2:
            yield "  alone on its platform: nothing is known of it by comparison"
    for difference in cluster.across:
        yield ""
        yield (
            f"across the groups on {difference.device} {len(difference.answers)} of {difference.compared} "
            "answers differ, as is expected: "
            f"they differ in {abbreviate_names(difference.facts, SHOWN_ANSWERS)}"
        )


def _collectives_lines(cluster: ClusterResult) -> Iterator[str]:
    yield ""
    if not cluster.collectives:
        yield "collectives between nodes: not run"
    for result in cluster.collectives:
        yield f"{collectives_title(result)}: {MET[result.verdict]}"
        yield from (f"  {line}" for line in result_lines(result))


def collectives_title(result: CollectiveResult) -> str:
    """Return a title for collectives: nodes, device and ranks."""
    if result.verdict == "not-run":
        return f"collectives between nodes, {result.device} ({result.backend})"
    return f"collectives between {len(result.nodes)} nodes, {result.device} ({result.backend}, {result.ranks} ranks)"


def result_lines(result: CollectiveResult) -> Iterator[str]:
    """Yield a line for each result of collectives between nodes."""
    named, follows = attribute_drift(result)
    for drift in named:
        where = f"{abbreviate_names(drift.nodes, SHOWN_NODES)} ({_format_ranks(drift.ranks)})"
        if drift.kind == "runs":
            yield f"{escape_text(drift.collective)}: not the same each time, on {where}"
        elif drift.settled:
            yield (
                f"{escape_text(drift.collective)}: other than on most nodes, on {where}: hardware that "
                "computes wrongly?"
            )
        else:
            yield f"{escape_text(drift.collective)}: the ranks differ, and which is right is not known: {where}"
    if follows:
        yield consequence_line(result)
    yield from map(escape_text, result.open)
    if result.identical:
        yield f"the same in both runs: {abbreviate_names(result.identical, len(result.identical))}"
    if result.control:
        yield f"control, a sum over ranks: {escape_text(result.control)}"


def consequence_line(result: CollectiveResult) -> str:
    """Return the text on drifts caused by other nodes.

    The drift of a named node spreads to the data of all nodes.
    """
    named, follows = attribute_drift(result)
    guilty = {node for drift in named for node in drift.nodes}
    away = sorted({node for drift in follows for node in drift.nodes} - guilty)
    collectives = abbreviate_names([drift.collective for drift in follows], SHOWN_ANSWERS)
    return (
        f"{collectives}: not the same each time, also on {abbreviate_names(away, SHOWN_NODES) or 'no other node'}: "
        f"that may come of {abbreviate_names(sorted(guilty), SHOWN_NODES)}"
    )


def _format_ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {abbreviate_names([str(number) for number in numbers], SHOWN_NODES)}"


def unprobed_note(group: Group) -> str:
    """Return a note on a group's GPUs without probes, or "".

    They are those past the first of each node.
    """
    names = [name for name in group.platform if _GPU.fullmatch(name)]
    return unprobed_gpus_note(len(names)) if group.device == "cuda" else ""


def platform_title(group: Group) -> str:
    """Return a platform's title: its processor and GPU."""
    facts = [
        escape_text(group.platform[name]) for name in _FACTS if group.platform.get(name, "null") != "null"
    ]
    return ", ".join(facts) or "a platform that tells nothing of itself"
