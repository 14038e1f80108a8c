"""What a node said of its share of the collectives between nodes, and each rank on it; it may be anything."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from reprobuild.cluster.shared_dir import ENDED, LOG, LOST, TOLD, ending, read_small
from reprobuild.verify.determinism.document import Count, Digest, Name, Text

LAUNCHES = 2  # of torchrun
ROUNDS = 2  # of each launch
LARGEST = 4 << 20  # of what a node says; eight ranks with thirty repeats say 1 MB
MOST_NAMES = 200
CONTROL = "control: "  # before the modes of the control, beside names of collectives


class _Line(Struct, kw_only=True):
    """One line of a node, or of a rank on it."""

    came: bool = False
    launch: Annotated[int, Meta(ge=0, lt=LAUNCHES)] | None = None
    code: int | None = None
    rank: Count | None = None
    world: Count = 0
    probe: Name | None = None
    control: Literal["default", "cured"] | None = None
    digests: Annotated[tuple[Digest, ...], Meta(max_length=1000)] = ()
    skipped: Text = ""
    error: Text = ""
    failed: Text = ""
    absent: Text = ""
    no_torch: Text = field(default="", name="no torch")
    done: bool = False


class Rank:
    """What one rank said: its node, the launches that it came to the end of, and the digests of each collective.

    `seen` has for each name and launch the digests of each round; `errors` and `skipped` say why one has none.
    """

    def __init__(self, node: str, number: int) -> None:
        self.node, self.number = node, number
        self.done: set[int] = set()
        self.worlds: set[int] = set()
        self.seen: dict[str, dict[int, list[tuple[str, ...]]]] = {}
        self.errors: dict[str, str] = {}
        self.skipped: dict[str, str] = {}
        self.why = ""

    def take(self, line: _Line) -> None:
        """Note what a line says; a result of no launch is none."""
        self.worlds.add(line.world)
        self.why = self.why or line.failed or line.absent or line.no_torch
        name = f"{CONTROL}{line.control}" if line.control else line.probe
        if line.launch is None:
            return
        if line.done:
            self.done.add(line.launch)
        if name is not None and (name in self.seen or len(self.seen) < MOST_NAMES):
            self.seen.setdefault(name, {}).setdefault(line.launch, []).append(line.digests)
            if line.error:
                self.errors.setdefault(name, line.error)
            if line.skipped:
                self.skipped.setdefault(name, line.skipped)

    def held(self, name: str) -> Counter[str]:
        """Return how often it held what after a collective."""
        return Counter(
            digest for rounds in self.seen.get(name, {}).values() for digests in rounds for digest in digests
        )

    def counts(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return for each launch the number of results in each of its rounds."""
        return tuple(tuple(map(len, self.seen.get(name, {}).get(launch, ()))) for launch in range(LAUNCHES))

    def answered(self, name: str, rounds: int = ROUNDS) -> bool:
        """Whether it has results of that many rounds in each launch, and of no round an error."""
        return name not in self.errors and all(
            len(each) >= rounds and all(each) for each in self.counts(name)
        )


class Node:
    """What one node said."""

    def __init__(self, name: str) -> None:
        self.name, self.came, self.failed = name, False, ""
        self.codes: dict[int, int] = {}
        self.ranks: dict[int, Rank] = {}

    @property
    def said(self) -> str:
        """Why it, or a rank on it, did not come to the end, in its own words; empty where none says."""
        ranks = (f"rank {rank.number}: {rank.why}" for rank in self.ranks.values() if rank.why)
        return self.failed or next(ranks, "")

    @property
    def finished(self) -> bool:
        """Whether it, and each of its ranks, came to the end of all launches."""
        whole = set(range(LAUNCHES))
        ended = self.codes.keys() == whole and not any(self.codes.values())
        return ended and bool(self.ranks) and all(each.done == whole for each in self.ranks.values())


def read_node(folder: Path, name: str) -> Node:
    """Return what a node said; a line that is none of the program's says nothing."""
    node, path = Node(name), folder / f"{name}{TOLD}"
    try:
        lines = read_small(path, LARGEST).splitlines() if path.exists() else []
    except OSError as err:
        lines, node.failed = [], f"what it said cannot be read: {err.strerror}"
    for text in lines:
        try:
            line = msgspec.json.decode(text, type=_Line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        node.came |= line.came
        if line.rank is not None:
            node.ranks.setdefault(line.rank, Rank(name, line.rank)).take(line)
        elif line.launch is not None and line.code is not None:
            node.codes[line.launch] = line.code
        elif line.failed:
            node.failed = node.failed or line.failed
    return node


def unfinished(folder: Path, node: Node) -> tuple[str, str]:
    """Return why a node did not come to the end, and by what it is told from other reasons.

    Ranks say the same with other numbers: of themselves, of ports, of addresses.
    """
    what = "came, and did not come to the end" if node.came else "did not come to the rendezvous"
    if node.said:
        return f"{what}: {node.said}", re.sub(r"\d+", "0", f"{what}: {node.said}")
    left = {}
    for suffix in (LOST, LOG, ENDED):
        path = folder / f"{node.name}{suffix}"
        with contextlib.suppress(OSError):  # what it left beside it may tell
            if path.exists():
                left[suffix] = read_small(path, LARGEST)
    errors = [line for line in left.get(LOG, "").splitlines() if line.startswith("error: ")]
    said = left.get(LOST, "").strip() or (errors[-1] if errors else "")
    if not said:
        said = ending(left[ENDED]) if ENDED in left else "it had not ended when it was no longer waited for"
    return f"{what}: {said}", f"{what}: {said}"
