"""Judgement of collectives between nodes, from the ranks' logs.

The ranks run reprobuild_runtime/probes/between.py. Each rank logs the digest of its data after each
collective, in two launches of torchrun. A digest that is not the same each time is a drift. If a rank's data
differ although all ranks must agree, its node is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.cluster.answer_table import abbreviate_names, escape_text
from reprobuild.cluster.rank_log import CONTROL, MOST_NAMES, Node, Rank, explain_unfinished, read_node
from reprobuild.cluster.shared_dir import NODES, NOT_RUN, read_node_list, read_small
from reprobuild.infra.untrusted.strings import Text
from reprobuild.verify.determinism.document import Device

FEWEST = 3  # ranks whose sum can show its order, and nodes for a majority
MOST_REASONS, SHOWN = 20, 8
BACKENDS: dict[Device, str] = {"cpu": "gloo", "cuda": "NCCL"}
# Of these each rank has a part of its own; all others leave the same data on all ranks.
_SCATTER = "scatter"
_OWN_PART = (_SCATTER, "numbers of each rank")


class Drift(Struct, frozen=True, kw_only=True):
    """A collective that differs between runs or between ranks.

    The kind is `runs` or `ranks`. `settled` is false if ranks differ without a majority of nodes, or if the ranks
    may not be those of one job: then all are named.
    """

    collective: Text
    kind: Literal["runs", "ranks"]
    nodes: tuple[Text, ...]
    ranks: tuple[int, ...]
    settled: bool = True


class CollectiveResult(Struct, frozen=True, kw_only=True):
    """The result of collectives between nodes on one device kind.

    `unfinished`: not all nodes joined, or not all came to the end. `identical` are the collectives that were
    the same in both launches; `absent` are the nodes that did not join, and `open` has the reasons why it
    does not pass. `not-run`: they were requested, and could not be run.
    """

    device: Device
    backend: Text
    verdict: Literal["identical", "drift", "unfinished", "inconclusive", "not-run"]
    nodes: tuple[Text, ...]
    ranks: int
    identical: tuple[Text, ...] = ()
    drifts: tuple[Drift, ...] = ()
    absent: tuple[Text, ...] = ()
    open: tuple[Text, ...] = ()
    control: Text = ""


def inconclusive_result(device: Device, why: str) -> CollectiveResult:
    """Return an inconclusive result for collectives that were run."""
    return CollectiveResult(
        device=device,
        backend=BACKENDS[device],
        verdict="inconclusive",
        nodes=(),
        ranks=0,
        open=(escape_text(why),),
    )


def judge_collectives(
    folder: Path, device: Device, required: Sequence[str], met: Sequence[str] = ()
) -> CollectiveResult:
    """Judge the logs that the nodes left in a directory.

    Args:
        required: the collectives that each rank must have answered.
        met: the nodes between which they were run; if empty, those that the directory lists.

    Raises:
        UsageError: the directory lists an invalid name of a node.
        OSError: it cannot be read.
    """
    if (folder / NOT_RUN).exists() and not (folder / NODES).exists():
        why = escape_text(read_small(folder / NOT_RUN).strip())
        return CollectiveResult(
            device=device, backend=BACKENDS[device], verdict="not-run", nodes=(), ranks=0, open=(why,)
        )
    nodes = [read_node(folder, name) for name in met or read_node_list(folder)]
    ranks = [rank for node in nodes for rank in node.ranks.values()]
    names, uncompared = _choose_names(nodes, required)
    ranks_by_name: dict[str, list[Rank]] = {name: [] for name in names}
    for rank in ranks:
        for name in rank.seen.keys() & ranks_by_name.keys():
            ranks_by_name[name].append(rank)
    doubts = list(_check_numbers(ranks))
    drifts = tuple(
        drift for name in names for drift in _find_drifts(name, ranks_by_name[name], doubtful=bool(doubts))
    )
    unfinished_nodes = [node for node in nodes if not node.finished]
    control, blind = _judge_control(ranks)
    reasons = list(_explain_unfinished(folder, unfinished_nodes))
    if not nodes:
        reasons = ["no node was asked"]
    elif not unfinished_nodes:
        reasons = [*uncompared, *doubts, *_explain_unanswered(names, ranks, required), *blind]
    drifting = {drift.collective for drift in drifts}
    return CollectiveResult(
        device=device, backend=BACKENDS[device],
        verdict="drift" if drifts else "unfinished" if unfinished_nodes or not nodes
        else "inconclusive" if reasons else "identical",
        nodes=tuple(node.name for node in nodes), ranks=len(ranks),
        identical=() if unfinished_nodes else tuple(
            name for name, group in ranks_by_name.items()
            if name not in drifting and len(group) == len(ranks) and all(rank.has_results(name) for rank in group)
        ),
        drifts=drifts, absent=tuple(node.name for node in nodes if not node.came), control=control,
        open=tuple(map(escape_text, [*reasons[:MOST_REASONS], *_count_more(reasons)])),
    )  # fmt: skip


def _choose_names(nodes: Sequence[Node], required: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names of collectives to compare, and reasons.

    The reasons tell of other names. Required names and those of most nodes come first: the made-up names of
    one node remove no name of the others.
    """
    counts = Counter(name for node in nodes for name in node.names if not name.startswith(CONTROL))
    names = sorted(counts, key=lambda name: (name not in required, -counts[name], name))
    rest = {*names[MOST_NAMES:]}
    sources = [node.name for node in nodes if node.names & rest]
    why = f"{len(names)} names of collectives in all, so {len(rest)} rare ones were not compared"
    return sorted(names[:MOST_NAMES]), [f"{abbreviate_names(sources, SHOWN)}: {why}"] if rest else []


