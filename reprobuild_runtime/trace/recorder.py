"""The recorder of this process: its log, and its current step.

A step ends with each step of an optimizer, with each call of `mark_step`, or with each printed line that matches the
user's pattern. Without an optimizer, each backward pass ends a step, and so does each call of a jitted function of JAX.
"""

# ruff: noqa: TID251  the environment is what it reads

import json
import os
import re
import sys
import threading
import time

from reprobuild_runtime import settings, trace
from reprobuild_runtime.seeding import process_id
from reprobuild_runtime.trace import generators, jax_arrays
from reprobuild_runtime.trace.digests import PendingDigest, TensorDigests, digest_bytes, list_leaves
from reprobuild_runtime.trace.log import TraceLog

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, List, Mapping, Optional, Sequence

_MOST_PROCESSES = 1000  # of one name
_MOST_WAITING = 4000  # records in memory
_recorders: "List[Recorder]" = []


class RecorderOptions:
    """The options of a traced run, from the variable REPROBUILD_TRACE.

    Attributes:
        folder: of the logs.
        first, last: the steps whose operations are recorded; none if `last` is less than `first`.
        replay: (process, step, number of the operation, times) of an operation to repeat, or None.
        fill: whether allocated memory is filled with zeros, in the steps whose operations are recorded.
        lines: whether the lines of the user's code are recorded.
        line_seconds: after which the record of lines is given up; 0 for no limit.
        stride: the distance of the steps whose batches and parameters are recorded; 0 to choose it by its time.
        strides: {process: the distance that it chose in another run}; without a name, for other processes.
        pattern: of printed lines that end a step.
        components: whether the components of a training are recorded before each step of an optimizer.
        stop: the number of steps after which the process is ended, 0 for all; by a signal if components are recorded.
    """

    def __init__(self, values: "Mapping[str, Any]") -> None:
        self.folder = str(values["folder"])
        self.first, self.last = int(values.get("first", 0)), int(values.get("last", -1))
        self.replay: "Optional[Sequence[Any]]" = values.get("replay")
        self.stride = int(values.get("stride", 0))
        self.strides: "Mapping[str, int]" = values.get("strides", {})
        self.fill, self.lines = bool(values.get("fill")), bool(values.get("lines"))
        self.line_seconds = int(values.get("line_seconds", 0))
        self.components, self.stop = bool(values.get("components")), int(values.get("stop", 0))
        self.pattern = re.compile(values["pattern"]) if values.get("pattern") else None


class Recorder:
    """Records one process, step by step."""

    def __init__(self, options: RecorderOptions) -> None:
        self.options = options
        self.process = os.getpid()
        self._name = ""
        self._log: "Optional[TraceLog]" = None
        self.step, self.number = 0, 0
        self.has_optimizer = False
        self._here = threading.local()
        self.digests: "Optional[TensorDigests]" = None
        self._ended = False
        self._operations: "Any" = None
        self.flushes: "List[Callable[[], None]]" = []  # of other logs of this process

    @property
    def busy(self) -> bool:
        """Whether this thread computes digests, whose operations are not the program's."""
        return bool(getattr(self._here, "busy", False))

    @busy.setter
    def busy(self, busy: bool) -> None:
        self._here.busy = busy

    @property
    def log(self) -> TraceLog:
        """The log. The first record opens it, because a worker does not know its number at its start."""
        if self._log is None:
            self._log = self._open_log()
        return self._log

    @property
    def name(self) -> str:
        """The name of this process, which no other log has: to read it opens the log."""
        if self._log is None:
            self._log = self._open_log()
        return self._name

    def _open_log(self) -> TraceLog:
        os.makedirs(self.options.folder, exist_ok=True)
        base = name_log()
        header = {"process": base, "command": [os.path.basename(word) for word in sys.argv[:1]]}
        for number in range(1, _MOST_PROCESSES):
            name = base if number == 1 else f"{base}.{number}"
            try:
                log = TraceLog(self.options.folder, name, dict(header, process=name))
            except FileExistsError:
                continue
            self._name = name
            return log
        raise OSError(f"more than {_MOST_PROCESSES} processes are named {base}")

    @property
    def active(self) -> bool:
        """Whether this process is the one that the log belongs to, and has not ended."""
        full = self._log is not None and self._log.full
        return not self._ended and self.process == os.getpid() and not full

    @property
    def detailed(self) -> bool:
        """Whether the operations of the current step are recorded."""
        return self.options.first <= self.step <= self.options.last

    def find_stride(self) -> int:
        """Return the stride that this process chose in another run, or 0."""
        strides = self.options.strides
        return int(strides.get(self.name, strides.get("", 0)))

    def watch_torch(self, torch: "Any") -> None:
        """Record the steps of PyTorch from now on."""
        from reprobuild_runtime.trace import steps

        self.digests = TensorDigests(torch)
        steps.hook_into(torch, self)
        if self.options.first <= self.options.last:
            from reprobuild_runtime.trace.operations import OperationRecorder

            self._operations = OperationRecorder(torch, self)
            self._switch_operations()

    def add(self, kind: str, name: str, *, detail: bool = False, **more: "Any") -> None:
        """Add a record of the current step.

        Args:
            kind: as the host knows it: batch, loss, gradients, parameters, state, generator, operation, mark, output,
                component, call.
            name: of the subject.
            detail: whether a run without operations has no such record.
            more: `inputs` and `outputs` are digests or pending ones, `place` is the line of the program.
        """
        if detail:
            more["detail"] = True
        self.log.add({"kind": kind, "name": name, "number": self.number, **more})
        self.number += 1
        if len(self.log) >= _MOST_WAITING and self.digests is not None:
            self.log.write_waiting(self.digests)

    def digest_value(self, value: object) -> "List[Any]":
        """Return the digests of the parts of a value: of its tensors and arrays, and one of the rest."""
        torch: "Any" = sys.modules.get("torch")
        digests: "List[Any]" = []
        plain = []
        for path, leaf in list_leaves(torch if self.digests else _NoTensors, value):
            if self.digests is not None and isinstance(leaf, torch.Tensor):
                digests.append(self.digests.start(leaf))
            elif jax_arrays.is_array(leaf):
                digests.append(digest_bytes(*jax_arrays.read_array(leaf)))
            elif hasattr(leaf, "tobytes"):
                digests.append(digest_bytes(leaf.tobytes(), f"{leaf.dtype} {leaf.shape}"))
            else:
                plain.append((path, leaf if isinstance(leaf, bytes) else repr(leaf)))
        if plain:
            digests.append(digest_bytes(repr(plain).encode(errors="backslashreplace"), "values"))
        return digests

    def guard(self, action: "Callable[..., None]", *args: "Any") -> None:
        """Record something; a failure is reported once, and ends the record but not the program."""
        if not self.active:
            return
        before, self.busy = self.busy, True
        try:
            action(*args)
        except Exception as err:
            settings.print_line(f"reprobuild: the trace ends here: {type(err).__name__}: {err}")
            self.log.full = True
        finally:
            self.busy = before

    def end_step(self) -> None:
        """Record the generators, and begin the next step."""
        before, self.busy = self.busy, True
        try:
            self._end_step()
        finally:
            self.busy = before

    def _end_step(self) -> None:
        for name, state in generators.list_states():
            self.add("generator", name, outputs=[self.digest_state(state)])
        self.log.end_step(self.digests or _NO_DIGESTS)
        self.step, self.number = self.step + 1, 0
        self._switch_operations()
        if self.step == self.options.stop and not self.options.components:
            self._leave()

    def _leave(self) -> None:
        """End this process: the other run ends here, too."""
        self._ended = True
        self.log.close()
        for flush in (*self.flushes, sys.stdout.flush, sys.stderr.flush):
            flush()
        os._exit(0)

    def digest_state(self, state: object) -> "Any":
        """Return the digest of a generator's state, which may be a digest already."""
        return state if isinstance(state, str) else self.digest_value(state)[0]

    def _switch_operations(self) -> None:
        if self._operations is not None:
            self._operations.switch(self.detailed)

    def end(self) -> None:
        """Write the last step, and close the log."""
        if not self.active:
            return
        if self._operations is not None:
            self._operations.switch(False)
        self.options.last, self.options.stop = -1, 0
        self.end_step()
        self._ended = True
        self.log.close()


