"""The measurements in files of a cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.regular_files import open_within

MOST_CHARACTERS = 64 << 20  # of all lines
MOST_LINES = 400_000  # of all files: two states of a cache are in memory, and a line takes some 250 bytes
_MOST_OF_A_FILE = 8 << 20
_LARGEST = 8 << 20  # bytes of a table; those of real runs have some 100,000
_MOST_ROWS = 200_000  # of a file
_LONGEST = 160
_LONGEST_VALUE = 64  # characters; a longer one is kept by its hash
_DEEPEST = 8
_LEAST_DEPTH = 3  # operation, sizes, choice: a table of measurements, and no settings of one kernel


class MeasuredFile(Struct, frozen=True, kw_only=True):
    """The measurements in a file of a cache.

    `values` has each by its line. `form` is a hash of the file's content that does not depend on the order of rows or
    keys.
    """

    values: dict[str, str]
    form: str


def read_measured_files(folder: Path, hashes: Mapping[str, str]) -> dict[str, MeasuredFile]:
    """Return the measurements in files below a directory that a container wrote, by path.

    Args:
        folder: the directory.
        hashes: the sha256 of each file, by its path.

    Raises:
        UsageError: there are too many lines, or they have too much text.
    """
    files: dict[str, MeasuredFile] = {}
    characters = lines = 0
    for path, sha256 in hashes.items():
        files[path] = read_measured_file(folder, path, sha256)
        characters += sum(len(name) + len(value) for name, value in files[path].values.items())
        lines += len(files[path].values)
        if characters > MOST_CHARACTERS or lines > MOST_LINES:
            bound = f"{MOST_LINES} lines" if lines > MOST_LINES else f"{MOST_CHARACTERS >> 20} MiB of text"
            raise UsageError(
                f"the measurements in the caches of this run have more than {bound}",
                hint="run without --save-choices: the cache of such a run is not one of choices alone",
            )
    return files


def read_measured_file(folder: Path, path: str, sha256: str) -> MeasuredFile:
    """Return the measurements in a file that a container wrote.

    A table in JSON has one for each number, CSV has one for each row. Any other file counts as one, whose value is its
    sha256, and so does a table with too many rows or too much text.
    """
    whole = MeasuredFile(values={path: sha256}, form=sha256)
    stream, size = open_within(folder, path)
    if size > _LARGEST:
        stream.close()
        return whole
    with stream:
        content = stream.read(_LARGEST)
    try:
        names, form = _read_rows(content) if path.endswith(".csv") else _read_table(content)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return whole
    values: dict[str, list[str]] = {}
    characters = 0
    for number, (name, value) in enumerate(names):
        line = f"{path}: {name}"
        characters += len(line) + len(value)
        if characters > _MOST_OF_A_FILE or number == _MOST_ROWS:
            return whole
        short = value if len(value) <= _LONGEST_VALUE else _hash(value.encode("utf-8", "surrogatepass"))
        values.setdefault(line, []).append(short)
    if not values:
        return whole
    return MeasuredFile(
        values={line: " ".join(sorted(numbers)) for line, numbers in values.items()}, form=form
    )


def _read_rows(content: bytes) -> tuple[Iterable[tuple[str, str]], str]:
    """Return the name and the value of each row, and a hash of all rows."""
    if content.count(b"\n") > _MOST_ROWS:
        raise ValueError("too many rows")
    rows = sorted(content.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n").split("\n"))
    split = (row.rpartition(",") for row in rows if not row.startswith("Validator,"))
    return ((name, value) for name, _, value in split), _hash("\n".join(rows).encode())


def _read_table(content: bytes) -> tuple[Iterable[tuple[str, str]], str]:
    """Return the place and the value of each number of a table, and a hash of the table."""
    table = msgspec.json.decode(content)
    return _numbers(table, ()), _hash(msgspec.json.encode(table, order="deterministic"))


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _numbers(value: Any, above: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and len(above) < _DEEPEST:
        for key, inner in value.items():
            yield from _numbers(inner, (*above, str(key)))
    elif isinstance(value, int | float) and len(above) >= _LEAST_DEPTH:
        yield " ".join(above), repr(value)


def find_new_measurements(
    before: Mapping[str, MeasuredFile], after: Mapping[str, MeasuredFile]
) -> tuple[str, ...]:
    """Return the lines of measurements that are new or have another value, and the paths of other changed files."""
    lines: list[str] = []
    for path, file in after.items():
        former = before.get(path)
        known = former.values if former else {}
        changed = [line for line, value in file.values.items() if known.get(line) != value]
        if former and not changed and former.form != file.form:
            changed = [path]
        lines += changed
    return tuple(sorted(lines))


def display_measurement(line: str) -> str:
    """Return a measurement for display, of a bounded length."""
    text = display_text(line)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
