"""Aggregation of the nodes' verdict files into one result.

The files come from nodes, and are untrusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from reprobuild.cluster.answer_table import (
    NOT_COVERED,
    AnswerTable,
    NodeAnswers,
    drifting_scopes,
    escape_text,
    failure_reasons,
    find_missing_answers,
    lacks_peers,
)
from reprobuild.cluster.collectives_judge import (
    CollectiveResult,
    check_coverage,
    inconclusive_result,
    judge_collectives,
)
from reprobuild.cluster.group import CrossPlatform, Group, compare_groups, group_nodes
from reprobuild.cluster.shared_dir import CERTIFICATE, COLLECTIVES, HINT, node_list_time
from reprobuild.cluster.silence import MissingNode, explain_silence, name_nodes
from reprobuild.cluster.stale import find_stale
from reprobuild.errors import DriftError, InconclusiveError, UsageError
from reprobuild.infra.untrusted.strings import Digest, OptionalAbsolutePath, Text
from reprobuild.verify.certificate.read import Certificate, read_certificate, refuse_other
from reprobuild.verify.determinism.document import Device

MOST_STRANGERS = 20


class ExpectedImage(Struct, frozen=True, kw_only=True):
    """The properties that each verdict file must have."""

    tree: str
    seed: int
    profile: str


class _Answer(Struct, frozen=True, kw_only=True):
    """A node's answer, its time, and its open reasons.

    `why` says why it does not pass, and `lone` is true if the node had too few GPUs for collectives.
    """

    said: tuple[NodeAnswers, ...]
    made: str
    why: tuple[str, ...]
    lone: bool


class OpenQuestion(Struct, frozen=True, kw_only=True):
    """A reason against a pass, and its nodes."""

    why: Text
    nodes: tuple[Text, ...]


class ClusterResult(Struct, frozen=True, kw_only=True):
    """The result of a check on many nodes.

    `tree` is the image's. `asked` are the names of all nodes; `strangers` those that answered without being
    asked. `notes` are the scheduler's messages. `collectives` are those between the nodes, if they were run
    or requested, by kind of device. `made` is the time of the aggregation, in UTC, and `folder` its source.
    """

    tree: Digest
    asked: tuple[Text, ...]
    groups: tuple[Group, ...]
    across: tuple[CrossPlatform, ...]
    silent: tuple[MissingNode, ...]
    open: tuple[OpenQuestion, ...]
    strangers: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()
    collectives: tuple[CollectiveResult, ...] = ()
    made: Text = ""
    folder: OptionalAbsolutePath = ""

    @property
    def verdict(self) -> Literal["same", "differ", "inconclusive"]:
        """The overall verdict of the nodes.

        `differ`: nodes of one platform differ, or one drifts; `same`: all were compared and agree.
        """
        odd = {outlier.kind for peer_group in self.groups for outlier in peer_group.odd}
        between = {result.verdict for result in self.collectives}
        drifts = any(missing_node.kind == "drifts" for missing_node in self.silent) or "drift" in between
        if drifts or {"other", "drift"} & odd or any(peer_group.parted for peer_group in self.groups):
            return "differ"
        alone = any(
            len(peer_group.nodes) < 2 or not peer_group.compared or peer_group.lacked
            for peer_group in self.groups
        )
        open_ones = odd or alone or self.silent or self.open or between - {"identical"}
        return "inconclusive" if open_ones or not self.groups else "same"

    @property
    def exit_code(self) -> int:
        """The exit code for the verdict."""
        codes = {"same": 0, "differ": DriftError.exit_code, "inconclusive": InconclusiveError.exit_code}
        return codes[self.verdict]


def gather_results(
    folder: Path, image: ExpectedImage, table: AnswerTable, nodes: Sequence[str] = (), notes: Sequence[str] = (),
    timestamp: str = "", met: Mapping[Device, Sequence[str]] = {},
) -> ClusterResult:  # fmt: skip
    """Read all verdict files of a directory, and compare them.

    Args:
        image: the properties that they must have.
        nodes: the nodes that were asked; if empty, those that the file `nodes` lists, or else that have begun.
        timestamp: the time, in UTC.
        met: the nodes between which collectives were run; if empty, those that their directories list.

    Raises:
        UsageError: the directory does not exist, or has no node; a list of nodes is not valid.
    """
    names, suffixes = name_nodes(folder, nodes, answers="verdict files", hint=HINT)
    answers: dict[str, _Answer] = {}
    silent: list[MissingNode] = []
    for node in names:
        answer = _read_answer(folder, node, suffixes.get(node, set()), image, table)
        if isinstance(answer, MissingNode):
            silent.append(answer)
        else:
            answers[node] = answer
    made_by = {node: node_answer.made for node, node_answer in answers.items()}
    for node, why in find_stale(made_by, node_list_time(folder), timestamp).items():
        silent.append(MissingNode(node=node, kind="old", why=why))
        del answers[node]
    members = [member for node_answer in answers.values() for member in node_answer.said]
    groups, collectives = group_nodes(members, table), _collective_results(folder, table, members, met)
    return ClusterResult(
        tree=image.tree, asked=names, groups=groups, across=compare_groups(groups),
        silent=tuple(sorted(silent, key=lambda missing_node: missing_node.node)),
        open=_open_questions(answers, collectives),
        strangers=tuple(sorted({*suffixes} - {*names}))[:MOST_STRANGERS], notes=tuple(notes),
        collectives=collectives, made=timestamp, folder=str(folder.absolute()),
    )  # fmt: skip


def _open_questions(
    answers: Mapping[str, _Answer], collectives: Sequence[CollectiveResult]
) -> tuple[OpenQuestion, ...]:
    """Return the reasons why verdicts do not pass by themselves.

    A node with one GPU has no peer for its collectives; those between the nodes cover it, if they were
    identical.
    """
    covered = {
        node
        for result in collectives
        if result.device == "cuda" and result.verdict == "identical"
        for node in result.nodes
    }
    nodes_by_reason: dict[str, list[str]] = {}
    for node, answer in answers.items():
        for why in answer.why:
            if not (why == NOT_COVERED and answer.lone and node in covered):
                nodes_by_reason.setdefault(why, []).append(node)
    return tuple(OpenQuestion(why=why, nodes=tuple(nodes)) for why, nodes in sorted(nodes_by_reason.items()))


def _collective_results(
    folder: Path, table: AnswerTable, members: Sequence[NodeAnswers], met: Mapping[Device, Sequence[str]]
) -> tuple[CollectiveResult, ...]:
    """Return the results of collectives between nodes, by device."""
    results = []
    for device, names in sorted(table.between.items()):
        directory = folder / f"{COLLECTIVES}{device}"
        if directory.is_symlink() or not directory.is_dir():
            continue
        answered = tuple(member.node for member in members if member.device == device)
        try:
            result = judge_collectives(directory, device, names, met.get(device, ()))
        except (UsageError, OSError) as err:  # the nodes' own answers stay valid
            result = inconclusive_result(device, str(err))
        results.append(check_coverage(result, answered))
    return tuple(results)


def _read_answer(
    folder: Path, node: str, suffixes: set[str], image: ExpectedImage, table: AnswerTable
) -> MissingNode | _Answer:
    """Return a node's answer, or the reason against one."""
    try:
        return (
            _judge_certificate(folder, node, image, table)
            if CERTIFICATE in suffixes
            else explain_silence(folder, node, suffixes)
        )
    except OSError as err:
        return MissingNode(node=node, kind="unreadable", why=escape_text(str(err)))


