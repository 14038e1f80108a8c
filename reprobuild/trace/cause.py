"""The class of a divergence, and its likely remedy."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from reprobuild.trace.divergence import Divergence
from reprobuild.trace.record import TraceRecord
from reprobuild.verify.workload.judge import display_line

Class = Literal[
    "data order", "generator", "kernel", "uninitialised memory", "autotuning", "communication", "host code", "unknown",
]  # fmt: skip
# Operations that return memory without writing it.
_EMPTY = ("aten.empty", "aten.new_empty", "aten.resize_")
_KINDS = {
    "batch": "the batch of the data loader",
    "loss": "the loss",
    "gradients": "the gradients",
    "parameters": "the parameters",
    "state": "the state of the optimizer",
    "generator": "the state of the random number generator",
    "operation": "the operation",
    "mark": "the marked value",
    "output": "the printed line",
    "stride": "the distance of the recorded steps",
    "component": "a component of the training",
    "call": "the jitted function",
}


class DriftCause(Struct, frozen=True, kw_only=True):
    """The cause of a divergence.

    Attributes:
        kind: its class.
        subject: the operation, generator or value that differs first.
        place: FILE:LINE of the program, or empty.
        text: of this line, or empty.
        reason: why it is of this class, in one line.
        remedy: what would cure it, in one line; empty if unknown.
        cure: whether the remedy can be tested: `strict` and `jax` run with the profile of that name, `fill` with memory
            that is filled when it is allocated.
    """

    kind: Class
    subject: str
    place: str
    reason: str
    text: str = ""
    remedy: str = ""
    cure: Literal["", "strict", "jax", "fill"] = ""


_STRICT = "`--profile strict` chooses an algorithm with one result, or refuses the operation"
_JAX = "`--profile jax` makes XLA choose operations with one result, or refuse to compile"
REPLACE = "use another operation: this one has no deterministic form that a profile could choose"
_FILL = (
    "write the memory before it is read: torch.zeros in place of torch.empty, or read only the written part"
)
_SEED = "seed it from REPROBUILD_SEED, and from no time, process number or other state of the machine"


def classify(
    divergence: Divergence, replayed: tuple[int, ...] = (), *, filled: bool | None = None
) -> DriftCause:
    """Return the cause of a divergence.

    Args:
        divergence: the first difference of two runs.
        replayed: how often the repetitions of its operation had each result, if it was repeated.
        filled: whether the runs were the same with filled memory, None if that was not tried.
    """
    record = divergence.record
    subject = describe_record(record)
    if divergence.difference == "calls" and _is_same_name(divergence):
        values = " and ".join(display_line(record.arguments) for record in _records(divergence))
        return _host(divergence, subject, f"its arguments differ: {values}")
    if divergence.difference in ("calls", "end"):
        return _host(divergence, subject, f"the runs go different ways: {_describe_ways(divergence)}")
    if record.kind == "batch":
        return DriftCause(
            kind="data order", subject=subject, place=record.place,
            reason="the batch differs, and the steps before it and the generators are the same",
            remedy="sort the files, and give the loader a sampler that depends on the seed alone",
        )  # fmt: skip
    if record.kind == "generator" or (record.generator and _is_last_input(divergence)):
        subject = record.name if record.kind == "generator" else f"the generator of {record.name}"
        return DriftCause(
            kind="generator", subject=subject, place=record.place,
            reason="its state differs, and all recorded operations before are the same", remedy=_SEED,
        )  # fmt: skip
    if record.kind == "call" and record.inputs:
        return _classify_call(divergence, subject, replayed)
    if record.kind != "operation":
        return DriftCause(
            kind="unknown", subject=subject, place=record.place,
            reason="it differs, and its operations were not recorded",
        )  # fmt: skip
    if divergence.is_received:
        call = (
            record if divergence.difference == "outputs" or divergence.writer is None else divergence.writer
        )
        return DriftCause(
            kind="communication", subject=describe_record(call), place=call.place,
            reason="its inputs are the same in this process, and its results differ",
            remedy="fix the algorithm of the library: NCCL_ALGO=Ring, or the profile of the launcher",
        )  # fmt: skip
    if divergence.difference == "outputs":
        return _classify_operation(divergence, subject, replayed)
    return _classify_input(divergence, subject, filled)


def _classify_operation(divergence: Divergence, subject: str, replayed: tuple[int, ...]) -> DriftCause:
    record = divergence.record
    same = "its inputs are the same, and its results differ"
    if len(replayed) > 1:
        counts = f"{len(replayed)} results in {sum(replayed)} repetitions on the same inputs"
        return DriftCause(
            kind="kernel", subject=subject, place=record.place, reason=f"{same}: {counts}", remedy=_STRICT,
            cure="strict",
        )  # fmt: skip
    if replayed:
        reason = f"{same}; {sum(replayed)} repetitions in one process have one result"
        return DriftCause(
            kind="autotuning", subject=subject, place=record.place,
            reason=f"{reason}, so each process chooses or finds its own way",
            remedy="keep the choices of a run: `reprobuild run OUT --save-choices`", cure="strict",
        )  # fmt: skip
    return DriftCause(
        kind="kernel", subject=subject, place=record.place, reason=same, remedy=_STRICT, cure="strict"
    )


def _classify_call(divergence: Divergence, subject: str, replayed: tuple[int, ...]) -> DriftCause:
    """Return the cause of a difference at a call of a jitted function."""
    if divergence.difference == "inputs":
        numbers = " and ".join(str(number + 1) for number in divergence.inputs)
        return _host(divergence, subject, f"argument {numbers} differs before the call")
    if len(replayed) == 1:
        return DriftCause(
            kind="unknown", subject=subject, place=divergence.record.place,
            reason=f"its arguments are the same, and its results differ; {sum(replayed)} repetitions in one process "
            "have one result, so a value that it captured, or a choice of the compiler, differs",
            remedy="pass what it captures as an argument; keep the choices: `reprobuild run OUT --save-choices`",
        )  # fmt: skip
    return msgspec.structs.replace(
        _classify_operation(divergence, subject, replayed), remedy=_JAX, cure="jax"
    )


def _classify_input(divergence: Divergence, subject: str, filled: bool | None) -> DriftCause:
    record, writer = divergence.record, divergence.writer
    if writer is not None and writer.name.startswith(_EMPTY):
        reason = f"it reads memory of {writer.name}, which the recorded operations did not write whole"
        if filled is False:
            return _host(divergence, subject, f"{reason}, and filled memory changes nothing")
        return DriftCause(
            kind="uninitialised memory", subject=subject, place=writer.place or record.place, reason=reason,
            remedy=_FILL, cure="fill",
        )  # fmt: skip
    origin = (
        f"after {writer.name} at {writer.place or 'an unknown line'} wrote it" if writer
        else "and no recorded operation wrote it"
    )  # fmt: skip
    return _host(divergence, subject, f"an input differs, {origin}: NumPy, an extension or Python changed it")


def _host(divergence: Divergence, subject: str, reason: str) -> DriftCause:
    before = divergence.before
    place = divergence.record.place or (before.place if before else "")
    return DriftCause(
        kind="host code", subject=subject, place=place, reason=reason,
        remedy="look for times, process numbers, addresses, threads and directory listings at this line",
    )  # fmt: skip


def _records(divergence: Divergence) -> list[TraceRecord]:
    return [record for record in (divergence.first, divergence.second) if record]


def _is_same_name(divergence: Divergence) -> bool:
    return (
        len({(record.kind, record.name) for record in _records(divergence)})
        == 1
        == len(_records(divergence)) - 1
    )


def _is_last_input(divergence: Divergence) -> bool:
    return divergence.inputs == (len(divergence.record.inputs) - 1,)


def describe_record(record: TraceRecord) -> str:
    """Return the subject of a record in words."""
    if record.kind != "operation":
        name = _KINDS[record.kind]
        return f"{name} {record.name}" if record.kind in ("generator", "mark", "gradients", "call") else name
    parts = [record.name]
    if record.backward:
        parts.append(f"in {record.backward}")
    if record.module:
        parts.append(f"of {record.module}")
    return " ".join(parts)


def _describe_ways(divergence: Divergence) -> str:
    names = [
        describe_record(record) if record else "the end" for record in (divergence.first, divergence.second)
    ]
    return f"{names[0]} in the first, {names[1]} in the second"
