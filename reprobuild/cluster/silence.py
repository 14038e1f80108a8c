"""Nodes without an answer, and the reasons.

The files come from nodes, and are untrusted.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from reprobuild.cluster.answer_table import escape_text
from reprobuild.cluster.shared_dir import (
    BEGAN,
    CERTIFICATE,
    ENDED,
    ERROR,
    LOST,
    NODE,
    describe_exit_code,
    read_node_list,
    read_small,
)
from reprobuild.errors import UsageError
from reprobuild.infra.untrusted.strings import Text


class MissingNode(Struct, frozen=True, kw_only=True):
    """A node without an answer.

    `absent`: it never began; `hangs`: it began, and had not ended when the wait was over; `died`: its process
    ended without an error file; `lost`: the scheduler cannot reach it any more; `refused`: it gives a reason
    for its missing answer; `unreadable`: its file is not a valid verdict file; `drifts`: its verdict reports
    drift, and has no comparable answers; `old`: its verdict is of an earlier check in the same directory.
    """

    node: Text
    kind: Literal["absent", "hangs", "died", "lost", "refused", "unreadable", "drifts", "old"]
    why: Text


def list_suffixes(folder: Path) -> dict[str, set[str]]:
    """Return the suffixes of the files of each node, by node."""
    suffixes: dict[str, set[str]] = {}
    for path in folder.iterdir():
        if path.suffix in (CERTIFICATE, BEGAN, ENDED, ERROR, LOST) and NODE.fullmatch(path.stem):
            suffixes.setdefault(path.stem, set()).add(path.suffix)
    return suffixes


def name_nodes(
    folder: Path, nodes: Sequence[str], *, answers: str, hint: str
) -> tuple[tuple[str, ...], dict[str, set[str]]]:
    """Return the names of the nodes that were asked, and the suffixes of the files of each node.

    Args:
        folder: the directory that all nodes share.
        nodes: that were asked; if empty, those that the file `nodes` lists, or else that have begun.
        answers: what nodes leave there, for errors.
        hint: of the errors.

    Raises:
        UsageError: the directory does not exist, or has no node; a list of nodes is not valid.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no directory of {answers}", hint=hint)
    suffixes = list_suffixes(folder)
    names = tuple(sorted(nodes or read_node_list(folder) or suffixes))
    if not names:
        raise UsageError(f"{folder} has no {answers} of any node", hint=hint)
    return names, suffixes


def explain_silence(folder: Path, node: str, suffixes: Collection[str]) -> MissingNode:
    """Return the reason why a node has no answer.

    Args:
        folder: the directory that all nodes share.
        suffixes: of the node's files.

    Raises:
        OSError: a file cannot be read.
    """
    if ERROR in suffixes:
        return MissingNode(node=node, kind="refused", why=escape_text(read_small(folder / f"{node}{ERROR}")))
    if ENDED in suffixes:
        return MissingNode(
            node=node, kind="died", why=describe_exit_code(read_small(folder / f"{node}{ENDED}"))
        )
    if LOST in suffixes:
        return MissingNode(
            node=node, kind="lost", why=escape_text(read_small(folder / f"{node}{LOST}").strip())
        )
    if BEGAN in suffixes:
        return MissingNode(node=node, kind="hangs", why="it began, and has neither answered nor ended")
    return MissingNode(node=node, kind="absent", why="it has not begun")
