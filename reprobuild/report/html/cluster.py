"""A check of many nodes, as the page shows it: differing nodes, silent nodes, and the groups."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class OutlierRow(Struct, frozen=True, kw_only=True):
    """A node with a remark, and the answers that it is about."""

    node: str
    said: str
    answers: tuple[str, ...] = ()


class Peers(Struct, frozen=True, kw_only=True):
    """The nodes of one platform, and their number of compared answers."""

    device: str
    title: str
    nodes: tuple[str, ...]
    compared: int
    platform: dict[str, str]


class Met(Struct, frozen=True, kw_only=True):
    """Collectives between nodes.

    They have a title with the nodes, a verdict in a word, and further remarks.
    """

    title: str
    verdict: str
    said: tuple[str, ...]


class Nodes(Struct, frozen=True, kw_only=True):
    """A check on many nodes.

    `wrong` are nodes that drift, or differ from others of their platform; `lacking` those that lack answers which
    others of their platform have; `silent` those without any; `notes` are further remarks; `collectives` are those
    between nodes, or a note that they were not run; `made` is the time of gathering, and `folder` the source directory.
    """

    verdict: Literal["same", "differ", "inconclusive"]
    asked: int
    wrong: tuple[OutlierRow, ...]
    silent: tuple[OutlierRow, ...]
    groups: tuple[Peers, ...]
    lacking: tuple[OutlierRow, ...] = ()
    notes: tuple[str, ...] = ()
    collectives: tuple[Met, ...] = ()
    made: str = ""
    folder: str = ""
