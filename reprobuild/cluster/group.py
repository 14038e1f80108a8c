"""Groups of nodes by platform, with deviating nodes. Pure.

Each group has its majority. Within a group a node that differs from the majority is named: its results drift,
or its hardware computes wrongly. Without a majority, as between two nodes, they differ, and the correct
answer is unknown. Between groups differences are expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.cluster.answer_table import NONE, WIDTH, AnswerTable, NodeAnswers
from reprobuild.infra.untrusted.strings import Text
from reprobuild.verify.determinism.document import Device

MOST_SIDES = 50  # of an answer without a majority that are reported
FEWEST = 3  # nodes for a majority: of two, the correct one is unknown


class Outlier(Struct, frozen=True, kw_only=True):
    """A node that deviates from its group.

    `other`: its answer is not the majority's; `drift`: the answer was not the same twice on the node itself;
    `missing`: more than half of the group have an answer, and the node has none. `value` and `majority` are
    the beginnings of the digests, empty if there are none.
    """

    node: Text
    answer: Text
    kind: Literal["other", "drift", "missing"]
    value: Text = ""
    majority: Text = ""


class Split(Struct, frozen=True, kw_only=True):
    """An answer without a majority: the nodes of each digest.

    The keys are beginnings of digests. `untold` is the number of nodes with other digests beyond those.
    """

    answer: Text
    sides: dict[Text, tuple[Text, ...]]
    untold: int = 0


class Group(Struct, frozen=True, kw_only=True):
    """The nodes of one platform on one kind of device.

    `compared` is the number of answers that more than one node gave. `majority` has for each answer the
    beginning of the most frequent digest. `loose` has the answers that drift with the image's profile on the
    named nodes, and were not compared: on half of the group or more, or no node has a reproducible answer.
    `lacked` has the answers that half of the group or less gave, and the nodes without them.
    """

    device: Device
    platform: dict[Text, Text]
    nodes: tuple[Text, ...]
    compared: int
    majority: dict[Text, Text]
    odd: tuple[Outlier, ...] = ()
    parted: tuple[Split, ...] = ()
    loose: dict[Text, tuple[Text, ...]] = {}
    lacked: dict[Text, tuple[Text, ...]] = {}


class CrossPlatform(Struct, frozen=True, kw_only=True):
    """The expected differences between groups of one device kind.

    `facts` are the names in which the platforms differ, `answers` those that the groups answer differently,
    of the `compared` answers that several groups gave.
    """

    device: Device
    facts: tuple[Text, ...]
    answers: tuple[Text, ...]
    compared: int


def group_nodes(members: Iterable[NodeAnswers], table: AnswerTable) -> tuple[Group, ...]:
    """Return the groups of nodes, the largest first.

    The nodes of a group are sorted by name.

    Args:
        members: at most one of a node for each kind of device.
        table: the table by which they were read.
    """
    members_by_platform: dict[tuple[Device, tuple[tuple[str, str], ...]], list[NodeAnswers]] = {}
    for member in members:
        members_by_platform.setdefault((member.device, member.platform), []).append(member)
    groups = [_make_group(platform_members, table) for platform_members in members_by_platform.values()]
    return tuple(
        sorted(
            groups,
            key=lambda peer_group: (
                peer_group.device,
                -len(peer_group.nodes),
                sorted(peer_group.platform.items()),
            ),
        )
    )


def compare_groups(groups: Sequence[Group]) -> tuple[CrossPlatform, ...]:
    """Return the differences between groups, for each kind of device.

    Kinds of device with a single group are left out.
    """
    differences = []
    for device in sorted({peer_group.device for peer_group in groups}):
        several = [peer_group for peer_group in groups if peer_group.device == device]
        if len(several) < 2:
            continue
        facts = Counter(item for peer_group in several for item in peer_group.platform.items())
        values: dict[str, list[str]] = {}
        for peer_group in several:
            for name, value in peer_group.majority.items():
                values.setdefault(name, []).append(value)
        common = {name: digests for name, digests in values.items() if len(digests) > 1}
        differences.append(CrossPlatform(
            device=device, facts=tuple(sorted({name for (name, _), count in facts.items() if count < len(several)})),
            answers=tuple(sorted(name for name, digests in common.items() if len(set(digests)) > 1)),
            compared=len(common),
        ))  # fmt: skip
    return tuple(differences)


def _make_group(members: list[NodeAnswers], table: AnswerTable) -> Group:
    """Compare the nodes of one platform by answer.

    Nodes with equal answers are processed once.
    """
    alike: dict[bytes, list[str]] = {}
    for member in members:
        alike.setdefault(member.packed, []).append(member.node)
    loose: dict[str, list[str]] = {}
    for member in members:
        for name in member.loose:
            loose.setdefault(name, []).append(member.node)
    odd = [
        Outlier(node=member.node, answer=name, kind="drift") for member in members for name in member.drifts
    ]
    drifting = {(outlier.node, outlier.answer) for outlier in odd}
    parted, majority, lacked, compared = [], {}, {}, 0
    for place, name in enumerate(table.names[members[0].device]):
        sides, silent = _nodes_by_value(place, alike)
        counts = {value: sum(map(len, lists)) for value, lists in sides.items()}
        answered = sum(counts.values())
        away = frozenset(loose.get(name, ()))
        lacking = [node for node in silent if node not in away and (node, name) not in drifting]
        # A node that lacks an answer of another node is named, however many such nodes there are.
        if lacking and 0 < 2 * answered <= len(members):
            lacked[name] = tuple(sorted(lacking))
        profile_drifts = 2 * len(away) >= len(members)  # no single node is to blame for that
        if not counts or profile_drifts:
            continue
        compared += answered > 1
        most = max(counts, key=lambda value: (counts[value], value))
        if len(counts) > 1 and (answered < FEWEST or 2 * counts[most] <= answered):
            parted.append(_make_split(name, sides))
        elif answered > 1 or len(members) == 1:  # an answer of one node among several is not a majority
            majority[name] = _shorten_value(most)
            odd += _list_outliers(name, most, sides)
        if 2 * answered > len(members):
            short = majority.get(name, "")
            odd += [Outlier(node=node, answer=name, kind="missing", majority=short) for node in lacking]
            odd += [
                Outlier(node=node, answer=name, kind="drift", majority=short)
                for node in silent
                if node in away and (node, name) not in drifting
            ]
            loose.pop(name, None)
    return Group(
        device=members[0].device, platform=dict(members[0].platform),
        nodes=tuple(sorted(member.node for member in members)),
        compared=compared, majority=majority, parted=tuple(parted), lacked=lacked,
        loose={name: tuple(sorted(nodes)) for name, nodes in sorted(loose.items())},
        odd=tuple(sorted(odd, key=lambda outlier: (outlier.node, outlier.kind, outlier.answer))),
    )  # fmt: skip


def _nodes_by_value(
    place: int, alike: Mapping[bytes, list[str]]
) -> tuple[dict[bytes, list[list[str]]], list[str]]:
    """Return an answer's nodes by value, and the others."""
    sides: dict[bytes, list[list[str]]] = {}
    for packed, nodes in alike.items():
        sides.setdefault(packed[place * WIDTH : (place + 1) * WIDTH], []).append(nodes)
    return sides, [node for nodes in sides.pop(NONE, []) for node in nodes]


def _make_split(name: str, sides: dict[bytes, list[list[str]]]) -> Split:
    """Return the nodes of each value, the largest sides first."""
    nodes = {value: sorted(node for names in lists for node in names) for value, lists in sides.items()}
    order = sorted(nodes, key=lambda value: (-len(nodes[value]), value))
    return Split(
        answer=name, sides={_shorten_value(value): tuple(nodes[value]) for value in order[:MOST_SIDES]},
        untold=sum(len(nodes[value]) for value in order[MOST_SIDES:]),
    )  # fmt: skip


def _list_outliers(name: str, most: bytes, sides: dict[bytes, list[list[str]]]) -> Iterable[Outlier]:
    """Yield the nodes that differ from the majority."""
    for value, lists in sides.items():
        if value != most:
            for nodes in lists:
                for node in nodes:
                    yield Outlier(
                        node=node,
                        answer=name,
                        kind="other",
                        value=_shorten_value(value),
                        majority=_shorten_value(most),
                    )


def _shorten_value(value: bytes) -> str:
    return value.hex()[:16]
