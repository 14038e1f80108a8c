"""A folder of certificates, one of each node, becomes one answer. It comes from nodes, and may hold anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from reprobuild.errors import DriftError, InconclusiveError, UsageError
from reprobuild.fleet.answers import Member, Table, drifting_scopes, plain, reasons, unmet
from reprobuild.fleet.between import Between, held_against, judge
from reprobuild.fleet.folder import (
    BEGAN,
    CERTIFICATE,
    COLLECTIVES,
    ENDED,
    ERROR,
    HINT,
    LOST,
    NODE,
    ending,
    listed,
    read_small,
)
from reprobuild.fleet.grouping import Across, Group, across, group
from reprobuild.verify.certificate import Certificate, read_certificate, refuse_other

MOST_STRANGERS = 20


class Image(Struct, frozen=True, kw_only=True):
    """What each certificate must be of."""

    tree: str
    seed: int
    profile: str


class Silent(Struct, frozen=True, kw_only=True):
    """A node without an answer.

    `absent`: it never began; `hangs`: it began, and had not ended when it was no longer waited for; `died`: its
    process ended without a word; `lost`: the scheduler does not reach it any more; `refused`: it says why it has none;
    `unreadable`: what it left is no certificate; `drifts`: its certificate says so, and has nothing that can be
    compared.
    """

    node: str
    kind: Literal["absent", "hangs", "died", "lost", "refused", "unreadable", "drifts"]
    why: str


class Open(Struct, frozen=True, kw_only=True):
    """Why certificates are no pass by themselves, and the nodes that say so."""

    why: str
    nodes: tuple[str, ...]


class Fleet(Struct, frozen=True, kw_only=True):
    """What came of a check on many nodes; `tree` is the image's.

    `asked` are the names of all nodes; `strangers` those that answered and were not asked. `notes` is what the
    scheduler said. `collectives` are those between the nodes, where they were run or asked for, by kind of device.
    `made` is when it was gathered, in UTC, and `folder` where from.
    """

    tree: str
    asked: tuple[str, ...]
    groups: tuple[Group, ...]
    across: tuple[Across, ...]
    silent: tuple[Silent, ...]
    open: tuple[Open, ...]
    strangers: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    collectives: tuple[Between, ...] = ()
    made: str = ""
    folder: str = ""

    @property
    def verdict(self) -> Literal["same", "differ", "inconclusive"]:
        """`differ` where nodes of one platform do, or one drifts; `same` where all were compared and are alike."""
        odd = {each.kind for one in self.groups for each in one.odd}
        between = {each.verdict for each in self.collectives}
        drifts = any(each.kind == "drifts" for each in self.silent) or "drift" in between
        if drifts or {"other", "drift"} & odd or any(one.parted for one in self.groups):
            return "differ"
        alone = any(len(one.nodes) < 2 or not one.compared or one.lacked for one in self.groups)
        open_ones = odd or alone or self.silent or self.open or between - {"identical"}
        return "inconclusive" if open_ones or not self.groups else "same"

    @property
    def exit_code(self) -> int:
        """The exit code that this calls for; the gravest wins."""
        codes = {"same": 0, "differ": DriftError.exit_code, "inconclusive": InconclusiveError.exit_code}
        return codes[self.verdict]


def gather(
    folder: Path, image: Image, table: Table, asked: Sequence[str] = (), notes: Sequence[str] = (), made: str = "",
) -> Fleet:  # fmt: skip
    """Read all certificates of a folder, and compare them.

    Args:
        image: what they must be of.
        asked: the nodes that were asked; those that `nodes` lists, or else that have begun, where it is empty.
        made: the time, in UTC.

    Raises:
        UsageError: the folder is none, or has no node; a list of nodes is none.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder of certificates", hint=HINT)
    there = _there(folder)
    wanted = tuple(sorted(asked or listed(folder) or there))
    if not wanted:
        raise UsageError(f"{folder} has no certificate of any node", hint=HINT)
    members: list[Member] = []
    silent: list[Silent] = []
    open_ones: dict[str, list[str]] = {}
    for node in wanted:
        found = _one(folder, node, there.get(node, set()), image, table)
        if isinstance(found, Silent):
            silent.append(found)
            continue
        said, why = found
        members += said
        for each in why:
            open_ones.setdefault(each, []).append(node)
    groups = group(members, table)
    return Fleet(
        tree=image.tree, asked=wanted, groups=groups, across=across(groups), silent=tuple(silent),
        open=tuple(Open(why=why, nodes=tuple(nodes)) for why, nodes in sorted(open_ones.items())),
        strangers=tuple(sorted({*there} - {*wanted}))[:MOST_STRANGERS], notes=tuple(notes),
        collectives=_collectives(folder, table, members), made=made, folder=str(folder.absolute()),
    )  # fmt: skip


