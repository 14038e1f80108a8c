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


def format_duration(seconds: float) -> str:
    """Return a time in seconds, or in minutes and seconds from two minutes on."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s"
