"""The kind of a difference of two contents.

The contents decide; the name alone only at the end. The kinds are those that were measured when the same
packages were installed twice: times, the order of entries, bytecode, build ids, random identities, logs and
caches. Anything else is "content". Contents come from images, so no code is executed or unmarshalled, and all
decompression has a limit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from reprobuild.compare.images import file_formats

Source = Literal["same", "different", "absent"]

LOGS = re.compile(r"var/log/|var/lib/dpkg/.*\.log$|(^|.*/)conda-meta/history$")
CACHES = re.compile(
    r"var/cache/|var/lib/apt/lists/|etc/ld\.so\.cache$|var/lib/(systemd/catalog|fontconfig)/|usr/share/mime/"
    r"|(root|home/[^/]+)/(\.cache/|\.wget-hsts$)|(.*/)?(icon-theme|mimeinfo|giomodule)\.cache$|(.*/)?gschemas\.compiled$"
    r"|(.*/)?uv_cache\.json$|var/lib/dpkg/[^/]*-old$|etc/(passwd|group|shadow|gshadow|subuid|subgid)-$"
)
_MONTHS = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_DAYS = rb"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]{0,6}"
_CLOCK = rb"(?:[01]\d|2[0-3]):[0-5]\d(?::[0-6]\d(?:[.,]\d{1,9})?)?"
_ZONE = rb"(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)(?![A-Za-z0-9]))?"
_DATE = rb"(?:19|20)\d\d([-/.])(?:0[1-9]|1[0-2])\1(?:0[1-9]|[12]\d|3[01])"
# Dates and times as programs write them; the last are compact dates and seconds since 1970, from 2001 to
# 2033.
TIMES = re.compile(
    rb"(?<![0-9A-Za-z])(?:"
    rb"" + _DATE + rb"(?:[T ]" + _CLOCK + _ZONE + rb")?"
    rb"|(?:" + _DAYS + rb",? )?\d{1,2}[ -]" + _MONTHS + rb"[a-z]{0,6}[ -](?:19|20)\d\d(?: " + _CLOCK + _ZONE + rb")?"
    rb"|(?:" + _DAYS + rb" )?" + _MONTHS + rb" {1,2}\d{1,2}(?: " + _CLOCK + rb"(?: [A-Z]{3,4})?)?,? (?:19|20)\d\d"
    rb"|" + _CLOCK + _ZONE + rb""
    rb"|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:T?(?:[01]\d|2[0-3])[0-5]\d[0-6]\dZ?)?"
    rb"|1\d{9}(?:\.\d{1,9})?|1\d{12}"
    rb")(?![0-9A-Za-z])"
)  # fmt: skip
LARGEST_JSON = 1 << 20
LARGEST_TEXT = 4 << 20
MOST_LINES = 1_000_000
# Nesting depth of archives.
DEEPEST = 2


class ChangeKind(Struct, frozen=True):
    """A kind, and its evidence as text."""

    kind: str
    detail: str = ""


def classify(path: str, first: bytes, second: bytes, source: Source = "absent") -> ChangeKind:
    """Return the kind of a difference.

    Args:
        path: in the image, without a leading slash.
        first: a content.
        second: another content.
        source: for a compiled module, the comparison of its source in both images.
    """
    change = _classify_content(path, first, second, source)
    place = _classify_path(path)
    if place and (change is None or change.kind in ("time", "order", "content")):
        return ChangeKind(place, change.detail if change else "")
    return change or ChangeKind("content")


def classify_unread(path: str) -> ChangeKind:
    """Return the kind of a difference by its path alone.

    It is for contents that were not read.
    """
    return ChangeKind(_classify_path(path) or "content")


def _classify_path(path: str) -> str:
    return "log" if LOGS.match(path) else "cache" if CACHES.match(path) else ""


def _classify_content(path: str, first: bytes, second: bytes, source: Source) -> ChangeKind | None:
    if path.endswith(".pyc"):
        return _classify_bytecode(first, second, source)
    for look in (_classify_identity, _classify_shadow):
        change = look(path, first, second)
        if change:
            return change
    return _classify_format(first, second, DEEPEST)


def _classify_format(first: bytes, second: bytes, depth: int) -> ChangeKind | None:
    """Return the kind of two contents, or inner contents."""
    for kind, evidence in file_formats.compare_formats(first, second):
        if kind != "inner":
            return ChangeKind(kind, evidence)
        inner = _classify_format(evidence[0], evidence[1], depth - 1) if depth else None
        return ChangeKind(inner.kind, f"inside, {inner.detail}") if inner else None
    return _classify_plain(first, second)


def _classify_plain(first: bytes, second: bytes) -> ChangeKind | None:
    """Return the kind of two contents without a special format."""
    if len(first) == len(second) and file_formats.without_build_ids(first) == file_formats.without_build_ids(
        second
    ):
        return ChangeKind("build-id", "only the build id in the ELF note differs")
    few = max(side.count(b"\n") for side in (first, second)) < MOST_LINES
    ends = first.removesuffix(b"\n") == second.removesuffix(b"\n")  # only the last end of line is extra
    alike = few and not ends and abs(len(first) - len(second)) < 2
    if alike and _digest_lines(first, masked=False) == _digest_lines(second, masked=False):
        return ChangeKind("order", "the same lines in another order")
    if _differs_at_time(first, second) and _hash_without_times(first) == _hash_without_times(second):
        return ChangeKind(
            "time", f"only dates and times differ, the first: {_describe_first_time(first, second)}"
        )
    text = few and not ends and max(len(first), len(second)) < LARGEST_TEXT and b"\0" not in first
    if text and _digest_lines(first, masked=True) == _digest_lines(second, masked=True):
        return ChangeKind("time", "only dates, times and the order of lines differ")
    if _same_json(first, second):
        return ChangeKind("order", "the same JSON, its keys in another order or with other spaces")
    return None


def _digest_lines(content: bytes, *, masked: bool) -> tuple[int, int]:
    """Return the number of lines, and an order-independent hash sum."""
    total = count = start = 0
    while start < len(content):
        end = content.find(b"\n", start)
        end = len(content) if end < 0 else end
        line = content[start:end]
        line = TIMES.sub(b"\0time\0", line) if masked else line
        total += int.from_bytes(hashlib.sha256(line).digest(), "big")
        count, start = count + 1, end + 1
    return count, total & ((1 << 256) - 1)


def _hash_without_times(content: bytes) -> bytes:
    """Return a hash of a content without dates and times."""
    digest, start = hashlib.sha256(), 0
    for match in TIMES.finditer(content):
        digest.update(content[start : match.start()] + b"\0time\0")
        start = match.end()
    digest.update(content[start:])
    return digest.digest()


def _differs_at_time(first: bytes, second: bytes) -> bool:
    """Return whether the first difference is at dates or times.

    It is a quick check that the first differing byte is in or just after one on both sides.
    """
    at = first_difference(first, second)
    return all(
        any(match.start() <= at <= match.end() for match in TIMES.finditer(side, max(at - 64, 0), at + 64))
        for side in (first, second)
    )


def _describe_first_time(first: bytes, second: bytes) -> str:
    for first_match, second_match in zip(TIMES.finditer(first), TIMES.finditer(second), strict=False):
        if first_match[0] != second_match[0]:
            return f"{first_match[0].decode('ascii')} and {second_match[0].decode('ascii')}"
    return "none"


def _same_json(first: bytes, second: bytes) -> bool:
    if (
        max(len(first), len(second)) > LARGEST_JSON
        or first[:1] not in (b"{", b"[")
        or second[:1] not in (b"{", b"[")
    ):
        return False
    try:
        return bool(json.loads(first) == json.loads(second))
    except (ValueError, RecursionError):
        return False


def _classify_identity(path: str, first: bytes, second: bytes) -> ChangeKind | None:
    """Return the kind of a machine's random identity, or None."""
    if path in ("etc/machine-id", "var/lib/dbus/machine-id", "etc/hostid"):
        random = all(re.fullmatch(rb"([0-9a-f]{32}|uninitialized)?\n?", side) for side in (first, second))
        return ChangeKind("identity", "an id that is drawn at random for each machine") if random else None
    keys = (b"-----BEGIN ", b"ssh-", b"ecdsa-")
    if (
        re.fullmatch(r"etc/ssh/ssh_host_\w+_key(\.pub)?", path)
        and first.startswith(keys)
        and second.startswith(keys)
    ):
        return ChangeKind("identity", "a key of the SSH server, drawn at random for each machine")
    return None


