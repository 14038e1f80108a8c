"""The measurements in files of a cache."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from reprobuild.infra.display import display_text
from reprobuild.infra.untrusted.regular_files import open_within

_LARGEST = 64 << 20
_LONGEST = 160
_DEEPEST = 8
_LEAST_DEPTH = 3  # operation, sizes, choice: a table of measurements, and no settings of one kernel


def list_measurements(folder: Path, path: str) -> frozenset[str]:
    """Return a line for each measurement in a file that a container wrote.

    A table in JSON has one for each number, CSV has one for each row. Any other file counts as one.
    """
    stream, _ = open_within(folder, path)
    with stream:
        content = stream.read(_LARGEST)
    if path.endswith(".csv"):
        rows = content.decode("utf-8", "replace").splitlines()
        return frozenset(
            f"{path}: {row.rpartition(',')[0]}" for row in rows if not row.startswith("Validator,")
        )
    try:
        leaves = frozenset(_numbers(msgspec.json.decode(content), ()))
    except (msgspec.MsgspecError, RecursionError):
        leaves = frozenset()
    return frozenset(f"{path}: {leaf}" for leaf in leaves) or frozenset({path})


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
