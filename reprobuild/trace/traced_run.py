"""A run of a traced command: its settings, its logs and its output files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from reprobuild.trace.log import ProcessLog
from reprobuild.verify.workload.container import WorkloadRun


class TraceSettings(Struct, frozen=True, kw_only=True):
    """What one run records.

    Attributes:
        first, last: the steps whose operations are recorded; none if `last` is less.
        stride: the distance of the steps whose batches and parameters are recorded, 0 to choose it.
        strides: {process: the distance that it chose in another run}; without a name, for other processes.
        replay: (process, step, number of the operation, times), or None.
        fill: fill memory with zeros when it is allocated, in the recorded steps.
        lines: record the lines of the user's code.
        line_seconds: after which a process gives up the record of its lines; 0 for no limit.
        profile: in force, or empty for that of the command.
        components: record the components of a training before each step.
        stop: end the process after so many steps, by a signal if components are recorded; 0 for all.
    """

    first: int = 0
    last: int = -1
    stride: int = 0
    strides: Mapping[str, int] = {}
    replay: tuple[str, int, int, int] | None = None
    fill: bool = False
    lines: bool = False
    line_seconds: int = 0
    profile: str = ""
    components: bool = False
    stop: int = 0


class TracedRun(Struct, frozen=True, kw_only=True):
    """A run that ended.

    Attributes:
        folder: of its logs.
        logs: of its processes, by name.
        outputs: the run with its output files, None for a run of another trace.
    """

    folder: Path
    logs: Mapping[str, ProcessLog]
    outputs: WorkloadRun | None = None


class ComparedFiles(Struct, frozen=True):
    """The comparison of the output files of two runs.

    Attributes:
        differing: a line for each file that differs.
        unanswered: a line for each file that could not be compared: the command does not write it.
    """

    differing: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


class ResumedRun(Struct, frozen=True, kw_only=True):
    """A run that was stopped, and the run that went on.

    Attributes:
        stopped: the logs of the stopped run.
        resumed: the run that went on, with the output files of both.
        code: its exit code.
        tail: the last lines of its errors.
    """

    stopped: Mapping[str, ProcessLog]
    resumed: TracedRun
    code: int
    tail: str