def check_coverage(result: CollectiveResult, answered: Sequence[str]) -> CollectiveResult:
    """Return the result with notes on nodes missing from it.

    The nodes are compared with those that answered on that device.
    """
    if result.verdict == "not-run":
        return result
    away, strange = sorted({*answered} - {*result.nodes}), sorted({*result.nodes} - {*answered})
    why = (
        *([f"{abbreviate_names(away, SHOWN)}: answered, and had no part in it"] if away else []),
        *(
            [f"{abbreviate_names(strange, SHOWN)}: had a part in it, and no answer of its own"]
            if strange
            else []
        ),
    )
    verdict = "inconclusive" if why and result.verdict == "identical" else result.verdict
    return msgspec.structs.replace(result, verdict=verdict, open=(*result.open, *why))


def attribute_drift(result: CollectiveResult) -> tuple[tuple[Drift, ...], tuple[Drift, ...]]:
    """Return the drifts by cause, and their consequences.

    The first tuple has the drifts that name nodes. A node whose data differ each time changes the sums, and
    the parts of sums, of all nodes. If no drift names only some nodes, all drifts name the nodes that show
    them.
    """

    def names_some(drift: Drift) -> bool:
        if drift.kind == "ranks":
            return drift.settled
        return len(drift.nodes) < len(result.nodes) and _SCATTER not in drift.collective

    if not any(map(names_some, result.drifts)):
        return result.drifts, ()
    follows = tuple(drift for drift in result.drifts if drift.kind == "runs" and not names_some(drift))
    return tuple(drift for drift in result.drifts if drift not in follows), follows


