"""The lost components of a resumed training.

A whole run and a resumed run record digests of each component before each step of an optimizer. The resumed run began
at the step of the whole run that has the same model. The first component that differs from then on is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from reprobuild.trace.divergence import find_step
from reprobuild.trace.log import ProcessLog, TraceRecord

Component = Literal[
    "model", "optimizer", "scheduler", "scaler", "generator", "data order", "step counter", "other state",
]  # fmt: skip
# In the order of causes: a generator may shuffle the data, and a wrong model changes all that follows.
_ORDER: tuple[Component, ...] = (
    "model", "optimizer", "scheduler", "scaler", "generator", "data order", "other state",
)  # fmt: skip
REMEDIES: Mapping[Component, str] = {
    "model": "save and load model.state_dict(), with its buffers and in full precision",
    "optimizer": "save and load optimizer.state_dict()",
    "scheduler": "save and load scheduler.state_dict(), and step it once for each step",
    "scaler": "save and load scaler.state_dict()",
    "generator": "save and restore the states of random, numpy.random, torch and torch.cuda, after the last draw "
    "before the loop",
    "data order": "go on after the last batch that was used: a sampler whose order depends on seed and epoch, or "
    "StatefulDataLoader of torchdata",
    "step counter": "save the number of steps, and count from it",
    "other state": "look for values that the program computes with and does not save",
}
_Values = Mapping[Component, Sequence[tuple[str, tuple[str, ...]]]]


class ResumeDifference(Struct, frozen=True, kw_only=True):
    """The first difference of a resumed run from the whole one.

    Attributes:
        step: of the whole run, from 0.
        process: whose records differ.
        components: that differ at this step, in the order of causes.
        same: the other recorded ones.
        subject: of the first component: the name of a generator, or empty.
    """

    step: int
    process: str
    components: tuple[Component, ...]
    same: tuple[Component, ...]
    subject: str = ""


class ResumeFindings(Struct, frozen=True, kw_only=True):
    """The comparison of a resumed run with the whole one.

    Attributes:
        steps: of the whole run.
        stopped: complete steps of the stopped run.
        began: the step of the whole run at which the resumed one began, from 0.
        resumed: steps of the resumed run.
        early: the stopped run differs from the whole one before it was stopped.
        difference: the first one, or None.
    """

    steps: int
    stopped: int
    began: int
    resumed: int
    early: bool = False
    difference: ResumeDifference | None = None


def compare_resumed(
    whole: Mapping[str, ProcessLog], stopped: Mapping[str, ProcessLog], resumed: Mapping[str, ProcessLog]
) -> ResumeFindings:
    """Return the first difference of a resumed run from a whole run.

    Args:
        whole: the logs of the run without a stop, by process.
        stopped: those of the run that was stopped.
        resumed: those of the run that went on.

    Raises:
        InconclusiveError: a log is damaged.
    """
    name = max(whole, key=lambda process: _count_steps(whole[process]))
    steps = _count_steps(whole[name])
    stop = _count_steps(stopped[name]) if name in stopped else 0
    count = _count_steps(resumed[name]) if name in resumed else 0
    early = any(_differs_before(whole[process], log) for process, log in stopped.items() if process in whole)
    began = _find_begin(whole[name], resumed[name], stop) if count else steps
    differences = [
        difference
        for process, log in sorted(resumed.items())
        if process in whole and (difference := _compare(process, whole[process], log, began))
    ]
    return ResumeFindings(
        steps=steps, stopped=stop, began=began, resumed=count, early=early,
        difference=min(differences, key=lambda difference: difference.step, default=None),
    )  # fmt: skip


def _differs_before(whole: ProcessLog, stopped: ProcessLog) -> bool:
    """Return whether a step differs before the end of the stopped run."""
    step = find_step(whole, stopped)
    return step is not None and step < _count_steps(stopped)


def _find_begin(whole: ProcessLog, resumed: ProcessLog, stop: int) -> int:
    """Return the first step of a resumed run, by its model, or else counted from the end.

    A run that begins with all initial values began anew. One that has the initial model alone did not load it.
    """
    first = _read_values(resumed, 0).get("model")
    for step in range(min(stop, _count_steps(whole) - 1), 0, -1):
        if _read_values(whole, step).get("model") == first:
            return step
    if _read_values(whole, 0) == _read_values(resumed, 0):
        return 0
    counted = _count_steps(whole) - _count_steps(resumed)
    return counted if 0 < counted <= stop else stop


def _compare(process: str, whole: ProcessLog, resumed: ProcessLog, began: int) -> ResumeDifference | None:
    ends = _count_steps(whole) - began, _count_steps(resumed)
    for step in range(min(ends)):
        first, second = _read_values(whole, began + step), _read_values(resumed, step)
        if first == second:
            continue
        differing = [component for component in _ORDER if first.get(component) != second.get(component)]
        subjects = set(first.get(differing[0], ())) ^ set(second.get(differing[0], ()))
        return ResumeDifference(
            step=began + step, process=process, components=tuple(differing),
            same=tuple(component for component in _ORDER if component in first and component not in differing),
            subject=", ".join(sorted({subject for subject, _ in subjects if subject})),
        )  # fmt: skip
    if ends[0] == ends[1]:
        return None
    return ResumeDifference(
        step=began + min(ends), process=process, components=("step counter",), same=_ORDER[:1],
    )  # fmt: skip


def _count_steps(log: ProcessLog) -> int:
    """Return the number of steps of an optimizer: the end of a process writes one more."""
    count = len(log)
    return count - 1 if count and not any(map(_is_of_step, log.records(count - 1))) else count


def _is_of_step(record: TraceRecord) -> bool:
    return record.kind == "component" and record.name == "model"


def _read_values(log: ProcessLog, step: int) -> _Values:
    """Return the digests of each component in one step."""
    values: dict[Component, list[tuple[str, tuple[str, ...]]]] = {}
    for component, record in _list_components(log.records(step)):
        subject = record.name.partition(" ")[2] if component == "generator" else ""
        values.setdefault(component, []).append((subject, record.outputs))
    return values


def _list_components(records: Sequence[TraceRecord]) -> Iterator[tuple[Component, TraceRecord]]:
    """Yield the component and the record of each value that two runs must share.

    A resumed run may read batches that it leaves out, so only the last batch of a step is compared.
    """
    inputs = [record for record in records if record.kind == "component" and record.name == "input"]
    batches = [record for record in records if record.kind == "batch"]
    for record in inputs or batches[-1:]:
        yield "data order", record
    for record in records:
        if record.kind in ("loss", "gradients", "mark"):
            yield "other state", record
        elif record.kind == "component" and record.name.startswith("generator"):
            yield "generator", record
        elif record.kind == "component" and record.name in REMEDIES:
            yield record.name, record  # type: ignore[misc]  # a name of the table is a component
