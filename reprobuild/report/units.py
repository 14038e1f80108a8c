"""Numbers in a form for people."""

from __future__ import annotations


def format_bytes(size: int) -> str:
    """Return a number of bytes with a decimal unit, as for disks."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
