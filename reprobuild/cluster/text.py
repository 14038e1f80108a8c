"""The result of a check on many nodes, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from reprobuild.cluster.aggregate import ClusterResult, MissingNode, by_node
from reprobuild.cluster.answer_table import plain, some
from reprobuild.cluster.collectives_judge import CollectiveResult, blamed
from reprobuild.cluster.group import Group
from reprobuild.verify.determinism.summary import unprobed

SHOWN_NODES, SHOWN_ANSWERS = 8, 6
_GPU = re.compile(r"cuda\.gpus\.\d+\.name")
_FACTS = ("cpu_model", "cpu_capability", "threads", "cuda.gpus.0.name", "cuda.driver")
SILENT = {
    "absent": "never began", "hangs": "hangs", "died": "died", "lost": "lost", "refused": "gave no answer",
    "unreadable": "left no certificate", "drifts": "drifts", "old": "left an old certificate",
}  # fmt: skip
MET = {
    "identical": "identical", "drift": "drift", "unfinished": "did not finish", "inconclusive": "inconclusive",
    "not-run": "not run",
}  # fmt: skip


def render_fleet(fleet: ClusterResult) -> str:
    """Return the text for people: deviating nodes first, then groups."""
    lines = [
        *_wrong(fleet),
        *_silent(fleet.silent),
        *_missing(fleet),
        *_open(fleet),
        *_groups(fleet),
        *_met(fleet),
        "",
    ]
    answered = len(fleet.asked) - len(fleet.silent)
    lines.append(f"fleet: {fleet.verdict}; {answered} of {len(fleet.asked)} nodes answered")
    return "\n".join(lines)


def _wrong(fleet: ClusterResult) -> Iterator[str]:
    for node, one, answers in by_node(fleet):
        peers = len(one.nodes) - 1
        same = {each.answer for each in one.odd if each.node == node and each.kind == "drift"}
        what = "drifts, and differs" if same and len(same) < len(answers) else "drifts" if same else "differs"
        yield (
            f"{node}: {what} from {peers} of its platform, on {one.device}, in {len(answers)} answers: "
            "drift, or hardware that computes wrongly"
        )
        yield f"  {some(answers, SHOWN_ANSWERS)}"
    for one in fleet.groups:
        for each in one.parted[:SHOWN_ANSWERS]:
            sides = "; ".join(
                f"{some(nodes, SHOWN_NODES)}: {value}"
                for value, nodes in list(each.sides.items())[:SHOWN_NODES]
            )
            yield f"{one.device} {each.answer}: they differ, and which is right is not known: {sides}"
        if len(one.parted) > SHOWN_ANSWERS:
            yield f"  and {len(one.parted) - SHOWN_ANSWERS} more answers on {one.device} without a majority"


def _silent(silent: Sequence[MissingNode]) -> Iterator[str]:
    for each in silent:
        yield f"{each.node}: {SILENT[each.kind]}: {each.why}"


def _missing(fleet: ClusterResult) -> Iterator[str]:
    for one in fleet.groups:
        for nodes, answers in lacking(one):
            who, what = some(nodes, SHOWN_NODES), some(answers, SHOWN_ANSWERS)
            yield f"{who}: no answer on {one.device}, where others have one: {what}"


def lacking(one: Group) -> Iterator[tuple[tuple[str, ...], list[str]]]:
    """Yield sets of nodes, and the answers that they lack.

    Others of their group have these answers.
    """
    names: dict[str, list[str]] = {}
    for each in one.odd:
        if each.kind == "missing":
            names.setdefault(each.node, []).append(each.answer)
    found: dict[tuple[str, ...], list[str]] = {}
    for node, answers in names.items():
        found.setdefault((node,), answers)
    for name, nodes in one.lacked.items():
        found.setdefault(nodes, []).append(name)
    yield from found.items()


def _open(fleet: ClusterResult) -> Iterator[str]:
    for each in fleet.open:
        yield f"{some(each.nodes, SHOWN_NODES)}: {each.why}"
    for name in fleet.strangers:
        yield f"{name}: answered, and was not asked; it is not counted"
    yield from fleet.notes


def _groups(fleet: ClusterResult) -> Iterator[str]:
    for number, one in enumerate(fleet.groups, 1):
        yield ""
        yield f"group {number}, {one.device}: {titled(one)}"
        yield f"  {len(one.nodes)} nodes, {one.compared} answers compared: {some(one.nodes, SHOWN_NODES)}"
        if one.loose:
            yield f"  not compared, for they drift with the image's profile: {some(list(one.loose), SHOWN_ANSWERS)}"
        if more := unprobed_gpus(one):
            yield f"  {more}"
        if len(one.nodes) < 2:
            yield "  alone on its platform: nothing is known of it by comparison"
    for each in fleet.across:
        yield ""
        yield (
            f"across the groups on {each.device} {len(each.answers)} of {each.compared} answers differ, "
            "as is expected: "
            f"they differ in {some(each.facts, SHOWN_ANSWERS)}"
        )


def _met(fleet: ClusterResult) -> Iterator[str]:
    yield ""
    if not fleet.collectives:
        yield "collectives between nodes: not run"
    for one in fleet.collectives:
        yield f"{met_title(one)}: {MET[one.verdict]}"
        yield from (f"  {line}" for line in met_lines(one))


def met_title(one: CollectiveResult) -> str:
    """Return a title for collectives: nodes, device and ranks."""
    if one.verdict == "not-run":
        return f"collectives between nodes, {one.device} ({one.backend})"
    return f"collectives between {len(one.nodes)} nodes, {one.device} ({one.backend}, {one.ranks} ranks)"


def met_lines(one: CollectiveResult) -> Iterator[str]:
    """Yield a line for each result of collectives between nodes."""
    named, follows = blamed(one)
    for each in named:
        where = f"{some(each.nodes, SHOWN_NODES)} ({_ranks(each.ranks)})"
        if each.kind == "runs":
            yield f"{plain(each.collective)}: not the same each time, on {where}"
        elif each.settled:
            yield f"{plain(each.collective)}: other than on most ranks, on {where}: hardware that computes wrongly?"
        else:
            yield f"{plain(each.collective)}: the ranks differ, and which is right is not known: {where}"
    if follows:
        yield follow_line(one)
    yield from map(plain, one.open)
    if one.identical:
        yield f"the same in both runs: {some(one.identical, len(one.identical))}"
    if one.control:
        yield f"control, a sum over ranks: {plain(one.control)}"


def follow_line(one: CollectiveResult) -> str:
    """Return the text on drifts caused by other nodes.

    The drift of a named node spreads to the data of all nodes.
    """
    named, follows = blamed(one)
    guilty = {node for each in named for node in each.nodes}
    away = sorted({node for each in follows for node in each.nodes} - guilty)
    what = some([each.collective for each in follows], SHOWN_ANSWERS)
    return (
        f"{what}: not the same each time, also on {some(away, SHOWN_NODES) or 'no other node'}: "
        f"that may come of {some(sorted(guilty), SHOWN_NODES)}"
    )


def _ranks(numbers: Sequence[int]) -> str:
    return f"rank{'s' if len(numbers) > 1 else ''} {some([str(number) for number in numbers], SHOWN_NODES)}"


def unprobed_gpus(one: Group) -> str:
    """Return a note on a group's GPUs without probes, or "".

    They are those past the first of each node.
    """
    names = [name for name in one.platform if _GPU.fullmatch(name)]
    return unprobed(len(names)) if one.device == "cuda" else ""


def titled(one: Group) -> str:
    """Return a platform's title: its processor and GPU."""
    told = [plain(one.platform[name]) for name in _FACTS if one.platform.get(name, "null") != "null"]
    return ", ".join(told) or "a platform that tells nothing of itself"
