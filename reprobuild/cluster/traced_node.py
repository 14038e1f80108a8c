"""The document of a node that recorded a command, and its records. They come from a node: untrusted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from reprobuild.cluster.shared_dir import CERTIFICATE, LARGEST, TRACE
from reprobuild.errors import InconclusiveError
from reprobuild.infra.untrusted.decode import decode_json
from reprobuild.infra.untrusted.regular_files import is_unlinked, read_plain
from reprobuild.infra.untrusted.strings import Line, ShortLine, Size
from reprobuild.trace.log import ProcessLog, read_logs

# Of all processes of a node. The steps of some nine nodes are in memory at once, with 24 bytes each, whether a step has
# records or none.
MOST_STEPS = 500_000
HINT = "run it again with `reprobuild cluster trace-worker OUT --output DIR -- CMD`"


class TracedNode(Struct, frozen=True, kw_only=True):
    """A node that recorded a command.

    Attributes:
        platform: its processor and GPUs, in words.
        driver: of its GPUs, or empty.
        seed: of the run.
        steps: complete steps of the longest process.
    """

    platform: Line
    driver: ShortLine
    seed: Size
    steps: Size


def read_traced_node(folder: Path, node: str) -> tuple[TracedNode, Mapping[str, ProcessLog]]:
    """Return the document and the records of a node.

    Raises:
        InconclusiveError: they are damaged or contradict each other, or there are no records of work.
    """
    try:
        content = read_plain(folder / f"{node}{CERTIFICATE}", LARGEST, links=False)
        traced = decode_json(content, TracedNode)
        if not is_unlinked(folder, f"{node}{TRACE}"):
            raise InconclusiveError(f"{node}{TRACE} is a link", hint=HINT)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise InconclusiveError(f"{node}{CERTIFICATE} is not valid: {err}", hint=HINT) from err
    logs = read_logs(folder / f"{node}{TRACE}", foreign=True, most_steps=MOST_STEPS)
    if not logs:
        raise InconclusiveError(f"{node}{TRACE} has no records", hint=HINT)
    for log in logs.values():
        log.verify(normalise=True)
    # Logs without work differ in nothing, and so they would agree.
    if not any(map(_has_work, logs.values())):
        raise InconclusiveError(
            f"{node}{TRACE} has no record of work, such as a batch, a loss or a marked value", hint=HINT
        )
    if traced.steps != (steps := max(map(len, logs.values()))):
        raise InconclusiveError(
            f"{node}{CERTIFICATE} has {traced.steps} steps, and {node}{TRACE} {steps}", hint=HINT
        )
    return traced, logs


def _has_work(log: ProcessLog) -> bool:
    """Return whether a log has a record of work; none is kept, because one may be large."""
    return any(record.is_work for record in log.iterate(len(log)))
