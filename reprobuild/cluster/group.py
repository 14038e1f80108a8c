"""Many nodes' answers become groups of one platform: what the majority answers, and who does not. Pure.

Within a group a node that answers otherwise than the majority is named: its results drift, or its hardware computes
wrongly. Where there is no majority, as between two nodes, they differ, and nobody knows which is right. Between groups
differences are expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.cluster.answer_table import NONE, WIDTH, AnswerTable, NodeAnswers
from reprobuild.verify.determinism.document import Device

MOST_SIDES = 50  # of an answer without a majority that are told
FEWEST = 3  # nodes that a majority needs: of two nobody knows which is right


class Outlier(Struct, frozen=True, kw_only=True):
    """A node that is not as the others of its group.

    `other`: its answer is not the majority's; `drift`: it was not the same twice on the node itself; `missing`: more
    than half of the group have an answer, and the node has none. `value` and `majority` begin the digests, empty where
    there are none.
    """

    node: str
    answer: str
    kind: Literal["other", "drift", "missing"]
    value: str = ""
    majority: str = ""


class Split(Struct, frozen=True, kw_only=True):
    """An answer without a majority: by the beginning of each digest the nodes that gave it.

    `untold` is how many nodes gave others beside those.
    """

    answer: str
    sides: dict[str, tuple[str, ...]]
    untold: int = 0


class Group(Struct, frozen=True, kw_only=True):
    """The nodes of one platform on one kind of device.

    `compared` is how many answers more than one node gave. `majority` has for each answer the beginning of the
    digest that most gave. `loose` has what drifts with the image's profile on the nodes that it names, and was not
    compared: on half of the group or more, or nobody has an answer that must be the same. `lacked` has the answers
    that half of the group or less gave, and the nodes that have none.
    """

    device: Device
    platform: dict[str, str]
    nodes: tuple[str, ...]
    compared: int
    majority: dict[str, str]
    odd: tuple[Outlier, ...] = ()
    parted: tuple[Split, ...] = ()
    loose: dict[str, tuple[str, ...]] = {}
    lacked: dict[str, tuple[str, ...]] = {}


class CrossPlatform(Struct, frozen=True, kw_only=True):
    """What differs between the groups of one kind of device, as is expected.

    `facts` are the names in which the platforms differ, `answers` those that the groups answer differently, of
    `compared` that several gave.
    """

    device: Device
    facts: tuple[str, ...]
    answers: tuple[str, ...]
    compared: int


def group(members: Iterable[NodeAnswers], table: AnswerTable) -> tuple[Group, ...]:
    """Return the groups, the largest first; nodes are in the order of their names.

    Args:
        members: of any node at most one for each kind of device.
        table: by which they were read.
    """
    found: dict[tuple[Device, tuple[tuple[str, str], ...]], list[NodeAnswers]] = {}
    for member in members:
        found.setdefault((member.device, member.platform), []).append(member)
    made = [_grouped(each, table) for each in found.values()]
    return tuple(sorted(made, key=lambda one: (one.device, -len(one.nodes), sorted(one.platform.items()))))


def across(groups: Sequence[Group]) -> tuple[CrossPlatform, ...]:
    """Return what differs between groups, for each kind of device that has several."""
    found = []
    for device in sorted({one.device for one in groups}):
        several = [one for one in groups if one.device == device]
        if len(several) < 2:
            continue
        facts = Counter(item for one in several for item in one.platform.items())
        values: dict[str, list[str]] = {}
        for one in several:
            for name, value in one.majority.items():
                values.setdefault(name, []).append(value)
        common = {name: seen for name, seen in values.items() if len(seen) > 1}
        found.append(CrossPlatform(
            device=device, facts=tuple(sorted({name for (name, _), seen in facts.items() if seen < len(several)})),
            answers=tuple(sorted(name for name, seen in common.items() if len(set(seen)) > 1)), compared=len(common),
        ))  # fmt: skip
    return tuple(found)


def _grouped(members: list[NodeAnswers], table: AnswerTable) -> Group:
    """Compare the nodes of one platform, an answer at a time; nodes that say the same are looked at once."""
    alike: dict[bytes, list[str]] = {}
    for member in members:
        alike.setdefault(member.packed, []).append(member.node)
    loose: dict[str, list[str]] = {}
    for one in members:
        for name in one.loose:
            loose.setdefault(name, []).append(one.node)
    odd = [Outlier(node=one.node, answer=name, kind="drift") for one in members for name in one.drifts]
    drifting = {(each.node, each.answer) for each in odd}
    parted, majority, lacked, compared = [], {}, {}, 0
    for place, name in enumerate(table.names[members[0].device]):
        sides, silent = _sides(place, alike)
        counts = {value: sum(map(len, lists)) for value, lists in sides.items()}
        answered = sum(counts.values())
        away = frozenset(loose.get(name, ()))
        lacking = [node for node in silent if node not in away and (node, name) not in drifting]
        # Who lacks what another one has is named, however many they are.
        if lacking and 0 < 2 * answered <= len(members):
            lacked[name] = tuple(sorted(lacking))
        profile_drifts = 2 * len(away) >= len(members)  # no node is to blame for that
        if not counts or profile_drifts:
            continue
        compared += answered > 1
        most = max(counts, key=lambda value: (counts[value], value))
        if len(counts) > 1 and (answered < FEWEST or 2 * counts[most] <= answered):
            parted.append(_parted(name, sides))
        elif answered > 1 or len(members) == 1:  # what one of several gave is no majority
            majority[name] = _short(most)
            odd += _others(name, most, sides)
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
        odd=tuple(sorted(odd, key=lambda each: (each.node, each.kind, each.answer))),
    )  # fmt: skip


def _sides(place: int, alike: Mapping[bytes, list[str]]) -> tuple[dict[bytes, list[list[str]]], list[str]]:
    """Return for one answer the nodes by what they gave, and those that gave none."""
    sides: dict[bytes, list[list[str]]] = {}
    for packed, nodes in alike.items():
        sides.setdefault(packed[place * WIDTH : (place + 1) * WIDTH], []).append(nodes)
    return sides, [node for nodes in sides.pop(NONE, []) for node in nodes]


def _parted(name: str, sides: dict[bytes, list[list[str]]]) -> Split:
    """Return who gave what, the largest sides first."""
    nodes = {value: sorted(node for each in lists for node in each) for value, lists in sides.items()}
    order = sorted(nodes, key=lambda value: (-len(nodes[value]), value))
    return Split(
        answer=name, sides={_short(value): tuple(nodes[value]) for value in order[:MOST_SIDES]},
        untold=sum(len(nodes[value]) for value in order[MOST_SIDES:]),
    )  # fmt: skip


def _others(name: str, most: bytes, sides: dict[bytes, list[list[str]]]) -> Iterable[Outlier]:
    """Yield the nodes that answer otherwise than most."""
    for value, lists in sides.items():
        if value != most:
            for nodes in lists:
                for node in nodes:
                    yield Outlier(
                        node=node, answer=name, kind="other", value=_short(value), majority=_short(most)
                    )


def _short(value: bytes) -> str:
    return value.hex()[:16]
