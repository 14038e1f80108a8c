"""The nodes that recorded a command, grouped by platform, with the first difference of each.

Nodes of one platform must have the same records. Between platforms differences are expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from msgspec import Struct

from reprobuild.cluster.answer_table import escape_text
from reprobuild.cluster.group import FEWEST
from reprobuild.cluster.shared_dir import CERTIFICATE
from reprobuild.cluster.silence import MissingNode, explain_silence, name_nodes
from reprobuild.cluster.traced_node import HINT, TracedNode, read_traced_node
from reprobuild.errors import DriftError, InconclusiveError
from reprobuild.trace.cause import describe_record
from reprobuild.trace.divergence import find_divergence
from reprobuild.trace.log import ProcessLog
from reprobuild.verify.workload.conditions import hide_secrets
from reprobuild.verify.workload.judge import display_line

_MOST_VARIANTS = 8  # different records of one platform that are compared with each node
_MOST_STRANGERS = 20


class NodeDivergence(Struct, frozen=True, kw_only=True):
    """The first record in which nodes differ from others.

    Attributes:
        nodes: that differ; they have the same records.
        process: its name: that of a rank, or of the command.
        step: from 0.
        record: in words.
        place: FILE:LINE of the program, or empty.
        why: the reason why no such record is known, or empty: then `process`, `record` and `place` are empty.
    """

    nodes: tuple[str, ...]
    process: str
    step: int
    record: str
    place: str
    why: str = ""


class TraceGroup(Struct, frozen=True, kw_only=True):
    """The nodes of one platform.

    Attributes:
        platform: processor, GPUs and driver, in words.
        nodes: all of them.
        same: the nodes with the commonest records.
        has_majority: whether more than half of at least three nodes have these records.
        odd: nodes with other records, and their first difference from those.
        others: further nodes, each with other records than all of these.
        steps: complete steps of the nodes with the commonest records.
    """

    platform: str
    nodes: tuple[str, ...]
    same: tuple[str, ...]
    has_majority: bool
    odd: tuple[NodeDivergence, ...]
    others: tuple[str, ...]
    steps: int


class TracedCluster(Struct, frozen=True, kw_only=True):
    """The result of a command that many nodes recorded.

    Attributes:
        asked: the names of all nodes.
        groups: of nodes that recorded it, by platform.
        across: for each group after the first, its first difference from that one; None without a difference.
        silent: nodes without records.
        strangers: nodes that recorded it and were not asked.
        notes: messages of the scheduler.
        folder: of the records.
        version: of these fields.
    """

    asked: tuple[str, ...]
    groups: tuple[TraceGroup, ...]
    across: tuple[NodeDivergence | None, ...]
    silent: tuple[MissingNode, ...]
    strangers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    folder: str = ""
    version: int = 1

    @property
    def verdict(self) -> Literal["same", "differ", "inconclusive"]:
        """The overall verdict: `differ` if nodes of one platform do, `same` if each node was compared and agrees."""
        if any(group.odd for group in self.groups):
            return "differ"
        alone = any(len(group.nodes) < 2 for group in self.groups)
        return "inconclusive" if alone or self.silent or not self.groups else "same"

    @property
    def exit_code(self) -> int:
        """The exit code for the verdict."""
        return {"same": 0, "differ": DriftError.exit_code, "inconclusive": InconclusiveError.exit_code}[
            self.verdict
        ]


class _Variant(NamedTuple):
    """The records of a node, and the nodes that have the same."""

    logs: Mapping[str, ProcessLog]
    steps: int
    nodes: list[str]


class _Side(NamedTuple):
    """The nodes of one platform, by their records, the commonest first."""

    platform: str
    variants: tuple[_Variant, ...]
    others: tuple[str, ...]
    unreadable: tuple[MissingNode, ...]


def compare_traces(folder: Path, nodes: Sequence[str] = (), notes: Sequence[str] = ()) -> TracedCluster:
    """Compare the records of all nodes in a directory.

    Args:
        folder: the directory that the nodes share.
        nodes: that were asked; if empty, those that the file `nodes` lists, or else that have begun.
        notes: messages of the scheduler.

    Raises:
        UsageError: the directory does not exist, or has no node; a list of nodes is not valid.
    """
    names, suffixes = name_nodes(folder, nodes, answers="records", hint=HINT)
    traced: dict[str, TracedNode] = {}
    silent: list[MissingNode] = []
    for node in names:
        answer = _read_node(folder, node, suffixes.get(node, set()))
        if isinstance(answer, MissingNode):
            silent.append(answer)
        else:
            traced[node] = answer
    silent += _remove_other_seeds(traced)
    platforms: dict[str, list[str]] = {}
    for node, document in traced.items():
        platforms.setdefault(_describe(document), []).append(node)
    sides = []
    for platform, members in sorted(platforms.items(), key=lambda item: -len(item[1])):
        side = _sort_variants(folder, platform, members)
        silent += side.unreadable
        sides += [side] if side.variants else []
    return TracedCluster(
        asked=names,
        groups=tuple(map(_make_group, sides)),
        across=tuple(_find_difference(sides[0].variants[0], side.variants[0]) for side in sides[1:]),
        silent=tuple(sorted(silent, key=lambda missing_node: missing_node.node)),
        strangers=tuple(sorted({*suffixes} - {*names}))[:_MOST_STRANGERS],
        notes=tuple(notes),
        folder=str(folder.absolute()),
    )


def _read_node(folder: Path, node: str, suffixes: Collection[str]) -> MissingNode | TracedNode:
    try:
        if CERTIFICATE not in suffixes:
            return explain_silence(folder, node, suffixes)
        return read_traced_node(folder, node)[0]
    except (OSError, InconclusiveError) as err:
        return _unreadable(node, err)


def _unreadable(node: str, err: Exception) -> MissingNode:
    return MissingNode(node=node, kind="unreadable", why=escape_text(str(err)))


def _show(text: str) -> str:
    """Return a text of a node without secrets and control characters."""
    return display_line(hide_secrets(text))


def _remove_other_seeds(traced: dict[str, TracedNode]) -> list[MissingNode]:
    """Remove the nodes with another seed than most; return them with the reason."""
    counts = Counter(document.seed for document in traced.values())
    if len(counts) < 2:
        return []
    ((commonest, _),) = counts.most_common(1)
    others = [(node, document.seed) for node, document in traced.items() if document.seed != commonest]
    for node, _ in others:
        del traced[node]
    return [
        MissingNode(node=node, kind="unreadable", why=f"its seed is {seed}, and that of others {commonest}")
        for node, seed in others
    ]


def _describe(document: TracedNode) -> str:
    driver = f", driver {document.driver}" if document.driver else ""
    return _show(f"{document.platform}{driver}")


def _sort_variants(folder: Path, platform: str, nodes: Sequence[str]) -> _Side:
    """Compare the nodes of one platform; those with the commonest records come first."""
    unreadable: dict[str, MissingNode] = {}
    variants: list[_Variant] = []
    others = [answer.nodes[0] for answer in _assign_nodes(variants, _read_logs(folder, nodes, unreadable))]
    if others:  # the first nodes may all differ, and a majority may come after them
        commonest = _find_commonest(_read_logs(folder, nodes, unreadable))
        variants = [variant._replace(nodes=[]) for variant in commonest if len(variant.nodes) > 1]
        others = [
            answer.nodes[0] for answer in _assign_nodes(variants, _read_logs(folder, nodes, unreadable))
        ]
    variants.sort(key=lambda variant: -len(variant.nodes))
    return _Side(platform, tuple(variants), tuple(others), tuple(unreadable.values()))


def _read_logs(folder: Path, nodes: Sequence[str], unreadable: dict[str, MissingNode]) -> Iterator[_Variant]:
    """Yield the records of each node; add the nodes without valid ones to `unreadable`."""
    for node in nodes:
        if node in unreadable:
            continue
        try:
            document, logs = read_traced_node(folder, node)
        except (OSError, InconclusiveError) as err:
            unreadable[node] = _unreadable(node, err)
            continue
        yield _Variant(logs, document.steps, [node])


def _assign_nodes(variants: list[_Variant], answers: Iterable[_Variant]) -> Iterator[_Variant]:
    """Add each node to the variant with its records, or as a new variant; yield those that are a ninth variant."""
    for answer in answers:
        if variant := next((variant for variant in variants if _is_same(variant, answer.logs)), None):
            variant.nodes.extend(answer.nodes)
        elif len(variants) < _MOST_VARIANTS:
            variants.append(answer)
        else:
            yield answer


def _find_commonest(answers: Iterable[_Variant]) -> list[_Variant]:
    """Return the variants that may have more than a ninth of the nodes, however many others there are.

    A node with other records than all eight cancels one node of each (Misra and Gries 1982).
    """
    variants: list[_Variant] = []
    for _ in _assign_nodes(variants, answers):
        for variant in variants:
            variant.nodes.pop()
        variants[:] = [variant for variant in variants if variant.nodes]
    return variants


def _is_same(variant: _Variant, logs: Mapping[str, ProcessLog]) -> bool:
    """Return whether a node has the records of a variant.

    If two nodes cannot be compared, either one may be the reason: they differ, whichever comes first.
    """
    try:
        return find_divergence(variant.logs, logs) is None
    except InconclusiveError:
        return False


def _make_group(side: _Side) -> TraceGroup:
    first, *different = side.variants
    nodes = (*(node for variant in side.variants for node in variant.nodes), *side.others)
    return TraceGroup(
        platform=side.platform, nodes=tuple(sorted(nodes)), same=tuple(first.nodes),
        has_majority=len(nodes) >= FEWEST and 2 * len(first.nodes) > len(nodes),
        odd=tuple(filter(None, (_find_difference(first, variant) for variant in different))), others=side.others,
        steps=first.steps,
    )  # fmt: skip


def _find_difference(first: _Variant, second: _Variant) -> NodeDivergence | None:
    """Return the first difference of the second records from the first ones."""
    try:
        divergence = find_divergence(first.logs, second.logs)
    except InconclusiveError as err:
        return NodeDivergence(
            nodes=tuple(second.nodes), process="", step=0, record="", place="", why=_show(str(err))
        )
    if divergence is None:
        return None
    return NodeDivergence(
        nodes=tuple(second.nodes), process=_show(divergence.process), step=divergence.step,
        record=_show(describe_record(divergence.record)), place=_show(divergence.record.place),
    )  # fmt: skip
