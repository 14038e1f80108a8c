"""Metadata of an offline run of W&B, from the records of its `.wandb` file.

wandb 0.18 wrote `wandb-metadata.json` at once; 0.31 writes it when the run is synchronised. The file is a log of
LevelDB (https://github.com/google/leveldb/blob/main/doc/log_format.md) after a header of seven bytes. Its records are
messages of protobuf (https://protobuf.dev/programming-guides/encoding/), with the numbers of wandb's
`wandb_internal.proto`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

HEAD = 1 << 20  # bytes that are read: the record of the environment is one of the first
_MAGIC = b":W&B"
_HEADER, _BLOCK, _FRAGMENT = 7, 1 << 15, 7  # bytes of the file's header, of a block, of a fragment's header
_FULL, _FIRST, _LAST = 1, 2, 4
_ENVIRONMENT = 26  # field of Record
_OS, _PYTHON, _STARTED, _GIT = 1, 2, 3, 9  # fields of EnvironmentRecord
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def read_environment(head: bytes) -> dict[str, Any]:
    """Return the metadata that the head of a `.wandb` file has, by the names of `wandb-metadata.json`.

    It is empty if the head is damaged, or has no such record.
    """
    for record in _records(head):
        fields = _fields(record)
        if isinstance(environment := fields.get(_ENVIRONMENT), bytes):
            inner = _fields(environment)
            started, git = _message(inner, _STARTED), _message(inner, _GIT)
            seconds = started.get(1)
            return {
                "os": _string(inner, _OS),
                "python": _string(inner, _PYTHON),
                "startedAt": seconds if isinstance(seconds, int) else "",
                "git": {"remote": _string(git, 1), "commit": _string(git, 2)},
            }
    return {}


def _records(head: bytes) -> Iterator[bytes]:
    """Yield the records of the log, as far as the head has them."""
    if not head.startswith(_MAGIC):
        return
    fragments: list[bytes] = []
    position = _HEADER
    while position + _FRAGMENT <= len(head):
        rest = _BLOCK - position % _BLOCK
        if rest < _FRAGMENT:
            position += rest
            continue
        length, kind = int.from_bytes(head[position + 4 : position + 6], "little"), head[position + 6]
        if kind in (_FULL, _FIRST):
            fragments = []
        fragments.append(head[position + _FRAGMENT : position + _FRAGMENT + length])
        position += _FRAGMENT + length
        if kind in (_FULL, _LAST):
            yield b"".join(fragments)
            fragments = []


def _fields(message: bytes) -> dict[int, int | bytes]:
    """Return the fields of a message by their numbers; the last one counts, and a damaged rest is left out."""
    fields: dict[int, int | bytes] = {}
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            fields[number], position = _varint(message, position)
        elif kind == _BYTES:
            length, position = _varint(message, position)
            fields[number] = message[position : position + length]
            position += length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            break
    return fields


def _varint(message: bytes, position: int) -> tuple[int, int]:
    """Return a number of at most ten bytes, and the position after it."""
    value = 0
    for shift, byte in enumerate(message[position : position + 10]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, position + shift + 1
    return value, position + 10


def _message(fields: dict[int, int | bytes], number: int) -> dict[int, int | bytes]:
    value = fields.get(number)
    return _fields(value) if isinstance(value, bytes) else {}


def _string(fields: dict[int, int | bytes], number: int) -> str:
    value = fields.get(number)
    return value.decode(errors="replace") if isinstance(value, bytes) else ""
