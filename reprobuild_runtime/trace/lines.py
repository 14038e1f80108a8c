"""Records of the lines of the user's own code: the variables that each reads and writes.

A line is recorded after it ran. Functions of libraries are not entered.
"""

import atexit
import dis
import json
import linecache
import os
import sys
import threading
import time

from reprobuild_runtime.trace import generators
from reprobuild_runtime.trace.places import is_library
from reprobuild_runtime.trace.statements import find_spans
from reprobuild_runtime.trace.values import digest_variable, is_variable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any, Callable, Dict, List, Optional, Set, TextIO, Tuple
_MOST_OF_LINE = 2000  # records of one line
_MOST = 500_000  # records of one thread
_NAMES = 40  # of one line
_LONGEST = 200  # characters of a line's text, or of a name
_CHECKED = 1024  # events of a thread after which the time is looked at


class LineRecorder:
    """Records the lines of one process, in one log for each thread."""

    def __init__(
        self, folder: str, name: "Callable[[], str]", step: "Callable[[], int]", seconds: int = 0
    ) -> None:
        """Prepare the record.

        Args:
            folder: of the logs.
            name: returns the name of this process.
            step: returns the number of the current step.
            seconds: after which the record is given up, and its logs are emptied; 0 for no limit.
        """
        self._folder, self._name, self._step = folder, name, step
        self._end = time.monotonic() + seconds if seconds else float("inf")
        # By their addresses: the hash of a code object is made anew each time, from all that it holds.
        self._codes: "Dict[int, _Code]" = {}
        self._threads = threading.local()
        self._forget_threads()

    def flush(self) -> None:
        """Write the buffers, which a forked child would write once more."""
        for thread in self._open:
            thread.flush()

    def _forget_threads(self) -> None:
        self._numbers: "Dict[str, int]" = {}
        self._open: "List[_Thread]" = []
        self._threads = threading.local()

    def _check_time(self) -> None:
        """Give the record up after its time: half a record would name a wrong line."""
        if time.monotonic() > self._end:
            for thread in self._open:
                thread.discard()

    def start(self) -> None:
        """Record the lines of all threads from now on."""
        atexit.register(self.flush)
        os.register_at_fork(before=self.flush, after_in_child=self._forget_threads)
        threading.settrace(self._call)
        sys.settrace(self._call)

    def _call(self, frame: "FrameType", event: str, argument: object) -> "Any":
        known = self._codes.get(id(frame.f_code))
        if known is None:
            known = self._codes[id(frame.f_code)] = _Code(frame.f_code)
        if not known.names:
            return None
        thread = self._thread()
        if thread is None:
            sys.settrace(None)  # of this thread
            return None
        return thread.enter(frame, known)

    def _thread(self) -> "Optional[_Thread]":
        thread: "Optional[_Thread]" = getattr(self._threads, "thread", None)
        if thread is None:
            self._threads.thread = thread = self._open_thread()
            self._open.append(thread)
        return None if thread.full else thread

    def _open_thread(self) -> "_Thread":
        current = threading.current_thread()
        label = "lines" if current is threading.main_thread() else f"lines-{_plain(current.name)}"
        number = self._numbers[label] = self._numbers.get(label, 0) + 1
        name = f"{self._name()}.{label}" + (f".{number}" if number > 1 else "")
        os.makedirs(self._folder, exist_ok=True)
        for again in range(1, 1000):
            path = os.path.join(self._folder, name + (f"+{again}" if again > 1 else "") + ".lines")
            try:
                file = open(path, "x", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115  open until exit: a thread writes to it
                return _Thread(file, self._step, self._check_time)
            except FileExistsError:
                continue
        raise OSError("too many threads of one name")


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)[:60]


class _Code:
    """A function of the program, with the names that each line reads and writes; a library's function has no names."""

    __slots__ = ("code", "names")

    def __init__(self, code: "CodeType") -> None:
        self.code = code  # its address is not given to another one
        self.names: "Dict[int, Any]" = {} if is_library(code.co_filename) else _read_names(code)


