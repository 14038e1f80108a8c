"""The log of a thread's lines: one record for each line of the user's code that ran."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from reprobuild.errors import InconclusiveError
from reprobuild.infra.untrusted.decode import json_decoder
from reprobuild.infra.untrusted.regular_files import open_plain
from reprobuild.infra.untrusted.strings import ShortLine, Text

_LONGEST = 1 << 20  # bytes of a record
_LARGEST = 4 << 30  # bytes of a log
_MOST_RECORDS = 500_001  # of one log, as the recorder writes them
_Short = Annotated[str, Meta(pattern=r"\A[0-9a-f]{16}\Z")]
_Names = Annotated[tuple[ShortLine, ...], Meta(max_length=400)]
_Path = Annotated[str, Meta(max_length=4096)]  # PATH_MAX of Linux
_Number = Annotated[int, Meta(ge=0, le=1 << 53)]


class LineRecord(Struct, frozen=True, kw_only=True, rename={
    "event": "e", "frame": "f", "line": "l", "values": "v", "path": "p", "writes": "w", "result": "r", "text": "t",
    "above": "a", "above_line": "al", "above_reads": "ar", "step": "s",
}):  # fmt: skip
    """One line that ran, or the start of a function.

    Attributes:
        event: `call` has the arguments, `line` the variables of a line after it ran, `return` also the result.
        frame: the number of the call.
        line: in the file.
        values: digests of variables by name; global ones begin with `::`.
        path: of the file.
        writes: variables that the line assigns.
        result: the digest of the result, empty for None.
        text: of the line, in its first record.
        above: the number of the calling frame, 0 without one.
        above_line, above_reads: its line, and the variables that this reads.
        step: the number of the step.
    """

    event: Literal["call", "line", "return"]
    frame: _Number
    line: _Number
    values: Annotated[dict[ShortLine, _Short], Meta(max_length=800)]
    path: _Path
    writes: _Names = ()
    result: _Short | Literal[""] = ""
    text: Text = ""
    above: _Number = 0
    above_line: _Number = 0
    above_reads: _Names = ()
    step: _Number = 0


def read_lines(path: Path) -> Iterator[LineRecord]:
    """Yield the records of a log, up to a record that is not whole: the program was killed there.

    Raises:
        InconclusiveError: the log is damaged.
    """
    decoder = json_decoder(LineRecord)
    try:
        file, size = open_plain(path, links=False)
        with file:
            if size > _LARGEST:
                raise _damaged(path)
            for _ in range(_MOST_RECORDS):
                line = file.readline(_LONGEST)
                if not line.endswith(b"\n"):
                    return  # the end, or the program was killed
                yield decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, OSError, RecursionError) as err:
        raise _damaged(path) from err


def _damaged(path: Path) -> InconclusiveError:
    return InconclusiveError(
        f"the log {path.name} is not valid",
        hint="run the trace again; does the program write into the directory of the logs?",
    )
