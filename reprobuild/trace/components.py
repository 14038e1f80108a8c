"""The lost components of a resumed training.

A whole run and a resumed run record digests of each component before each step of an optimizer. The resumed run began
at the step of the whole run that has the same model, and most other components. The first component that differs from
then on is named. A generator that differs alone up to the end draws nothing that counts: each iteration of a DataLoader
draws a number from the global one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct, structs

from reprobuild.errors import InconclusiveError
from reprobuild.trace.divergence import find_step
from reprobuild.trace.log import ProcessLog
from reprobuild.trace.record import TraceRecord

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
PROCESSES = "let the resumed command start the processes that train in the workload, and no others"
_MOST_OTHERS = 1000  # steps without an optimizer at the end of a process
_MOST_LOOKED = 100_000  # such steps of all processes of a run
_MOST_STEPS = 200_000  # of one process
_Values = Mapping[Component, Sequence[tuple[str, tuple[str, ...]]]]


class _Training(Struct, frozen=True):
    """The log of a process, and its number of steps of an optimizer."""

    log: ProcessLog
    steps: int


class ResumeDifference(Struct, frozen=True, kw_only=True):
    """The first difference of a resumed run from the whole one.

    Attributes:
        step: of the whole run, from 0.
        process: whose records differ.
        components: that differ at this step, in the order of causes.
        same: the other recorded ones.
        subject: of the first component: the name of a generator, or empty.
        later: the step from which other components than a generator differ, or None.
        steps, left: for a step counter, the steps of the process in the resumed run, and those that were left.
    """

    step: int
    process: str
    components: tuple[Component, ...]
    same: tuple[Component, ...] = ()
    subject: str = ""
    later: int | None = None
    steps: int = 0
    left: int = 0

    @property
    def counts(self) -> bool:
        """Whether more than a generator differs."""
        return self.components != ("generator",) or self.later is not None


class ResumeFindings(Struct, frozen=True, kw_only=True):
    """The comparison of a resumed run with the whole one.

    Attributes:
        steps: of the whole run.
        stopped: complete steps of the stopped run.
        began: the step of the whole run at which the resumed one began, from 0.
        resumed: steps of the resumed run.
        early: the stopped run differs from the whole one before it was stopped.
        again: processes that trained in the stopped run alone: the workload started itself again.
        difference: the first one, or None.
    """

    steps: int
    stopped: int
    began: int
    resumed: int
    early: bool = False
    again: int = 0
    difference: ResumeDifference | None = None


def compare_resumed(
    whole: Mapping[str, ProcessLog],
    stopped: Mapping[str, ProcessLog],
    resumed: Mapping[str, ProcessLog],
    stop: int,
) -> ResumeFindings:
    """Return the first difference of a resumed run from a whole run.

    Processes that make no step of an optimizer do not count, and the others are compared in their order.

    Args:
        whole: the logs of the run without a stop, by process.
        stopped: those of the run that was stopped.
        resumed: those of the run that went on.
        stop: the number of steps before the stop.

    Raises:
        InconclusiveError: a log is damaged.
    """
    first, second, third = (_list_trainings(logs) for logs in (whole, stopped, resumed))
    name = max(first, key=lambda process: first[process].steps, default="")
    if not name:
        return ResumeFindings(steps=0, stopped=0, began=0, resumed=0)
    steps = first[name].steps
    complete = second[name].steps if name in second else 0
    count = third[name].steps if name in third else 0
    early = any(
        _differs_before(first[process], training, stop)
        for process, training in second.items()
        if process in first
    )
    began = _find_begin(first[name], third[name], complete) if count else steps
    differences = _list_other_processes(first, second, third, began) + [
        difference
        for process, training in sorted(third.items(), key=lambda item: item[0])
        if process in first and (difference := _compare(process, first[process], training, began))
    ]
    return ResumeFindings(
        steps=steps, stopped=complete, began=began, resumed=count, early=early,
        again=len(second.keys() - first.keys()),
        difference=min(differences, key=_order, default=None),
    )  # fmt: skip


def _list_other_processes(
    first: Mapping[str, _Training],
    second: Mapping[str, _Training],
    third: Mapping[str, _Training],
    began: int,
) -> list[ResumeDifference]:
    """Return the processes that make steps after the stop in the whole run alone, or in the resumed run alone.

    A helper that had made all its steps when the run was stopped need not make them again.
    """
    differences = []
    for process in sorted(first.keys() ^ third.keys()):
        before = second[process].steps if process in second else 0
        left = first[process].steps - before if process in first else 0
        steps = third[process].steps if process in third else 0
        if steps or left > 0:
            differences.append(
                ResumeDifference(
                    step=began, process=process, components=("step counter",), steps=steps, left=left
                )
            )
    return differences


def _order(difference: ResumeDifference) -> tuple[bool, int]:
    return not difference.counts, difference.step


def _list_trainings(logs: Mapping[str, ProcessLog]) -> dict[str, _Training]:
    """Return the logs with steps of an optimizer, numbered anew among those of one base name.

    Raises:
        InconclusiveError: a log is damaged, or there are too many steps.
    """
    trainings: dict[str, _Training] = {}
    counts: Counter[str] = Counter()
    left = _MOST_LOOKED
    for name in sorted(logs, key=_split_name):
        steps = _count_steps(logs[name], min(left, _MOST_OTHERS))
        if steps > _MOST_STEPS:
            raise InconclusiveError(
                f"the process {name} made more than {_MOST_STEPS:,} steps", hint="resume a shorter command"
            )
        if steps:
            base, _ = _split_name(name)
            counts[base] += 1
            trainings[f"{base}.{counts[base]}" if counts[base] > 1 else base] = _Training(logs[name], steps)
        left -= min(len(logs[name]) - steps, _MOST_OTHERS)
        if left <= 0:
            raise InconclusiveError(
                f"the processes made more than {_MOST_LOOKED:,} steps without an optimizer",
                hint="resume a command with fewer processes",
            )
    return trainings


def _split_name(name: str) -> tuple[str, int]:
    """Return the base name of a process, and its number: `main.2` is the second process of the name `main`."""
    base, _, number = name.rpartition(".")
    return (base, int(number)) if base and number.isdecimal() and len(number) < 5 else (name, 1)


def _differs_before(whole: _Training, stopped: _Training, stop: int) -> bool:
    """Return whether a step before the stop differs."""
    step = find_step(whole.log, stopped.log)
    return step is not None and step < min(stop, stopped.steps)


def _find_begin(whole: _Training, resumed: _Training, stop: int) -> int:
    """Return the first step of a resumed run, by its model, or else counted from the end.

    A rate of 0 leaves a model as it is: of several steps with the model, the one with most other components is taken. A
    run that begins with all initial values began anew. One that has the initial model alone did not load it.
    """
    first = _read_values(resumed.log, 0)
    counted = whole.steps - resumed.steps
    counted = counted if 0 < counted <= stop else stop
    best, rank = counted, (-1, False, -1)
    for step in range(min(stop + 1, whole.steps)):
        values = _read_values(whole.log, step)
        if values.get("model") != first.get("model"):
            continue
        differing = _list_differing(values, first, begins=True)
        new = (len(_ORDER) - len(differing), step == counted, step)
        if new > rank and (step or not differing):
            best, rank = step, new
    return best


def _compare(process: str, whole: _Training, resumed: _Training, began: int) -> ResumeDifference | None:
    ends = whole.steps - began, resumed.steps
    alone: ResumeDifference | None = None  # a generator
    for step in range(min(ends)):
        first, second = _read_values(whole.log, began + step), _read_values(resumed.log, step)
        differing = _list_differing(first, second, begins=not step)
        if not differing or (alone and differing == ["generator"]):
            continue
        if alone:
            rest = tuple(component for component in differing if component != "generator")
            return structs.replace(
                alone, components=("generator", *rest), later=began + step,
                same=tuple(component for component in alone.same if component not in rest),
            )  # fmt: skip
        subjects = set(first.get(differing[0], ())) ^ set(second.get(differing[0], ()))
        difference = ResumeDifference(
            step=began + step, process=process, components=tuple(differing),
            same=tuple(component for component in _ORDER if component in first and component not in differing),
            subject=", ".join(sorted({subject for subject, _ in subjects if subject})),
        )  # fmt: skip
        if difference.counts:
            return difference
        alone = difference
    if ends[0] == ends[1]:
        return alone
    return ResumeDifference(
        step=began + min(ends), process=process, components=("step counter",), steps=ends[1], left=max(0, ends[0])
    )  # fmt: skip


def _list_differing(first: _Values, second: _Values, *, begins: bool) -> list[Component]:
    """Return the components of two steps that differ.

    The first step of a resumed run lacks the values of a step that was left out before it, as a scaler does at an
    overflow. A batch that a loader reads ahead can be missing on one side.
    """
    differing = []
    for component in _ORDER:
        values, others = first.get(component, ()), second.get(component, ())
        if component == "data order" and not (values and others):
            continue
        if begins and component in ("data order", "other state"):
            length = min(len(values), len(others))
            values, others = values[len(values) - length :], others[len(others) - length :]
        if values != others:
            differing.append(component)
    return differing


def _count_steps(log: ProcessLog, most: int) -> int:
    """Return the number of steps up to the last one of an optimizer: the end of a process writes one more.

    The last one is looked for among the last `most` steps.
    """
    count = len(log)
    for step in range(count - 1, max(-1, count - 1 - most), -1):
        if any(map(_is_of_step, log.stream(step))):
            return step + 1
    return 0


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