class _Thread:
    """The log of one thread."""

    def __init__(self, file: "TextIO", step: "Callable[[], int]", check_time: "Callable[[], None]") -> None:
        self._file, self._step, self._check_time = file, step, check_time
        self._events = 0
        self._states: "Dict[str, object]" = {}  # of generators, after the last line
        self._frames = 0
        self._counts: "Dict[Tuple[int, int, str], int]" = {}  # of records, by the address of the code
        self._enough: "Dict[int, Set[int]]" = {}  # lines of a code of which enough is recorded
        self._written = 0
        self._said: "Set[Tuple[str, int]]" = set()
        self.full = False

    def flush(self) -> None:
        """Write the buffer."""
        self._file.flush()

    def discard(self) -> None:
        """End the record, and empty the log."""
        if not self.full:
            self.full = True
            self._file.seek(0)
            self._file.truncate()

    def count_event(self) -> None:
        """Look at the time now and then."""
        self._events += 1
        if not self._events % _CHECKED:
            self._check_time()

    def enter(self, frame: "FrameType", known: _Code) -> "Any":
        """Return the trace function of a call of the user's code; a generator that goes on has one already."""
        if isinstance(frame.f_trace, _Call):
            return frame.f_trace
        self._frames += 1
        code = frame.f_code
        call = _Call(self, self._frames, known.names, self._enough.setdefault(id(code), set()))
        arguments = list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        above: "Optional[FrameType]" = frame.f_back
        while above is not None and not isinstance(above.f_trace, _Call):
            above = above.f_back
        more: "Dict[str, Any]" = {}
        if above is not None:
            caller: "Any" = above.f_trace
            call.is_outermost = False
            more = {"a": caller.number, "al": above.f_lineno, "ar": caller.list_reads(above.f_lineno)}
        self.write(frame, "call", self._frames, frame.f_lineno, (arguments, ()), **more)
        return call

    def write(
        self, frame: "FrameType", kind: str, number: int, line: int, names: "Any", **more: "Any"
    ) -> None:
        """Write one record, unless there are enough of its line."""
        code, (reads, writes) = frame.f_code, names
        count = self._counts[id(code), line, kind] = self._counts.get((id(code), line, kind), 0) + 1
        if count > _MOST_OF_LINE:
            if kind == "line":
                self._enough[id(code)].add(line)
            return
        values = {}
        for name in dict.fromkeys((*reads, *writes)):
            value = frame.f_locals.get(name, frame.f_globals.get(name, _MISSING))
            if value is not _MISSING and is_variable(value):
                scope = "" if name in frame.f_locals and frame.f_locals is not frame.f_globals else "::"
                values[scope + name] = digest_variable(value)
        values.update(self._list_changed_generators())
        record = {"e": kind, "f": number, "l": line, "v": values, "p": code.co_filename, **more}
        step = self._step()
        if step:
            record["s"] = step
        if writes:
            record["w"] = list(writes)
        if (code.co_filename, line) not in self._said:
            self._said.add((code.co_filename, line))
            record["t"] = linecache.getline(code.co_filename, line).strip()[:_LONGEST]
        self._file.write(json.dumps(record) + "\n")
        self._written += 1
        if self._written >= _MOST:
            self.full = True
            self._file.flush()

    def _list_changed_generators(self) -> "Dict[str, str]":
        """Return the digests of the generators that drew or were seeded since the last line."""
        changed = {}
        for name, state in generators.list_states():
            value = state if isinstance(state, str) else digest_variable(state)
            if self._states.get(name) != value:
                if name in self._states:
                    changed[f"::generator {name}"] = digest_variable(value)
                self._states[name] = value
        return changed


class _Call:
    """The trace function of one call."""

    def __init__(self, thread: _Thread, number: int, names: "Dict[int, Any]", enough: "Set[int]") -> None:
        self._thread, self.number, self._names, self._enough = thread, number, names, enough
        self._last = 0
        self.is_outermost = True

    def list_reads(self, line: int) -> "List[str]":
        """Return the variables that a line reads."""
        return list(self._names.get(line, _NOTHING)[0])

    def __call__(self, frame: "FrameType", event: str, argument: object) -> "Any":
        if self._thread.full:
            sys.settrace(None)  # of this thread
            return None
        if event == "line":
            self._thread.count_event()
            if self._last and self._last not in self._enough:
                names = self._names.get(self._last, _NOTHING)
                self._thread.write(frame, "line", self.number, self._last, names)
            self._last = frame.f_lineno
        elif event == "return" and not frame.f_code.co_flags & _GENERATOR:
            more = {} if argument is None else {"r": digest_variable(argument)}
            names = self._names.get(self._last, _NOTHING)
            self._thread.write(frame, "return", self.number, self._last, names, **more)
            if self.is_outermost:
                self._thread.flush()  # multiprocessing ends a child without closing its files
        return self


_NOTHING: "Any" = ((), ())
_GENERATOR = (
    0x20 | 0x80 | 0x200
)  # inspect.CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR: they return many times
_MISSING = object()


def _read_names(code: "CodeType") -> "Dict[int, Any]":
    """Return {line: (names that it reads, names that it writes)} of a function.

    A line of a longer statement reads what the whole statement reads.
    """
    names: "Dict[int, Tuple[List[str], List[str]]]" = {}
    line = code.co_firstlineno
    for instruction in dis.get_instructions(code):
        line = _line_of(instruction, line)
        reads, writes = names.setdefault(line, ([], []))
        operation = instruction.opname
        if operation.startswith(("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF", "STORE_FAST", "STORE_NAME",
                                 "STORE_GLOBAL", "STORE_DEREF")):  # fmt: skip
            values = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            into = writes if operation.startswith("STORE") else reads
            into += [
                name for name in values if isinstance(name, str) and len(name) < _LONGEST and name not in into
            ]
    spans = find_spans(code.co_filename)
    return {
        line: (_list_reads(line, names, spans)[:_NAMES], tuple(writes[:_NAMES]))
        for line, (_, writes) in names.items()
    }


def _list_reads(line: int, names: "Any", spans: "Dict[int, Tuple[int, int]]") -> "Tuple[str, ...]":
    first, last = spans.get(line, (line, line))
    lines = (line, *(other for other in range(first, last + 1) if other != line and other in names))
    return tuple(dict.fromkeys(name for other in lines for name in names[other][0]))


def _line_of(instruction: "Any", line: int) -> int:
    number = (
        getattr(instruction, "line_number", None) or instruction.starts_line
    )  # 3.13: `starts_line` is a bool
    return number if number and number is not True else line
