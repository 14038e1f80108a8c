"""Reports on a store: removed and damaged files."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from reprobuild.report.units import format_bytes
from reprobuild.store.check import StoreCheck
from reprobuild.store.gc import Amount, GcResult


def render_gc_result(result: GcResult, command: Sequence[str] = ()) -> str:
    """Return the report on kept and removed files.

    Args:
        result: the files.
        command: removes those of a dry run.
    """
    would = "would be " if result.dry_run else ""
    lines = [f"kept for {_escape_controls(path)}" for path in result.locks]
    lines += [
        f"{_escape_controls(lock.path)} is kept as it was: cannot be read ({_escape_controls(lock.reason)})"
        for lock in result.unread
    ]
    lines += [f"no lock is at {_escape_controls(path)} any more" for path in result.gone]
    lines += [
        f"{_format_amount(result.kept)} kept",
        f"{_format_amount(result.removed)} {would}removed, which {'would free' if result.dry_run else 'freed'} "
        f"{format_bytes(result.removed.freed)}",
    ]
    if result.young.files:
        lines.append(
            f"{_format_amount(result.young)} left though no lock needs them: this file system has no locks between "
            "processes, so what was written or used in the last three days stays"
        )
    if result.dry_run:
        remedy = f": `{_escape_controls(shlex.join(command))}` removes them" if result.removed.files else ""
        lines.append(f"no file was removed (--dry-run){remedy}")
    return "\n".join(lines)


def render_store_check(check: StoreCheck) -> str:
    """Return the report on damaged files."""
    lines = []
    for blob in check.damaged:
        names = ", ".join(map(_escape_controls, blob.names)) or "nothing that a known lock names"
        became = f"set aside as {_escape_controls(blob.aside)}" if blob.aside else "removed"
        lines.append(
            f"damaged: {_escape_controls(blob.sha256)}, {format_bytes(blob.size)}: {names}; {became}"
        )
    lines += [
        f"not checked: {_escape_controls(b.path)} cannot be read ({_escape_controls(b.reason)})"
        for b in check.unreadable
    ]
    if check.damaged:
        lines.append("the next `reprobuild fetch` or `build` brings again what stands at an address")
    whole = check.files - len(check.damaged) - len(check.unreadable)
    return "\n".join([*lines, f"{whole} of {check.files} files ({format_bytes(check.bytes)}) are whole"])


def _format_amount(amount: Amount) -> str:
    return f"{amount.files} files ({format_bytes(amount.bytes)})"


def _escape_controls(text: str) -> str:
    """Escape characters that control a terminal."""
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text
    )