def _collectives(folder: Path, table: Table, members: Sequence[Member]) -> tuple[Between, ...]:
    """Return what came of the collectives between nodes, for each kind of device on which they were run."""
    return tuple(
        held_against(
            judge(folder / f"{COLLECTIVES}{device}", device, names),
            tuple(one.node for one in members if one.device == device),
        )
        for device, names in sorted(table.between.items())
        if (folder / f"{COLLECTIVES}{device}").is_dir()
        and not (folder / f"{COLLECTIVES}{device}").is_symlink()
    )


def _there(folder: Path) -> dict[str, set[str]]:
    """Return the kinds of files that are there, by node."""
    found: dict[str, set[str]] = {}
    for path in folder.iterdir():
        if path.suffix in (CERTIFICATE, BEGAN, ENDED, ERROR, LOST) and NODE.fullmatch(path.stem):
            found.setdefault(path.stem, set()).add(path.suffix)
    return found


def _one(
    folder: Path, node: str, there: set[str], image: Image, table: Table
) -> Silent | tuple[tuple[Member, ...], tuple[str, ...]]:
    """Return what a node says, and why that is no pass by itself; or why it says nothing."""
    if CERTIFICATE in there:
        try:
            verdict = _certificate(folder / f"{node}{CERTIFICATE}", image).verdict
            said = tuple(table.read(node, verdict))
        except (UsageError, OSError) as err:
            return Silent(node=node, kind="unreadable", why=plain(str(err)))
        except RecursionError:
            return Silent(node=node, kind="unreadable", why="its certificate is nested too deeply")
        scopes = drifting_scopes(verdict) - {one.device for one in said}
        if scopes:
            return Silent(
                node=node, kind="drifts", why=f"by its own certificate: {', '.join(sorted(scopes))}"
            )
        if said:
            return said, (*reasons(verdict), *unmet(verdict, said, table.expected))
        why = "; ".join(reasons(verdict)) or "its certificate tells of no smoke test"
        return Silent(node=node, kind="refused", why=why)
    if ERROR in there:
        return Silent(node=node, kind="refused", why=plain(read_small(folder / f"{node}{ERROR}")))
    if ENDED in there:
        return Silent(node=node, kind="died", why=ending(read_small(folder / f"{node}{ENDED}")))
    if LOST in there:
        return Silent(node=node, kind="lost", why=plain(read_small(folder / f"{node}{LOST}").strip()))
    if BEGAN in there:
        return Silent(node=node, kind="hangs", why="it began, and has neither answered nor ended")
    return Silent(node=node, kind="absent", why="it has not begun")


def _certificate(path: Path, image: Image) -> Certificate:
    if path.is_symlink():
        raise UsageError(f"{path} is a link, and no file", hint=HINT)
    found = read_certificate(path)
    refuse_other(found, tree=image.tree, seed=image.seed, profile=image.profile)
    return found


def summary(fleet: Fleet) -> Mapping[str, int]:
    """Return how many nodes answered, how many did not, and in how many groups they are."""
    return {"nodes": len(fleet.asked), "silent": len(fleet.silent), "groups": len(fleet.groups)}


def by_node(fleet: Fleet) -> Iterator[tuple[str, Group, list[str]]]:
    """Yield each node that drifts or answers otherwise than its group, with what it answers so."""
    for one in fleet.groups:
        found: dict[str, list[str]] = {}
        for each in one.odd:
            if each.kind != "missing":
                found.setdefault(each.node, []).append(each.answer)
        for node, answers in found.items():
            yield node, one, answers
