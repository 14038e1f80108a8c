"""Logs of traced runs, as `reprobuild_runtime/trace/log.py` writes them. They come from a container: untrusted."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from reprobuild.errors import InconclusiveError
from reprobuild.infra.directory_fd import open_new_file
from reprobuild.infra.display import display_path
from reprobuild.infra.untrusted.decode import json_decoder
from reprobuild.infra.untrusted.regular_files import open_plain, read_plain
from reprobuild.trace.record import ComparedFields, Count, TraceRecord

ENTRY = struct.Struct("<16sQ")
_MOST_BYTES = 2 << 30  # of the records of all processes of a run
_MOST_STEPS = 4_000_000  # of all processes of a run, which are held in memory
_LARGEST = (1 << 30) + 1  # bytes of the records of one process
# Of a larger log, the last step may lack records: the recorder leaves out what is too much.
_FULL = (1 << 30) - (8 << 20)
_LARGEST_STEP = 16 << 20  # bytes of the records of one step that are held in memory
_FORMAT = 2  # as the recorder writes it
_LONGEST = 8 << 20  # bytes of a record
_MOST_PROCESSES = 4096
LOG_NAME = re.compile(r"[A-Za-z0-9._+-]{1,250}[.](?:records|steps|lines)")

_Record = TypeVar("_Record")


class _Header(Struct, frozen=True, kw_only=True):
    """The first line of a log."""

    format: Count = 0


class ProcessLog:
    """The log of one process."""

    def __init__(self, folder: Path, name: str, *, foreign: bool = False) -> None:
        """Read the index of the steps.

        Args:
            folder: of the logs.
            name: of the process.
            foreign: whether the log comes from elsewhere: then its files have no other name.

        Raises:
            InconclusiveError: it is damaged, or has another name.
        """
        self.name = name
        self._work: tuple[int, TraceRecord] | UnsetType | None = UNSET
        self._records = folder / f"{name}.records"
        try:
            file, self._size = open_plain(self._records, links=False)
            with file:
                header = json_decoder(_Header).decode(file.readline(_LONGEST) or b"{}")
                self._begin = file.tell()
            content = read_plain(folder / f"{name}.steps", _MOST_STEPS * ENTRY.size, links=False)
            names = max((folder / f"{name}.{suffix}").lstat().st_nlink for suffix in ("records", "steps"))
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
            raise _damaged(name) from err
        if header.format != _FORMAT:
            raise InconclusiveError(
                f"the log of the process {name} was written by another version of the recorder",
                hint="make it again with this reprobuild: `reprobuild build LOCK -o OUT`, and then "
                "`reprobuild trace OUT --save DIR -- CMD`",
            )
        if foreign and names > 1:  # many names of one file cost no bytes, and each log is read on its own
            raise InconclusiveError(
                f"the log of the process {name} is a file that has another name, too",
                hint="name a copy without hard links: `cp -r DIR COPY`",
            )
        self._entries = content[: len(content) - len(content) % ENTRY.size]
        if self._size > _LARGEST or (len(self) and self._end(len(self) - 1) > self._size):
            raise _damaged(name)

    @property
    def size(self) -> int:
        """The bytes of its records."""
        return self._size

    def __len__(self) -> int:
        """Return the number of complete steps."""
        return len(self._entries) // ENTRY.size

    def chain(self, step: int) -> bytes:
        """Return the digest of all records up to the end of a step."""
        digest, _ = ENTRY.unpack_from(self._entries, step * ENTRY.size)
        return bytes(digest)

    def _end(self, step: int) -> int:
        _, end = ENTRY.unpack_from(self._entries, step * ENTRY.size)
        return int(end)

    @property
    def has_operations(self) -> bool:
        """Whether one of the first steps has records of operations."""
        return any(
            record.kind == "operation" for step in range(min(len(self), 2)) for record in self.stream(step)
        )

    def stream(self, step: int) -> Iterator[TraceRecord]:
        """Yield the records of a step, in order; the step after the last one has those before a kill.

        Raises:
            InconclusiveError: the log is damaged.
        """
        begin, end = self._find_span(step)
        return self._decode(begin, end) if begin < end else iter(())

    def records(self, step: int) -> Sequence[TraceRecord]:
        """Return the records of a step, as `stream` yields them.

        Raises:
            InconclusiveError: the log is damaged, or they are too large for the memory.
        """
        begin, end = self._find_span(step)
        if end - begin > _LARGEST_STEP:
            raise InconclusiveError(
                f"step {step} of the process {self.name} has more than {_LARGEST_STEP >> 20} MB of records",
                hint="leave --resume out, or resume a smaller model",
            )
        return tuple(self.stream(step))

    def _find_span(self, step: int) -> tuple[int, int]:
        """Return the begin and the end of a step in the file of records."""
        begin = self._end(step - 1) if step else 0
        end = self._end(step) if step < len(self) else self._size
        if not begin <= end <= self._size:
            raise _damaged(self.name)
        return begin, end

    def iterate(self, steps: int) -> Iterator[TraceRecord]:
        """Yield the records of the first complete steps, one by one.

        Raises:
            InconclusiveError: the log is damaged.
        """
        count = min(len(self), steps)
        return self._decode(0, self._end(count - 1) if count else 0)

    def find_filled(self, step: int) -> int | None:
        """Return the first complete step with records, from one on (at least 1), or None."""
        if step >= len(self):
            return None
        number = bisect_left(range(len(self)), self._end(step - 1) + 1, step, key=self._end)
        return number if number < len(self) else None

    def find_work(self) -> tuple[int, TraceRecord] | None:
        """Return the first record of work in a complete step, with the step, or None.

        The result is kept: a log of another party can have much before its first work.

        Raises:
            InconclusiveError: the log is damaged.
        """
        if self._work is UNSET:
            end = self._end(len(self) - 1) if len(self) else 0
            records = self._read(json_decoder(TraceRecord), 0, end)
            work = next((pair for pair in records if pair[1].is_work), None)
            self._work = work and (bisect_left(range(len(self)), work[0], key=self._end), work[1])
        return self._work

    def verify_whole_steps(self) -> None:
        """Compare the records of the complete steps with their digests: the program can write into its logs.

        A process may end in the middle of a step. The last step of a full log is dropped if it lacks records.

        Raises:
            InconclusiveError: they differ.
        """
        chain, step = bytes(16), self._verify_steps(0, self._begin, bytes(16))
        end = self._end(len(self) - 1) if len(self) else 0
        for position, record in self._read(json_decoder(ComparedFields), 0, end):
            chain = _join(chain, record)
            if self._size > _FULL and position == end and self.chain(len(self) - 1) != chain:
                self._entries = self._entries[: -ENTRY.size]
            step = self._verify_steps(step, position, chain)
        if step < len(self):
            raise _damaged(self.name)

    def verify(self, *, normalise: bool = False) -> None:
        """Compare the records with the digests of the steps: a log from elsewhere may be damaged.

        Args:
            normalise: replace the digests by those of records without empty fields. A missing field is equal to an
                empty one, and their digests are not. Compare such a log with others of this kind alone.

        Raises:
            InconclusiveError: they differ, or the process was ended in the middle of a step.
        """
        chain, position, entries = bytes(16), self._begin, bytearray(self._entries)
        normal = chain
        step = self._verify_steps(0, position, chain)
        for position, record in self._read(json_decoder(ComparedFields), 0, self._size):
            if step == len(self):
                raise self._ended()
            chain = _join(chain, record)
            normal = _join(normal, record, empty=False) if normalise else chain
            first, step = step, self._verify_steps(step, position, chain)
            for number in range(first, step):
                entries[number * ENTRY.size : number * ENTRY.size + len(normal)] = normal
        if step < len(self):
            raise _damaged(self.name)
        if position < self._size:  # a part of a record is behind the last step
            raise self._ended()
        self._entries = bytes(entries)

    def _ended(self) -> InconclusiveError:
        return InconclusiveError(
            f"the process {self.name} was ended in the middle of step {len(self)}",
            hint="run the trace again, and let the command end by itself",
        )

    def _verify_steps(self, step: int, position: int, chain: bytes) -> int:
        """Verify the steps that end at a position, from one on; return the next one."""
        while step < len(self) and self._end(step) <= position:
            if self._end(step) != position or self.chain(step) != chain:
                raise _damaged(self.name)
            step += 1
        return step

    def _decode(self, begin: int, end: int) -> Iterator[TraceRecord]:
        for _, record in self._read(json_decoder(TraceRecord), begin, end):
            if len(record.writers) > len(record.inputs):
                raise _damaged(self.name)
            yield record

    def _read(
        self, decoder: msgspec.json.Decoder[_Record], begin: int, end: int
    ) -> Iterator[tuple[int, _Record]]:
        """Yield the end of each whole record, and the record."""
        try:
            with open_plain(self._records, links=False)[0] as file:
                file.seek(begin or self._begin)
                # Not beyond the end: many steps inside of one line would read the rest of it once for each of them.
                while (left := end - file.tell()) > 0:
                    line = file.readline(min(_LONGEST, left))
                    if not line.endswith(b"\n"):
                        if end < self._size:
                            raise _damaged(self.name)
                        return
                    yield file.tell(), decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, OSError, OverflowError, RecursionError) as err:
            raise _damaged(self.name) from err

    def copy(self, target: int) -> None:
        """Write the files of this log into an open directory, up to the last complete step.

        Raises:
            OSError: a file is a link, is there already, or cannot be written.
        """
        with open_new_file(f"{self.name}.steps", target) as steps:
            steps.write(self._entries)
        with (
            open_plain(self._records, links=False)[0] as file,
            open_new_file(f"{self.name}.records", target) as copy,
        ):
            end = self._end(len(self) - 1) if len(self) else self._begin
            # A hole in a file has no end of a line.
            while copy.tell() < end and (line := file.readline(_LONGEST)).endswith(b"\n"):
                copy.write(line)


def _join(chain: bytes, record: ComparedFields, *, empty: bool = True) -> bytes:
    """Return the digest of all records up to this one, as the recorder computes it, or without empty fields."""
    values = msgspec.structs.asdict(record).items()
    fields = {name: value for name, value in values if value is not UNSET and (value or empty)}
    text = json.dumps(fields, sort_keys=True).encode()
    return hashlib.blake2b(chain + text, digest_size=16).digest()


def _damaged(name: str) -> InconclusiveError:
    return InconclusiveError(
        f"the log of the process {name} is not valid",
        hint="run the trace again; does the program write into the directory of the logs?",
    )


def read_logs(folder: Path, *, foreign: bool = False, most_steps: int = _MOST_STEPS) -> dict[str, ProcessLog]:
    """Return the logs of a run's processes, by name.

    Args:
        folder: of the logs.
        foreign: whether they come from elsewhere: then no file has two names.
        most_steps: of all processes; each takes 24 bytes of memory, even if it has no record.

    Raises:
        InconclusiveError: there are too many, or one is damaged, or a name is not valid.
    """
    paths = list(folder.glob("*.steps"))
    if bad := next((path.name for path in paths if not LOG_NAME.fullmatch(path.name)), None):
        raise InconclusiveError(
            f"{display_path(bad)} is not a valid name of a log",
            hint="remove that file; `--save DIR` of another trace writes the logs",
        )
    names = sorted(path.stem for path in paths)
    if len(names) > _MOST_PROCESSES:
        raise InconclusiveError(
            f"the command started {len(names)} processes with PyTorch or NumPy",
            hint="trace a shorter command",
        )
    logs, steps, size = {}, 0, 0
    for name in names:
        logs[name] = log = ProcessLog(folder, name, foreign=foreign)
        steps, size = steps + len(log), size + log.size
        if size > _MOST_BYTES:
            raise InconclusiveError(
                f"the records of all processes have more than {_MOST_BYTES >> 30} GiB",
                hint="trace a shorter command",
            )
        if steps > most_steps:
            raise InconclusiveError(
                f"the command made more than {most_steps:,} steps in all processes",
                hint="trace a shorter command",
            )
    return logs
