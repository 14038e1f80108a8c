"""The comparison of two logs of one thread, line by line.

A variable that differs after a line, although no variable that the line reads differed before, has its difference from
that line: from a clock, another thread, the system. Such a line is an origin. Differences that follow from it carry its
number, from variable to variable.
"""

from __future__ import annotations

from collections.abc import Iterator
from sys import getsizeof

import msgspec
from msgspec import Struct

from reprobuild.trace.line_log import LineRecord

MOST_NAMES = 400_000  # global names, variables and texts in memory, of all logs
MOST_MEMORY = 96 << 20  # bytes of them, and of paths: a name of 200 characters can have 800 bytes
_MOST_ORIGINS = 200
_PARTED = 1000  # the reach of a line after which the runs go different ways
_MOST_REACHED = 1_000_000  # lines that the differences of one log reach
_MOST_FRAMES = 10_000  # calls that have not returned
_MOST_PATHS = 10_000  # files of one log
_MOST_SHOWN = 20  # names of an origin
_LONGEST = 200  # characters of a line's text
_Taint = frozenset[int]
_CLEAN: _Taint = frozenset()


class Origin(Struct, frozen=True, kw_only=True):
    """A line with a new difference.

    Attributes:
        place: FILE:LINE.
        text: of the line.
        names: the variables that differ after it.
        reach: the number of lines that its difference reaches.
        writes: those of them that it assigns.
        number: its place among the origins of its thread.
        in_thread: whether this is not the main thread.
        step: in which it ran first.
        process: that ran it.
        is_shared: whether other threads read or write one of the variables, and this line does not assign it.
        is_superseded: whether its difference reaches no line after the begin of another wide one: a measured time that
            is not used.
    """

    place: str
    text: str
    names: tuple[str, ...]
    reach: int
    writes: tuple[str, ...] = ()
    number: int = 0
    in_thread: bool = False
    step: int = 0
    process: str = ""
    is_shared: bool = False
    is_superseded: bool = False


def _shorten(record: LineRecord, names: tuple[str, ...]) -> LineRecord:
    """Return the record of an origin for the memory; of the variables that it assigns, those in `names` are kept."""
    writes = tuple(name for name in record.writes if name in names)
    return msgspec.structs.replace(record, values={}, writes=writes, text="", above_reads=())


class _Frame:
    """A call of a function: its taint, and that of the calls below it since its last line.

    `entry` is the taint of the line that called it, and `ever` that of all its lines and of the calls below it: the
    list that a comprehension makes is no variable.
    """

    def __init__(self, above: _Frame | None, path: str, entry: _Taint) -> None:
        self.above, self.path, self.entry = above, path, entry
        self.names: dict[str, _Taint] = {}
        self.below: _Taint = _CLEAN
        self.ever: _Taint = _CLEAN
        self.last: LineRecord | None = None  # without its values
        self.last_names: tuple[str, ...] = ()

    def count_kept(self) -> int:
        """Return the number of names of the last line."""
        return len(self.last_names) + (len(self.last.writes) if self.last else 0)

    def measure_kept(self) -> int:
        """Return the bytes of the names of the last line."""
        return sum(map(getsizeof, (*self.last_names, *(self.last.writes if self.last else ()))))


