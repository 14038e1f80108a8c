"""Event files of TensorBoard.

They are records in TensorFlow's framing, each an `Event` of protocol buffers.

An event is read into a dictionary with its time, its step and its values by tag; fields without a name here are
compared as bytes. The checksums of lengths are checked, those of contents are not: contents are compared.
"""

import os
import struct
from itertools import zip_longest

from reprobuild_runtime.artefacts.findings import Collector, UnreadableError
from reprobuild_runtime.artefacts.nested import Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Tuple

LONGEST = 256 << 20  # bytes of one event
_MOST = 100_000  # parts of one event
_TIME, _STEP, _VERSION, _SUMMARY = 1, 2, 3, 5  # fields of an event
_VALUE = 1  # the field of a summary
_TAG, _SIMPLE = 1, 2  # fields of a value
_FIXED64, _BYTES, _FIXED32 = 1, 2, 5  # wire types; 0 is a number


def _checksums() -> "List[int]":
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


_TABLE = _checksums()


def masked_checksum(data: bytes) -> int:
    """Return the CRC-32C of bytes, masked as in the framing."""
    value = 0xFFFFFFFF
    for byte in data:
        value = _TABLE[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF


def is_event_file(name: str, head: bytes) -> bool:
    """Return whether a file has the name and start of an event file."""
    if ".tfevents." not in os.path.basename(name) or len(head) < 12:
        return False
    return struct.pack("<I", masked_checksum(head[:8])) == head[8:12]


def compare_events(first_path: str, second_path: str, collector: "Collector") -> None:
    """Compare two event files, event by event."""
    for number, (first, second) in enumerate(zip_longest(_events(first_path), _events(second_path)), 1):
        event = first if first is not None else second
        where = "event %d (step %s)" % (number, event.get("step", 0) if event else 0)
        if first is None or second is None:
            collector.differ("%s: only in the %s run" % (where, "second" if first is None else "first"))
        else:
            Walk(collector).compare(where, None, first, second)


def _events(path: str) -> "Iterator[Dict[str, Any]]":
    with open(path, "rb") as file:
        while True:
            head = file.read(12)
            if not head:
                return
            if len(head) < 12 or struct.pack("<I", masked_checksum(head[:8])) != head[8:]:
                raise UnreadableError("a record has no length")
            length = struct.unpack("<Q", head[:8])[0]
            if length > LONGEST:
                raise UnreadableError("an event is longer than %d bytes" % LONGEST)
            data = file.read(length + 4)
            if len(data) < length + 4:
                raise UnreadableError("the last event is not whole")
            yield _event(data[:length])


def _event(data: bytes) -> "Dict[str, Any]":
    event: "Dict[str, Any]" = {}
    for number, kind, value in _fields(data):
        if (number, kind) == (_TIME, _FIXED64):
            _put(event, "wall_time", struct.unpack("<d", value)[0])
        elif (number, kind) == (_STEP, 0):
            _put(event, "step", value)
        elif (number, kind) == (_VERSION, _BYTES):
            _put(event, "file_version", value)
        elif (number, kind) == (_SUMMARY, _BYTES):
            _put(event, "summary", [_summary(*field) for field in _fields(value)])
        else:
            _put(event, "field %d" % number, value)
    return event


def _summary(number: int, kind: int, data: "Any") -> "Dict[str, Any]":
    """Return one value of a summary: tag, number, and the rest."""
    if (number, kind) != (_VALUE, _BYTES):
        return {"field %d" % number: data}
    value: "Dict[str, Any]" = {}
    for inner, form, part in _fields(data):
        if (inner, form) == (_TAG, _BYTES):
            _put(value, "tag", part.decode("utf-8", "backslashreplace"))
        elif (inner, form) == (_SIMPLE, _FIXED32):
            _put(value, "simple_value", struct.unpack("<f", part)[0])
        else:
            _put(value, "field %d" % inner, part)
    return value


def _put(into: "Dict[str, Any]", name: str, value: "Any") -> None:
    """Set a key that may have several values, kept in order."""
    if name in into:
        name = "%s, %d" % (name, len(into))
    into[name] = value


def _fields(data: bytes) -> "Iterator[Tuple[int, int, Any]]":
    """Yield number, wire type and value of each message field."""
    place = 0
    for _ in range(_MOST):
        if place >= len(data):
            return
        key, place = _whole(data, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _whole(data, place)
            yield number, kind, value
            continue
        if kind == _BYTES:
            size, place = _whole(data, place)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise UnreadableError("a field of an unknown type")
        if place + size > len(data):
            raise UnreadableError("a field is not whole")
        yield number, kind, data[place : place + size]
        place += size
    raise UnreadableError("an event has more than %d parts" % _MOST)


def _whole(data: bytes, place: int) -> "Tuple[int, int]":
    value = 0
    for shift in range(0, 70, 7):
        if place >= len(data):
            break
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
    raise UnreadableError("a number is not whole")
