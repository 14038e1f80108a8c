"""Collectives between nodes are judged by what the ranks on each said: reprobuild_runtime/probes/between.py.

Each rank tells the digest of what it holds after each collective, in two launches of torchrun. A digest that is not the
same each time is a drift. What all ranks must hold alike, and one holds otherwise, names that one's node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.cluster.answer_table import plain, some
from reprobuild.cluster.rank_log import CONTROL, Node, Rank, read_node, unfinished
from reprobuild.cluster.shared_dir import NODES, NOT_RUN, listed, read_small
from reprobuild.verify.determinism.document import Device

FEWEST = 3  # ranks whose sum has an order to show, and nodes that a majority needs
MOST_REASONS, SHOWN = 20, 8
BACKENDS: dict[Device, str] = {"cpu": "gloo", "cuda": "NCCL"}
# Of these each rank holds a part of its own; all others leave the same on all ranks.
_SCATTER = "scatter"
_OWN_PART = (_SCATTER, "numbers of each rank")


class Drift(Struct, frozen=True, kw_only=True):
    """A collective that is not the same each time (`runs`), or not the same on all ranks (`ranks`), and where.

    `settled` is false where ranks differ and no majority says which is right: all are named then.
    """

    collective: str
    kind: Literal["runs", "ranks"]
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    settled: bool = True


class CollectiveResult(Struct, frozen=True, kw_only=True):
    """What came of the collectives between nodes on one kind of device.

    `unfinished`: not all nodes came, or not all came to the end. `identical` are the collectives that were the same in
    both launches; `absent` are the nodes that did not come, and `open` says why it is no pass. `not-run`: they were
    asked for, and could not be.
    """

    device: Device
    backend: str
    verdict: Literal["identical", "drift", "unfinished", "inconclusive", "not-run"]
    nodes: tuple[str, ...]
    ranks: int
    identical: tuple[str, ...] = ()
    drifts: tuple[Drift, ...] = ()
    absent: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    control: str = ""


def unknown(device: Device, why: str) -> CollectiveResult:
    """Return that nothing is known of collectives that were run."""
    return CollectiveResult(
        device=device, backend=BACKENDS[device], verdict="inconclusive", nodes=(), ranks=0, open=(plain(why),)
    )


def judge(folder: Path, device: Device, required: Sequence[str], met: Sequence[str] = ()) -> CollectiveResult:
    """Judge what the nodes left in a folder.

    Args:
        required: the collectives that each rank must have answered.
        met: the nodes between which they were run; those that the folder lists, where it is empty.

    Raises:
        UsageError: the folder names a node by what is no name.
        OSError: it cannot be read.
    """
    if (folder / NOT_RUN).exists() and not (folder / NODES).exists():
        why = plain(read_small(folder / NOT_RUN).strip())
        return CollectiveResult(
            device=device, backend=BACKENDS[device], verdict="not-run", nodes=(), ranks=0, open=(why,)
        )
    nodes = [read_node(folder, name) for name in met or listed(folder)]
    ranks = [rank for node in nodes for rank in node.ranks.values()]
    names = sorted({name for rank in ranks for name in rank.seen if not name.startswith(CONTROL)})
    drifts = tuple(each for name in names for each in _drifts(name, ranks))
    left = [node for node in nodes if not node.finished]
    control, blind = _control(ranks)
    reasons = list(_unfinished(folder, left))
    if not nodes:
        reasons = ["no node was asked"]
    elif not left:
        reasons = [*_misnumbered(ranks), *_unanswered(names, ranks, required), *blind]
    drifting = {each.collective for each in drifts}
    return CollectiveResult(
        device=device, backend=BACKENDS[device],
        verdict="drift" if drifts else "unfinished" if left or not nodes
        else "inconclusive" if reasons else "identical",
        nodes=tuple(node.name for node in nodes), ranks=len(ranks),
        identical=() if left else tuple(
            name for name in names if name not in drifting and all(rank.answered(name) for rank in ranks)
        ),
        drifts=drifts, absent=tuple(node.name for node in nodes if not node.came), control=control,
        open=tuple(map(plain, [*reasons[:MOST_REASONS], *_more(reasons)])),
    )  # fmt: skip


def held_against(found: CollectiveResult, answered: Sequence[str]) -> CollectiveResult:
    """Return it with why it was not run between the nodes that answered on that device, where it was not."""
    if found.verdict == "not-run":
        return found
    away, strange = sorted({*answered} - {*found.nodes}), sorted({*found.nodes} - {*answered})
    why = (
        *([f"{some(away, SHOWN)}: answered, and had no part in it"] if away else []),
        *([f"{some(strange, SHOWN)}: had a part in it, and no answer of its own"] if strange else []),
    )
    verdict = "inconclusive" if why and found.verdict == "identical" else found.verdict
    return msgspec.structs.replace(found, verdict=verdict, open=(*found.open, *why))


def blamed(one: CollectiveResult) -> tuple[tuple[Drift, ...], tuple[Drift, ...]]:
    """Return the drifts that name who drifts, and those that may come of these nodes.

    What one node gives otherwise each time goes into the sums, and the parts of sums, of all. Where nothing names some
    nodes alone, all drifts name those on which they are.
    """

    def names_some(each: Drift) -> bool:
        if each.kind == "ranks":
            return each.settled
        return len(each.nodes) < len(one.nodes) and _SCATTER not in each.collective

    if not any(map(names_some, one.drifts)):
        return one.drifts, ()
    follows = tuple(each for each in one.drifts if each.kind == "runs" and not names_some(each))
    return tuple(each for each in one.drifts if each not in follows), follows


def _more(reasons: Sequence[str]) -> list[str]:
    return [f"and {len(reasons) - MOST_REASONS} more"] if len(reasons) > MOST_REASONS else []


def _unfinished(folder: Path, left: Sequence[Node]) -> Iterator[str]:
    """Yield why nodes did not come to the end, each reason once; what few of them say first.

    Those that waited for a node that did not come have nothing to say of it. A node that fails is alone with its
    reason, and the others all say what came of that; it may also have fallen silent.
    """
    waited = any(not node.came for node in left)
    found: dict[str, tuple[list[Node], str]] = {}
    for node in left:
        if not (waited and node.came and not node.said):
            why, kind = unfinished(folder, node)
            found.setdefault(kind, ([], why))[0].append(node)
    rare_first = sorted(
        found.values(), key=lambda each: (each[0][0].came, len(each[0]), bool(each[0][0].said))
    )
    yield from (f"{some([node.name for node in nodes], SHOWN)} {why}" for nodes, why in rare_first)


def _drifts(name: str, ranks: Sequence[Rank]) -> Iterator[Drift]:
    """Yield how a collective drifts: on ranks that gave several results, and between those that gave one."""
    held = [(rank, rank.held(name)) for rank in ranks]
    loose = [rank for rank, found in held if len(found) > 1]
    if loose:
        yield _drift(name, "runs", loose)
    if any(word in name for word in _OWN_PART):
        return
    firm = [(rank, next(iter(found))) for rank, found in held if len(found) == 1]
    if len({digest for _, digest in firm}) < 2:
        return
    (most, count), *_ = Counter(digest for _, digest in firm).most_common()
    settled = 2 * count > len(firm) and len({rank.node for rank, _ in firm}) >= FEWEST
    odd = [rank for rank, digest in firm if not settled or digest != most]
    yield _drift(name, "ranks", odd, settled=settled)


def _drift(
    name: str, kind: Literal["runs", "ranks"], ranks: Sequence[Rank], *, settled: bool = True
) -> Drift:
    return Drift(
        collective=name, kind=kind, nodes=tuple(dict.fromkeys(rank.node for rank in ranks)),
        ranks=tuple(rank.number for rank in ranks), settled=settled,
    )  # fmt: skip


def _misnumbered(ranks: Sequence[Rank]) -> Iterator[str]:
    """Yield why the ranks are not those of one job, each once; and why their sums have no order to show."""
    worlds = {world for rank in ranks for world in rank.worlds}
    if sorted(rank.number for rank in ranks) != list(range(len(ranks))) or worlds != {len(ranks)}:
        yield "the ranks are not those of one job"
    if len(ranks) < FEWEST:
        yield f"the order of a sum of {len(ranks)} cannot show"


def _unanswered(names: Sequence[str], ranks: Sequence[Rank], required: Sequence[str]) -> Iterator[str]:
    """Yield which ranks did not answer collectives as they should; all may skip what is not required."""
    found: dict[str, list[str]] = {}
    for name in sorted({*names, *required}):
        for why in _lacking(name, ranks, needed=name in required):
            found.setdefault(why, []).append(name)
    yield from (f"{some(of, SHOWN)}: {why}" for why, of in found.items())


def _lacking(name: str, ranks: Sequence[Rank], *, needed: bool) -> Iterator[str]:
    """Yield which ranks have no results of a collective in a launch, or not as many as the others, and why."""
    if not needed and not any(rank.held(name) or name in rank.errors for rank in ranks):
        return
    counts = [rank.counts(name) for rank in ranks]
    (usual, _), *_ = Counter(counts).most_common()
    most = max(sum(map(sum, each)) for each in counts)
    bad = [rank for rank in ranks if not rank.answered(name)]
    bad = bad or [rank for rank, each in zip(ranks, counts, strict=True) if each != usual]

    def why(rank: Rank) -> str:
        number = sum(map(sum, rank.counts(name)))
        fewer = f"where others have {most}" if number < most else "and not as they should be in each round"
        return rank.errors.get(name) or rank.skipped.get(name) or f"{number} results, {fewer}"

    yield from _grouped(bad, why)


def _grouped(ranks: Sequence[Rank], why: Callable[[Rank], str]) -> Iterator[str]:
    """Yield each reason once, with the ranks that have it; what few have first."""
    found: dict[str, list[Rank]] = {}
    for rank in ranks:
        found.setdefault(why(rank), []).append(rank)
    for said, those in sorted(found.items(), key=lambda each: len(each[1])):
        numbers = some([str(rank.number) for rank in those], SHOWN)
        nodes = some(list(dict.fromkeys(rank.node for rank in those)), SHOWN)
        yield f"rank{'s' if len(those) > 1 else ''} {numbers} on {nodes}: {said}"


def _control(ranks: Sequence[Rank]) -> tuple[str, list[str]]:
    """Return what the sum in order of arrival showed, and why it did not show that a drift would be seen."""
    default, cured = (f"{CONTROL}{mode}" for mode in ("default", "cured"))
    seen = min((len(rank.held(default)) for rank in ranks if rank.held(default)), default=0)
    right = {digest for rank in ranks for digest in rank.held(cured)}
    if not seen:
        return "", ["control: no rank did it"]
    said = f"{seen} different results in the order of arrival, {len(right)} in the order of ranks"
    lacking = [rank for rank in ranks if not (rank.answered(default, 1) and rank.answered(cured, 1))]

    def why(rank: Rank) -> str:
        return rank.errors.get(default) or rank.errors.get(cured) or "it was not done in both launches"

    found = [f"control: {each}" for each in _grouped(lacking, why)]
    if seen < 2:
        found.append(
            "control: a sum in the order of arrival was not seen drifting: a drift would not have been seen"
        )
    if len(right) > 1:
        found.append("control: a sum in the order of ranks is not one on all ranks")
    return said, found