def _classify_shadow(path: str, first: bytes, second: bytes) -> ChangeKind | None:
    """Return "time" if only the third field of shadow(5) differs.

    That is the day of the last change.
    """
    if path not in ("etc/shadow", "etc/shadow-"):
        return None
    rows = [[line.split(b":") for line in side.splitlines()] for side in (first, second)]
    if len(rows[0]) != len(rows[1]) or any(len(row) != 9 for side in rows for row in side):
        return None
    if any(a[:2] + a[3:] != b[:2] + b[3:] for a, b in zip(*rows, strict=True)):
        return None
    days = next((a[2], b[2]) for a, b in zip(*rows, strict=True) if a[2] != b[2])
    if not all(re.fullmatch(rb"\d{0,6}", day) for day in days):
        return None
    text = " and ".join(day.decode() for day in days)
    return ChangeKind("time", f"only the days of the last change of passwords differ, the first: {text}")


def source_of(path: str) -> str:
    """Return the source path of a compiled module (PEP 3147).

    It is "" if the name does not determine it.
    """
    folder, _, name = path.rpartition("/")
    if not name.endswith(".pyc"):
        return ""
    if folder == "__pycache__" or folder.endswith("/__pycache__"):
        above = folder[: -len("__pycache__")]
        return f"{above}{name.split('.')[0]}.py" if name.count(".") >= 2 else ""
    return f"{path[:-1]}"


