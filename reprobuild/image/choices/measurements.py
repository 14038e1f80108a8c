"""The measurements in files of a cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.errors import UsageError
from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.regular_files import open_within

MOST_CHARACTERS = 64 << 20  # of all lines
_MOST_OF_A_FILE = 8 << 20
_LARGEST = 64 << 20  # bytes of a file
_LONGEST = 160
_DEEPEST = 8
_LEAST_DEPTH = 3  # operation, sizes, choice: a table of measurements, and no settings of one kernel


def list_all_measurements(folder: Path, paths: Iterable[str]) -> frozenset[str]:
    """Return a line for each measurement in files below a directory that a container wrote.

    Raises:
        UsageError: the lines have too much text.
    """
    lines: set[str] = set()
    characters = 0
    for path in paths:
        for line in list_measurements(folder, path):
            characters += len(line)
            lines.add(line)
        if characters > MOST_CHARACTERS:
            raise UsageError(
                f"the measurements in the caches of this run have more than {MOST_CHARACTERS >> 20} MiB of names",
                hint="run without --save-choices: the cache of such a run is not one of choices alone",
            )
    return frozenset(lines)


def list_measurements(folder: Path, path: str) -> frozenset[str]:
    """Return a line for each measurement in a file that a container wrote.

    A table in JSON has one for each number, CSV has one for each row. Any other file counts as one, and so does a table
    with too much text.
    """
    stream, _ = open_within(folder, path)
    with stream:
        content = stream.read(_LARGEST)
    if path.endswith(".csv"):
        rows = content.decode("utf-8", "replace").splitlines()
        names: Iterable[str] = (row.rpartition(",")[0] for row in rows if not row.startswith("Validator,"))
    else:
        try:
            names = _numbers(msgspec.json.decode(content), ())
        except (msgspec.MsgspecError, RecursionError):
            names = ()
    lines: set[str] = set()
    characters = 0
    for name in names:
        line = f"{path}: {name}"
        characters += len(line)
        if characters > _MOST_OF_A_FILE:
            return frozenset({path})
        lines.add(line)
    return frozenset(lines) or frozenset({path})


def _numbers(value: Any, above: tuple[str, ...]) -> Iterator[str]:
    """Yield the place of each number of a table."""
    if isinstance(value, dict) and len(above) < _DEEPEST:
        for key, inner in value.items():
            yield from _numbers(inner, (*above, str(key)))
    elif isinstance(value, int | float) and len(above) >= _LEAST_DEPTH:
        yield " ".join(above)


def display_measurement(line: str) -> str:
    """Return a measurement for display, of a bounded length."""
    text = display_text(line)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