class _NoTensors:
    """A library without tensors, before PyTorch is imported."""

    Tensor = ()


class _NoDigests:
    def finish(self, pending: "Sequence[PendingDigest]") -> "List[str]":
        return [digest.finish(()) for digest in pending]


_NO_DIGESTS: "Any" = _NoDigests()


def begin() -> None:
    """Begin the record of this process."""
    if is_worker():
        return  # its results reach the process that reads them
    recorder = Recorder(RecorderOptions(json.loads(os.environ[trace.VARIABLE])))
    _recorders.append(recorder)
    import atexit

    atexit.register(recorder.end)
    if recorder.options.pattern:
        _watch_output(recorder)
    if recorder.options.lines:
        from reprobuild_runtime.trace.lines import LineRecorder

        limit = recorder.options.line_seconds
        lines = LineRecorder(recorder.options.folder, name_log, lambda: recorder.step, limit)
        lines.start()
        recorder.flushes.append(lines.flush)


def watch(name: str, module: "Any") -> None:
    """Record the steps of a library that this process has just imported."""
    recorder = current()
    if recorder is None:
        return
    if name == "torch" and recorder.digests is None:
        recorder.watch_torch(module)
    elif name == "jax":
        from reprobuild_runtime.trace import jitted

        jitted.hook_into(module, recorder)


def name_log() -> str:
    """Return the name of this process for its files."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", process_id.name_process())[:100] or "main"


def current() -> "Optional[Recorder]":
    """Return the recorder of this process, or None."""
    return _recorders[-1] if _recorders and _recorders[-1].active else None


def is_worker() -> bool:
    """Return whether multiprocessing started this process as a helper of another one."""
    process: "Any" = sys.modules.get("multiprocessing.process")
    return process is not None and process.current_process().daemon


def mark_step(**values: object) -> None:
    """End a step of the program, with values that two runs must share.

    Without a trace it has no effect.
    """
    recorder = current()
    if recorder is not None:
        from reprobuild_runtime.trace.places import find_place

        for name, value in values.items():
            recorder.add("mark", name, outputs=recorder.digest_value(value), place=find_place(2))
        recorder.end_step()


def _watch_output(recorder: Recorder) -> None:
    """End a step with each line on standard output that matches the pattern."""
    pattern, stream = recorder.options.pattern, sys.stdout
    assert pattern is not None
    write, line = stream.write, [""]

    def watched(text: str) -> int:
        done = write(text)
        try:
            *lines, line[0] = (line[0] + text).split("\n")
            for printed in lines:
                if recorder.active and pattern.search(printed):
                    recorder.add("output", "line", outputs=[digest_bytes(printed.encode(errors="replace"))])
                    recorder.end_step()
        except Exception as err:
            settings.print_line(f"reprobuild: a line is not traced: {type(err).__name__}: {err}")
        return done

    vars(stream)["write"] = watched  # an attribute of this stream alone hides the method of its class


def now() -> float:
    """Return a time in seconds."""
    return time.perf_counter()