def _classify_bytecode(first: bytes, second: bytes, source: Source) -> ChangeKind:
    """Return the difference of two compiled modules.

    PEP 552 describes the header.
    """
    if source == "different":
        return ChangeKind("content", "compiled from another source")
    words = list(_compare_headers(first, second))
    if first[16:] != second[16:]:
        words.append(_compare_code(first[16:], second[16:]))
    tail = ", its source is in no image" if source == "absent" else ", from the same source"
    return ChangeKind("bytecode", "; ".join(words) + tail)


def _compare_headers(first: bytes, second: bytes) -> Iterator[str]:
    sides = [
        [int.from_bytes(side[start : start + 4], "little") for start in (0, 4, 8, 12)]
        for side in (first, second)
    ]
    (magic, flags, *rest), (magic_, flags_, *rest_) = sides
    if magic != magic_:
        yield f"another Python: magic number {magic & 0xFFFF} and {magic_ & 0xFFFF}"
    modes = [_MODES.get(flag, f"flags {flag}") for flag in (flags, flags_)]
    if flags != flags_:
        yield f"checked by {modes[0]} and by {modes[1]}"
    elif flags & 1:
        if rest != rest_:
            yield "another hash of the source in the header"
    else:
        if rest[0] != rest_[0]:
            yield f"the time of the source in the header, {rest[0]} and {rest_[0]}"
        if rest[1] != rest_[1]:
            yield f"the size of the source in the header, {rest[1]} and {rest_[1]}"


_MODES = {0: "time and size", 1: "nothing (unchecked hash)", 3: "hash"}


def _compare_code(first: bytes, second: bytes) -> str:
    """Return the difference of two codes, without execution.

    It may be the file name in the code.
    """
    names = [re.search(rb"[\x21-\x7e]{1,512}\.py(?![a-z])", side) for side in (first, second)]
    if names[0] and names[1] and names[0][0] != names[1][0]:
        texts = [match[0].decode("ascii")[-100:] for match in names if match]
        return f"compiled under another name, {texts[0]} and {texts[1]}"
    return f"other code, from byte {first_difference(first, second) + 16}"


def first_difference(first: bytes, second: bytes) -> int:
    """Return the offset of the first byte that differs."""
    low, high = 0, min(len(first), len(second))
    while low < high:  # equal up to `low`, and not equal up to `high` or at its end
        middle = (low + high + 1) // 2
        if first[low:middle] == second[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
