"""The log of a node's ranks in collectives.

The collectives are between nodes. The contents are untrusted.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct, field

from reprobuild.cluster.shared_dir import ENDED, LOG, LOST, TOLD, describe_exit_code, read_small
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.verify.determinism.document import Count, Digest, Name, Text

LAUNCHES = 2  # of torchrun
ROUNDS = 2  # of each launch
LARGEST = 4 << 20  # of a node's log; eight ranks with thirty repeats write 1 MB
MOST_NAMES = 200  # of collectives in a node's log, and of those compared; the probes have some thirty
# Of a node: one for each GPU or processor, and the largest machines have some 2,000. A rank takes 1 KB of memory.
MOST_RANKS = 4096
CONTROL = "control: "  # before the modes of the control, beside names of collectives


class _Line(Struct, kw_only=True):
    """A line of a node, or of its rank."""

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

    @property
    def name(self) -> str | None:
        """The name of a collective or control with a result, or None."""
        if self.launch is None:
            return None
        return f"{CONTROL}{self.control}" if self.control else self.probe


class Rank:
    """The log of a rank: node, completed launches, and digests.

    `seen` has for each name and launch the digests of each round; `errors` and `skipped` have the reason for
    a missing digest.
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
        """Add a line; a result without a launch is ignored."""
        self.worlds.add(line.world)
        self.why = self.why or line.failed or line.absent or line.no_torch
        if line.launch is None:
            return
        if line.done:
            self.done.add(line.launch)
        if (name := line.name) is not None:
            self.seen.setdefault(name, {}).setdefault(line.launch, []).append(line.digests)
            if line.error:
                self.errors.setdefault(name, line.error)
            if line.skipped:
                self.skipped.setdefault(name, line.skipped)

    def count_digests(self, name: str) -> Counter[str]:
        """Return the digests after a collective, with their counts."""
        return Counter(
            digest for rounds in self.seen.get(name, {}).values() for digests in rounds for digest in digests
        )

    def counts(self, name: str) -> tuple[tuple[int, ...], ...]:
        """Return the numbers of results by launch and round."""
        return tuple(tuple(map(len, self.seen.get(name, {}).get(launch, ()))) for launch in range(LAUNCHES))

    def has_results(self, name: str, rounds: int = ROUNDS) -> bool:
        """Return whether each launch has results of that many rounds.

        An error in any round makes it false.
        """
        return name not in self.errors and all(
            len(launch_counts) >= rounds and all(launch_counts) for launch_counts in self.counts(name)
        )


class Node:
    """The log of a node."""

    def __init__(self, name: str) -> None:
        self.name, self.came, self.failed = name, False, ""
        self.codes: dict[int, int] = {}
        self.ranks: dict[int, Rank] = {}
        self.names: set[str] = set()  # of its ranks' results

    @property
    def excess(self) -> str:
        """The reason why its log is refused, or empty."""
        if len(self.ranks) > MOST_RANKS:
            return f"its log has more than {MOST_RANKS:,} ranks"
        return (
            f"its log has more than {MOST_NAMES} names of collectives" if len(self.names) > MOST_NAMES else ""
        )

    @property
    def reason(self) -> str:
        """The node's or a rank's reason for not finishing.

        It is the node's own text, or empty.
        """
        ranks = (f"rank {rank.number}: {rank.why}" for rank in self.ranks.values() if rank.why)
        return self.failed or next(ranks, "")

    @property
    def finished(self) -> bool:
        """Whether the node and all its ranks finished all launches."""
        whole = set(range(LAUNCHES))
        ended = self.codes.keys() == whole and not any(self.codes.values())
        return ended and bool(self.ranks) and all(rank.done == whole for rank in self.ranks.values())


def read_node(folder: Path, name: str) -> Node:
    """Return the log of a node; foreign lines are ignored.

    A log with too many ranks or names counts as one without any, and as the failure of its node.
    """
    node, path = Node(name), folder / f"{name}{TOLD}"
    try:
        lines = read_small(path, LARGEST).splitlines() if path.exists() else []
    except OSError as err:
        lines, node.failed = [], f"what it said cannot be read: {err.strerror}"
    for text in lines:
        try:
            line = decode_json(text, _Line)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            continue
        node.came |= line.came
        if line.rank is not None:
            if line.rank not in node.ranks:
                node.ranks[line.rank] = Rank(name, line.rank)
            node.ranks[line.rank].take(line)
            node.names |= {line.name} if line.name is not None else set()
            if why := node.excess:
                refused = Node(name)
                refused.came, refused.failed = node.came, why
                return refused
        elif line.launch is not None and line.code is not None:
            node.codes[line.launch] = line.code
        elif line.failed:
            node.failed = node.failed or line.failed
    return node


def explain_unfinished(folder: Path, node: Node) -> tuple[str, str]:
    """Return a node's reason for not finishing, with a key.

    The key ignores numbers, because ranks repeat a reason with their own number, ports and addresses.
    """
    state = "came, and did not come to the end" if node.came else "did not come to the rendezvous"
    if node.reason:
        return f"{state}: {node.reason}", re.sub(r"\d+", "0", f"{state}: {node.reason}")
    texts = {}
    for suffix in (LOST, LOG, ENDED):
        path = folder / f"{node.name}{suffix}"
        with contextlib.suppress(OSError):  # the files that it left may explain it
            if path.exists():
                texts[suffix] = read_small(path, LARGEST)
    errors = [line for line in texts.get(LOG, "").splitlines() if line.startswith("error: ")]
    reason = texts.get(LOST, "").strip() or (errors[-1] if errors else "")
    if not reason:
        reason = (
            describe_exit_code(texts[ENDED])
            if ENDED in texts
            else "it had not ended when it was no longer waited for"
        )
    return f"{state}: {reason}", f"{state}: {reason}"