class LineComparison:
    """Compares two logs of one thread; `work` is the number of values that it may look at, and falls to 0.

    `names` and `memory` are the number and the bytes of the names that are kept of other logs.
    """

    def __init__(self, process: str, *, in_thread: bool, work: int, names: int = 0, memory: int = 0) -> None:
        self._other_names, self._memory = names, memory
        self._process, self._in_thread, self.work = process, in_thread, work
        self.globals: set[tuple[str, str]] = set()  # that this thread reads or writes
        self._frames: dict[int, _Frame] = {}
        self._now: _Frame | None = None
        self._partners: dict[int, int] = {}  # the call of the second log for each one of the first
        self._owners: dict[int, int] = {}  # and the other way round
        self._globals: dict[tuple[str, str], _Taint] = {}
        self._texts: dict[tuple[str, int], str] = {}
        self._origins: list[tuple[LineRecord, tuple[str, ...]]] = []
        self._unplaced: dict[
            int, _Frame
        ] = {}  # arguments that differ: the line of the caller is its next record
        self._reach: dict[int, set[tuple[str, int]]] = {}
        self._records = self._reached_count = 0
        self._spans: dict[int, tuple[int, int]] = {}  # the first and the last record that an origin reaches
        self._seen: set[tuple[int, str]] = set()  # variables that differed
        self._named = 0  # variables of all calls so far
        self._kept = 0  # variables of the last lines of all calls
        self._paths: dict[str, str] = {}  # each path once: every record has its own copy

    def run(self, first: Iterator[LineRecord], second: Iterator[LineRecord]) -> list[Origin]:
        """Return the origins in order."""
        for record, other in zip(map(self._share_path, first), map(self._share_path, second), strict=False):
            for line in (record, other):
                if line.text:
                    self._keep_text(line)
            if not self._is_same_place(record, other):
                self._part(record, other)
                break
            self._records += 1
            self.work -= 1
            self._compare(record, other)
            if (
                len(self._origins) > _MOST_ORIGINS
                or len(self._frames) > _MOST_FRAMES
                or len(self._paths) > _MOST_PATHS
                or self._has_too_many_names()
                or self._reached_count > _MOST_REACHED
                or self.work <= 0
            ):
                break
        return [
            Origin(
                place=f"{record.path}:{record.line}", text=self._texts.get((record.path, record.line), ""),
                names=names, reach=len(self._reach.get(number, ())),
                writes=record.writes, number=number, in_thread=self._in_thread, step=record.step, process=self._process,
                is_superseded=self._is_superseded(number),
            )
            for number, (record, names) in enumerate(self._origins)
        ]  # fmt: skip

    def _is_superseded(self, number: int) -> bool:
        """Return whether another wide origin begins after the last line that an origin reaches."""
        widest = max(map(len, self._reach.values()), default=0)
        begins = [begin for other, (begin, _) in self._spans.items() if 2 * len(self._reach[other]) >= widest]
        return number in self._spans and max(begins, default=0) > self._spans[number][1]

    def _has_too_many_names(self) -> bool:
        """Return whether the memory for names is used up; a program that wrote more ends the comparison here."""
        count = len(self.globals) + len(self._seen) + len(self._texts) + self._named + self._kept
        return self._other_names + count > MOST_NAMES or self._memory > MOST_MEMORY

    def _keep_text(self, record: LineRecord) -> None:
        place = record.path, record.line
        if place not in self._texts:
            self._texts[place] = text = record.text[:_LONGEST]
            self._memory += getsizeof(text)

    def _is_same_place(self, record: LineRecord, other: LineRecord) -> bool:
        """Return whether two records are of one line and of one call; the recorder numbers unrecorded calls, too."""
        if (record.event, record.line, record.path) != (other.event, other.line, other.path):
            return False
        partner = self._partners.setdefault(record.frame, other.frame)
        return partner == other.frame and self._owners.setdefault(other.frame, record.frame) == record.frame

    def _share_path(self, record: LineRecord) -> LineRecord:
        if record.path not in self._paths:
            self._memory += getsizeof(record.path)
        known = self._paths.setdefault(record.path, record.path)
        return record if known is record.path else msgspec.structs.replace(record, path=known)

    def _compare(self, record: LineRecord, other: LineRecord) -> None:
        frame = self._enter(record)
        new = {(record.path, name[2:]) for name in record.values if name.startswith("::")} - self.globals
        self._memory += sum(getsizeof(name) for _, name in new)
        self.globals |= new
        different = [name for name, value in record.values.items() if other.values.get(name) != value]
        differs = bool(different) or record.result != other.result
        taint = _CLEAN if record.event == "call" else frame.below
        for name in record.values:
            more = self._taint_of(frame, name)
            taint |= more
            self.work -= 1 + len(more)
        self.work -= len(record.writes)
        if differs and not taint:
            followed = frame.entry or (frame.ever if record.event == "return" else _CLEAN)
            taint = followed or frozenset((self._add_origin(record, frame, different),))
        for name in record.values:
            if name in different:
                self._set_taint(frame, name, taint)
                if (record.frame, name) not in self._seen:
                    self._memory += getsizeof(name)
                    self._seen.add((record.frame, name))
            elif name.removeprefix("::") in record.writes or (record.frame, name) in self._seen:
                self._set_taint(frame, name, _CLEAN)  # a value without content, as an iterator, never differs
        for name in record.writes:
            if name not in record.values and f"::{name}" not in record.values:
                self._set_taint(frame, name, taint)  # a function or a module has no digest
        if differs:
            self._reached(taint, (record.path, record.line))
        self._leave(record, frame, taint if differs else _CLEAN)

    def _reached(self, taint: _Taint, place: tuple[str, int]) -> None:
        for number in taint:
            places = self._reach.setdefault(number, set())
            self._reached_count += place not in places
            places.add(place)
            self._spans[number] = (self._spans.get(number, (self._records, 0))[0], self._records)

    def _enter(self, record: LineRecord) -> _Frame:
        frame = self._frames.get(record.frame)
        if frame is None:
            above = self._frames.get(record.above)
            entry = above.below if above is not None else _CLEAN
            if above is not None:
                for name in record.above_reads:
                    more = above.names.get(name, _CLEAN) | self._globals.get((above.path, name), _CLEAN)
                    entry |= more
                    self.work -= 1 + len(more)
            frame = self._frames[record.frame] = _Frame(above, record.path, entry)
        self._now = frame
        return frame

    def _leave(self, record: LineRecord, frame: _Frame, taint: _Taint) -> None:
        for number, caller in list(self._unplaced.items()):
            if caller is frame and record.event != "call":
                names = self._origins[number][1]
                self._origins[number] = (_shorten(record, names), names)
                del self._unplaced[number]
        self._kept, self._memory = self._kept - frame.count_kept(), self._memory - frame.measure_kept()
        frame.last, frame.last_names = _shorten(record, record.writes), tuple(record.values)
        self._kept, self._memory = self._kept + frame.count_kept(), self._memory + frame.measure_kept()
        frame.ever |= taint
        self.work -= len(frame.ever) + len(taint)
        if frame.above is not None:
            frame.above.below |= taint
            frame.above.ever |= taint
        if record.event == "line":
            frame.below = _CLEAN
        elif record.event == "return":
            self._frames.pop(record.frame, None)
            self._owners.pop(self._partners.pop(record.frame, -1), None)
            self._kept, self._memory = self._kept - frame.count_kept(), self._memory - frame.measure_kept()
            self._now = frame.above or self._now

    def _add_origin(self, record: LineRecord, frame: _Frame, names: list[str]) -> int:
        number = len(self._origins)
        shown = tuple(name.removeprefix("::") for name in names[:_MOST_SHOWN])
        self._origins.append((_shorten(record, shown), shown))
        if record.event == "call" and frame.above is not None:
            self._unplaced[number] = frame.above
        return number

    def _part(self, record: LineRecord, other: LineRecord) -> None:
        """Handle runs that go different ways: the line before decided it, or a line that calls different functions."""
        frame = self._frames.get(record.above if record.event == "call" else record.frame) or self._now
        last = frame.last if frame else None
        if frame is None or last is None:
            return
        names = frame.last_names
        if record.above and (record.above, record.above_line) == (other.above, other.above_line):
            names = ()
            last = LineRecord(
                event="line", frame=record.above, line=record.above_line, values={}, path=frame.path
            )
        elif (record.event, record.line, record.path) == (other.event, other.line, other.path):
            # One line in two calls: a scheduler chose between tasks that wait there.
            names, last = tuple(record.values), record
        taint = frame.below
        for name in (*names, *record.above_reads):
            taint |= self._taint_of(frame, name)
        taint = taint or frame.entry or frozenset((self._add_origin(last, frame, []),))
        for count in range(_PARTED):
            self._reached(taint, ("all that follows", count))

    def _taint_of(self, frame: _Frame, name: str) -> _Taint:
        if name.startswith("::"):
            return self._globals.get((frame.path, name[2:]), _CLEAN)
        return frame.names.get(name, _CLEAN)

    def _set_taint(self, frame: _Frame, name: str, taint: _Taint) -> None:
        self._named += name not in frame.names
        if name.startswith("::"):
            variable = frame.path, name[2:]
            self._memory += 0 if variable in self._globals else getsizeof(name)
            self._globals[variable] = taint
        else:
            self._memory += 0 if name in frame.names else getsizeof(name)
            frame.names[name] = taint
