"""The table by shape in docs/secrets.md.

It counts the drawn values that are found and cut.

    python dev/write_shapes.py

tests/snapshot/test_shapes.py makes the table again and compares.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from reprobuild_portable import secrets  # noqa: E402  after the path
from tests.snapshot.shapes import ALIKE, MORE, SHAPES, fill  # noqa: E402  after the path

PAGE = ROOT / "docs" / "secrets.md"
START = "<!-- By shape, written by dev/write_shapes.py: do not edit -->\n"
END = "<!-- End of the shapes -->"
PLANTED = 20


def row(shape: str, form: str) -> tuple[str, int, int, int]:
    """Return a shape, and the counts of its values.

    They are those found in a variable, found in a source, and cut whole.
    """
    source = random.Random(f"table {shape}")
    drawn = [fill(form, source) for _ in range(PLANTED)]
    variable = sum(secrets.secret_variable("RUN_NOTE", text) is not None for text, _ in drawn)
    found = sum(bool(secrets.find(text.encode())) for text, _ in drawn)
    cut = sum(not any(part in secrets.redact(text) for part in parts or [text]) for text, parts in drawn)
    return shape, variable, found, cut


def table() -> str:
    """Return the table, shapes with a miss first."""
    rows = [row(shape, form) for shape, form in sorted({**SHAPES, **MORE, **ALIKE}.items())]
    rows.sort(key=lambda one: one[1:] == (PLANTED,) * 3)
    lines = [f"| {shape} | {PLANTED} | {a} | {b} | {c} |" for shape, a, b, c in rows]
    return "\n".join(
        [
            "| shape | planted | found in a variable | found in a source | cut |",
            "|---|---|---|---|---|",
            *lines,
        ]
    )


def page(text: str) -> str:
    """Return the page with the present table."""
    before, _, rest = text.partition(START)
    return f"{before}{START}\n{table()}\n\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    sys.stdout.write(f"{PAGE.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
