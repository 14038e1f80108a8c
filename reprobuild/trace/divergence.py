"""The first differing record of two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import takewhile, zip_longest
from typing import Literal

from msgspec import Struct

from reprobuild.errors import InconclusiveError
from reprobuild.trace.log import ProcessLog
from reprobuild.trace.record import TraceRecord

_NAMED = 5  # processes in a message


class Divergence(Struct, frozen=True, kw_only=True):
    """The first record that differs.

    Attributes:
        process: its name.
        step: from 0.
        difference: `outputs` if its inputs are the same in both runs, `inputs` if one input differs, `calls` if the
            runs called different operations, and `end` if one run has no further record.
        first, second: the record in each run; None after its end.
        inputs: the numbers of the inputs that differ.
        before: the last record that both runs share, or None.
        writer: the record that wrote the first differing input, if one did.
    """

    process: str
    step: int
    difference: Literal["outputs", "inputs", "calls", "end"]
    first: TraceRecord | None
    second: TraceRecord | None
    inputs: tuple[int, ...] = ()
    before: TraceRecord | None = None
    writer: TraceRecord | None = None

    @property
    def record(self) -> TraceRecord:
        """The record of the first run, or that of the second one after the first one's end."""
        record = self.first or self.second
        assert record is not None
        return record

    @property
    def is_received(self) -> bool:
        """Whether the result of a collective operation differs, for the same input in this process."""
        if self.difference == "outputs":
            return is_collective(self.record.name)
        return self.difference == "inputs" and self.writer is not None and is_collective(self.writer.name)


def find_divergence(
    first: Mapping[str, ProcessLog], second: Mapping[str, ProcessLog], *, of_steps: bool = False
) -> Divergence | None:
    """Return the earliest difference of two runs, or None.

    With `of_steps`, one of the runs recorded no operations, and the records of steps alone are compared.

    Of several processes with a difference in one step, one that received another result from a collective operation
    comes last: it may be the result of another process. An operation that differs on the same inputs comes first.

    A process of one run alone comes last of all, and counts if it trained or computed.

    Raises:
        InconclusiveError: a log is damaged, or the runs have no process of the same name.
    """
    common = sorted(first.keys() & second.keys())
    if not common:
        raise InconclusiveError(
            f"the runs have no process in common: {_list_names(first)}, and {_list_names(second)}",
            hint="compare runs of one command, with as many processes; `--save DIR` of another trace writes its logs",
        )
    compare = _compare_steps if of_steps else _compare_processes
    differing = (compare(first[name], second[name]) for name in common)
    earliest = min(filter(None, differing), key=_order, default=None)
    if earliest:
        return earliest
    for name in sorted(first.keys() ^ second.keys()):
        log = first[name] if name in first else second[name]
        if work := log.find_work():  # a helper that is killed early leaves a log in some runs alone
            step, record = work
            sides = (record, None) if name in first else (None, record)
            return Divergence(process=name, step=step, difference="end", first=sides[0], second=sides[1])
    return None


def _list_names(logs: Mapping[str, ProcessLog]) -> str:
    return ", ".join(sorted(logs)[:_NAMED]) or "none"


def _order(divergence: Divergence) -> tuple[int, bool, bool, int]:
    record = divergence.record
    received = divergence.is_received
    return divergence.step, received, divergence.difference != "outputs", record.number


def is_collective(name: str) -> bool:
    """Return whether an operation exchanges data with other processes."""
    return name.startswith(("c10d.", "c10d::", "_c10d_functional", "c10d_functional"))


def _compare_processes(first: ProcessLog, second: ProcessLog) -> Divergence | None:
    step = find_step(first, second)
    if step is None:
        return None
    before: TraceRecord | None = None
    for record, other in zip_longest(first.stream(step), second.stream(step)):
        divergence = _compare(record, other)
        if divergence:
            difference, inputs = divergence
            return Divergence(
                process=first.name, step=step, difference=difference, first=record, second=other, inputs=inputs,
                before=before, writer=_find_writer(record, inputs, first.stream(step)),
            )  # fmt: skip
        before = record
    if step < min(len(first), len(second)):
        raise InconclusiveError(
            f"the logs of the process {first.name} are not valid: "
            f"the digests of step {step} differ, and its records do not",
            hint="run the trace again; does the program write into the directory of the logs?",
        )
    return _find_rest(first, second, step + 1)


def _find_rest(first: ProcessLog, second: ProcessLog, step: int) -> Divergence | None:
    """Return the first record of the longer log from a step on, if it has one: empty steps may be before it."""
    longer = max(first, second, key=len)
    number = longer.find_filled(step)
    record = None if number is None else next(longer.stream(number), None)
    if number is None or record is None:
        return None
    sides = (record, None) if longer is first else (None, record)
    return Divergence(process=first.name, step=number, difference="end", first=sides[0], second=sides[1])


def _compare_steps(first: ProcessLog, second: ProcessLog) -> Divergence | None:
    """Return the first difference of the records that each run has."""
    for step in range(max(len(first), len(second))):
        before: TraceRecord | None = None
        generators = _list_generators(first, step) & _list_generators(second, step)
        for record, other in zip_longest(
            _list_shared(first, step, generators), _list_shared(second, step, generators)
        ):
            if divergence := _compare(record, other):
                difference, inputs = divergence
                return Divergence(
                    process=first.name, step=step, difference=difference, first=record, second=other, inputs=inputs,
                    before=before,
                )  # fmt: skip
            before = record
    return None


def _list_generators(log: ProcessLog, step: int) -> Set[str]:
    """Return the generators of a step; the record of operations can import a library that has another one."""
    records = log.stream(step) if step < len(log) else iter(())
    return {record.name for record in records if record.kind == "generator"}


def _list_shared(log: ProcessLog, step: int, generators: Set[str]) -> Iterator[TraceRecord]:
    for record in log.stream(step) if step < len(log) else iter(()):
        if record.is_of_each_run and (record.kind != "generator" or record.name in generators):
            yield record


def find_step(first: ProcessLog, second: ProcessLog) -> int | None:
    """Return the first step with another chain of digests, by bisection, or None if all are equal.

    A log that ends earlier differs at the step after its end.
    """
    count = min(len(first), len(second))
    if not count or first.chain(count - 1) == second.chain(count - 1):
        return None if len(first) == len(second) else count
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if first.chain(middle) == second.chain(middle):
            low = middle + 1
        else:
            high = middle
    return low


def _compare(
    record: TraceRecord | None, other: TraceRecord | None
) -> tuple[Literal["outputs", "inputs", "calls", "end"], tuple[int, ...]] | None:
    if record is None or other is None:
        return "end", ()
    if record.call != other.call:
        return "calls", ()
    inputs = tuple(
        number
        for number, (value, another) in enumerate(zip(record.inputs, other.inputs, strict=True))
        if value != another
    )
    if inputs:
        return "inputs", inputs
    return None if record.outputs == other.outputs else ("outputs", ())


def _find_writer(
    record: TraceRecord | None, inputs: Sequence[int], records: Iterator[TraceRecord]
) -> TraceRecord | None:
    if record is None or not inputs or inputs[0] >= len(record.writers):
        return None
    number = record.writers[inputs[0]]
    before = takewhile(lambda other: other != record, records)
    return next((writer for writer in before if writer.number == number), None)
