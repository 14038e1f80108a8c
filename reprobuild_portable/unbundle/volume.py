"""The parts of a bundle, and their bytes."""

from __future__ import annotations

import os
import re
from typing import Any, List, Sequence

from reprobuild_portable.unbundle.format import BLOCK, MANIFEST, MOST_NAMED, NO_BUNDLE, RefusedError, header
from reprobuild_portable.unbundle.manifest import escape_name, escape_text

_PART = re.compile(r"(.+)\.(\d{3,6})")


class BundleVolume:
    """The bytes of a file, or of consecutive parts."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = list(paths)
        self.names = [escape_name(path) for path in self.paths]  # for messages
        self.sizes = [os.path.getsize(path) for path in self.paths]
        self.size = sum(self.sizes)
        self._opened = -1
        self._stream: Any = None

    def read(self, offset: int, size: int) -> bytes:
        """Read bytes from an offset.

        The result is shorter if the end comes first.
        """
        content = b""
        for index, length in enumerate(self.sizes):
            if size > len(content) and offset < length:
                if index != self._opened:
                    self.close()
                    self._stream, self._opened = open(self.paths[index], "rb"), index  # noqa: SIM115  # closed by `close`
                self._stream.seek(offset)
                content += self._stream.read(min(size - len(content), length - offset))
                offset = length
            offset -= length
        return content

    def place(self, start: int, end: int) -> str:
        """Return the files, and the places in them, of bytes."""
        places, before = [], 0
        for name, length in zip(self.names, self.sizes):
            first, last = max(start - before, 0), min(end - before, length)
            if first < last:
                places.append("bytes %d to %d of %s" % (first + 1, last, name))
            before += length
        return " and ".join(places)

    def close(self) -> None:
        if self._stream:
            self._stream.close()
        self._stream, self._opened = None, -1


def is_part(name: str) -> bool:
    """Return whether a name is that of a bundle's part."""
    return _PART.fullmatch(name) is not None


def is_bundle_start(path: str) -> bool:
    """Return whether a file begins as a bundle does."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as stream:
        first = stream.read(BLOCK)
    return first == header(MANIFEST, _field(first, 124, 136), _field(first, 136, 148))


def find_parts(path: str) -> List[str]:
    """Return the files of a bundle in their order.

    Raises:
        RefusedError: no file exists, or a part is missing or cut.
    """
    if os.path.isfile(path) and not _PART.fullmatch(path):
        return [path]
    named = _PART.fullmatch(path)
    stem = named.group(1) if named else path
    folder, name = os.path.split(stem)
    matches = (
        [_PART.fullmatch(other) for other in os.listdir(folder or ".")]
        if os.path.isdir(folder or ".")
        else []
    )
    numbers = sorted(
        int(match.group(2))
        for match in matches
        if match
        and match.group(0) == "%s.%03d" % (name, int(match.group(2)))  # and not .0001 or other digits
        and os.path.isfile(os.path.join(folder, match.group(0)))  # a pipe would be waited for without end
    )
    if not numbers and os.path.isdir(path):
        raise RefusedError(
            "%s is a directory" % escape_text(path), "name the file that `reprobuild bundle` wrote"
        )
    if not numbers:
        raise RefusedError(
            "there is no file %s, and no %s.001" % (escape_text(path), escape_text(path)), NO_BUNDLE
        )
    missing = sorted(set(range(1, numbers[-1] + 1)) - set(numbers))
    if missing:
        raise RefusedError(
            "missing: %s" % _parts_named(stem, missing), "copy what is missing; the other parts can stay"
        )
    paths = ["%s.%03d" % (stem, number) for number in numbers]
    sizes = [os.path.getsize(part) for part in paths]
    whole = "%d" if len(paths) > 2 else "at least %d"  # the last one may be shorter than all others are
    for part, size in zip(paths[:-1], sizes):
        if size < max(sizes):
            message = "%s has %d bytes of " + whole + ": its copy was cut"
            raise RefusedError(message % (escape_name(part), size, max(sizes)), _describe_rest(part, size))
    return paths


def _parts_named(stem: str, numbers: Sequence[int]) -> str:
    stem = escape_name(stem)
    return ", ".join("%s.%03d" % (stem, number) for number in numbers[:MOST_NAMED]) + (
        " and %d more" % (len(numbers) - MOST_NAMED) if len(numbers) > MOST_NAMED else ""
    )


def _describe_rest(path: str, size: int) -> str:
    name = escape_name(os.path.basename(path))
    return "go on with the copy, as `rsync --append-verify` does: %s lacks `tail -c +%d` of the original" % (
        name,
        size + 1,
    )


def _field(block: bytes, start: int, end: int) -> int:
    text = block[start : end - 1]
    return int(text, 8) if re.fullmatch(b"[0-7]+", text) else 0
