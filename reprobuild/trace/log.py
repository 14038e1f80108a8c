"""Logs of traced runs, as `reprobuild_runtime/trace/log.py` writes them. They come from a container: untrusted."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import InconclusiveError
from reprobuild.infra.untrusted.decode import json_decoder
from reprobuild.infra.untrusted.regular_files import read_plain
from reprobuild.infra.untrusted.strings import Line

ENTRY = struct.Struct("<16sQ")
_MOST_STEPS = 10_000_000
_LARGEST = (1 << 30) + 1  # bytes of the records of one process
_LONGEST = 8 << 20  # bytes of a record
_MOST_PROCESSES = 4096
LOG_NAME = re.compile(r"[A-Za-z0-9._+-]{1,250}[.](?:records|steps|lines)")

TraceDigest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{32}\Z")]
Kind = Literal[
    "batch", "loss", "gradients", "parameters", "state", "generator", "operation", "mark", "output", "stride",
    "component",
]  # fmt: skip
Count = Annotated[int, Meta(ge=-1, le=1 << 53)]


class TraceRecord(Struct, frozen=True, kw_only=True):
    """One record of a run.

    Attributes:
        kind: of the record.
        name: of the operation, or of the subject.
        number: in its step, from 0.
        inputs, outputs: digests.
        writers: for each input, the number of the record that wrote it, or -1.
        place: FILE:LINE of the program.
        module: the module of PyTorch that ran.
        backward: the node of the backward pass, or empty.
        arguments: numbers and words of a call.
        generator: whether the last input is the state of a generator.
        replayed: how often the repetitions of the operation had each result, in falling order.
        seconds: a measured value, which runs do not share.
    """

    kind: Kind
    name: Line
    number: Count
    inputs: tuple[TraceDigest, ...] = ()
    outputs: tuple[TraceDigest, ...] = ()
    writers: tuple[Count, ...] = ()
    place: Line = ""
    module: Line = ""
    backward: Line = ""
    arguments: Line = ""
    generator: bool = False
    replayed: tuple[Count, ...] = ()
    seconds: float = 0.0

    @property
    def call(self) -> tuple[str, str, str, int, int]:
        """What two runs must share before their digests are compared."""
        return self.kind, self.name, self.arguments, len(self.inputs), len(self.outputs)


class ProcessLog:
    """The log of one process."""

    def __init__(self, folder: Path, name: str) -> None:
        """Read the index of the steps.

        Raises:
            InconclusiveError: it is damaged.
        """
        self.name = name
        self._records = folder / f"{name}.records"
        content = read_plain(folder / f"{name}.steps", _MOST_STEPS * ENTRY.size)
        self._entries = content[: len(content) - len(content) % ENTRY.size]

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
            record.kind == "operation" for step in range(min(len(self), 2)) for record in self.records(step)
        )

    def records(self, step: int) -> Sequence[TraceRecord]:
        """Return the records of a step, in order; the step after the last one has those before a kill.

        Raises:
            InconclusiveError: the log is damaged.
        """
        begin = self._end(step - 1) if step else None
        end = self._end(step) if step < len(self) else None
        return tuple(self._decode(begin, end))

    def _decode(self, begin: int | None, end: int | None) -> Iterator[TraceRecord]:
        decoder = json_decoder(TraceRecord)
        try:
            with self._records.open("rb") as file:
                if begin is None:
                    file.readline(_LONGEST)
                else:
                    file.seek(begin)
                while end is None or file.tell() < end:
                    line = file.readline(_LONGEST)
                    if not line.endswith(b"\n"):
                        return
                    yield decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, OSError, OverflowError) as err:
            raise _damaged(self.name) from err


def _damaged(name: str) -> InconclusiveError:
    return InconclusiveError(
        f"the log of the process {name} is not valid",
        hint="run the trace again; does the program write into the directory of the logs?",
    )


def read_logs(folder: Path) -> dict[str, ProcessLog]:
    """Return the logs of a run's processes, by name.

    Raises:
        InconclusiveError: there are too many, or one is damaged.
    """
    names = sorted(path.stem for path in folder.glob("*.steps"))
    if len(names) > _MOST_PROCESSES:
        raise InconclusiveError(
            f"the command started {len(names)} processes with PyTorch or NumPy",
            hint="trace a shorter command",
        )
    for name in names:
        path = folder / f"{name}.records"
        if not path.is_file() or path.is_symlink() or path.stat().st_size > _LARGEST:
            raise _damaged("?")
    return {name: ProcessLog(folder, name) for name in names}