def _count_more(reasons: Sequence[str]) -> list[str]:
    return [f"and {len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else []


def _explain_unfinished(folder: Path, unfinished_nodes: Sequence[Node]) -> Iterator[str]:
    """Yield the reasons why nodes did not finish, each once.

    Reasons of few nodes come first. Nodes that waited for a missing node have no reason of their own. A node
    that fails is the only one with its reason, and the others all report the consequence; it may also have
    become silent.
    """
    waited = any(not node.came for node in unfinished_nodes)
    nodes_by_kind: dict[str, tuple[list[Node], str]] = {}
    for node in unfinished_nodes:
        if not (waited and node.came and not node.reason):
            why, kind = explain_unfinished(folder, node)
            nodes_by_kind.setdefault(kind, ([], why))[0].append(node)
    rare_first = sorted(
        nodes_by_kind.values(), key=lambda pair: (pair[0][0].came, len(pair[0]), bool(pair[0][0].reason))
    )
    yield from (
        f"{abbreviate_names([node.name for node in nodes], SHOWN)} {why}" for nodes, why in rare_first
    )


def _find_drifts(name: str, ranks: Sequence[Rank], *, doubtful: bool) -> Iterator[Drift]:
    """Yield the drifts of a collective.

    They are on ranks that gave several results, and between ranks that gave one. If the numbers of the ranks are
    `doubtful`, no digest is the right one.
    """
    rank_digests = [(rank, rank.count_digests(name)) for rank in ranks]
    loose = [rank for rank, digests in rank_digests if len(digests) > 1]
    if loose:
        yield _make_drift(name, "runs", loose)
    if any(word in name for word in _OWN_PART):
        return
    firm = [(rank, next(iter(digests))) for rank, digests in rank_digests if len(digests) == 1]
    if len({digest for _, digest in firm}) < 2:
        return
    most = None if doubtful else _find_majority(firm)
    odd = [rank for rank, digest in firm if digest != most]
    yield _make_drift(name, "ranks", odd, settled=most is not None)


def _find_majority(firm: Sequence[tuple[Rank, str]]) -> str | None:
    """Return the digest of most nodes, or None.

    Each node has one vote, however many ranks it claims: the digest of most of its ranks. A node with most ranks of
    all could still be the only honest one, or the only wrong one.
    """
    by_node: dict[str, Counter[str]] = {}
    for rank, digest in firm:
        by_node.setdefault(rank.node, Counter())[digest] += 1
    if len(by_node) < FEWEST or 2 * max(digests.total() for digests in by_node.values()) > len(firm):
        return None
    votes = Counter(
        digest
        for digests in by_node.values()
        for digest, count in digests.items()
        if 2 * count > digests.total()
    )
    return next((digest for digest, count in votes.items() if 2 * count > len(by_node)), None)


def _make_drift(
    name: str, kind: Literal["runs", "ranks"], ranks: Sequence[Rank], *, settled: bool = True
) -> Drift:
    return Drift(
        collective=name, kind=kind, nodes=tuple(dict.fromkeys(rank.node for rank in ranks)),
        ranks=tuple(rank.number for rank in ranks), settled=settled,
    )  # fmt: skip


def _check_numbers(ranks: Sequence[Rank]) -> Iterator[str]:
    """Yield the reasons against the ranks of a job.

    They may not be those of one job. Another reason is a number of ranks too small for a sum to show its
    order.
    """
    worlds = {world for rank in ranks for world in rank.worlds}
    if sorted(rank.number for rank in ranks) != list(range(len(ranks))) or worlds != {len(ranks)}:
        yield "the ranks are not those of one job"
    if len(ranks) < FEWEST:
        yield f"the order of a sum of {len(ranks)} cannot show"


def _explain_unanswered(
    names: Sequence[str], ranks: Sequence[Rank], required: Sequence[str]
) -> Iterator[str]:
    """Yield the ranks that did not answer collectives as required.

    All may skip a collective that is not required.
    """
    names_by_reason: dict[str, list[str]] = {}
    for name in sorted({*names, *required}):
        for why in _explain_missing(name, ranks, needed=name in required):
            names_by_reason.setdefault(why, []).append(name)
    yield from (
        f"{abbreviate_names(collectives, SHOWN)}: {why}" for why, collectives in names_by_reason.items()
    )


def _explain_missing(name: str, ranks: Sequence[Rank], *, needed: bool) -> Iterator[str]:
    """Yield the ranks without results of a collective.

    Each comes with its reason. A rank lacks results in a launch, or has another number than the others.
    """
    if not needed and not any(rank.count_digests(name) or name in rank.errors for rank in ranks):
        return
    counts = [rank.counts(name) for rank in ranks]
    (usual, _), *_ = Counter(counts).most_common()
    most = max(sum(map(sum, rank_counts)) for rank_counts in counts)
    bad = [rank for rank in ranks if not rank.has_results(name)]
    bad = bad or [rank for rank, rank_counts in zip(ranks, counts, strict=True) if rank_counts != usual]

    def why(rank: Rank) -> str:
        number = sum(map(sum, rank.counts(name)))
        fewer = f"where others have {most}" if number < most else "and not as they should be in each round"
        return rank.errors.get(name) or rank.skipped.get(name) or f"{number} results, {fewer}"

    yield from _group_reasons(bad, why)


def _group_reasons(ranks: Sequence[Rank], why: Callable[[Rank], str]) -> Iterator[str]:
    """Yield each reason with its ranks, rare ones first.

    Each reason comes once.
    """
    ranks_by_reason: dict[str, list[Rank]] = {}
    for rank in ranks:
        ranks_by_reason.setdefault(why(rank), []).append(rank)
    for reason, group in sorted(ranks_by_reason.items(), key=lambda pair: len(pair[1])):
        numbers = abbreviate_names([str(rank.number) for rank in group], SHOWN)
        nodes = abbreviate_names(list(dict.fromkeys(rank.node for rank in group)), SHOWN)
        yield f"rank{'s' if len(group) > 1 else ''} {numbers} on {nodes}: {reason}"


def _judge_control(ranks: Sequence[Rank]) -> tuple[str, list[str]]:
    """Return the result of the control, and its failures.

    The control is a sum in order of arrival, and must drift; a failure means that a drift would not have been
    seen.
    """
    default, cured = (f"{CONTROL}{mode}" for mode in ("default", "cured"))
    count = min(
        (len(rank.count_digests(default)) for rank in ranks if rank.count_digests(default)), default=0
    )
    right = {digest for rank in ranks for digest in rank.count_digests(cured)}
    if not count:
        return "", ["control: no rank did it"]
    summary = f"{count} different results in the order of arrival, {len(right)} in the order of ranks"
    lacking = [rank for rank in ranks if not (rank.has_results(default, 1) and rank.has_results(cured, 1))]

    def why(rank: Rank) -> str:
        return rank.errors.get(default) or rank.errors.get(cured) or "it was not done in both launches"

    failures = [f"control: {reason}" for reason in _group_reasons(lacking, why)]
    if count < 2:
        failures.append(
            "control: a sum in the order of arrival was not seen drifting: a drift would not have been seen"
        )
    if len(right) > 1:
        failures.append("control: a sum in the order of ranks is not one on all ranks")
    return summary, failures
