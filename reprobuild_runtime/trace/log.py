"""The log of a traced process: lines of records, and an index of its steps.

`NAME.records` has one line of JSON for each record. `NAME.steps` has one entry of fixed size for each step: the digest
of all that two runs must share so far, and the end of the step in the other file. Equal digests mean equal steps up to
there, so that two logs are compared by bisection.
"""

import hashlib
import json
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Sequence

    from reprobuild_runtime.trace.digests import PendingDigest, TensorDigests

ENTRY = struct.Struct("<16sQ")  # the digest, and the end of the step in bytes
FORMAT = 2  # of the files
LARGEST = 1 << 30  # bytes of one log: a program in an endless loop does not fill the disk
_COMPARED = ("kind", "name", "arguments", "inputs", "outputs")  # as the host compares records


class TraceLog:
    """The files of one process, in order of execution."""

    def __init__(self, folder: str, name: str, header: "Dict[str, Any]") -> None:
        """Create both files; a file of the same name is an error (FileExistsError)."""
        self._records = open(os.path.join(folder, name + ".records"), "xb")  # noqa: SIM115  open until exit
        self._steps = open(os.path.join(folder, name + ".steps"), "xb")  # noqa: SIM115  open until exit, too
        self._chain = b"\0" * 16
        self._waiting: "List[Dict[str, Any]]" = []
        self._size = 0
        self.full = False
        self._write(json.dumps({"format": FORMAT, **header}, sort_keys=True))

    def add(self, record: "Dict[str, Any]") -> None:
        """Add a record; its digests may be pending."""
        self._waiting.append(record)

    def __len__(self) -> int:
        return len(self._waiting)

    def end_step(self, digests: "TensorDigests") -> None:
        """Finish the digests of a step's records, and write them."""
        self.write_waiting(digests)
        self._steps.write(ENTRY.pack(self._chain, self._size))
        self._steps.flush()

    def write_waiting(self, digests: "TensorDigests") -> None:
        """Write the records so far, in the middle of a step."""
        records, self._waiting = self._waiting, []
        values = iter(digests.finish(_list_pending(records)))
        for record in records:
            for key in ("inputs", "outputs"):
                if key in record:
                    record[key] = [value if isinstance(value, str) else next(values) for value in record[key]]
            compared = {key: record[key] for key in _COMPARED if key in record}
            text = json.dumps(compared, sort_keys=True).encode()
            self._chain = hashlib.blake2b(self._chain + text, digest_size=16).digest()
            self._write(json.dumps(record, sort_keys=True))
        self._records.flush()

    def _write(self, line: str) -> None:
        if self._size + len(line) > LARGEST:
            self.full = True
            return
        data = line.encode() + b"\n"
        self._records.write(data)
        self._size += len(data)

    def close(self) -> None:
        """Close the files."""
        self._records.close()
        self._steps.close()


def _list_pending(records: "Sequence[Dict[str, Any]]") -> "List[PendingDigest]":
    return [
        value
        for record in records
        for key in ("inputs", "outputs")
        for value in record.get(key, ())
        if not isinstance(value, str)
    ]
