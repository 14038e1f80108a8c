"""Rows of text in aligned columns, by rich."""

from __future__ import annotations

import io
from collections.abc import Sequence

_ENDLESS = 1 << 20  # columns of a pipe: each row is one line


def align(rows: Sequence[Sequence[str]], *, width: int = 0) -> list[str]:
    """Return rows as lines of aligned columns, two spaces apart.

    The cells are plain text: markup of rich in them has no effect.

    Args:
        rows: of the same number of cells, which are safe to print.
        width: of the terminal in columns, in which a long cell goes on below itself; 0 leaves each row on one line.
    """
    from rich.console import Console  # small commands must start quickly
    from rich.table import Table
    from rich.text import Text

    if not rows:
        return []
    table = Table.grid(padding=(0, 2))
    for _ in rows[0]:
        table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    page = io.StringIO()
    console = Console(
        file=page, width=width or _ENDLESS, force_terminal=False, color_system=None, legacy_windows=False
    )
    console.print(table)
    return [line.rstrip() for line in page.getvalue().splitlines()]