def _judge_certificate(
    folder: Path, node: str, image: ExpectedImage, table: AnswerTable
) -> MissingNode | _Answer:
    try:
        verdict = _read_certificate(folder / f"{node}{CERTIFICATE}", image).verdict
        members = tuple(table.read(node, verdict))
    except UsageError as err:
        return MissingNode(node=node, kind="unreadable", why=escape_text(str(err)))
    except RecursionError:
        return MissingNode(node=node, kind="unreadable", why="its verdict file is nested too deeply")
    scopes = drifting_scopes(verdict) - {member.device for member in members}
    if scopes:
        return MissingNode(node=node, kind="drifts", why=f"by its own verdict: {', '.join(sorted(scopes))}")
    if members:
        whys = (*failure_reasons(verdict), *find_missing_answers(verdict, members, table.expected))
        return _Answer(said=members, made=verdict.made, why=whys, lone=lacks_peers(verdict))
    why = "; ".join(failure_reasons(verdict)) or "its verdict tells of no determinism test"
    return MissingNode(node=node, kind="refused", why=why)


def _read_certificate(path: Path, image: ExpectedImage) -> Certificate:
    if path.is_symlink():
        raise UsageError(f"{path} is a link, and no file", hint=HINT)
    certificate = read_certificate(
        path, check_headlines=False
    )  # each answer is judged, and named by its node
    refuse_other(certificate, tree=image.tree, seed=image.seed, profile=image.profile)
    return certificate


def count_nodes(cluster: ClusterResult) -> Mapping[str, int]:
    """Return the numbers of nodes, silent nodes and groups."""
    return {"nodes": len(cluster.asked), "silent": len(cluster.silent), "groups": len(cluster.groups)}


def list_deviating_nodes(cluster: ClusterResult) -> Iterator[tuple[str, Group, list[str]]]:
    """Yield each node that drifts or differs from its group.

    Each comes with its group and the names of those answers.
    """
    for peer_group in cluster.groups:
        answers_by_node: dict[str, list[str]] = {}
        for outlier in peer_group.odd:
            if outlier.kind != "missing":
                answers_by_node.setdefault(outlier.node, []).append(outlier.answer)
        for node, answers in answers_by_node.items():
            yield node, peer_group, answers
